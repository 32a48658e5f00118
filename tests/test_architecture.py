"""The package's imports go one way, and importing it is cheap."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "sklearn_sparsemap"
FOUNDATION = {"_jit", "_ragged", "_threads", "_validation", "_version"}
LEAVES = {"features", "datasets", "metrics"}
MAY_IMPORT = {
    **{name: FOUNDATION for name in FOUNDATION},
    "structures": FOUNDATION,
    "solvers": FOUNDATION,
    "inference": FOUNDATION | {"structures", "solvers"},
    "losses": FOUNDATION | {"structures", "solvers", "inference"},
    "training": FOUNDATION | {"structures", "solvers", "inference", "losses"},
    "estimators": FOUNDATION | {"structures", "solvers", "inference", "losses", "training"},
    **{name: {"_jit", "_ragged", "_threads", "_validation"} for name in LEAVES},
    # What it draws is handed to it; to trace solvers it calls them as a user does.
    "plotting": {"_validation", "inference"},
    # It checks what the others stand on, and looks behind the public functions for that.
    "testing": FOUNDATION | {"structures", "solvers", "inference"},
}


def rooms_imported(path):
    """Return the top-level modules of the package that a file imports."""
    inside = path.relative_to(PACKAGE).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = inside[: len(inside) - node.level]
            target = base + tuple((node.module or "").split(".")) if node.module else base
            if target:
                yield target[0]
            else:
                yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            assert not any(name.startswith("sklearn_sparsemap") for name in names), f"{path}: import relatively"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if room == "__init__":
        return
    allowed = MAY_IMPORT[room] | {room}
    wrong = set(rooms_imported(path)) - allowed
    assert not wrong, f"{path.relative_to(PACKAGE)} must not import {wrong}"


def test_only_jit_knows_numba_options():
    for path in PACKAGE.rglob("*.py"):
        if path.name != "_jit.py":
            text = path.read_text()
            assert not re.search(r"\b(njit|jit|jitclass)\(|import .*\b(njit|jitclass)\b", text), path


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_importing_the_package_imports_no_numba():
    code = "import sys, sklearn_sparsemap; print('numba' in sys.modules, 'sklearn' in sys.modules)"
    assert run_python(code) == ["False", "False"]


def test_a_second_process_compiles_nothing():
    code = """
import numpy as np
from sklearn_sparsemap import StructuredSparseMAPClassifier, sparsemap
from sklearn_sparsemap._jit import compile_statistics
from sklearn_sparsemap.features import TemplateVectorizer
from sklearn_sparsemap.structures import LinearChain, Simplex

print(sum(compile_statistics().values()))
X = [np.eye(3), np.eye(3)[::-1]]
for array in (np.zeros((2, 2)), np.asfortranarray(np.ones((2, 2), np.float32)), [[1, 2]]):
    sparsemap(LinearChain(), array, transitions=np.eye(2)).vjp(np.ones(np.shape(array)))
sparsemap(Simplex(), [1.0, 2.0])
for solver in ("lbfgs", "adagrad"):
    model = StructuredSparseMAPClassifier("chain", solver=solver, tol=1e-2, alpha=0.1)
    model.fit(X, [[0, 1, 1], [1, 0, 0]]).predict_structures(X)
TemplateVectorizer().fit_transform([["a", "b"]])
statistics = compile_statistics()
print(statistics["loaded"] > 5, statistics["compiled"])
"""
    run_python(code)
    at_import, loaded, compiled = run_python(code)
    assert at_import == "0", "importing compiles or loads kernels"
    assert (loaded, compiled) == ("True", "0")
