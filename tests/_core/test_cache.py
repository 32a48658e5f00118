"""Compiled code on disk: what an upgrade leaves, and what a full disk or a crash does to it."""

import hashlib
import json
import os
import pickle
import re
import shutil
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from internals import IS_LINKED, digest_of, jit, size_of, with_modules
from internals import compile_ahead as _compile_ahead
from numba import types

PACKAGE = Path(__file__).resolve().parents[2] / "sklearn_sparsemap"
linked = pytest.mark.skipif(not IS_LINKED, reason="plain Numba reads damaged files, and its kernels can be called")
# A user's module whose kernels need neither scikit-learn nor long to compile.
SMALL = with_modules("""
import numpy as np
from numba import types
from {jit} import FLOATS, FLOATS_OUT, compile_statistics, copy_into, entry, kernel

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

@kernel
def doubled(x):
    return 2.0 * x

@kernel
def total_of(function, values):
    found = np.zeros(3)
    for power in range(3):
        for i in range(values.shape[0]):
            for j in range(i, values.shape[0]):
                if values[i] * values[j] > power:
                    found[power] += np.sqrt(function(values[i])) * function(values[j]) ** power
        twice = found + found
        found[power] += twice.max() * 0.0
    return found[0]

@entry(types.float64(FLOATS))
def totals(values):
    return total_of(increased, values) + total_of(doubled, values)

def use_made():
    print(made(1.0) + totals(np.array([8.0])), compile_statistics()["compiled"])

def use():
    copied = np.zeros(2)
    copy(copied, np.array([1.0, 2.0]))
    scale(copied, 2.0)
    print(total(copied), compile_statistics()["compiled"])
""")
PUBLIC = with_modules("""
from sklearn_sparsemap import marginal_inference
from {jit} import compile_statistics
from sklearn_sparsemap.structures import Simplex
print(marginal_inference(Simplex(), [0.0, 0.0]).marginals.sum(), compile_statistics()["compiled"])
""")


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


def install(folder):
    """Copy the package, without compiled code, and a user's module beside it."""
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "small.py").write_text(SMALL)
    return folder


@pytest.fixture
def installed(tmp_path):
    """A copy of the package that has compiled nothing, and a user's module beside it."""
    return install(tmp_path)


def changed(content, place):
    """Change one byte."""
    return content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :]


DAMAGES = [
    lambda content: content[: len(content) // 2],
    lambda content: changed(content, len(content) // 2),
    lambda content: b"",
    # The digest, the start of the code, and its end.
    lambda content: changed(content, 0),
    lambda content: changed(content, 32),
    lambda content: content[:-1],
]


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
    edits = {
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
    edited = [digest(first.replace(old, new)) for old, new in edits.items()]
    others = [digest(first, options={"nogil": True})]
    for of_tuple in {types.NamedTuple, jit.by_address}:
        kinds = [of_tuple((types.int64, types.int64), namedtuple("Pair", names)) for names in ("ab", "ba")]
        others += [digest(first, options={"types": (kind,)}) for kind in kinds]
    assert len({digest(first), *others, *edited}) == 1 + len(others) + len(edits) and len(others) > 2


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
    for kinds in (DAMAGES[:3], DAMAGES[3:]):
        files = sorted(installed.rglob("*.nb?"))
        for path, damage in zip(files, kinds, strict=True):
            path.write_bytes(damage(path.read_bytes()))
        assert run(installed) == (6.0, 3)
    assert run(installed) == (6.0, 0)


@linked
def test_code_of_modules_that_have_another_name_by_now_is_compiled_anew(installed, run):
    start = SMALL.index("@kernel\ndef increased"), SMALL.index("def made_with")
    head = with_modules("import numpy as np\nfrom {jit} import kernel\n\n")
    for name, compiled in (("earlier", 1), ("earlier", 0), ("later", 1)):
        (installed / f"{name}.py").write_text(head + SMALL[slice(*start)])
        (installed / "small.py").write_text(SMALL[: start[0]] + f"from {name} import increased\n" + SMALL[start[1] :])
        code = "import small; print(small.made(1.0), small.compile_statistics()['compiled'])"
        assert run(installed, code) == (2.0, compiled)
        (installed / f"{name}.py").unlink()


@linked
def test_functions_that_functions_make_of_kernels_or_give_to_kernels_are_loaded(installed, run):
    """A kernel in a closure is pickled differently in each process, which must not change the place in the cache.

    Nor must the address of a kernel that is an argument become part of the code.
    """
    for n_compiled in (2, 0):
        assert run(installed, "import small; small.use_made()") == (9.0, n_compiled)


PACK = """
import runpy, sys
from pathlib import Path
import small
small.use()
pack = runpy.run_path(sys.argv[1])["pack"]
print(*pack(Path("sklearn_sparsemap/_compiled")))
"""
# They run before the package is imported.
CHANGE_VERSION = "import numba; numba.__version__ = '0.0.0'\n"
CHANGE_FEATURES = """
from numba.core.registry import cpu_target
cpu_target.target_context.codegen()._tm_features = "-avx"
"""


@pytest.fixture(scope="module")
def shipped(python, tmp_path_factory):
    """A copy of the package with the compiled code of a user's module, and a folder of its cache that is empty."""
    place = tmp_path_factory.mktemp("shipped")
    install(place / "built")
    packed = python(place / "built", PACK, str(PACKAGE.parent / ".ci" / "pack.py")).stdout
    assert packed.split()[2] == "3"
    return place / "built"


@pytest.fixture
def use_shipped(shipped, tmp_path, run):
    """Return a copy of that copy elsewhere, and a function that runs the module's code there, from an empty cache."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(shipped, tmp_path / "elsewhere", ignore=ignored)

    def use(before="", **variables):
        cache = tempfile.mkdtemp(dir=tmp_path)
        found = run(tmp_path / "elsewhere", f"{before}import small; small.use()", NUMBA_CACHE_DIR=cache, **variables)
        assert found[1] == sum(1 for _ in Path(cache).rglob("*.nbc"))
        return found

    return tmp_path / "elsewhere" / PACKAGE.name, use


@linked
def test_code_that_came_with_the_package_is_loaded_from_any_place(use_shipped, run):
    package, use = use_shipped
    assert use() == (6.0, 0)
    # Nothing is written if no folder is writable.
    for folder in (package.parent, *[path for path in package.rglob("*") if path.is_dir()]):
        (folder / "__pycache__").touch()
    nowhere = {"NUMBA_CACHE_DIR": f"{os.devnull}/none", "XDG_CACHE_HOME": os.devnull, "HOME": os.devnull}
    assert run(package.parent, **nowhere) == (6.0, 0)


@linked
def test_code_for_another_version_processor_or_source_is_compiled(use_shipped):
    package, use = use_shipped
    (index,) = (package / "_compiled").glob("*.json")
    right = json.loads(index.read_text())
    assert use(CHANGE_VERSION) == use(CHANGE_FEATURES) == use(NUMBA_BOUNDSCHECK="1") == (6.0, 3)
    for wrong in ({"triple": "aarch64-unknown-linux-gnu"}, {"features": right["features"] + ",+none"}):
        index.write_text(json.dumps(right | wrong))
        assert use() == (6.0, 3)
    # A processor may have more features than the code uses.
    index.write_text(json.dumps(right | {"features": right["features"].replace("+", "-")}))
    assert use() == (6.0, 0)
    index.write_text(json.dumps(right))
    edit(package.parent, "_core/jit.py", "target[i] = source[i]", "target[i] = 2 * source[i]")
    assert use() == (12.0, 1)
    index.rename(index.with_name(index.name.replace(sys.implementation.cache_tag, "cpython-310")))
    assert use() == (12.0, 3)


@linked
@pytest.mark.parametrize("damages", [DAMAGES[:3], DAMAGES[3:]])
def test_damaged_code_of_the_package_is_compiled(use_shipped, damages):
    package, use = use_shipped
    files = sorted(path for path in (package / "_compiled").iterdir() if path.suffix != ".json")
    for path, damage in zip(files, damages, strict=True):
        path.write_bytes(damage(path.read_bytes()))
    assert use() == (6.0, 3)


@linked
def test_a_damaged_index_and_a_wrong_path_in_it_are_no_code(use_shipped):
    package, use = use_shipped
    (index,) = (package / "_compiled").glob("*.json")
    right = json.loads(index.read_text())
    for wrong in (
        "",
        "[]",
        index.read_text()[:-9],
        json.dumps(right | {"code": 3}),
        json.dumps({"code": right["code"]}),
    ):
        index.write_text(wrong)
        assert use() == (6.0, 3)
    # A pickle outside the folder is not read, though its digest is right; nor is one whose content is none of Numba's.
    outside, evil = package.parent / "outside", package.parent / "evil"
    outside.write_bytes(pickle.dumps(Touch(str(evil))))
    index.write_text(json.dumps(right | {"code": dict.fromkeys(right["code"], "../../outside")}))
    assert use() == (6.0, 3) and not evil.exists()
    content = pickle.dumps(None)
    digest = hashlib.sha256(content).hexdigest()
    (package / "_compiled" / digest).write_bytes(content)
    index.write_text(json.dumps(right | {"code": dict.fromkeys(right["code"], digest)}))
    assert use() == (6.0, 3)


class Touch:
    """An object whose pickle makes a file when it is read."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return open, (self._path, "w")


USE_FEATURES = with_modules("""
import sklearn_sparsemap.compile
from sklearn_sparsemap import compile
from {compile_ahead} import main
from {jit} import compile_statistics
from sklearn_sparsemap.features import TemplateVectorizer

# Whichever of the two was imported first, the name of the package is the function.
assert compile is sklearn_sparsemap.compile
compile("features", 1)
before = sum(compile_statistics().values())
n_stored = TemplateVectorizer(["word[0]"]).fit_transform([["a", "b"]]).values.nnz
# The use needs nothing beyond the code compiled ahead.
print(n_stored, compile_statistics()["compiled"], sum(compile_statistics().values()) - before)
try:
    main(["trees", "tree"])
except SystemExit as left:
    print(left.code)
""")


AHEAD = "import runpy; runpy.run_module('sklearn_sparsemap.compile', run_name='__main__', alter_sys=True)"


def test_compile_ahead(python):
    """In the cache of all tests, some of which then find what is compiled here."""
    cache = {"NUMBA_CACHE_DIR": os.environ["NUMBA_CACHE_DIR"]}
    out = python(PACKAGE.parent, AHEAD, "features", "--n-jobs", "1", **cache)
    about, *done, last = out.stderr.splitlines()
    n_functions, seconds = re.fullmatch(
        r"(\d+) functions, about (\d+) s of CPU time if none is compiled", about
    ).groups()
    assert 1 <= int(seconds) <= 100 and last.startswith("all in ")
    for count, line in enumerate(done, 1):
        assert re.fullmatch(rf"{count}/{n_functions}: features\.[\w.]+ in \d+\.\d s", line), out.stderr
    assert len(done) == int(n_functions) > 3
    out = python(PACKAGE.parent, USE_FEATURES, **cache)
    assert out.stdout == "2 0 0\n2\n"
    assert "what=['tree'] cannot be compiled; choose among alignments, chains," in out.stderr


def test_the_tasks_of_compile_cover_all_code():
    rooms = {room for rooms in _compile_ahead._TASKS.values() for room in rooms}
    modules = {entry.__module__.removeprefix("sklearn_sparsemap.") for entry in _compile_ahead._entries()}
    found = {module: [room for room in rooms if f"{module}.".startswith(f"{room}.")] for module in modules}
    assert not [module for module, its in found.items() if not its]
    assert rooms == {room for its in found.values() for room in its}


@pytest.mark.parametrize("n_processes", [1, 2, 16])
def test_functions_of_a_module_are_compiled_by_one_process(n_processes):
    """The kernels that they have in common are then compiled once."""
    rng = np.random.default_rng(0)
    seconds = {(f"room{k % 7}", f"function{k}"): float(rng.exponential()) for k in rng.permutation(60)}
    pieces = _compile_ahead._pieces(seconds, n_processes)
    assert sorted(name for piece in pieces for name in piece) == sorted(seconds)
    lengths = [sum(seconds[name] for name in piece) for piece in pieces]
    assert lengths == sorted(lengths, reverse=True) and len(pieces) >= n_processes
    assert lengths[0] <= max(2.0 * sum(seconds.values()) / (3 * n_processes), max(seconds.values()))
    rooms = [room for piece in pieces for room in {room for room, _ in piece}]
    assert len(rooms) < 7 + len(pieces)


def test_a_first_use_that_takes_long_says_so_once_for_each_part(monkeypatch, caplog):
    monkeypatch.setattr(jit, "_PATIENCE", 0.01)
    monkeypatch.setattr(jit._Patience, "said", set())

    def entry_of(module):
        return SimpleNamespace(__module__=f"{PACKAGE.name}.{module}", __wrapped__=environment)

    modules = (
        "structures._chain.map",
        "structures._chain.flow.solver",
        "_graphs.newton",
        "_graphs.newton",
        "_core.jit",
    )
    for module in modules:
        with jit._Patience.of_user(entry_of(module)):
            time.sleep(0.1)
    with jit._Patience.of_user(entry_of("_training._online.loop")):
        pass
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    first, *others = caplog.messages
    assert re.match(r"compiling structures.chain for its first use, about \d+ s; each part is compiled once", first)
    assert "sklearn_sparsemap.compile()" in first
    assert [re.sub(r"\d+", "0", message) for message in others] == [
        f"compiling {part} for its first use, about 0 s" for part in ("graphs", "core")
    ]
    caplog.clear()
    monkeypatch.setattr(jit._Patience, "said", set())
    with jit.compiling_is_expected(), jit._Patience.of_user(entry_of("tests")):
        time.sleep(0.1)
    assert not caplog.records and not jit._Patience.said and not jit._Patience.is_off


def test_the_expected_time_is_that_of_all_code_that_is_used_once():
    source = """
from numba import njit
from types import SimpleNamespace
@njit
def inner(x):
    return x
@njit
def middle(x):
    return inner(x)
TABLE, CHOICE, LIMIT = [inner], SimpleNamespace(kernels={1: middle}), 3
def outer(x):
    return TABLE, CHOICE, LIMIT, (lambda: x)
"""
    scope = {"__name__": "user"}
    exec(source, scope)
    outer = scope["outer"].__code__
    (within,) = [const for const in outer.co_consts if hasattr(const, "co_code")]
    codes = [outer, within, scope["inner"].py_func.__code__, scope["middle"].py_func.__code__]
    assert size_of(scope["outer"]) == sum(len(code.co_code) for code in codes)
    assert 0.0 < jit.expected_seconds(SimpleNamespace(__wrapped__=scope["outer"])) < 1.0


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


def test_processes_give_compiled_functions_different_names(fresh_python):
    code = "import sklearn_sparsemap.structures, numba.core.bytecode as b; print(b.FunctionIdentity._unique_ids)"
    assert fresh_python(code) != fresh_python(code)
