"""The table of the papers: it parses, and every command, link, example and public name in it exists."""

import importlib
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from commands import options_of

from sklearn_sparsemap.losses import LOSSES

ROOT = Path(__file__).resolve().parents[2]
DOC = ROOT / "doc"
COLUMNS = ["paper", "number", "item", "where", "command", "published", "ours", "status", "why"]


@pytest.fixture(scope="module")
def items(site):
    return site.read_papers()


def test_the_table_is_complete(items, site):
    assert len(items) >= 120
    for row in items:
        assert list(row) == COLUMNS
        assert all(row[name].strip() == row[name] for name in COLUMNS), row
        assert row["item"] and row["where"] and row["status"] in site.STATUSES and row["why"].endswith("."), row
        # Without a command there is nothing to show, and the reason is told.
        assert bool(row["command"]) == bool(row["ours"]) == (row["status"] != "not reproduced"), row


def test_items_are_numbered_in_the_order_of_the_papers(items):
    papers = list(dict.fromkeys(row["paper"] for row in items))
    assert papers == ["SparseMAP", "LP-SparseMAP", "Structured sparsity"]
    expected = []
    for letter, paper in zip("SLG", papers, strict=True):
        expected += [f"{letter}{place}" for place in range(1, 1 + sum(row["paper"] == paper for row in items))]
    assert [row["number"] for row in items] == expected
    assert len({(row["paper"], row["item"]) for row in items}) == len(items)


def test_places_exist(items):
    reference = "".join(path.read_text(encoding="utf-8") for path in sorted((DOC / "api").glob("*.rst")))
    listed = set(re.findall(r"^   ~?(sklearn_sparsemap\.[\w.]+)$", reference, re.M))
    n_names = 0
    for where in {row["where"] for row in items}:
        if not where.startswith("sklearn_sparsemap."):
            assert (DOC / f"{where}.rst").is_file(), where
            continue
        assert where in listed, where
        module, _, name = where.rpartition(".")
        # PyTorch is optional.
        if module != "sklearn_sparsemap.torch":
            assert hasattr(importlib.import_module(module), name), where
            n_names += 1
    assert n_names > 20


def test_commands_exist(items):
    n_options, n_tests = 0, 0
    for row in items:
        if not row["command"]:
            continue
        program, script, *arguments = shlex.split(row["command"])
        path = ROOT / script
        assert path.is_file(), row
        if program == "pytest":
            # One test is named, and nothing else.
            assert arguments[0] == "-k" and len(arguments) == 2, row
            assert f"def {arguments[1]}(" in path.read_text(encoding="utf-8"), row
            n_tests += 1
            continue
        assert program == "python" and path.parts[len(ROOT.parts)] in ("benchmarks", "examples", "doc"), row
        options = options_of(path)
        for argument in arguments:
            if argument.startswith("--"):
                assert argument in options, row
                n_options += 1
    assert n_options > 50 and n_tests > 50


def test_choices_of_commands_exist(items):
    """Words after an option are numbers, or appear in the script or in what it imports from beside it."""
    tried = 0
    for row in items:
        if not row["command"].startswith("python benchmarks/"):
            continue
        script, *arguments = shlex.split(row["command"])[1:]
        text = (ROOT / script).read_text(encoding="utf-8")
        text += str(sorted(LOSSES))
        beside = set(re.findall(r"^(?:from|import) (\w+)", text, re.M))
        for path in (ROOT / "benchmarks").glob("*.py"):
            if path.stem in beside:
                text += path.read_text(encoding="utf-8")
        for argument in arguments:
            if not argument.startswith("--") and not re.fullmatch(r"[\d.e-]+", argument):
                name = re.escape(argument)
                assert re.search(rf"[\"']{name}|def {name}\(|\b{name}=", text), row
                tried += 1
    assert tried > 30


def test_the_page_says_how_many_items_have_each_status(items, site):
    page = (DOC / "papers.rst").read_text(encoding="utf-8")
    told = {status: int(re.search(rf"^{status} .* (\d+)$", page, re.M)[1]) for status in site.STATUSES}
    assert told == Counter(row["status"] for row in items)


def test_the_page_names_networks_that_are_not_part_of_the_package(items, site):
    """Items whose script makes a network in PyTorch are in a table, those that are not reproduced in a list."""
    shown = "\n".join(site.paper_networks())
    listed = set(re.findall(r"\b[SLG]\d+\b", shown))
    published = {row["number"] for row in items if row["status"] == "published model"}
    makes_network = {
        row["number"]
        for row in items
        if (script := re.match(r"python (benchmarks/\w+\.py)", row["command"]))
        and "nn.Module" in (ROOT / script[1]).read_text(encoding="utf-8")
    }
    assert makes_network and listed >= makes_network & published
    assert "published_parsing.py" in shown and len(listed) > 30
    missing = [row["number"] for row in items if row["status"] == "not reproduced"]
    assert [line.split(",")[0].removeprefix("- ") for line in site.papers_not_reproduced()] == missing


def test_pictures_of_the_page_exist():
    page = (DOC / "papers.rst").read_text(encoding="utf-8")
    pictures = re.findall(r"^\.\. (?:plot|image):: (.+)$", page, re.M)
    assert len(pictures) >= 12 and all((DOC / picture).is_file() for picture in pictures)
    examples = re.findall(r":doc:`auto_examples/(.+?)`", page)
    assert len(examples) >= 8 and all((ROOT / "examples" / f"{name}.py").is_file() for name in examples)


def test_the_page_has_the_tables(items, site):
    source = [(DOC / "papers.rst").read_text(encoding="utf-8")]
    site.fill_tables(None, "papers", source)
    assert "paper-table::" not in source[0]
    # A row has seven cells, and each table has a head. The table of networks has three cells a row.
    assert source[0].count("\n   * -") == len(items) + 3 + len(site.NETWORKS) + 1
    assert source[0].count("\n     -") == 6 * (len(items) + 3) + 2 * (len(site.NETWORKS) + 1)
    assert r"sigma\_" in source[0] and ":doc:`/auto_examples/inference/plot_solvers`" in source[0]
    untouched = [".. paper-table:: SparseMAP"]
    site.fill_tables(None, "index", untouched)
    assert untouched == [".. paper-table:: SparseMAP"]


def run_papers(*arguments):
    command = [sys.executable, str(ROOT / "benchmarks" / "papers.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_script_lists_items_and_knows_their_numbers(items):
    listed = run_papers("--list", "--status", "contradicted")
    wanted = [row["number"] for row in items if row["status"] == "contradicted"]
    assert [line.split()[0] for line in listed.stdout.splitlines()] == wanted
    # An item without a command prints its figures.
    row = next(row for row in items if not row["command"] and row["published"])
    shown = run_papers("--item", row["number"])
    assert shown.returncode == 0 and f"published: {row['published']}" in shown.stdout
    assert f"{row['status']}: {row['why']}" in shown.stdout
    unknown = run_papers("--item", "S999")
    assert unknown.returncode == 2 and "--list prints all numbers" in unknown.stderr
