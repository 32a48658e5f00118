"""Compiled code on disk: what an upgrade leaves, and what a full disk or a crash does to it."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sklearn_sparsemap import _jit

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
    # The index and the code of two entries.
    assert damaged >= 4
    assert run(installed)[0] == [0.5, 0.5]
    assert run(installed) == ([0.5, 0.5], 0)


def test_compile_ahead(used, tmp_path):
    shutil.copytree(used, tmp_path, dirs_exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}

    def python(*arguments):
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    out = python("-m", "sklearn_sparsemap.compile", "simplex", "--n-jobs", "1")
    assert out.returncode == 0 and out.stderr.startswith("1/1: simplex in "), out.stderr
    assert run(tmp_path) == ([0.5, 0.5], 0)
    out = python("-m", "sklearn_sparsemap.compile", "simplx")
    assert out.returncode == 2 and "what=['simplx'] cannot be compiled; choose among chain," in out.stderr
    # Whichever of the two was imported first, the name of the package is the function.
    code = "import sklearn_sparsemap.compile; from sklearn_sparsemap import compile; compile('simplex', 1); print(1)"
    assert python("-c", code).stdout == "1\n"


def test_a_first_use_that_takes_long_says_so_once(monkeypatch, caplog):
    monkeypatch.setattr(_jit, "_PATIENCE", 0.01)
    monkeypatch.setattr(_jit._Patience, "said", False)
    for _ in range(3):
        with _jit._Patience.of_user():
            time.sleep(0.1)
    with _jit._Patience.of_user():
        pass
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "sklearn_sparsemap.compile()" in caplog.text
    caplog.clear()
    monkeypatch.setattr(_jit._Patience, "said", False)
    with _jit.compiling_is_expected(), _jit._Patience.of_user():
        time.sleep(0.1)
    assert not caplog.records and not _jit._Patience.said


def test_a_kernel_called_from_python_is_an_error_not_a_crash():
    with pytest.raises(TypeError, match="copy_into is a kernel"):
        _jit.copy_into(np.zeros(1), np.zeros(1))
