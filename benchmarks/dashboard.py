"""Make the pages of all figures from the records, and write the figures that pages quote (quotes.py).

    python benchmarks/dashboard.py            # write the pages
    python benchmarks/dashboard.py --check    # fail if one differs from the records

dashboard.md has the records in ``benchmarks/results``: first the rows in which another library is better, then other
comparisons, then figures without a peer, and the commands. published.md has those in ``benchmarks/results/published``.
The records are described in results.py, the commands in figures.py.
"""

import argparse
import sys
from collections import defaultdict

import figures
import quotes
import results

PAGE = results.ROOT / "benchmarks" / "dashboard.md"
PUBLISHED = results.ROOT / "benchmarks" / "published.md"
# Percentages of these are better if they are smaller; of others, if they are larger.
ERRORS = ("regret", "missed", "Brier", "log loss", "error")
# Other units are better if they are smaller.
GAINS = ("%", "examples / s", "tokens / CPU s", "value")
OLDER = " ◇"


def load(folder=figures.FOLDER):
    """Return the records by name of the script."""
    return {path.stem: results.read(path) for path in sorted(folder.glob("*.json"))}


def load_all():
    """Return the records of both pages by name of the script."""
    found = load()
    for script, records in load(figures.FOLDER / "published").items():
        found[script] = found.get(script, []) + records
    return found


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


def is_of_another(record):
    """Return whether the peer is another library or a paper, not another way of this package."""
    return record["theirs"] is not None and (record["elsewhere"] or record["package"] is not None)


def is_worse(record):
    """Return whether the peer is better."""
    is_gain = record["unit"] in GAINS and not any(word in record["measure"] for word in ERRORS)
    return record["ours"] < record["theirs"] if is_gain else record["ours"] > record["theirs"]


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


def rows_of(pairs, older):
    """Return the rows of pairs of a script and a record; those of older code are marked."""
    rows = []
    for script, record in pairs:
        ours, theirs, ratio = figures_of(record)
        mark = OLDER * ((script, record["command"]) in older)
        data = f"{record['task']}: {record['data']}"
        rows.append((data, record["measure"], record["peer"], ours, theirs, ratio, f"`{script}.py`{mark}"))
    return rows


def by_plan(by_script):
    """Return pairs of a script and a record, in the order of the plan; records that no command keeps come last."""
    pairs = [(script, record) for script, records in by_script.items() for record in records]
    places = [
        next((k for k, run in enumerate(figures.PLAN) if run.script == s and run.keeps(r)), 999) for s, r in pairs
    ]
    return [pair for _, pair in sorted(zip(places, pairs), key=lambda item: item[0])]


HEAD = ["task: data", "measure", "peer", "ours", "theirs", "ours / theirs", "script"]
MARKS = (
    "- x: ours / theirs; below 1, ours is faster or smaller. Percentages: difference in points. †: carried over from "
    "an earlier run. ‡: the peer ran on another machine, or its figure is that of a paper."
)


def page(by_script, older=frozenset()):
    """Return dashboard.md; `older` has the pairs of a script and a command whose records are older than the code."""
    pairs = by_plan(by_script)
    letters = machines_of([record for _, record in pairs])
    others = [pair for pair in pairs if is_of_another(pair[1])]
    tables = {
        "Where others are better": [pair for pair in others if is_worse(pair[1])],
        "Where this package is at least as good": [pair for pair in others if not is_worse(pair[1])],
        "Without another library": [pair for pair in pairs if not is_of_another(pair[1])],
    }
    lines = [
        "# All figures",
        "",
        "Made by `make figures` from commands that take less than two hours on two cores.",
        "",
    ]
    lines += [MARKS, f"-{OLDER}: older than the code that it measures."]
    for title, rows in tables.items():
        lines += ["", f"## {title}", "", *as_table(HEAD, rows_of(rows, older))]
    commands = defaultdict(list)
    for script, record in pairs:
        commands[script, record["command"]].append(record)
    rows = []
    for (script, command), records in commands.items():
        newest = max(records, key=lambda record: record["date"])
        seconds = f"{newest['seconds']:.0f} s" if newest["seconds"] else ""
        mark = OLDER * ((script, command) in older)
        machine = letters[describe(newest["machine"])]
        rows.append(
            (f"`{command}`{mark}", str(len(records)), seconds, machine, f"`{newest['commit']}`", newest["date"])
        )
    lines += ["", "## Commands", "", *(f"- Machine {letter}: {words}." for words, letter in letters.items()), ""]
    lines += as_table(["command", "rows", "time", "machine", "commit", "date"], rows)
    return "\n".join(lines) + "\n"


def published_page(by_script):
    """Return published.md: for each task and each run of a command, a table of the records."""
    by_task = defaultdict(lambda: defaultdict(list))
    for records in by_script.values():
        for record in records:
            run = record["command"], describe(record["machine"]), record["commit"], record["date"]
            by_task[record["task"]][run].append(record)
    letters = machines_of([record for records in by_script.values() for record in records])
    lines = [
        "# Figures of long runs",
        "",
        "These rows are not part of `make figures`: they repeat experiments of papers,",
    ]
    lines += ["take long, or need more cores or files that are not at hand. Each is as old as its commit.", ""]
    lines += [MARKS, *(f"- Machine {letter}: {words}." for words, letter in letters.items())]
    for task, runs in sorted(by_task.items(), key=lambda item: item[0].lower()):
        lines += ["", f"## {task[0].upper()}{task[1:]}"]
        for (command, machine, commit, date), records in runs.items():
            lines += ["", f"`{command}`, machine {letters[machine]}, commit `{commit}`, {date}:", ""]
            lines += as_table(
                ["data", *HEAD[1:-1]], [(r["data"], r["measure"], r["peer"], *figures_of(r)) for r in records]
            )
    return "\n".join(lines) + "\n"


def older_commands(by_script):
    """Return the pairs of a script and a command whose records are older than the code that they measure."""
    return {
        (s, record["command"]) for s, records in by_script.items() for record in records if figures.is_older(record, s)
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a page is out of date")
    arguments = parser.parse_args()
    by_script = load()
    texts = {
        PAGE: page(by_script, older_commands(by_script)),
        PUBLISHED: published_page(load(figures.FOLDER / "published")),
        **quotes.pages(load_all()),
    }
    for path, text in texts.items():
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path.name} differs from the records: run python benchmarks/dashboard.py")


if __name__ == "__main__":
    main()
