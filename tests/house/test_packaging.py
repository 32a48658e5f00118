"""What is released: the source distribution, the wheel, and what they say of the package."""

import importlib
import inspect
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from internals import TESTED_VERSIONS, modules_with

from sklearn_sparsemap import __version__, show_versions

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sklearn_sparsemap"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["Repository"]
# Other files of the repository are found by their names.
FOLDERS = ("sklearn_sparsemap", "tests", "doc", "examples", "benchmarks", ".ci")
LEFT_BEHIND = ("__pycache__", "_build", "auto_examples", "generated", ".numba_cache")


def files_of(root, folder):
    """Return the paths of a folder's files, without what is made by running them."""
    found = (path.relative_to(root) for path in (root / folder).rglob("*") if path.is_file())
    return {
        path.as_posix() for path in found if not set(path.parts) & set(LEFT_BEHIND) and path.suffix != ".pyc"
        and not re.fullmatch(r"examples/.*\.png|doc/sg_execution_times.rst", path.as_posix())
    }  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build both distributions; return the files of the first one, those of the second one, and its metadata."""
    setuptools = pytest.importorskip("setuptools", minversion="77")
    place = tmp_path_factory.mktemp("build")
    source = place / "source"
    # Building writes beside the sources.
    for folder in FOLDERS:
        if (ROOT / folder).is_dir():
            shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, source)
    code = "from setuptools import build_meta as b; b.build_sdist('..'); b.build_wheel('..')"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, (setuptools.__version__, done.stderr[-2000:])
    (sdist,), (wheel,) = place.glob("*.tar.gz"), place.glob("*.whl")
    # `.ci/insert` adds compiled code, and changes the tag.
    assert wheel.name.endswith("-py3-none-any.whl")
    with tarfile.open(sdist) as archive:
        in_sdist = {"/".join(Path(m.name).parts[1:]) for m in archive.getmembers() if m.isfile()}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
        (metadata,) = (name for name in in_wheel if name.endswith(".dist-info/METADATA"))
        message = Parser().parsestr(archive.read(metadata).decode())
    return in_sdist, in_wheel, message


def test_the_source_distribution_holds_the_whole_test_suite(built):
    in_sdist, _, _ = built
    for folder in FOLDERS:
        assert {name for name in in_sdist if name.startswith(f"{folder}/")} == files_of(ROOT, folder), folder
    assert {"tests/conftest.py", "tests/cases/naive.py", "tests/data/chain.npz"} <= in_sdist
    top = {name for name in in_sdist if "/" not in name}
    assert {
        "LICENSE",
        "README.md",
        "CHANGES.md",
        "CITATION.cff",
        "SECURITY.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
    } <= top


def test_the_wheel_holds_the_package_alone(built):
    _, in_wheel, _ = built
    assert {name for name in in_wheel if ".dist-info/" not in name} == files_of(ROOT, "sklearn_sparsemap")
    assert "sklearn_sparsemap/py.typed" in in_wheel
    assert any(name.endswith("licenses/LICENSE") for name in in_wheel)


def test_metadata(built):
    _, _, metadata = built
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "BSD-3-Clause" and metadata["License"] is None
    assert not [line for line in metadata.get_all("Classifier") if line.startswith("License")]
    urls = dict(line.split(", ") for line in metadata.get_all("Project-URL"))
    assert {"Homepage", "Documentation", "Changelog", "Repository", "Issues"} <= set(urls)
    assert all(url.startswith(REPOSITORY) for url in urls.values())
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_bug_reports_name_the_libraries(built, capsys):
    """`show_versions` prints all that the package requires and that its extras for users install."""
    _, _, metadata = built
    show_versions()
    shown = set(re.findall(r"([\w-]+): ", capsys.readouterr().out))
    extras = {"plot", "torch", "jax", "dask", ""}
    n_required = 0
    for line in metadata.get_all("Requires-Dist"):
        extra = re.search(r"extra == ['\"](\w+)", line)
        if (extra.group(1) if extra else "") in extras:
            assert re.match(r"[\w-]+", line).group() in shown, line
            n_required += 1
    assert n_required >= 9


def pictures(text):
    return re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)


def links_of(text):
    return pictures(text) + re.findall(r"^\[\w+\]: (\S+)$", text, re.MULTILINE)


def test_pictures_and_links_of_the_readme_lead_somewhere_from_everywhere(built):
    """They are relative, so that a clone and any host show them; those of the long description are absolute."""
    _, _, metadata = built
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = links_of(readme)
    defined = re.findall(r"^\[(\w+)\]: ", readme, re.MULTILINE)
    assert set(re.findall(r"\]\[(\w+)\]", readme)) == set(defined) and len(defined) > 10
    assert pictures(readme) and all((ROOT / link).is_file() for link in links)
    raw = REPOSITORY.replace("github.com", "raw.githubusercontent.com")
    absolute = [f"{raw}/main/{link}" for link in pictures(readme)]
    absolute += [f"{REPOSITORY}/blob/main/{link}" for link in links[len(absolute) :]]
    text = metadata.get_payload()
    assert links_of(text) == absolute
    for old, new in zip(links, absolute):
        text = text.replace(f"]: {new}\n", f"]: {old}\n").replace(f"]({new})", f"]({old})")
    assert text.strip() == readme.strip()


def test_citation():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__.removesuffix('.dev0')}\n" in text
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load(text)
    assert citation["cff-version"] == "1.2.0" and citation["license"] == "BSD-3-Clause"
    assert citation["repository-code"] == REPOSITORY
    assert [author["name"] for author in citation["authors"]] == ["sklearn_sparsemap developers"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for paper in citation["references"]:
        assert f"*{paper['title']}.*" in readme
        cited = next(line for line in readme.split("\n") if paper["title"] in line)
        assert ", ".join(author["family-names"] for author in paper["authors"]) in cited
    assert len(citation["references"]) == 3


def test_the_version_and_the_addresses_are_the_same_everywhere():
    """CHANGES.md has the version at its head, and pyproject.toml the repository in each of its addresses."""
    changes = (ROOT / "CHANGES.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changes, re.MULTILINE)[1] == __version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    urls = project["urls"]
    assert urls["Repository"] == urls["Homepage"] == REPOSITORY
    for name in ("Documentation", "Changelog"):
        path = urls[name].removeprefix(f"{REPOSITORY}/").split("/main/")[1]
        assert (ROOT / path).exists(), name
    # Other files say "the repository": its address can change in one place, and in the citation.
    pages = [ROOT / "README.md", *(ROOT / "doc").rglob("*.rst"), *(ROOT / "doc").glob("*.py"), *ROOT.glob("[CS]*.md")]
    assert not [path.name for path in pages if REPOSITORY in path.read_text(encoding="utf-8")]
    # The oldest Python is the same for pip, ruff, readers and CI.
    oldest = project["requires-python"].removeprefix(">=")
    pythons = [c.rsplit(" ", 1)[1] for c in project["classifiers"] if re.search(r"Python :: 3\.\d+$", c)]
    assert pythons[0] == oldest
    for name in ("README.md", "doc/install.rst"):
        assert f"Python {oldest} or later" in (ROOT / name).read_text(encoding="utf-8")
    # CI installs exactly the lower bounds.
    bounds = (ROOT / ".ci" / "lower-bounds.txt").read_text(encoding="utf-8").split()
    assert bounds == [text.replace(">=", "==") for text in project["dependencies"]]


def test_wheels_with_compiled_code_are_released_for_all_pythons_and_processors():
    yaml = pytest.importorskip("yaml")
    if not (ROOT / ".github").is_dir():
        pytest.skip("a source distribution has no workflows")
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))["jobs"]
    matrix, steps = jobs["compiled"]["strategy"]["matrix"], jobs["compiled"]["steps"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [f"Programming Language :: Python :: {python}" for python in matrix["python"]] == [
        classifier for classifier in project["classifiers"] if re.search(r"Python :: 3\.\d+$", classifier)
    ]
    pack = runpy.run_path(str(ROOT / ".ci" / "pack.py"))
    assert [processor["level"] for processor in matrix["processor"]] == list(pack["LEVELS"])
    (command,) = (step["run"] for step in steps if "compiled-wheel" in step.get("run", ""))
    versions = [tuple(map(int, version.split("."))) for version in re.findall(r" (\d+\.\d+)\b", command)]
    assert len(versions) == 2 and versions[-1] == TESTED_VERSIONS[1] and sorted(versions) == versions
    assert set(jobs["publish"]["needs"]) == {"build", "compiled"}


def public_callables():
    """Yield each public function, and each public method of a public class that this package defines."""
    modules = ["", "datasets", "estimators", "factors", "features", "inference", "losses", "metrics", "penalties"]
    for name in [*modules, "distributed", "plotting", "structures", "testing"]:
        module = importlib.import_module(f"sklearn_sparsemap{name and '.'}{name}")
        for public in module.__all__:
            thing = getattr(module, public)
            if inspect.isfunction(thing):
                yield public, thing
            for kind in thing.__mro__ if inspect.isclass(thing) else ():
                if kind.__module__.startswith("sklearn_sparsemap"):
                    for own, member in vars(kind).items():
                        for function in (member.fget, member.fset) if isinstance(member, property) else (member,):
                            function = inspect.unwrap(getattr(function, "__func__", function))
                            if inspect.isfunction(function) and (not own.startswith("_") or own == "__init__"):
                                yield f"{kind.__name__}.{own}", function


# Made by inference, not by users; and what solvers ask of a structure or a graph, compiled or not.
NOT_CALLED_BY_USERS = re.compile(
    r"((LP)?SparseMAPResult|SparseMAPSolutions|LazyResults|(MAP|Marginal|(LP)?SparseMAP)Batch).__init__|"
    r"(FactorGraph|Structure).layout|CustomStructure.check_parts|.*[._](oracle|entering)"
)


def test_the_public_api_is_annotated():
    names = set()
    for name, function in public_callables():
        # Code written by dataclass and namedtuple is in no file.
        if not function.__code__.co_filename.startswith(str(PACKAGE)) or NOT_CALLED_BY_USERS.fullmatch(name):
            continue
        signature = inspect.signature(function)
        empty = inspect.Parameter.empty
        bare = [p.name for p in signature.parameters.values() if p.annotation is empty]
        bare = [name for name in bare if name not in ("self", "cls")]
        bare += ["the result"] if signature.return_annotation is empty else []
        assert not bare, f"{name} lacks the annotation of {', '.join(bare)}"
        names.add(name)
    assert len(names) > 200
    assert (PACKAGE / "py.typed").is_file()


TYPING = ROOT / "tests" / "typing"
ROOMS = ["", "conformal", "datasets", "distributed", "estimators", "factors", "features", "inference", "inspection"]
ROOMS += ["losses", "metrics", "penalties", "pipeline", "plotting", "score_models", "spans", "structures", "testing"]


def documented_attributes(kind):
    """Return the names of a class's public attributes and methods, and those of its docstring."""
    names = {name for name in dir(kind) if not name.startswith("_")}
    section = re.search(r"^Attributes\n-+\n(.*?)(?=^\w[\w ]*\n---|\Z)", inspect.getdoc(kind), re.M | re.S)
    for heading in re.findall(r"^(\w[\w, ]*?) *(?::.*)?$", section[1] if section else "", re.M):
        names.update(heading.split(", "))
    return sorted(names)


def script_of_attributes():
    """Return a script that reads each attribute of each public class, and their number."""
    lines, n_attributes = [], 0
    for room in ROOMS:
        place = f"sklearn_sparsemap{room and '.'}{room}"
        module = importlib.import_module(place)
        for name in module.__all__:
            kind = getattr(module, name)
            if inspect.isclass(kind):
                attributes = documented_attributes(kind)
                lines += [f"from {place} import {name}", f"def read{len(lines)}(of: {name}) -> None:"]
                lines += [*(f"    of.{attribute}" for attribute in attributes), "    pass"]
                n_attributes += len(attributes)
    return "\n".join(lines), n_attributes


def run_mypy(paths, place):
    """Check scripts by mypy; return its output."""
    api = pytest.importorskip("mypy.api")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MYPYPATH", str(ROOT))
        # The cache beside the compiled kernels makes later runs ten times as fast.
        cache = os.path.join(os.environ["NUMBA_CACHE_DIR"], "mypy")
        options = ["--follow-imports", "silent", "--ignore-missing-imports"]
        out, _, _ = api.run(["--cache-dir", cache, *options, *map(str, paths)])
    return out


def run_pyright(paths, place):
    """Check scripts by Pyright, which only the workflow `nightly` installs; return its output."""
    pytest.importorskip("pyright")
    (place / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT)]}))
    command = [sys.executable, "-m", "pyright", "--project", str(place), "--pythonpath", sys.executable]
    return subprocess.run(command, cwd=place, capture_output=True, text=True).stdout


# The last line is wrong: no face has the method.
FACES = """
from typing import Protocol
from sklearn_sparsemap.estimators import (
    GroupLassoPerceptron, MultilabelLPSparseMAP, StructuredGroupLasso, StructuredSparseMAPClassifier
)
from {module} import Face
lasso: Face = StructuredGroupLasso()._face()
label_sets: Face = MultilabelLPSparseMAP()._face()
perceptron: Face = GroupLassoPerceptron()._face()
classifier: Face = StructuredSparseMAPClassifier()._face()
class WithMore(Face, Protocol):
    def more(self) -> int: ...
lacking: WithMore = StructuredGroupLasso()._face()
"""


@pytest.fixture(scope="module", params=[run_mypy, run_pyright])
def found(request, tmp_path_factory):
    """Return the numbers of the lines with errors, by script, and the output of a type checker."""
    place = tmp_path_factory.mktemp("typing")
    scripts = [Path(shutil.copy(path, place)) for path in TYPING.glob("*.py")]
    (place / "attributes.py").write_text(script_of_attributes()[0])
    (place / "faces.py").write_text(FACES.replace("{module}", modules_with("estimators", "Face")[0].__name__))
    scripts += [place / "attributes.py", place / "faces.py"]
    out = request.param(scripts, place)
    errors = {script.name: set() for script in scripts}
    for name, number in re.findall(r"([^\s/\\]+\.py):(\d+):(?:\d+)?.* error", out):
        errors[name].add(int(number))
    return errors, out


def test_type_checkers_find_the_errors_of_users_and_no_others(found):
    errors, out = found
    assert not errors["right.py"], out
    lines = (TYPING / "wrong.py").read_text(encoding="utf-8").split("\n")
    first = lines.index("# Each of the following lines is wrong.") + 2
    numbers = set(range(first, len(lines)))
    assert errors["wrong.py"] == numbers and len(numbers) > 30, out


def test_type_checkers_know_all_public_and_documented_attributes(found):
    errors, out = found
    assert not errors["attributes.py"], out
    assert script_of_attributes()[1] > 1000


def test_all_estimators_have_a_face_that_satisfies_the_protocol(found):
    errors, out = found
    assert errors["faces.py"] == {FACES.count("\n")}, out


def test_the_script_without_errors_of_types_runs(capsys):
    runpy.run_path(str(TYPING / "right.py"))
    printed = capsys.readouterr().out.split("\n")
    assert printed[0].endswith(" B-PER O") and "(3, 3) True" in printed
