"""What the documentation says of itself: every public object has a page, every page is found, every name exists."""

import doctest
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from sklearn_sparsemap import RaggedArray, structures

ROOT = Path(__file__).resolve().parents[2]
DOC = ROOT / "doc"
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
MODULES = ["", "conformal", "datasets", "distributed", "estimators", "factors", "features", "inference", "inspection"]
MODULES += ["losses", "metrics", "penalties", "pipeline", "plotting", "structures", "testing"]
# Names that are described in words, or has its page under another name.
ELSEWHERE = re.compile(r"__version__|LOSSES|DERIVED_FIELDS|.*_scorer")


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


def test_summaries_cite_nothing():
    """Tables of the reference show the first paragraph of each docstring, without its list of references."""
    reference = "".join(path.read_text(encoding="utf-8") for path in sorted((DOC / "api").glob("*.rst")))
    tried = 0
    for name in re.findall(r"^   ~(sklearn_sparsemap\.(?!torch|jax)[\w.]+)$", reference, re.M):
        summary = inspect.getdoc(resolve(name)).split("\n\n")[0]
        assert not re.search(r"\[\w+\]_", summary), name
        tried += 1
    assert tried > 100


def test_pages_of_all_structures_name_each():
    layers = (DOC / "layers.rst").read_text()
    kinds = {name: getattr(structures, name) for name in structures.__all__ if name != "Structure"}
    for page in (layers, (DOC / "guide" / "inference.rst").read_text()):
        absent = [name for name in kinds if not re.search(rf"\b{name}\b", page)]
        assert not absent
    (exceptions,) = re.findall(r"All structures except(.*?), and graphs", layers, re.DOTALL)
    assert re.findall(r"`(\w+)`", exceptions) == [name for name, kind in kinds.items() if kind.tensor_solver is None]


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
    found = {path.name for path in EXAMPLES}
    assert found == set(site.EXAMPLES)
    folders = {path.parent.name for path in (ROOT / "examples").rglob("README.rst")} - {"examples"}
    assert folders == {Path(section).name for section in site.SECTIONS} - {"*"}
    for path in EXAMPLES:
        text = path.read_text(encoding="utf-8")
        assert re.match(r'"""\n.+\n=+\n\n', text), path


@pytest.fixture(scope="module")
def checks():
    """Return the module with the checks of the built site, which `doc/build.py` calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOC))
        yield importlib.import_module("_checks")
        del sys.modules["_checks"]


def test_links_of_a_site_are_tried(tmp_path, checks):
    (tmp_path / "a.html").write_text(
        '<p id="x"></p><a href="b.html#y">1</a><a href="#x">2</a><a href="https://z">3</a>'
    )
    (tmp_path / "b.html").write_text('<img src="none.png"><a href="a.html#nothing">4</a><i id="y"></i>')
    dead, tried = checks.dead_links(tmp_path)
    assert sorted(dead) == [("b.html", "a.html#nothing"), ("b.html", "none.png")] and tried == 4


def test_a_picture_that_a_page_shows_twice_is_named(tmp_path, checks):
    for name, content in {"one.png": b"1", "again.png": b"1", "two.png": b"2", "x_thumb.png": b"3"}.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "a.html").write_text('<img src="one.png"><img src="two.png"><img src="x_thumb.png">')
    (tmp_path / "b.html").write_text('<img src="one.png"><a href="two.png"><img src="again.png"></a>')
    (tmp_path / "c.html").write_text('<img src="x_thumb.png"><img src="x_thumb.png">')
    repeated, tried = checks.repeated_pictures(tmp_path)
    assert repeated == [("b.html", ["one.png", "again.png"])] and tried == 4


def test_figures_with_empty_axes_are_named(tmp_path, site, caplog):
    """As in a gallery that draws in one block the frames that the next one fills."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    from matplotlib.figure import Figure

    class Watched(Figure):
        pass

    site.warn_of_empty_axes(Watched)
    figure = pyplot.figure(FigureClass=Watched)
    axes = figure.subplots(1, 5)
    axes[0].plot([1, 2])
    axes[1].text(0.5, 0.5, "text")
    axes[3].axis("off")
    axes[4].bar([1], [2])
    figure.savefig(tmp_path / "page-1.png")
    assert [record.getMessage() for record in caplog.records] == ["page-1.png: axes 2 are empty"]
    axes[2].imshow([[1.0]])
    figure.savefig(tmp_path / "page-1.png")
    pyplot.close(figure)
    assert len(caplog.records) == 1 and (tmp_path / "page-1.png").stat().st_size


def test_headings_become_smaller_from_level_to_level():
    """On a wide screen and on a phone of 390 pixels."""
    css = (DOC / "_static" / "site.css").read_text(encoding="utf-8")
    sizes = re.findall(r"\.bd-article h([1-4]) \{\s+font-size: ([^;]+);", css)
    assert [level for level, _ in sizes] == list("12341234")
    pixels = []
    for _, size in sizes:
        units = {"rem": 16.0, "vw": 3.9}
        pixels.append(min(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)(rem|vw)", size)))
    for scale in (pixels[:4], pixels[4:]):
        assert all(larger > 1.04 * smaller for larger, smaller in zip(scale, [*scale[1:], 16.0])), scale


def test_the_table_of_the_jobs_has_the_figures_of_their_pages():
    table = (DOC / "jobs" / "index.rst").read_text(encoding="utf-8")
    rows = re.findall(r"^   \* - :doc:`[^`]*<(\w+)>`\n((?:     - .*\n)+)", table, re.M)
    assert len(rows) == 11
    for page, cells in rows:
        printed = re.findall(r"\d\.\d+", (DOC / "jobs" / f"{page}.rst").read_text(encoding="utf-8"))
        quoted = re.findall(r"\d\.\d\d\b", cells)
        assert len(quoted) >= 2 and set(quoted) <= set(printed), page


def test_searches_that_are_tried_lead_to_pages(checks):
    """The build runs them in the built index, by the JavaScript of the site."""
    examples = {path.relative_to(ROOT / "examples").with_suffix("").as_posix() for path in EXAMPLES}
    assert len(checks.FIRST_PAGES) >= 50
    for query, page in checks.FIRST_PAGES.items():
        example = page.removeprefix("auto_examples/")
        if page.startswith("generated/"):
            assert resolve(page.removeprefix("generated/")), query
        else:
            assert (DOC / f"{page}.rst").is_file() or example in examples, query


def test_progress_of_a_build_is_a_line_a_tenth():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOC))
        progress = importlib.import_module("build").progress
        del sys.modules["build"]
    reading = [f"reading sources... [{percent:3d}%] page{percent}\n" for percent in (1, 5, 9, 10, 19, 100)]
    lines = ["Running Sphinx\n", *reading, "WARNING: no page\n", "writing output... [ 10%] index\n"]
    kept = [0, 1, 4, 6, 7, 8]
    assert list(progress(lines)) == [lines[k] for k in kept]


@pytest.fixture
def publish():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOC))
        yield importlib.import_module("publish").publish
        del sys.modules["publish"]


def test_versions_of_the_site_are_published_side_by_side(tmp_path, publish):
    published = tmp_path / "published"
    (published / ".git").mkdir(parents=True)
    for version in ("0.9.0", "0.10.0", "0.9.1", "0.10.0"):
        built = tmp_path / "built"
        (built / "_static").mkdir(parents=True, exist_ok=True)
        (built / "index.html").write_text(version)
        (built / f"only-in-{version}.html").touch()
        publish(built, published, version, "https://site")
        for file in built.glob("only-*"):
            file.unlink()
    versions = ["0.10.0", "0.9.1", "0.9.0"]
    for version in versions:
        assert (published / version / "index.html").read_text() == version
    # An earlier version that is published later stays in its folder.
    assert (published / "index.html").read_text() == "0.10.0"
    assert [path.name for path in published.glob("only-*")] == ["only-in-0.10.0.html"]
    listed = json.loads((published / "versions.json").read_text())
    assert [entry["version"] for entry in listed] == versions
    assert [entry["url"] for entry in listed] == ["https://site/", "https://site/0.9.1/", "https://site/0.9.0/"]
    assert [entry.get("preferred", False) for entry in listed] == [True, False, False]
    assert (published / ".git").is_dir() and (published / ".nojekyll").is_file()
    with pytest.raises(ValueError, match=r"has the form 1\.2\.3; got 'v1'"):
        publish(built, published, "v1", "https://site")


def test_the_workflow_publishes_tags_to_a_branch(tmp_path, monkeypatch):
    """Its commands run in a clone of a bare repository, for two tags, and again for the second."""
    workflow = ROOT / ".github" / "workflows" / "site.yml"
    if not workflow.is_file():
        pytest.skip("a source distribution has no workflows")
    yaml, bash, git = pytest.importorskip("yaml"), shutil.which("bash"), shutil.which("git")
    if os.name != "posix" or not (bash and git):
        pytest.skip("the commands of the workflow need bash and git")
    steps = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]["publish"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    built = next(i for i, command in enumerate(commands) if "doc/build.py" in command)
    monkeypatch.setenv("GITHUB_ACTOR", "somebody")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)

    def run(command, folder):
        done = subprocess.run([bash, "-eo", "pipefail", "-c", command], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    commit = "git -c user.name=somebody -c user.email=somebody@example.org commit -q -m first"
    (tmp_path / "origin" / "doc").mkdir(parents=True)
    shutil.copy(DOC / "publish.py", tmp_path / "origin" / "doc")
    run(f"git init -q && git add . && {commit}", tmp_path / "origin")
    for run_number, version in enumerate(("0.2.0", "0.1.1", "0.1.1")):
        tag, work = f"v{version}", tmp_path / f"work-{run_number}"
        run(f"git tag --force {tag}", tmp_path / "origin")
        work.mkdir()
        # As actions/checkout does: one commit, with its tag.
        run(f"git init -q project && cd project && git remote add origin 'file://{tmp_path / 'origin'}'", work)
        run(f"git fetch -q --depth 1 origin +{tag}:refs/tags/{tag} && git checkout -q {tag}", work / "project")
        site = work / "project" / "doc" / "_build" / "html"
        site.mkdir(parents=True)
        (site / "index.html").write_text(version)
        monkeypatch.setenv("GITHUB_REF_NAME", tag)
        for command in commands[built + 1 :]:
            run(command, work / "project")
    run("git switch -q gh-pages", tmp_path / "origin")
    pages = tmp_path / "origin"
    served = {path.relative_to(pages).as_posix() for path in pages.rglob("*") if ".git" not in path.parts}
    assert served == {
        "0.1.1",
        "0.1.1/index.html",
        "0.2.0",
        "0.2.0/index.html",
        "index.html",
        "versions.json",
        ".nojekyll",
    }
    assert (pages / "0.1.1" / "index.html").read_text() == "0.1.1"
    assert (pages / "index.html").read_text() == (pages / "0.2.0" / "index.html").read_text() == "0.2.0"
    listed = json.loads((pages / "versions.json").read_text())
    assert [entry["version"] for entry in listed] == ["0.2.0", "0.1.1"]


def test_the_address_of_the_site_is_in_one_place():
    link = (ROOT / "sklearn_sparsemap" / "_core" / "doc_link.py").read_text(encoding="utf-8")
    address = re.search(r'^SITE = "(https://[^"]+)"', link, re.M)[1]
    for path in (*ROOT.glob("*.*"), *pages(), *(ROOT / "sklearn_sparsemap").rglob("*.py")):
        if path.is_file() and path.name != "doc_link.py":
            assert address not in path.read_text(encoding="utf-8"), path
    assert "`own address`_" in (DOC / "index.rst").read_text(encoding="utf-8")
    workflow = ROOT / ".github" / "workflows" / "site.yml"
    if not workflow.is_file():
        pytest.skip("a source distribution has no workflows")
    workflow = workflow.read_text(encoding="utf-8")
    build = (DOC / "build.py").read_text(encoding="utf-8")
    options = re.search(r"python doc/build\.py (.*)", workflow)[1].split()
    assert options and all(f'"{option}"' in build for option in options)


def sections_with_tools():
    """Return the title, the imported libraries and the code of each section of the page about other tools."""
    text = (DOC / "other_tools.rst").read_text(encoding="utf-8")
    start, *sections = re.split(r"^(?=.+\n-{3,}$)", text, flags=re.M)
    for section in sections:
        libraries = re.findall(r"^>>> (?:import|from) (\w+)", section, re.M)
        if libraries:
            yield section.split("\n", 1)[0], libraries, start + section


@pytest.mark.parametrize("title, libraries, code", [pytest.param(*each, id=each[0]) for each in sections_with_tools()])
def test_code_with_other_tools_runs_if_they_are_installed(title, libraries, code):
    for library in libraries:
        pytest.importorskip(library)
    test = doctest.DocTestParser().get_doctest(code, {}, title, "other_tools.rst", 0)
    printed = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    with warnings.catch_warnings():
        # The tools warn of their own matters.
        warnings.simplefilter("ignore")
        runner.run(test, out=printed.append)
    assert runner.failures == 0, "".join(printed)


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
    assert len(readme.splitlines()) <= 150 and "pip install" in "".join(readme.splitlines(keepends=True)[:40])
    snippets = re.findall(r"```python\n(.*?)```", readme, re.S)
    assert len(snippets) >= 3
    for snippet in snippets:
        assert "from sklearn_sparsemap" in snippet, snippet
        assert "np." not in snippet or "import numpy as np" in snippet, snippet
    figures = (ROOT / "benchmarks" / "dashboard.md").read_text(encoding="utf-8")
    quoted = re.findall(r"\d+\.\d+ %", readme)
    assert len(quoted) == 6 and all(figure in figures for figure in quoted)


def test_links_between_pages_lead_somewhere(site):
    """The build tries all links of the site; this finds pages, examples and pictures that are gone without a build."""
    examples = {path.relative_to(ROOT / "examples").with_suffix("").as_posix() for path in EXAMPLES}
    tried = 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        links = re.findall(r":doc:`(?:[^`<]*<)?([^`>]+)>?`", text)
        links += re.findall(r"^ *:link: (\S+)\n *:link-type: doc$", text, re.M)
        for link in links:
            folder = DOC if link.startswith("/") else page.parent
            target = (folder / link.lstrip("/")).resolve().relative_to(DOC).as_posix()
            example = target.removeprefix("auto_examples/")
            is_made = example in examples or target == "auto_examples/index"
            is_page = any((DOC / f"{target}{end}").is_file() for end in (".rst", ".md"))
            assert is_made or is_page, f"{page.name} links to {link}"
            tried += 1
        for image in re.findall(r"^ *\.\. image:: (\S+)$", text, re.M):
            assert ((DOC if image.startswith("/") else page.parent) / image.lstrip("/")).is_file(), (page.name, image)
    assert tried > 100


def test_the_decision_chart_links_to_pages(site):
    chart = site.decision_chart()
    links = re.findall(r'<a href="([^"]+)\.html">', chart)
    reference = "".join(path.read_text(encoding="utf-8") for path in (DOC / "api").glob("*.rst"))
    for link in links:
        name = link.removeprefix("generated/")
        found = f"~{name}\n" in reference if name != link else (DOC / f"{link}.rst").is_file()
        assert found, link
    assert len(links) > 20
    # Every structure is in the chart, except those used within other structures and the base class.
    structures = set(importlib.import_module("sklearn_sparsemap.structures").__all__) - {"Structure", "HeadAutomaton"}
    assert {f"generated/sklearn_sparsemap.structures.{name}" for name in structures} <= set(links)


def test_short_names_in_backticks_become_links(site):
    """`link_public_name` finds the public object of a short name if there is one; functions come before layers."""

    class Domain:
        def __init__(self, kinds):
            self.objects = {name: type("Entry", (), {"objtype": kind})() for name, kind in kinds.items()}

        def resolve_xref(self, env, docname, builder, kind, target, node, content):
            return target

    domain = Domain(
        {
            "sklearn_sparsemap.sparsemap": "function",
            "sklearn_sparsemap.torch.sparsemap": "function",
            "sklearn_sparsemap.RaggedArray": "class",
            f"{RaggedArray.__module__}.RaggedArray": "class",
            "sklearn_sparsemap.RaggedArray.from_list": "method",
            "sklearn_sparsemap.losses.Loss": "class",
            "sklearn_sparsemap.metrics.Loss": "class",
        }
    )
    env = type("Env", (), {"get_domain": lambda self, name: domain})()
    app = type("App", (), {"builder": None})()
    for target, expected in (
        ("sparsemap", "sklearn_sparsemap.sparsemap"),
        ("RaggedArray", "sklearn_sparsemap.RaggedArray"),
        ("RaggedArray.from_list", "sklearn_sparsemap.RaggedArray.from_list"),
        ("from_list", None),
        ("Loss", None),
        ("n_jobs", None),
    ):
        node = {"refdomain": "py", "reftype": "obj", "reftarget": target, "refdoc": "index"}
        assert site.link_public_name(app, env, node, None) == expected, target
    assert site.link_public_name(app, env, {**node, "refdomain": "std"}, None) is None


def test_pages_that_the_readme_names_begin_as_plain_text():
    """Hosts of code show no directives of Sphinx; the site gets them from `_site.lay_out`."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"^\[\w+\]: (doc/\S+\.rst)$", readme, re.M)
    assert len(named) > 10
    for name in named:
        text = (ROOT / name).read_text(encoding="utf-8")
        code = re.search(r"^( *)(>>> |\.\. code-block::)", text, re.M)
        title, first, *_ = text.split("\n\n")
        before = text[: code.start()] if code else title + first
        assert (not code or not code[1]) and not re.search(r"^\.\. \w+::", before, re.M), name


def test_the_site_lays_pages_out(site):
    source = ["Title\n=====\n\nText.\n\n>>> a = 1\n\n>>> dump(a)  # doctest: +SKIP\n\n.. plot::\n   :context:\n\n"
              "   >>> draw(a)\n\n.. index:: ! word\n"]  # fmt: skip
    site.lay_out(None, "jobs/page", source)
    head, reset, skipped = source[0].index("! word"), source[0].index(":context: reset"), source[0].index("\n>>> dump")
    assert head < source[0].index("Text.") < reset < source[0].index("   >>> a = 1") < skipped
    assert source[0].count(".. index::") == 1 and source[0].count(".. plot::") == 2
