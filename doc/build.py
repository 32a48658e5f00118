"""Build the documentation: ``python doc/build.py`` builds the site, runs its examples, and checks it and its doctests.

The checks (`_checks.py`) are about links, pictures and searches; the latter need node (Node.js).

``--quick`` executes no example of the gallery. ``--serve`` shows the site at http://localhost:8000 afterwards.
``--clean`` removes earlier builds first. ``--pictures`` copies the pictures of the gallery to `doc/images`.
``--intersphinx`` links to the pages of NumPy, SciPy and scikit-learn, and ``--versions`` to other versions of the site;
both need the network. `publish.py` puts a built site among the published versions.
"""

import argparse
import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from _checks import dead_links, misled_searches, repeated_pictures

DOC = Path(__file__).resolve().parent
SITE = DOC / "_build" / "html"
WIDEST = 1400  # pixels; wider pictures are scaled down, which suits pages of about 1,000 pixels
MADE = ("_build", "auto_examples", "generated")
PICTURE = "sphx_glr_plot_{}_001_2_00x.png"  # the first picture of an example, in high resolution


def store_pictures():
    """Copy the pictures of the gallery to `doc/images`, without white edges and at most `WIDEST` pixels wide."""
    from PIL import Image, ImageChops

    drawn = {path.name: path for path in (DOC / "auto_examples").rglob("*.png")}
    for stored in sorted((DOC / "images").glob("*.png")):
        name = PICTURE.format(stored.stem)
        if name not in drawn:
            continue
        picture = Image.open(drawn[name]).convert("RGB")
        box = ImageChops.difference(picture, Image.new("RGB", picture.size, "white")).getbbox()
        left, top, right, bottom = box
        inside = max(left - 8, 0), max(top - 8, 0), min(right + 8, picture.width), min(bottom + 8, picture.height)
        picture = picture.crop(inside)
        if picture.width > WIDEST:
            height = round(picture.height * WIDEST / picture.width)
            picture = picture.resize((WIDEST, height), Image.Resampling.LANCZOS)
        # 256 colours suffice for plots, and take a third of the bytes.
        picture.quantize(256, dither=Image.Dither.NONE).save(stored, optimize=True)
        print(f"stored {stored.relative_to(DOC.parent)}, {picture.width} x {picture.height}")


def progress(lines):
    """Yield the lines of Sphinx that show its progress: one for each tenth of a phase, and all without percentages."""
    phase = tenth = None
    for line in lines:
        step = re.match(r"(.+?)\.\.\. *\[ *(\d+)%\]", line)
        if not step:
            yield line
        elif (step[1], int(step[2]) // 10) != (phase, tenth):
            phase, tenth = step[1], int(step[2]) // 10
            yield line


def run(*command):
    """Run a module from the root of the repository and print its progress; exit if it fails."""
    began = time.monotonic()
    print("+", " ".join(command), flush=True)
    # Without a terminal, Sphinx prints a line for each page.
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=DOC.parent,
        env={**os.environ, "PYTHONPATH": ".", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    for line in progress(process.stdout):
        print(f"{time.monotonic() - began:5.0f} s  {line}", end="", flush=True)
    if process.wait():
        sys.exit(process.returncode)


def check(site):
    """Exit if the site has dead links, pictures that a page shows twice, or searches that begin with another page."""
    dead, n_links = dead_links(site)
    repeated, n_pictures = repeated_pictures(site)
    misled = misled_searches(site)
    for page, link in dead:
        print(f"dead link in {page}: {link}")
    for page, pictures in repeated:
        print(f"the same picture in {page}: {', '.join(pictures)}")
    for query, expected, found in misled:
        print(f"a search for {query!r} begins with {', '.join(found) or 'nothing'} instead of {expected}")
    print(f"{n_links} links within the site, {len(dead)} dead; {n_pictures} pictures, {len(repeated)} twice on a page; "
          f"{len(misled)} searches begin with another page")  # fmt: skip
    if dead or repeated or misled:
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="execute no example of the gallery")
    parser.add_argument("--clean", action="store_true", help="remove earlier builds first")
    parser.add_argument("--serve", action="store_true", help="show the site at http://localhost:8000 afterwards")
    parser.add_argument("--no-tests", action="store_true", help="leave out the doctests of the pages")
    parser.add_argument("--intersphinx", action="store_true", help="link to other projects' pages (needs the network)")
    parser.add_argument("--versions", action="store_true", help="offer the other published versions (network)")
    parser.add_argument("--pictures", action="store_true", help="only copy the pictures of the gallery to doc/images")
    options = parser.parse_args()
    if options.pictures:
        store_pictures()
        return
    if options.clean:
        for folder in MADE:
            shutil.rmtree(DOC / folder, ignore_errors=True)
    if options.intersphinx:
        os.environ["SPHINX_INTERSPHINX"] = "1"
    if options.versions:
        os.environ["SPHINX_VERSIONS"] = "1"
    quick = ["-D", "plot_gallery=0"] if options.quick else []
    run("sphinx", "-W", "--keep-going", "-b", "html", *quick, "doc", str(SITE))
    check(SITE)
    if not options.no_tests:
        pages = [str(path) for path in sorted(DOC.rglob("*.rst")) if not set(path.parts) & {*MADE, "_templates"}]
        # A test of the suite runs the sections of this page whose tools are installed.
        pages.remove(str(DOC / "other_tools.rst"))
        run("pytest", "-q", "--doctest-glob=*.rst", *pages)
    if not options.serve:
        print(f"The site: {(SITE / 'index.html').as_uri()}", flush=True)
        return
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=SITE)
    server = http.server.ThreadingHTTPServer(("localhost", 8000), handler)
    print("The site: http://localhost:8000 (Ctrl-C ends it)", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
