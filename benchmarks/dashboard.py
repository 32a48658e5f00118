"""Make the page of all figures, dashboard.md, from the records in ``benchmarks/results``.

    python benchmarks/dashboard.py            # write the page
    python benchmarks/dashboard.py --check    # fail if it differs from the records

It begins with a short table of the comparisons in `SHOWN`. The records are described in results.py.
"""

import argparse
import sys
from collections import defaultdict

import results

FOLDER = results.ROOT / "benchmarks" / "results"
PAGE = results.ROOT / "benchmarks" / "dashboard.md"
# Rows of the short table: script, text of the row, data, measure and peer of the record.
SHOWN = (
    ("chunking", "Chunking, CoNLL-2000: span F1", "CoNLL-2000, 72 templates", "span F1",
     "CRFsuite averaged perceptron, 10 epochs"),
    ("chunking", "the same: time of training", "CoNLL-2000, 72 templates", "training",
     "CRFsuite averaged perceptron, 10 epochs"),
    ("token_dicts", "Chunking from dicts: CPU time of the whole run", "CoNLL-2000, features of a tutorial",
     "CPU time of the whole run, crf", "CRFsuite, L-BFGS, as in its tutorial"),
    ("crf", "Linear-chain CRF: CPU time of an L-BFGS iteration", "CoNLL-2000, 1,000 sentences",
     "CPU time of an iteration", "CRFsuite"),
    ("label_sets", "Sets of labels, 10 data sets: example F1", "mean of 10 sets", "example F1",
     "one-vs-rest, tuned (scikit-learn)"),
    ("decisions", "Shortest paths: normalised regret, smaller is better", "path, mean of all problems",
     "normalised regret", "PyEPO SPO+, rate 0.01"),
    ("oracles", "Matching 100 x 100: time of MAP", "matching 100 x 100", "CPU time with structures", "lapx"),
    ("oracles", "Tree of 40 words: time of MAP", "tree, 40 words, trained scores", "CPU time with structures",
     "ufal.chu_liu_edmonds"),
    ("inference", "Tree of 20 words: time of SparseMAP", "tree, 20 words, scale 1", "CPU time of a sample",
     "lp-sparsemap (C++)"),
    ("devices", "Chains 20 x 5, batch of 1,024: SparseMAP and derivative", "chain 20 x 5, batch 1024, 2 threads",
     "forward and backward", "Moreau"),
    ("group_lasso", "Group lasso, 200 groups: time to the minimum", "multinomial, 0.1 of the largest strength",
     "CPU time to a gap of 1e-6", "adelie"),
    ("structures", "Time warping 400 x 400: time", "400 x 400", "CPU time, Alignment", "dtaidistance (C)"),
)  # fmt: skip


def load():
    """Return the records by name of the script."""
    return {path.stem: results.read(path) for path in sorted(FOLDER.glob("*.json"))}


def number(value):
    """Return a number as text, with four significant digits."""
    if value == 0:
        return "0"
    if abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{float(f'{value:.4g}'):,.10g}"


def figure(value, unit):
    """Return a figure with its unit; percentages have two decimals."""
    if value is None:
        return ""
    return f"{value:.2f} %" if unit == "%" else f"{number(value)} {unit}".strip()


def compared(record):
    """Return the ratio, or of percentages the difference in points, with its interval."""
    if record["theirs"] is None:
        return ""
    interval = "" if record["interval"] is None else f" ± {number(record['interval'])}"
    if record["unit"] == "%":
        return f"{record['ours'] - record['theirs']:+.2f}{interval}"
    return "" if record["ratio"] is None else f"{record['ratio']:.2f} x"


def machines_of(records):
    """Return the letters of machines by their description, in the order of their first records."""
    letters = {}
    for record in records:
        letters.setdefault(describe(record["machine"]), chr(ord("A") + len(letters)))
    return letters


def describe(machine):
    """Return a machine in words."""
    cpu = machine["cpu"] or "processor not recorded"
    packages = ", ".join(f"{name} {machine[name]}" for name in results.PACKAGES if machine.get(name))
    return f"{machine['cores']} cores, {cpu}, Python {machine['python']}, {packages}"


def figures_of(record):
    """Return the cells of a record's figures, with marks: ours, theirs, ratio or difference."""
    ours = figure(record["ours"], record["unit"]) + " †" * (record["measured"] == "carried over")
    theirs = figure(record["theirs"], record["unit"]) + " ‡" * record["elsewhere"]
    return ours, theirs, compared(record)


def as_table(head, rows):
    """Return lines of a Markdown table."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def legend(letters):
    """Return lines that explain letters and marks."""
    marks = (
        "x: ours / theirs; below 1, ours is faster or smaller. Percentages: difference in points. †: carried over from "
        "an earlier run. ‡: the peer ran on another machine, or its figure is that of a paper."
    )
    return [f"- {marks}", *(f"- Machine {letter}: {words}." for words, letter in letters.items())]


def short_table(by_script, letters):
    """Return lines of the short table."""
    rows = []
    for script, text, *identity in SHOWN:
        records = [r for r in by_script[script] if [r["data"], r["measure"], r["peer"]] == identity]
        if len(records) != 1:
            sys.exit(f"{len(records)} records of {script}.json are {identity}")
        (record,) = records
        machine = letters[describe(record["machine"])]
        rows.append((text, record["peer"], *figures_of(record), machine, f"`{record['commit']}`", f"`{script}.py`"))
    return as_table(["task", "peer", "ours", "theirs", "ours / theirs", "machine", "commit", "script"], rows)


def page(by_script):
    """Return the page: the short table, then, for each task and each run of a command, a table of all records."""
    by_task = defaultdict(lambda: defaultdict(list))
    for records in by_script.values():
        for record in records:
            run = record["command"], describe(record["machine"]), record["commit"], record["date"]
            by_task[record["task"]][run].append(record)
    letters = machines_of([record for records in by_script.values() for record in records])
    lines = ["# All figures", "", "Made by `python benchmarks/dashboard.py` from `benchmarks/results`.", ""]
    lines += [*legend(letters), "", "## Compared with other libraries", "", *short_table(by_script, letters)]
    for task, runs in sorted(by_task.items(), key=lambda item: item[0].lower()):
        lines += ["", f"## {task[0].upper()}{task[1:]}"]
        for (command, machine, commit, date), records in runs.items():
            lines += ["", f"`{command}`, machine {letters[machine]}, commit `{commit}`, {date}:", ""]
            rows = [(r["data"], r["measure"], r["peer"], *figures_of(r)) for r in records]
            lines += as_table(["data", "measure", "peer", "ours", "theirs", "ours / theirs"], rows)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if it is out of date")
    arguments = parser.parse_args()
    text = page(load())
    if not arguments.check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        sys.exit(f"{PAGE.name} differs from the records: run python benchmarks/dashboard.py")


if __name__ == "__main__":
    main()
