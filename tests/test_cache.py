"""Compiled code on disk: what an upgrade leaves, and what a full disk or a crash does to it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "sklearn_sparsemap"
CODE = """
from sklearn_sparsemap import marginal_inference
from sklearn_sparsemap._jit import compile_statistics
from sklearn_sparsemap.structures import Simplex
print(*marginal_inference(Simplex(), [0.0, 0.0]).marginals, compile_statistics()["compiled"])
"""


def run(folder):
    """Return the marginals that the copy of the package in a folder computes, and how many entries it compiled."""
    # The cache is in the copy itself.
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    out = subprocess.run([sys.executable, "-c", CODE], cwd=folder, env=environment, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    *marginals, compiled = out.stdout.split()
    return [float(u) for u in marginals], int(compiled)


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """A copy of the package that has compiled what it needs."""
    folder = tmp_path_factory.mktemp("used")
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    marginals, compiled = run(folder)
    assert marginals == [0.5, 0.5] and compiled > 0
    return folder


@pytest.fixture
def installed(used, tmp_path):
    shutil.copytree(used, tmp_path, dirs_exist_ok=True)
    assert run(tmp_path) == ([0.5, 0.5], 0)
    return tmp_path


def test_a_changed_callee_is_compiled_anew(installed):
    # The entry that copies the marginals stands in another file, which stays as it is.
    path = installed / PACKAGE.name / "_jit.py"
    source = path.read_text()
    assert source.count("target[i] = source[i]") == 1
    path.write_text(source.replace("target[i] = source[i]", "target[i] = 2 * source[i]"))
    marginals, compiled = run(installed)
    assert marginals == [1.0, 1.0] and compiled > 0


def test_damaged_files_are_compiled_anew(installed):
    damaged = 0
    for path in sorted(installed.rglob("*.nb?")):
        found = path.read_bytes()
        middle = len(found) // 2
        changed = found[:middle] + bytes([found[middle] ^ 255]) + found[middle + 1 :]
        path.write_bytes((found[:middle], changed, b"")[damaged % 3])
        damaged += 1
    assert damaged > 4
    assert run(installed)[0] == [0.5, 0.5]
    assert run(installed) == ([0.5, 0.5], 0)
