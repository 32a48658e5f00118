"""The package without Numba's compiler, with plain Numba, and with checked indices."""

import json
import os
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from internals import FLOATS_2D_OUT, FLOATS_OUT, copy_into, entry, jit, kernel, mode, with_modules
from numba import njit, types
from numba.core.runtime import _nrt_python as nrt
from numpy.testing import assert_array_equal

# The code imports modules of the tests, too.
CASES = Path(__file__).resolve().parents[1] / "cases"
IMPORTS = f"import sys; sys.path.append({str(CASES)!r})\n"
USE_ALL = with_modules("""
import json, warnings
import numpy as np
from registry import RANDOM
from sklearn_sparsemap import (
    GroupLassoPerceptron, MultilabelLPSparseMAP, StructuredSparseMAPClassifier, lp_sparsemap, map_inference,
    marginal_inference, sparsemap
)
from {jit} import compile_statistics
from sklearn_sparsemap.factors import Budget, FactorGraph, Imply, Pair, StructureFactor, Xor
from sklearn_sparsemap.structures import DependencyTree, LinearChain

rng = np.random.default_rng(0)
found = {}
def keep(name, result):
    found[name] = [round(float(x), 6) + 0.0 for x in np.ravel(result)]
for name, random in RANDOM.items():
    instance = random(rng)
    structure, scores, additional = instance.structure, instance.scores, instance.additional
    direction = rng.normal(size=scores.shape)
    keep(f"{name} map", map_inference(structure, scores, **additional).value)
    for solver in ("auto", "active_set"):
        result = sparsemap(structure, scores, solver=solver, **additional)
        keep(f"{name} {solver}", result.marginals)
        keep(f"{name} {solver} vjp", result.vjp(direction)["scores"])
    if structure.marginal_oracle is not None:
        keep(f"{name} gibbs", marginal_inference(structure, scores, **additional).marginals)
scores = rng.normal(size=(4, 3))
keep("flow", sparsemap(LinearChain(), scores, transitions=np.eye(3), solver="flow").marginals)
graph = FactorGraph()
u = graph.variables((4, 3))
graph.add(Xor(u[0]), Imply([u[0, 0], u[2, 1]]), Budget(u[2], 2), Pair(u[0], u[1], name="pairs"))
keep("graph", lp_sparsemap(graph, scores, additional={"pairs": 0.5}).marginals)
graph.add(StructureFactor(DependencyTree(), u))
for solver in ("newton", "block", "admm"):
    result = lp_sparsemap(graph, scores, additional={"pairs": 0.5}, solver=solver)
    keep(f"graph with a tree {solver}", np.round(result.marginals, 4))
X, y = [np.eye(3)[[0, 1, 2, 0]]] * 4, [[0, 1, 2, 0]] * 4
rows = rng.normal(size=(60, 4))
labels = (rows[:, :3] > 0).astype(int)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for loss, solver in (("sparsemap", "lbfgs"), ("sparsemap", "adagrad"), ("hinge", "mira"), ("crf", "lbfgs")):
        model = StructuredSparseMAPClassifier("chain", loss=loss, solver=solver, max_iter=2, n_jobs=2).fit(X, y)
        keep(f"chain {loss} {solver}", np.concatenate(model.predict(X)))
    model = MultilabelLPSparseMAP("full", solver="adam", max_iter=2, random_state=0).fit(rows, labels)
    keep("labels", model.predict(rows))
    lasso = GroupLassoPerceptron(groups=[0, 0, 1, 1], budget=1, shrink_every=20, max_iter=2, random_state=0)
    keep("groups", lasso.fit(rows, labels[:, 0]).predict(rows))
print(json.dumps([found, compile_statistics()]))
""")


@pytest.fixture(scope="module")
def run(fresh_python):
    """Return a function that runs Python in another process with environment variables, and returns its output."""

    def run_fresh(code, **variables):
        out = fresh_python(IMPORTS + code, environment={**os.environ, **variables})
        assert out.returncode == 0, out.stderr
        return out.stdout

    return run_fresh


TREES = """
from sklearn_sparsemap.structures import DependencyTree

rng = np.random.default_rng(0)
solved = 0
for n in (1, 2, 5, 9):
    scores = [rng.normal(size=(n + 1, n)) for _ in range(8)]
    solved += sum(sparsemap(DependencyTree(), scores, solver="facets").converged)
print(solved)
"""


@pytest.fixture(scope="module")
def without_the_compiler(run):
    """Return the lines that a process without the compiler writes."""
    return run(USE_ALL + TREES, NUMBA_DISABLE_JIT="1").splitlines()


def test_without_the_compiler_all_results_are_the_same(without_the_compiler, capsys):
    exec(USE_ALL, {"__name__": "use_all"})
    compiled, _ = json.loads(capsys.readouterr().out)
    interpreted, statistics = json.loads(without_the_compiler[0])
    assert statistics == {"loaded": 0, "compiled": 0}
    assert compiled.keys() == interpreted.keys() and len(compiled) > 60
    n_numbers = 0
    for name, numbers in compiled.items():
        np.testing.assert_allclose(interpreted[name], numbers, atol=1e-4, err_msg=name)
        n_numbers += len(numbers)
    assert n_numbers > 600


LANES = with_modules("""
import numpy as np
from numba import types
from {jit} import FLOATS, FLOATS_2D_OUT, entry
from {lanes} import WIDTH, load, pick, store, total

@entry(types.float64(FLOATS, types.int64, FLOATS_2D_OUT, types.int64, types.int64))
def use(array, offset, table, place, one):
    store(table, place, load(array, offset))
    return total(load(array, offset)) + pick(array, one)

end, ends = 8 - WIDTH, 12 - WIDTH
print(use(np.ones(8), end, np.zeros((3, 4)), ends, 7) == WIDTH + 1)
for wrong in ((end + 1, 0, 0), (0, ends + 1, 0), (0, 0, 8)):
    try:
        use(np.ones(8), wrong[0], np.zeros((3, 4)), wrong[1], wrong[2])
    except IndexError:
        print("IndexError")
""")


@pytest.mark.parametrize("plain", ["0", "1"])
def test_checks_of_indices_include_the_intrinsics(plain, run):
    # Code of ``python -c`` has no file, so it is not cached.
    out = run(LANES, NUMBA_BOUNDSCHECK="1", SKLEARN_SPARSEMAP_PLAIN_NUMBA=plain)
    assert out.split() == ["True"] + ["IndexError"] * 3


def test_trees_by_facets_read_within_their_arrays(without_the_compiler):
    # Python checks indices, too.
    assert without_the_compiler[1:] == ["32"]


PLAIN = with_modules("""
import numpy as np
from sklearn_sparsemap import map_inference, marginal_inference
import {mode} as mode
from sklearn_sparsemap.structures import CustomStructure, Simplex

def fail(scores):
    raise KeyError("lost")

print(mode.IS_LINKED, *marginal_inference(Simplex(), [0.0, 0.0]).marginals)
try:
    map_inference(CustomStructure(fail), np.ones(3))
except KeyError as error:
    print(error.args[0])
""")


def test_plain_numba(run):
    assert run(PLAIN, SKLEARN_SPARSEMAP_PLAIN_NUMBA="1").split() == ["False", "0.5", "0.5", "lost"]


def test_a_users_compiled_function_stays_as_it_is():
    @njit
    def largest(scores):
        return np.array([scores.argmax()])

    before = type(largest)
    jit.as_argument(jit.wrap_oracle(largest, False))
    assert type(largest) is before


def test_the_default_is_the_tested_version():
    assert mode.IS_LINKED or mode.IS_INTERPRETED or os.environ.get("SKLEARN_SPARSEMAP_PLAIN_NUMBA") == "1"


@kernel
def _first_row(matrix):
    return matrix[0]


@kernel
def _copy_of(row):
    copy = np.empty(row.shape[0])
    copy_into(copy, row)
    return copy


@kernel
def _add_rows(matrix, out):
    for r in range(matrix.shape[0]):
        row = matrix[r]
        copy_into(out, row)


@kernel
def _sum_of_copy(row):
    """Makes no array itself, but gets one."""
    total = 0.0
    for x in _copy_of(row):
        total += x
    return total


Pair = namedtuple("Pair", ["first", "second"])


@kernel
def _keep(rows, row):
    """Stores an array, but makes none."""
    rows[0] = row


@kernel
def _swapped(pair):
    return Pair(pair.second, pair.first)


@entry(types.float64(FLOATS_2D_OUT, FLOATS_OUT))
def _use_all(matrix, out):
    _add_rows(matrix, out)
    row = _first_row(matrix)
    pair = _swapped(_swapped(Pair(row, _copy_of(out))))
    rows = [_copy_of(row)]
    _keep(rows, _copy_of(row))
    row = rows[0]
    return _sum_of_copy(row) + pair.first[0] + pair.second[0]


def test_references_are_counted_where_arrays_are_made_or_returned():
    """A kernel that counts too few frees an array that is in use; one that counts too many never frees it."""
    matrix, out = np.arange(6.0).reshape(2, 3), np.zeros(3)
    matrix += 1.0
    assert _use_all(matrix, out) == 6.0 + 1.0 + 4.0
    counts = sys.getrefcount(matrix), sys.getrefcount(out)
    nrt.memsys_enable_stats()
    try:
        made, freed = nrt.memsys_get_stats_mi_alloc(), nrt.memsys_get_stats_mi_free()
        for _ in range(1000):
            _use_all(matrix, out)
        made, freed = nrt.memsys_get_stats_mi_alloc() - made, nrt.memsys_get_stats_mi_free() - freed
    finally:
        nrt.memsys_disable_stats()
    assert made == freed >= 2000 or mode.IS_INTERPRETED
    assert (sys.getrefcount(matrix), sys.getrefcount(out)) == counts
    assert_array_equal(matrix, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@pytest.mark.skipif(not mode.IS_LINKED, reason="plain Numba counts all references")
def test_kernels_that_only_read_and_write_count_no_references():
    for function, arguments, counts in (
        (_add_rows, (FLOATS_2D_OUT, FLOATS_OUT), False),
        (_first_row, (FLOATS_2D_OUT,), True),
        (_copy_of, (FLOATS_OUT,), True),
        (_sum_of_copy, (FLOATS_OUT,), True),
        (_keep, (types.List(FLOATS_OUT), FLOATS_OUT), True),
    ):
        function.compile(arguments)
        code = "".join(result.library.get_llvm_str() for result in function.overloads.values())
        assert ("NRT_incref" in code or "NRT_decref" in code) is counts, function.py_func.__name__


@kernel
def _read_and_write(matrix, row, places, out):
    """Use each form of an index that kernels use; return the number of elements that slices have."""
    n = 0
    for place in places:
        out[0] = row[place]
        out[-1] += matrix[place, -1 - place] + matrix[place][place]
        matrix[place, 1] = row[-1] * 0.5
        row[place] += place
        for stop in places:
            part = row[place:stop]
            n += part.shape[0] + row[place:].shape[0] + row[:stop].size + matrix[place:stop].size
            for value in part:
                out[1] += value
            for value in matrix[-1, place:stop]:
                out[2] += value
            rows = matrix[place:stop]
            for i in range(rows.shape[0]):
                out[3] += rows[i, 0] + rows[i][-1] + rows.strides[0]
    return n


@entry(types.int64(FLOATS_2D_OUT, FLOATS_OUT, types.Array(types.int64, 1, "C", readonly=True), FLOATS_OUT))
def _index(matrix, row, places, out):
    return _read_and_write(matrix, row, places, out)


def test_indices_of_kernels_are_those_of_numpy():
    """Negative indices count from the end, and slices end at the ends of the array."""
    rng = np.random.default_rng(0)
    n_compared = 0
    for n in (3, 4, 7):
        matrix, row, out = rng.normal(size=(n, n)), rng.normal(size=n), np.zeros(5)
        given = [each.copy() for each in (matrix, row, out)]
        places = np.array([*range(-n, n), 0], np.int64)
        n_found = _index(matrix, row, places, out)
        assert n_found == getattr(_read_and_write, "py_func", _read_and_write)(given[0], given[1], places, given[2])
        for found, expected in zip((matrix, row, out), given):
            assert_array_equal(found, expected)
            n_compared += 1
    assert n_compared == 9


@kernel
def _slice_lengths(row, places, lengths):
    i = 0
    for start in places:
        for stop in places:
            lengths[i] = row[start:stop].shape[0]
            i += 1


@entry(types.void(FLOATS_OUT, types.Array(types.int64, 1, "C", readonly=True), types.Array(types.int64, 1, "C")))
def _lengths(row, places, lengths):
    _slice_lengths(row, places, lengths)


def test_slices_beyond_the_ends_are_those_of_numpy():
    big = np.iinfo(np.int64).max
    for n in (0, 1, 5):
        places = np.array([*range(-n - 3, n + 4), big, -big], np.int64)
        row, lengths = np.zeros(n), np.zeros(places.size**2, np.int64)
        _lengths(row, places, lengths)
        assert_array_equal(lengths, [len(row[start:stop]) for start in places for stop in places])
