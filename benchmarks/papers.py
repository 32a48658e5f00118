"""Reproduce an item of the papers: run its command, and print the published figure next to ours.

    python benchmarks/papers.py --list
    python benchmarks/papers.py --list --status contradicted
    python benchmarks/papers.py --item S20

The items, their commands and figures are read from `doc/papers.csv`, the source of the page on the papers.
Arguments that are not known here are passed on to the command, such as ``--data DIR``.
"""

import argparse
import csv
import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ITEMS = ROOT / "doc" / "papers.csv"


def read_items():
    """Return the rows of the table, as dicts by column."""
    with open(ITEMS, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def arguments_of(command):
    """Return the arguments that run a command of the table: an interpreter, then a script or pytest."""
    program, *arguments = shlex.split(command)
    if program == "pytest":
        return [sys.executable, "-m", "pytest", "-q", *arguments]
    return [sys.executable, *arguments]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print all items with their status")
    parser.add_argument("--status", help="only items with this status")
    parser.add_argument("--item", help="number of the item to run, such as S20")
    options, passed_on = parser.parse_known_args()
    items = read_items()
    if options.list or not options.item:
        for row in items:
            if options.status in (None, row["status"]):
                print(f"{row['number']:4} {row['status']:15} {row['paper']}: {row['item']}")
        return
    row = next((row for row in items if row["number"] == options.item), None)
    if row is None:
        parser.error(f"no item has the number {options.item!r}; --list prints all numbers")
    print(f"{row['number']} {row['paper']}: {row['item']}\nwhere: {row['where']}", flush=True)
    code = 0
    if row["command"]:
        arguments = arguments_of(row["command"])
        print("+", shlex.join([*arguments, *passed_on]), flush=True)
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        code = subprocess.run([*arguments, *passed_on], cwd=ROOT, env=environment).returncode
    print(f"\npublished: {row['published'] or 'no figure at hand'}\nours: {row['ours'] or 'none'}")
    print(f"{row['status']}: {row['why']}")
    sys.exit(code)


if __name__ == "__main__":
    main()
