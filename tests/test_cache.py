"""Compiled code on disk: what an upgrade leaves, and what a full disk or a crash does to it."""

import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from sklearn_sparsemap._core import jit
from sklearn_sparsemap._core.compile.mode import IS_LINKED
from sklearn_sparsemap._core.compile.sources import digest_of

PACKAGE = Path(__file__).resolve().parent.parent / "sklearn_sparsemap"
linked = pytest.mark.skipif(not IS_LINKED, reason="plain Numba reads damaged files, and its kernels can be called")
# A user's module whose kernels need neither scikit-learn nor long to compile.
SMALL = """
import numpy as np
from numba import types
from sklearn_sparsemap._core.jit import FLOATS, FLOATS_OUT, compile_statistics, copy_into, entry, kernel

@entry(types.void(FLOATS_OUT, FLOATS))
def copy(target, source):
    copy_into(target, source)

@entry(types.void(FLOATS_OUT, types.float64))
def scale(target, by):
    for i in range(target.shape[0]):
        target[i] *= by

@entry(types.float64(FLOATS))
def total(values):
    found = 0.0
    for i in range(values.shape[0]):
        found += values[i]
    return found

@kernel
def increased(x):
    return x + 1.0

def made_with(kernel):
    def made(x):
        return kernel(x)
    return entry(types.float64(types.float64))(made)

made = made_with(increased)

def use_made():
    print(made(1.0), compile_statistics()["compiled"])

def use():
    copied = np.zeros(2)
    copy(copied, np.array([1.0, 2.0]))
    scale(copied, 2.0)
    print(total(copied), compile_statistics()["compiled"])
"""
PUBLIC = """
from sklearn_sparsemap import marginal_inference
from sklearn_sparsemap._core.jit import compile_statistics
from sklearn_sparsemap.structures import Simplex
print(marginal_inference(Simplex(), [0.0, 0.0]).marginals.sum(), compile_statistics()["compiled"])
"""


def environment(**variables):
    """Return the environment of a process whose cache is in its copy of the package."""
    return {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"} | variables


@pytest.fixture(scope="module")
def python(fresh_python):
    """Return a function that runs code on the copy of the package in a folder, in a process of its own."""

    def run_fresh(folder, code, *arguments, **variables):
        out = fresh_python(code, *arguments, folder=folder, environment=environment(**variables))
        assert out.returncode == 0, out.stderr
        return out

    return run_fresh


@pytest.fixture(scope="module")
def run(python):
    """Return such a function that returns a number found by compiled code, and how many entries were compiled."""

    def run_small(folder, code="import small; small.use()", **variables):
        found, compiled = python(folder, code, **variables).stdout.split()
        return float(found), int(compiled)

    return run_small


@pytest.fixture
def installed(tmp_path):
    """A copy of the package that has compiled nothing, and a user's module beside it."""
    shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "small.py").write_text(SMALL)
    return tmp_path


def edit(folder, name, old, new):
    """Replace a piece of code that a file of the package has once."""
    path = folder / PACKAGE.name / name
    source = path.read_text()
    assert source.count(old) == 1
    path.write_text(source.replace(old, new))


@pytest.mark.parametrize("plain", ["0", "1"])
def test_changed_callees_are_compiled_again_and_changed_comments_are_not(installed, run, plain):
    mode = {"SKLEARN_SPARSEMAP_PLAIN_NUMBA": plain}
    assert run(installed, **mode) == (6.0, 3)
    # The entry that calls it is in another file, which stays as it is.
    edit(installed, "_core/jit.py", "target[i] = source[i]", "target[i] = source[i]  # a comment")
    assert run(installed, **mode) == (6.0, 0)
    edit(installed, "_core/jit.py", "target[i] = source[i]", "target[i] = 2 * source[i]")
    assert run(installed, **mode) == (12.0, 1)


def test_an_upgrade_changes_the_results_of_public_functions(installed, run):
    marginals, compiled = run(installed, PUBLIC)
    assert marginals == 1.0 and compiled > 0
    edit(installed, "_core/jit.py", "target[i] = source[i]", "target[i] = 2 * source[i]")
    marginals, compiled = run(installed, PUBLIC)
    assert marginals == 2.0 and compiled > 0


def test_the_digest_is_that_of_all_code_that_a_function_uses():
    """A change of the code of a function, or of something that it uses, changes the digest; names of files do not."""
    first = """
from numba import njit
from collections import namedtuple
import numpy as np
LIMIT, TABLE, Pair = 3, np.arange(3), namedtuple("Pair", ["a", "b"])
@njit
def inner(x):
    "Return a number."
    return x + LIMIT
@njit(fastmath={"nsz"})
def middle(x, step=2):
    return inner(x) * step
def outer(x):
    def within(y):
        return y + TABLE[0]
    return [middle(within(x)) for _ in range(4)], Pair(1, 2)
"""
    changes = {
        "LIMIT, TABLE, Pair = 3": "LIMIT, TABLE, Pair = 4",
        "LIMIT, TABLE, Pair = 3,": "LIMIT, TABLE, Pair = 3.0,",
        "np.arange(3)": "np.arange(3.0)",
        '["a", "b"]': '["b", "a"]',
        "x + LIMIT": "x - LIMIT",
        'fastmath={"nsz"}': 'fastmath={"nsz", "contract"}',
        "step=2": "step=3",
        "y + TABLE": "y - TABLE",
        "range(4)": "range(5)",
    }

    def digest(source, name="first.py", options=None):
        scope = {"__name__": "user"}
        exec(compile(source, name, "exec"), scope)
        return digest_of(scope["outer"], options or {})

    same = first.replace("@njit\n", "# a comment\n@njit\n").replace("Return a number", "Return a float")
    assert digest(first) == digest(same, "second.py")
    changed = [digest(first.replace(old, new)) for old, new in changes.items()]
    assert len({digest(first), digest(first, options={"nogil": True}), *changed}) == len(changes) + 2


def test_code_that_uses_what_no_digest_can_tell_is_compiled_in_each_process():
    scope = {"__name__": "user", "thing": object()}
    exec("def outer():\n    return thing", scope)
    assert digest_of(scope["outer"], {}) != digest_of(scope["outer"], {})


def test_code_that_checks_indices_is_cached_apart(installed, run):
    for checks in "01":
        assert run(installed, NUMBA_BOUNDSCHECK=checks) == (6.0, 3)
    for checks in "01":
        assert run(installed, NUMBA_BOUNDSCHECK=checks) == (6.0, 0)


@linked
def test_damaged_files_are_compiled_anew(installed, run):
    assert run(installed) == (6.0, 3)
    files = sorted(installed.rglob("*.nb?"))
    # The index and the code of each entry, so that each kind of damage happens to both.
    assert len(files) == 6
    for k, path in enumerate(files):
        found = path.read_bytes()
        middle = len(found) // 2
        changed = found[:middle] + bytes([found[middle] ^ 255]) + found[middle + 1 :]
        path.write_bytes((found[:middle], changed, b"")[k % 3])
    assert run(installed) == (6.0, 3)
    assert run(installed) == (6.0, 0)


@linked
def test_functions_that_functions_make_of_kernels_are_loaded(installed, run):
    """A kernel in a closure is pickled differently in each process, which must not change the place in the cache."""
    for n_compiled in (1, 0):
        assert run(installed, "import small; small.use_made()") == (2.0, n_compiled)


USE_FEATURES = """
import sklearn_sparsemap.compile
from sklearn_sparsemap import compile
from sklearn_sparsemap._compile_ahead import main
from sklearn_sparsemap._core.jit import compile_statistics
from sklearn_sparsemap.features import TemplateVectorizer

# Whichever of the two was imported first, the name of the package is the function.
assert compile is sklearn_sparsemap.compile
compile("features", 1)
before = sum(compile_statistics().values())
n_stored = TemplateVectorizer(["word[0]"]).fit_transform([["a", "b"]]).values.nnz
# The use needs nothing beyond the code compiled ahead.
print(n_stored, compile_statistics()["compiled"], sum(compile_statistics().values()) - before)
try:
    main(["simplx"])
except SystemExit as left:
    print(left.code)
"""


AHEAD = "import runpy; runpy.run_module('sklearn_sparsemap.compile', run_name='__main__', alter_sys=True)"


def test_compile_ahead(python):
    """In the cache of all tests, some of which then find what is compiled here."""
    cache = {"NUMBA_CACHE_DIR": os.environ["NUMBA_CACHE_DIR"]}
    out = python(PACKAGE.parent, AHEAD, "features", "--n-jobs", "1", **cache)
    assert out.stderr.startswith("1/1: features in "), out.stderr
    out = python(PACKAGE.parent, USE_FEATURES, **cache)
    assert out.stdout == "2 0 0\n2\n"
    assert "what=['simplx'] cannot be compiled; choose among chain," in out.stderr


def test_a_first_use_that_takes_long_says_so_once_for_each_part(monkeypatch, caplog):
    monkeypatch.setattr(jit, "_PATIENCE", 0.01)
    monkeypatch.setattr(jit._Patience, "said", set())
    modules = ("structures._chain.map", "structures._chain.flow.solver", "graphs.newton", "graphs.newton", "_core.jit")
    for module in modules:
        with jit._Patience.of_user(f"sklearn_sparsemap.{module}"):
            time.sleep(0.1)
    with jit._Patience.of_user("sklearn_sparsemap.training._online.loop"):
        pass
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    first, *others = caplog.messages
    assert first.startswith("compiling structures.chain for the first use in this installation")
    assert "sklearn_sparsemap.compile()" in first and others == ["compiling graphs", "compiling core"]
    caplog.clear()
    monkeypatch.setattr(jit._Patience, "said", set())
    with jit.compiling_is_expected(), jit._Patience.of_user("tests"):
        time.sleep(0.1)
    assert not caplog.records and not jit._Patience.said and not jit._Patience.is_off


@linked
def test_a_kernel_called_from_python_is_an_error_not_a_crash():
    with pytest.raises(TypeError, match="copy_into is a kernel"):
        jit.copy_into(np.zeros(1), np.zeros(1))


def test_an_installation_without_a_place_for_its_cache_works(installed, run):
    """If no folder can be written, each process compiles for itself. Files stand where Numba would make folders."""
    for folder in (installed, *[path for path in installed.rglob("*") if path.is_dir()]):
        (folder / "__pycache__").touch()
    nowhere = {"NUMBA_CACHE_DIR": f"{os.devnull}/none", "XDG_CACHE_HOME": os.devnull}
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("HOME", raising=False)
        for home in ({"HOME": os.devnull}, {}):
            assert run(installed, **nowhere, **home) == (6.0, 3)
    assert not list(installed.rglob("*.nb?"))
