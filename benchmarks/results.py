"""Records of figures in one shape, which each script writes with ``--json FILE``.

A script parses its arguments with `parse` and calls `record` for each figure. The file keeps the records of earlier
runs, except those that are measured again, so a part of a script can be run alone. `dashboard.py` makes a table of the
files in ``benchmarks/results``.

A record has these keys:

- task, data, measure: the task, its data, and the quantity that was measured;
- peer: name of the peer, or "";
- ours, theirs, ratio: our figure, that of the peer, and ours / theirs; null without a peer;
- unit: "%", "s", "ms", "us", "MB" or another one;
- seeds: number of seeds or of random parts, or null;
- interval: half the width of the 95 % interval of ours, or with a peer of the difference to it, or null;
- elsewhere: true if the figure of the peer is from another machine or from a paper;
- package: the distribution of the peer, or null if the peer is another way of this package;
- measured: "here", or "carried over" from an older text; then only known parts of the machine are named;
- machine: CPU, number of cores, and the versions of Python and of packages;
- commit: the last commit that changed the package; date; command;
- code: identifies the code that was measured (measured_code.py), or null if it is not known;
- seconds: wall time of the whole command, if figures.py ran it, or null.
"""

import json
import os
import platform
import subprocess
import sys
from datetime import date
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import measured_code
import numpy as np
from scipy import stats

ROOT = Path(__file__).resolve().parents[1]
PATHS = ("--data", "--json", "--log", "--vectors")  # options whose values are paths of one machine
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")
_file = None


def parse(parser):
    """Add ``--json`` to a parser and return the parsed arguments; `record` writes to the file that they name."""
    global _file
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file, too")
    arguments = parser.parse_args()
    _file = arguments.json
    if _file is not None:
        # Before the clocks start, and before anybody edits the code.
        code()
    return arguments


def peer(module, distribution):
    """Import and return a library that a script compares with; without it, end with the way to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        sys.exit(f"{Path(sys.argv[0]).name} needs a peer that is missing: pip install {distribution}")


def identity(record):
    """Return the task, data, measure and peer of a record."""
    return tuple(record[key] for key in ("task", "data", "measure", "peer"))


def read(path):
    """Return the records of a file: a list of dicts."""
    return json.loads(path.read_text(encoding="utf-8"))


def write(path, records):
    """Write records to a file, one a line."""
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def command():
    """Return the command of this process without paths."""
    shown, is_path = ["python", f"benchmarks/{Path(sys.argv[0]).name}"], False
    for argument in sys.argv[1:]:
        if argument not in PATHS and not is_path:
            shown.append(f'"{argument}"' if " " in argument else argument)
        is_path = argument in PATHS
    return " ".join(shown)


@cache
def commit():
    """Return the last commit that changed the package, with "-dirty" if its files differ from it; None without git."""

    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    found = git("log", "-1", "--format=%h", "--abbrev=8", "--", "sklearn_sparsemap")
    return (found + "-dirty" * bool(git("status", "--porcelain", "sklearn_sparsemap"))) or None


@cache
def code():
    """Return the identity of the code that this script measures; None of a script of another folder."""
    script = Path(sys.argv[0])
    return measured_code.digest(script.stem) if (ROOT / "benchmarks" / script.name).is_file() else None


def cpu():
    """Return the name of the processor."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def machine(packages):
    """Return the processor, the number of cores, and the versions of Python and of some packages."""
    found = {"cpu": cpu(), "cores": os.cpu_count(), "python": platform.python_version()}
    for name in (*PACKAGES, *packages):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def record(
    task, data, measure, ours, unit, peer="", theirs=None, seeds=None, interval=None, elsewhere=False, package=None
):
    """Add a figure to the file that ``--json`` names, in place of an older record of the same; see the module.

    `package` is the distribution of the peer, whose version is recorded.
    """
    if _file is None:
        return
    new = {
        "task": task,
        "data": data,
        "measure": measure,
        "peer": peer,
        "ours": round_to(ours),
        "theirs": None if theirs is None else round_to(theirs),
        "ratio": None if not theirs else round_to(ours / theirs),
        "unit": unit,
        "seeds": seeds,
        "interval": None if interval is None else round_to(interval),
        "elsewhere": elsewhere,
        "package": package if peer else None,
        "measured": "here",
        "machine": machine([package] if package else []),
        "commit": commit(),
        "date": date.today().isoformat(),
        "command": command(),
        "code": code(),
        "seconds": None,
    }
    records = read(_file) if _file.exists() else []
    places = [i for i, old in enumerate(records) if identity(old) == identity(new)]
    if places:
        records[places[0]] = new
    else:
        records.append(new)
    write(_file, records)


def half_width(values):
    """Return half the width of the 95 % interval of the mean of some seeds (Student's t); 0 for a single one."""
    if len(values) == 1:
        return 0.0
    return stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5


def round_to(value, digits=5):
    """Return a number with so many significant digits."""
    return float(f"{float(value):.{digits}g}")
