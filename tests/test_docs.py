"""What the documentation says of itself: every public object has a page, every page is found, every name exists."""

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOC = ROOT / "doc"
MODULES = ["", "conformal", "datasets", "distributed", "estimators", "factors", "features", "inference", "inspection"]
MODULES += ["losses", "metrics", "penalties", "pipeline", "plotting", "structures", "testing"]
# What is described in words, or has its page under another name.
ELSEWHERE = re.compile(r"__version__|LOSSES|DERIVED_FIELDS|.*_scorer")


@pytest.fixture(scope="module")
def site():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOC))
        yield importlib.import_module("_site")
        del sys.modules["_site"]


def resolve(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def pages():
    made = {"_build", "auto_examples", "generated", "_templates"}
    return [path for path in DOC.rglob("*.rst") if not made & set(path.relative_to(DOC).parts)]


def test_every_public_object_has_a_page():
    reference = "".join(path.read_text(encoding="utf-8") for path in sorted((DOC / "api").glob("*.rst")))
    listed = re.findall(r"^   ~?(sklearn_sparsemap\.[\w.]+)$", reference, re.M)
    assert len(listed) == len(set(listed)) > 100
    shown = {id(resolve(name)) for name in listed if not re.match(r"sklearn_sparsemap\.(torch|jax)\.", name)}
    public = 0
    for module in MODULES:
        module = importlib.import_module("sklearn_sparsemap" + (module and f".{module}"))
        for name in module.__all__:
            if not ELSEWHERE.fullmatch(name):
                assert id(getattr(module, name)) in shown, f"{module.__name__}.{name} is not in doc/api"
                public += 1
    assert public > 100


def test_every_page_is_in_a_toctree():
    entries = set()
    for page in pages():
        for block in re.findall(r"^\.\. toctree::\n((?:(?:   .*)?\n)+)", page.read_text(encoding="utf-8"), re.M):
            for entry in re.findall(r"^   (?!:)(?:.*<)?([\w/-]+)>?$", block, re.M):
                folder = DOC if entry.startswith("/") else page.parent
                entries.add((folder / f"{entry.lstrip('/')}.rst").resolve())
    lost = {path for path in pages() if path not in entries} - {DOC / "index.rst"}
    assert not lost and len(entries) > 10


def test_what_belongs_together_exists(site):
    names = {name for group in site.RELATED for name in group}
    for name in sorted(names):
        if not name.startswith(("torch.", "jax.")):
            assert resolve(f"sklearn_sparsemap.{name}"), name
    assert all(len(set(group)) == len(group) > 1 for group in site.RELATED) and len(names) > 80


def test_examples_are_in_order(site):
    found = {path.name for path in (ROOT / "examples").rglob("*.py")}
    assert found == set(site.EXAMPLES)
    folders = {path.parent.name for path in (ROOT / "examples").rglob("README.rst")} - {"examples"}
    assert folders == {Path(section).name for section in site.SECTIONS} - {"*"}
    for path in (ROOT / "examples").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert re.match(r'"""\n.+\n=+\n\n', text), path


def test_links_of_a_site_are_tried(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOC))
        dead_links = importlib.import_module("build").dead_links
        del sys.modules["build"]
    (tmp_path / "a.html").write_text(
        '<p id="x"></p><a href="b.html#y">1</a><a href="#x">2</a><a href="https://z">3</a>'
    )
    (tmp_path / "b.html").write_text('<img src="none.png"><a href="a.html#nothing">4</a><i id="y"></i>')
    dead, tried = dead_links(tmp_path)
    assert sorted(dead) == [("b.html", "a.html#nothing"), ("b.html", "none.png")] and tried == 4


def test_code_of_examples_is_narrow():
    tried = 0
    for path in (ROOT / "examples").rglob("plot_*.py"):
        # The text that begins an example is wrapped by the page.
        _, _, code = path.read_text(encoding="utf-8").split('"""', 2)
        wide = [line for line in code.split("\n") if len(line) > 88 and not line.startswith("# ")]
        assert not wide, (path.name, wide)
        tried += 1
    assert tried >= 18


def test_the_readme_is_short_and_its_snippets_stand_alone():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 200
    snippets = re.findall(r"```python\n(.*?)```", readme, re.S)
    assert len(snippets) >= 5
    for snippet in snippets:
        assert "from sklearn_sparsemap" in snippet, snippet
        assert "np." not in snippet or "import numpy as np" in snippet, snippet
