"""Put a built site among the published versions: ``python doc/publish.py BUILT PUBLISHED VERSION``.

PUBLISHED is a checkout of the branch from which the project's pages are served. Each version has a folder. The newest
one is at the root as well, to which estimators link (`_core/doc_link.py`). ``versions.json`` lists the versions for the
switch in the head of each page.
"""

import json
import re
import shutil
import sys
from pathlib import Path

RELEASE = re.compile(r"\d+\.\d+\.\d+")
KEPT = {".git", "CNAME"}  # at the root, beside the folders of versions


def released(published):
    """Return the published versions, newest first."""
    names = [path.name for path in published.iterdir() if path.is_dir() and RELEASE.fullmatch(path.name)]
    return sorted(names, key=lambda name: tuple(map(int, name.split("."))), reverse=True)


def publish(built, published, version, address):
    """Copy a built site into the folder of its version, and to the root if it is the newest; list all versions."""
    if not RELEASE.fullmatch(version):
        raise ValueError(f"a version has the form 1.2.3; got {version!r}")
    shutil.rmtree(published / version, ignore_errors=True)
    shutil.copytree(built, published / version)
    versions = released(published)
    if version == versions[0]:
        for path in published.iterdir():
            if path.name not in KEPT | set(versions):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(built, published, dirs_exist_ok=True)
    entries = [{"name": name, "version": name, "url": f"{address}/{name}/"} for name in versions]
    entries[0] |= {"name": f"{versions[0]} (newest)", "url": f"{address}/", "preferred": True}
    (published / "versions.json").write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    # Folders whose names begin with an underscore are served, too.
    (published / ".nojekyll").touch()


if __name__ == "__main__":
    from sklearn_sparsemap._core.doc_link import SITE

    publish(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], SITE)
