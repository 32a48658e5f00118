"""Reads the tables of `benchmarks/README.md`, from which the plots of the page are drawn."""

import re
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "benchmarks" / "README.md"


def read(section, *columns, place=0):
    """Return the rows of a section's first table with some columns, or of the one at `place`: list of dicts."""
    text = README.read_text(encoding="utf-8")
    body = re.split(rf"^### {re.escape(section)}$", text, flags=re.M)[1].split("\n### ")[0]
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", body, re.M):
        head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
        if set(columns) <= set(head):
            found.append([dict(zip(head, row)) for row in rows])
    if len(found) > place:
        return found[place]
    raise ValueError(f"section {section!r} of {README.name} has no table with the columns {columns}")


def number(text):
    """Return the first number of a cell."""
    return float(re.search(r"-?[\d,]*\.?\d+", text).group().replace(",", ""))
