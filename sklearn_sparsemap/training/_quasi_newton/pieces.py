"""Loops over long vectors in pieces of a fixed size, so that sums do not depend on the number of threads.

Conventions
-----------
start, stop : int
    The range of pieces of a call.
table : float64 array of shape (n_pieces, n_columns)
    Output: partial sums, one row for each piece.
"""

import numpy as np
from numba import types

from ..._core.jit import FLOATS, FLOATS_2D_OUT, FLOATS_OUT, entry, kernel
from ..._core.threads import over_ranges
from ...numerics.cholesky import dot

# Length of a piece. Pieces of several vectors together fit into the processor's cache.
PIECE = 2048
# Minimum number of pieces for several threads.
_MANY = 32
# Number of entries in a call on a single thread.
_COST_PER_CALL = 2**20


@kernel(fast_sums=True)
def add_two(total, a, one, b, other):
    """Add ``a * one + b * other`` to a vector."""
    for i in range(total.shape[0]):
        total[i] += a * one[i] + b * other[i]


@entry(types.void(FLOATS, FLOATS, types.float64, FLOATS_OUT, types.int64, types.int64, FLOATS_2D_OUT))
def move_range(x, direction, step, out, start, stop, table):
    """Fill pieces of `out` with ``x + step * direction``.

    Parameters
    ----------
    x, direction, out : arrays of shape (n,)
    step : float
    start, stop, table
        See the module; `table` has no columns.
    """
    for i in range(start * PIECE, min(stop * PIECE, x.shape[0])):
        out[i] = x[i] + step * direction[i]


@kernel(no_nans=True)
def _largest(vector):
    """Return the largest absolute value."""
    largest = 0.0
    for i in range(vector.shape[0]):
        largest = max(largest, abs(vector[i]))
    return largest


@entry(types.void(FLOATS, FLOATS, types.int64, types.int64, FLOATS_2D_OUT))
def slope_range(gradient, direction, start, stop, table):
    """Write the products of pieces of two vectors, and the largest entries of pieces of the first, to `table`."""
    for p in range(start, stop):
        first, last = p * PIECE, min((p + 1) * PIECE, gradient.shape[0])
        table[p, 0] = dot(gradient[first:last], direction[first:last])
        table[p, 1] = _largest(gradient[first:last])


class Pieces:
    """Calls of compiled functions on pieces of vectors, in threads.

    Parameters
    ----------
    n : int
        Length of the vectors.
    n_jobs : int or None
    """

    def __init__(self, n, n_jobs):
        self.n = n
        self._costs = np.full(max(1, -(-n // PIECE)), PIECE)
        self._n_jobs = n_jobs if len(self._costs) >= _MANY else 1

    def over(self, n_columns, function, *arguments):
        """Call ``function(*arguments, start, stop, table)`` for ranges of pieces; return the table.

        The table has a row for each piece, and is zero at first.
        """
        table = np.zeros((len(self._costs), n_columns))
        over_ranges(
            lambda start, stop: function(*arguments, start, stop, table), self._costs, self._n_jobs, _COST_PER_CALL
        )
        return table
