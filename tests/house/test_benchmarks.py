"""The records of the benchmarks: their shape, their commands, the tables made from them, and honest bars."""

import argparse
import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest
from commands import options_of

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS, NOTES, PLOTS = ROOT / "benchmarks", ROOT / "doc" / "notes", ROOT / "doc" / "plots"
NO_FIGURES = {"papers", "dashboard", "mutants"}


@pytest.fixture(scope="module")
def modules():
    """Return the modules that write records, and that make tables of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        found = importlib.import_module("results"), importlib.import_module("dashboard")
        yield found
        for name in ("results", "dashboard"):
            del sys.modules[name]


@pytest.fixture(scope="module")
def by_script(modules):
    return modules[1].load()


def scripts():
    """Return the scripts that people run, by name, with their text."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(BENCHMARKS.glob("*.py"))}
    return {name: text for name, text in texts.items() if '__name__ == "__main__"' in text}


def test_records_are_complete(modules, by_script):
    results, _ = modules
    n_peers, n_here = 0, 0
    for script, records in by_script.items():
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
            # A measured figure says on which processor and by which versions.
            known = {"cpu", "cores", "python", *results.PACKAGES}
            if record["measured"] == "here":
                assert known <= set(record["machine"]) and all(record["machine"][key] for key in known), record
                n_here += 1
    assert n_peers > 200 and n_here > 100


def test_records_have_no_paths():
    for path in (BENCHMARKS / "results").glob("*.json"):
        assert not re.search(r"/(?:tmp|home|work|root|Users)\b|--data|--json", path.read_text(encoding="utf-8")), path


def test_commands_of_records_exist(by_script):
    n_options = 0
    for script, records in by_script.items():
        declared = options_of(BENCHMARKS / f"{script}.py")
        for command in {record["command"] for record in records}:
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


def test_tables_agree_with_the_records(modules, by_script):
    _, dashboard = modules
    whole = dashboard.page(by_script)
    assert dashboard.PAGE.read_text(encoding="utf-8") == whole, "run benchmarks/dashboard.py"
    assert len(dashboard.SHOWN) <= 12
    # Each record has a row, and marks say what is not of one run on one machine.
    assert whole.count("\n| ") >= sum(map(len, by_script.values()))
    for records in by_script.values():
        for record in records:
            ours, theirs, _ = dashboard.figures_of(record)
            assert ours.endswith(" †") == (record["measured"] == "carried over")
            assert theirs.endswith(" ‡") == record["elsewhere"]


def test_a_changed_figure_is_seen(modules, by_script):
    _, dashboard = modules
    script, *_ = dashboard.SHOWN[0]
    changed = by_script | {script: [record | {"ours": record["ours"] + 1.0} for record in by_script[script]]}
    assert dashboard.page(changed) != dashboard.page(by_script)


def test_a_script_run_again_replaces_its_records(modules, tmp_path, monkeypatch):
    results, _ = modules
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
