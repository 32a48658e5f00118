"""Reads the records of the benchmarks and the tables of the notes, from which plots are drawn."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def records(script):
    """Return the records of a script of `benchmarks`: a list of dicts."""
    return json.loads((ROOT / "benchmarks" / "results" / f"{script}.json").read_text(encoding="utf-8"))


def read(note, *columns, place=0):
    """Return the rows of a note's first table with some columns, or of the one at `place`: list of dicts."""
    text = (ROOT / "doc" / "notes" / f"{note}.md").read_text(encoding="utf-8")
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
        head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
        if set(columns) <= set(head):
            found.append([dict(zip(head, row)) for row in rows])
    if len(found) > place:
        return found[place]
    raise ValueError(f"the note {note!r} has no table number {place + 1} with the columns {columns}")


def number(text):
    """Return the first number of a cell."""
    return float(re.search(r"-?[\d,]*\.?\d+", text).group().replace(",", ""))
