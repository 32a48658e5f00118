"""Whether the tests of a room notice one changed operator in it.

    python benchmarks/mutants.py [ROOM ...] [--seed 0] [--each 1]

A mutant is a copy of the package in which one operator of a room is another one, such as a minus in place of a plus.
The tests in `tests/ROOM` run until the first failure. A mutant that they pass has survived: a test is missing, or both
operators mean the same. Tests that crash, cannot be collected or do not end within the limit have noticed it, too; the
unchanged copy must be collected. Compiled code is taken over from the checkout, so that only what changed is compiled.
The table has the place, the change, the seconds, and the first test that failed.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

from numba.core.caching import _CacheLocator

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "sklearn_sparsemap"
# Operators and what takes their place. A relation becomes its negation, because `<` for `<=` often means the same.
OTHER = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.And: ("and", "or"),
    ast.Or: ("or", "and"), ast.Lt: ("<", ">="), ast.LtE: ("<=", ">"), ast.Gt: (">", "<="), ast.GtE: (">=", "<"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="),
}  # fmt: skip
LIMIT = 600  # seconds for the tests of one mutant


class Mutant:
    """One operator of a file: its path, line, and the change of the text."""

    def __init__(self, path, node, left, right, operator):
        self.path, self.line = path, node.lineno
        self.old, self.new = OTHER[type(operator)]
        lines = path.read_text(encoding="utf-8").encode().splitlines(keepends=True)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        self._text = b"".join(lines)
        self._start = starts[left.end_lineno - 1] + left.end_col_offset
        self._stop = starts[right.lineno - 1] + right.col_offset

    def changed(self):
        """Return the text of the file with the other operator."""
        between = self._text[self._start : self._stop]
        assert between.count(self.old.encode()) == 1, (self.path, self.line, between)
        changed = between.replace(self.old.encode(), self.new.encode())
        return self._text[: self._start] + changed + self._text[self._stop :]


def operators_of(path):
    """Yield the mutants of a file, except those in messages and annotations."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left_out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.JoinedStr):
            left_out.update(ast.walk(node))
        elif isinstance(node, ast.FunctionDef):
            given = [each.annotation for each in ast.walk(node.args) if isinstance(each, ast.arg)]
            for annotation in (*given, node.returns):
                left_out.update(ast.walk(annotation) if annotation is not None else ())
        elif isinstance(node, ast.AnnAssign):
            left_out.update(ast.walk(node.annotation))
    for node in ast.walk(tree):
        if node in left_out:
            continue
        if isinstance(node, ast.BinOp) and type(node.op) in OTHER:
            yield Mutant(path, node, node.left, node.right, node.op)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OTHER:
            yield Mutant(path, node, node.left, node.comparators[0], node.ops[0])
        elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
            # With three values, one change would need parentheses.
            yield Mutant(path, node, *node.values, node.op)


def draw(folder, rng, n):
    """Return mutants of a room, each of a random file and operator."""
    files = [path for path in sorted(folder.rglob("*.py")) if any(operators_of(path))]
    chosen = [rng.choice(files) for _ in range(n)] if files else []
    return [rng.choice(list(operators_of(path))) for path in chosen]


def copy_checkout(place):
    """Copy the package, its tests and its compiled code."""
    for name in (PACKAGE, "tests", "doc", "benchmarks", "examples"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__", "_build"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"):
        shutil.copy(ROOT / name, place / name)
    name_of = _CacheLocator.get_suitable_cache_subpath
    for source in (ROOT / PACKAGE).rglob("__init__.py"):
        compiled = ROOT / ".numba_cache" / name_of(str(source))
        if compiled.is_dir():
            target = place / ".numba_cache" / name_of(str(place / source.relative_to(ROOT)))
            shutil.copytree(compiled, target, dirs_exist_ok=True)


def run_tests(place, room, *options):
    """Run the tests of a room in a copy; return the exit status and the output, or None if they do not end."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, f"tests/{room}"]
    environment = os.environ | {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)
    try:
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return None
    return done.returncode, done.stdout + done.stderr


def outcome(place, room):
    """Return "killed" or "survived", and the first test that noticed, or the way in which all of them ended."""
    done = run_tests(place, room, "-x")
    if done is None:
        return "killed", f"no end in {LIMIT} s"
    status, output = done
    if status == 0:
        return "survived", ""
    noticed = [line.split(" - ")[0] for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "killed", noticed[0] if noticed else f"exit status {status}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rooms", nargs="*", help="default: all that have tests")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=1, help="mutants of each room")
    args = parser.parse_args()
    with_tests = [path.name for path in sorted((ROOT / PACKAGE).iterdir()) if (ROOT / "tests" / path.name).is_dir()]
    rooms = args.rooms or with_tests
    n_killed = n_all = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        copy_checkout(place)
        for room in rooms:
            status, output = run_tests(place, room, "--collect-only")
            if status:
                raise RuntimeError(f"the tests of {room} cannot be collected:\n{output[-2000:]}")
            rng = random.Random(f"{args.seed} {room}")
            for mutant in draw(place / PACKAGE / room, rng, args.each):
                original = mutant.path.read_bytes()
                began = monotonic()
                mutant.path.write_bytes(mutant.changed())
                result, noticed = outcome(place, room)
                mutant.path.write_bytes(original)
                n_all += 1
                n_killed += result == "killed"
                where = f"{mutant.path.relative_to(place / PACKAGE)}:{mutant.line}"
                change = f"{mutant.old} -> {mutant.new}  {monotonic() - began:.0f} s"
                print(f"{result:<9} {where}  {change}  {noticed}", flush=True)
    print(f"{n_killed} of {n_all} killed")


if __name__ == "__main__":
    main()
