"""Kernels read and write arrays as Python does, and let go of each array once."""

from collections import namedtuple

import numpy as np
import pytest
from numba import njit, types
from numba.core.runtime import _nrt_python, rtsys

from sklearn_sparsemap import _jit_link, _jit_lowering
from sklearn_sparsemap._jit import FLOATS_2D, FLOATS_2D_OUT, FLOATS_OUT, INTS, entry, kernel

Fields = namedtuple("Fields", ["numbers", "flags", "table"])
FLAGS, SMALL = types.Array(types.boolean, 1, "C"), types.Array(types.uint8, 1, "C")
CUBE = types.Array(types.float32, 3, "C")


@entry(types.void(INTS, FLOATS_2D, FLAGS, CUBE, SMALL, FLOATS_2D_OUT))
def elements(places, table, flags, cube, small, out):
    for row in range(out.shape[0]):
        i = places[row]
        out[row, 0] = table[i, -1] if flags[i] else table[-1, i]
        out[row, 1] = cube[i, row, -2]
        flags[-row] = not flags[i]
        cube[row, 1, i] = 0.1 * row
        small[i] = 300 + row
        out[-1 - row, 2] += small[np.uint8(row)]
        out[row][3] = row
        out[row, 4] = table[row].sum() + table.T[row, i]


@pytest.mark.parametrize("seed", range(3))
def test_elements(seed):
    rng = np.random.default_rng(seed)
    given = [
        rng.integers(-4, 4, 4), rng.normal(size=(4, 4)), rng.random(4) < 0.5,
        rng.normal(size=(4, 4, 4)).astype(np.float32), np.arange(4, dtype=np.uint8), np.zeros((4, 5)),
    ]  # fmt: skip
    expected = [array.copy() for array in given]
    elements(*given)
    # What does not fit is cut off, with a warning of NumPy's.
    small = expected[4].astype(np.int64)
    for row, i in enumerate(expected[0]):
        table, flags, cube, out = (expected[k] for k in (1, 2, 3, 5))
        out[row, 0] = table[i, -1] if flags[i] else table[-1, i]
        out[row, 1] = cube[i, row, -2]
        flags[-row] = not flags[i]
        cube[row, 1, i] = 0.1 * row
        small[i] = (300 + row) % 256
        out[-1 - row, 2] += small[row]
        out[row, 3] = row
        out[row, 4] = table[row].sum() + table[i, row]
    expected[4] = small
    for found, right in zip(given, expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-15)


@kernel
def _field_of(fields):
    return fields.numbers


@kernel
def _other_than(numbers, fields):
    first = fields.numbers
    if numbers[0] > 0.5:
        numbers = fields.numbers
    elif numbers[0] > -0.5:
        numbers = numbers.copy()
    numbers[0] += 1.0
    return numbers, Fields(first, fields.flags, fields.table)


@entry(types.float64(FLOATS_OUT, types.int64))
def lifetimes(numbers, n):
    total, kept = 0.0, numbers
    for k in range(n):
        fields = Fields(np.ones(5), np.ones(2, np.bool_), np.zeros((2, 2)))
        kept = _field_of(fields)
        # What was a field of this is alive without it.
        fields = Fields(kept, np.zeros(2, np.bool_), np.ones((2, 2)))
        kept[1] = k
        mine = np.zeros(3)
        mine[0] = k - 2.0
        found, again = _other_than(mine, fields)
        total += found[0] + again.numbers[1] + fields.table[-1, -1] + (0.0 if again.flags[1] else 10.0)
    return total + kept[0]


def test_arrays_are_let_go_of_once():
    lifetimes(np.zeros(1), 1)
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        total = lifetimes(np.zeros(1), 5)
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    # found[0] is -1, 0, 1 (of copies), 2 and 2; kept is the last one's, which was found.
    assert total == (-1.0 + 0.0 + 1.0 + 2.0 + 2.0) + 10.0 + 5.0 + 50.0 + 2.0
    made = after.alloc - before.alloc
    assert made >= 5 * 5
    assert after.free - before.free == made
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free > 0


def test_versions_of_numba_that_are_not_known_lower_kernels_themselves(monkeypatch):
    def last_of_rows(table, out):
        for row in range(table.shape[0]):
            out[row] = table[row, -1]

    def never(state):
        raise AssertionError("this version is not known")

    monkeypatch.setattr(_jit_link, "LOWERS_KERNELS", False)
    monkeypatch.setattr(_jit_lowering, "pipeline_of", never)
    compiled = njit(types.void(FLOATS_2D_OUT, FLOATS_OUT), pipeline_class=_jit_link.EntryCompiler)(last_of_rows)
    table, out = np.arange(6.0).reshape(2, 3), np.zeros(2)
    compiled(table, out)
    assert out.tolist() == [2.0, 5.0]
