"""The records of the benchmarks: their shape, their commands, the tables made from them, and honest bars."""

import argparse
import importlib
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands import options_of

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS, NOTES, PLOTS = ROOT / "benchmarks", ROOT / "doc" / "notes", ROOT / "doc" / "plots"
NO_FIGURES = {"papers", "dashboard", "mutants", "figures"}
MODULES = ("results", "measured_code", "figures", "quotes", "dashboard")


@pytest.fixture(scope="module")
def modules():
    """Return the modules that write records, and that make tables of them, by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
        for name in MODULES:
            del sys.modules[name]


@pytest.fixture(scope="module")
def by_script(modules):
    """Return the records of the commands that `make figures` runs."""
    return modules.dashboard.load()


@pytest.fixture(scope="module")
def everything(modules):
    """Return all records, those of long runs, too."""
    return modules.dashboard.load_all()


def scripts():
    """Return the scripts that people run, by name, with their text."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(BENCHMARKS.glob("*.py"))}
    return {name: text for name, text in texts.items() if '__name__ == "__main__"' in text}


def test_records_are_complete(modules, everything):
    results = modules.results
    n_peers, n_here = 0, 0
    for script, records in everything.items():
        assert (BENCHMARKS / f"{script}.py").is_file(), script
        identities = [results.identity(record) for record in records]
        assert len(identities) == len(set(identities)), script
        for record in records:
            for key in ("task", "data", "measure", "commit", "date", "command"):
                assert isinstance(record[key], str) and record[key], record
            assert re.fullmatch(r"[0-9a-f]{8}", record["commit"]) and re.fullmatch(r"\d{4}-\d\d-\d\d", record["date"])
            assert isinstance(record["ours"], float) and record["measured"] in ("here", "carried over")
            assert record["peer"] or record["theirs"] is None, record
            if record["theirs"]:
                assert record["ratio"] == pytest.approx(record["ours"] / record["theirs"], rel=1e-3, abs=1e-9), record
                n_peers += 1
            assert not record["elsewhere"] or record["theirs"] is not None, record
            assert record["package"] is None or record["peer"], record
            assert record["code"] is None or re.fullmatch(r"[0-9a-f]{8}", record["code"]), record
            # A measured figure says on which processor and by which versions.
            known = {"cpu", "cores", "python", *results.PACKAGES}
            if record["measured"] == "here":
                assert known <= set(record["machine"]) and all(record["machine"][key] for key in known), record
                n_here += 1
    assert n_peers > 150 and n_here > 100


def test_records_have_no_paths():
    for path in (BENCHMARKS / "results").rglob("*.json"):
        assert not re.search(r"/(?:tmp|home|work|root|Users)\b|--data|--json", path.read_text(encoding="utf-8")), path


def test_commands_of_records_exist(modules, everything):
    n_options = 0
    commands = {script: {record["command"] for record in records} for script, records in everything.items()}
    for run in modules.figures.PLAN:
        commands.setdefault(run.script, set()).add(run.command)
    for script, own in commands.items():
        declared = options_of(BENCHMARKS / f"{script}.py")
        for command in own:
            program, path, *arguments = shlex.split(command)
            assert (program, path) == ("python", f"benchmarks/{script}.py"), command
            options = {argument for argument in arguments if argument.startswith("--")}
            assert options <= declared, command
            n_options += len(options)
    assert n_options > 20


def test_scripts_write_records():
    found = scripts()
    assert len(found) > 35
    for name, text in found.items():
        if name not in NO_FIGURES:
            assert "results.parse(parser)" in text, name
            # ner.py records by what it shares with chunking.py.
            assert "results.record(" in text or "from group_front import" in text, name


def test_the_index_names_all_scripts():
    index = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    assert len(index.splitlines()) <= 200
    for path in BENCHMARKS.glob("*.py"):
        assert f"`{path.name}" in index, path.name
    names = re.findall(r"^\| `(\w+\.py).*\| (\w*) \|$", index, re.M)
    assert len(names) > 30
    for script, note in names:
        assert (BENCHMARKS / script).is_file(), script
        assert not note or (NOTES / f"{note}.md").is_file(), note


def test_notes_begin_with_their_conclusion():
    notes = sorted(NOTES.glob("*.md"))
    assert len(notes) > 15
    for path in notes:
        text = path.read_text(encoding="utf-8")
        assert re.match(r"# .+\n\nConclusion: ", text), path.name
        for linked in re.findall(r"\]\((\w+\.md)\)", text):
            assert (NOTES / linked).is_file(), (path.name, linked)


def test_each_row_has_one_command_of_the_plan(modules, by_script):
    """A command keeps rows that no other command keeps, and each row is kept by one, so that nothing stays behind."""
    plan = modules.figures.PLAN
    assert len({run.arguments for run in plan}) == len(plan) and sum(run.seconds for run in plan) < 7200
    for script, records in by_script.items():
        for record in records:
            keeping = [run for run in plan if run.script == script and run.keeps(record)]
            assert len(keeping) == 1, (script, modules.results.identity(record), len(keeping))
    assert sum(map(len, by_script.values())) < 400


def test_pages_agree_with_the_records(modules, by_script, everything):
    dashboard = modules.dashboard
    # Which rows are older than the code changes with each change of the package; a release checks it.
    unmarked = dashboard.PAGE.read_text(encoding="utf-8").replace(dashboard.OLDER, "")
    whole = dashboard.page(by_script)
    assert unmarked == whole.replace(dashboard.OLDER, ""), "run benchmarks/dashboard.py"
    published = dashboard.published_page(dashboard.load(modules.figures.FOLDER / "published"))
    assert dashboard.PUBLISHED.read_text(encoding="utf-8") == published, "run benchmarks/dashboard.py"
    # Each record has a row, and marks say what is not of one run on one machine.
    assert (whole + published).count("\n| ") >= sum(map(len, everything.values()))
    for record in (record for records in everything.values() for record in records):
        ours, theirs, _ = dashboard.figures_of(record)
        assert ours.endswith(" †") == (record["measured"] == "carried over")
        assert theirs.endswith(" ‡") == record["elsewhere"]


def test_rows_in_which_others_are_better_come_first(modules, by_script):
    dashboard = modules.dashboard
    text = dashboard.page(by_script)
    worse, better = (text.index(f"## {title}") for title in ("Where others", "Where this package"))
    assert worse < better and text.index("CPU time, Alignment | dtaidistance (C) |") > worse
    assert "| CRFsuite |" in text[worse:better]
    record = {"unit": "%", "measure": "span F1", "ours": 1.0, "theirs": 2.0}
    assert dashboard.is_worse(record) and not dashboard.is_worse(record | {"measure": "normalised regret"})
    assert dashboard.is_worse(record | {"unit": "s", "ours": 3.0})


def test_sentences_with_figures_agree_with_the_records(modules, everything):
    quotes = modules.quotes
    for path, text in quotes.pages(everything).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run benchmarks/dashboard.py"
    measured = [quote for quote in quotes.QUOTES if quotes.find(quote, everything) is not None]
    assert len(measured) >= 25
    # Each record that a sentence quotes is measured by a command, or is one of the long runs.
    named = {run.script for run in modules.figures.PLAN} | set(everything)
    assert {script for quote in quotes.QUOTES for script, *_ in quote.records.values()} <= named


def test_a_changed_figure_is_seen(modules, by_script):
    changed = by_script | {"ocr": [record | {"ours": record["ours"] + 1.0} for record in by_script["ocr"]]}
    assert modules.dashboard.page(changed) != modules.dashboard.page(by_script)
    texts = [modules.quotes.pages(records)[BENCHMARKS / "README.md"] for records in (by_script, changed)]
    assert texts[0] != texts[1]


def test_a_quote_fills_a_sentence_that_is_there_once(modules):
    quote = modules.quotes.Quote("a page", "takes {t[ours]:.1f} s, {t[inverse]:.0f} times as long", {})
    values = {"t": {"ours": 2.0, "inverse": 30.0}}
    filled = modules.quotes.fill("It takes 1,234.5\ns, 4 times as long.", quote, values)
    assert filled == "It takes 2.0\ns, 30 times as long."
    for text in ("nothing", "takes 1.0 s, 4 times as long, takes 1.0 s, 4 times as long"):
        with pytest.raises(ValueError, match="this sentence"):
            modules.quotes.fill(text, quote, values)
    cell = modules.quotes.Quote("a table", "model {t[ours]:.1f} {t[inverse]:.0f}", {})
    assert modules.quotes.fill("model   88.25   7   x", cell, values) == "model   2.0     30  x"


def test_the_measured_code_ignores_prose(modules, tmp_path):
    pieces = {
        "plain": 'def f(x):\n    return x, "# kept"  # why\n',
        "told": '"""Prose."""\n\ndef f(x):\n    """More."""\n    return x, "# kept"\n',
        "other": 'def f(x):\n    return x, "# other"\n',
    }
    found = {}
    for name, text in pieces.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        found[name] = modules.measured_code.bare(tmp_path / f"{name}.py")
    assert found["plain"] == found["told"] == 'def f(x):\n    return x, "# kept"' != found["other"]


def test_the_measured_code_follows_names_through_the_package(modules):
    """A script measures the modules that define the names that it imports, and what those import."""
    code, package = modules.measured_code, ROOT / "sklearn_sparsemap"
    structures = ["sklearn_sparsemap", "structures"]
    assert code.source_of(structures, "Matching") == package / "structures" / "_matching" / "structure.py"
    assert code.source_of(["sklearn_sparsemap"], "sparsemap") == package / "inference" / "_public.py"
    assert code.source_of(["numpy"], "array") is None
    files = code.imports_of(BENCHMARKS / "oracles.py")
    assert {package / "structures" / f"_{name}" / "structure.py" for name in ("matching", "tree")} <= files
    assert package / "structures" / "_matching" / "map.py" in code.imports_of(code.source_of(structures, "Matching"))
    assert not any("estimators" in path.parts or path.name == "__init__.py" for path in files)


def test_a_command_is_due_if_its_records_are_of_something_else(modules, monkeypatch):
    figures, results = modules.figures, modules.results
    monkeypatch.setattr(modules.measured_code, "digest", {"oracles": "0123abcd"}.get)
    run = figures.Run("oracles.py --fast", "matching 40", 5)
    record = {
        "task": "MAP inference", "data": "matching 40 x 40", "measure": "time", "peer": "lapx", "command": run.command,
        "code": "0123abcd", "machine": results.machine([]), "seconds": 7,
    }  # fmt: skip
    assert run.keeps(record) and not figures.is_due(run, [record]) and figures.seconds_of(run, [record]) == 7
    assert figures.is_due(run, []) and figures.seconds_of(run, []) == run.seconds
    for changed in ({"code": None}, {"command": "python benchmarks/oracles.py"}, {"machine": {}}):
        assert figures.is_due(run, [record | changed]), changed
    # Rows that the command does not keep say nothing.
    assert not figures.is_due(run, [record, record | {"data": "matching 7 x 7", "code": None}])


def test_a_run_replaces_the_rows_that_it_keeps(modules, tmp_path, monkeypatch):
    figures, results = modules.figures, modules.results
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    run = figures.Run("x.py --fast", "fast", 1)
    rows = [{"task": "t", "data": data, "measure": "time", "peer": ""} for data in ("fast, old", "slow", "fast, new")]
    results.write(run.path, rows[:2])
    assert figures.keep(run, [rows[2], rows[1] | {"data": "another"}], 12.3) == 1
    assert results.read(run.path) == [rows[1], rows[2] | {"seconds": 12}]


def test_a_script_run_again_replaces_its_records(modules, tmp_path, monkeypatch):
    results = modules.results
    file = tmp_path / "new.json"
    monkeypatch.setattr(sys, "argv", ["benchmarks/x.py", "--data", "/some/where", "--seeds", "3", "--json", str(file)])
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--seeds", type=int)
    try:
        assert results.parse(parser).seeds == 3
        results.record("a task", "some data", "time", 2.0, "s", "a peer", 4.0)
        results.record("a task", "some data", "memory", 1.0, "MB")
        results.record("a task", "some data", "time", 1.0, "s", "a peer", 4.0)
    finally:
        results._file = None
    results.record("a task", "some data", "nothing is written without --json", 1.0, "s")
    time, memory = results.read(file)
    assert (time["ours"], time["ratio"], time["command"]) == (1.0, 0.25, "python benchmarks/x.py --seeds 3")
    assert (memory["ours"], memory["theirs"], memory["ratio"]) == (1.0, None, None)


def test_a_missing_peer_is_named(modules):
    with pytest.raises(SystemExit, match="needs a peer that is missing: pip install a-library"):
        modules.results.peer("no_such_library", "a-library")


def test_no_bar_starts_above_zero(monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    from matplotlib.container import BarContainer

    pyplot.switch_backend("Agg")
    monkeypatch.syspath_prepend(str(PLOTS))
    n_bars = 0
    for path in sorted(PLOTS.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"\.barh?\(", text):
            continue
        exec(compile(text, str(path), "exec"), {"__name__": path.stem})
        for ax in pyplot.gcf().axes:
            for container in ax.containers:
                if not isinstance(container, BarContainer):
                    continue
                across = container.orientation == "horizontal"
                low, high = ax.get_xlim() if across else ax.get_ylim()
                assert low <= 0.0 <= high, (path.name, ax.get_title(loc="left"), low, high)
                starts = {bar.get_x() if across else bar.get_y() for bar in container}
                assert starts == {0.0}, (path.name, ax.get_title(loc="left"), starts)
                n_bars += len(container)
        pyplot.close("all")
        sys.modules.pop("tables", None)
    assert n_bars > 20
