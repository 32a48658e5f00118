"""Loops of L-BFGS over long vectors, and its memory: the last steps and changes of the gradient.

The vectors are cut into pieces of a fixed size that fit into the processor's cache. Sums over pieces are added in a
fixed order, so results do not depend on the number of threads.

The recursion of L-BFGS needs only products of the vectors in its memory, and its direction is a linear combination of
them. So an iteration needs two loops over all vectors, one for the products with the new vectors and one for the
combination. The recursion itself is over a few numbers (Chen, Wang and Zhou 2014, "Large-scale L-BFGS using
MapReduce").

Conventions
-----------
pairs : PairArrays
held : int64 array
    The rows of `pairs` in use, the oldest first.
gradient : float64 array of shape (n,)
    The current gradient.
row : int
    The row of `pairs` for the next pair. Until its step is known, it has the direction, and the gradient before the
    step, so that no other vectors are needed for these.
start, stop : int
    The range of pieces of a call.
table : float64 array of shape (n_pieces, n_columns)
    Output: partial sums, one row for each piece.

Used by `_training` and `descent.py`.
"""

from collections import namedtuple

import numpy as np
from numba import types

from ..._core.jit import FLOATS, FLOATS_2D_OUT, FLOATS_32, FLOATS_OUT, INTS, entry, kernel, readonly
from ..._core.threads import over_ranges
from ..._numerics.cholesky import dot

# Length of a piece. Pieces of several vectors together fit into the processor's cache.
PIECE = 2048
# Minimum number of pieces for several threads.
_MANY = 32
# Number of entries in a call on a single thread.
_COST_PER_CALL = 2**20
# Number of pairs (step, change of the gradient) that are kept, as in L-BFGS-B, and the number for vectors of at least
# `LONG` entries, whose pairs determine the memory of a fit. With 5, fits took 0.8 to 1.2 times the CPU seconds.
# The pairs of long vectors are float32. Then the products are those of the rounded pairs, so that rounding only changes
# which Hessian L-BFGS approximates.
_N_PAIRS, _N_LONG_PAIRS, LONG = 10, 5, 2**20
# Smallest curvature of a stored pair: the change of the gradient along the step, relative to the slope.
_FLAT = np.finfo(float).eps

# One row for each pair: the step, and the change of the gradient.
PairArrays = namedtuple("PairArrays", ["steps", "changes"])
# Numba types by the type of the rows.
_PAIR_ARRAYS = {
    dtype: types.NamedUniTuple(types.Array(getattr(types, dtype), 2, "C"), 2, PairArrays)
    for dtype in ("float64", "float32")
}
# Number of products of a pair: its step with the gradient, its change with the gradient, its step with the new change,
# its change with the new step, its change with the new change.
_N_PRODUCTS = 5


@kernel(fast_sums=True)
def add_two(total, a, one, b, other):
    """Add ``a * one + b * other`` to a vector."""
    for i in range(total.shape[0]):
        total[i] += a * one[i] + b * other[i]


def _move_range(x, direction, step, out, start, stop, table):
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


def _slope_range(gradient, direction, start, stop, table):
    """Write the products of pieces of two vectors, and the largest entries of pieces of the first, to `table`."""
    for p in range(start, stop):
        first = p * PIECE
        last = min((p + 1) * PIECE, gradient.shape[0])
        table[p, 0] = dot(gradient[first:last], direction[first:last])
        table[p, 1] = _largest(gradient[first:last])


def over_pieces(n, n_jobs, n_columns, function, *arguments):
    """Call ``function(*arguments, start, stop, table)`` for ranges of pieces, in threads; return the table.

    Parameters
    ----------
    n : int
        Length of the vectors.
    n_jobs : int or None
    n_columns : int
        Number of columns of the table, which has a row for each piece and is zero at first.
    function : compiled function
    """
    n_pieces = max(1, -(-n // PIECE))
    table = np.zeros((n_pieces, n_columns))
    if n_pieces == 1:
        function(*arguments, 0, 1, table)
    else:
        over_ranges(
            lambda start, stop: function(*arguments, start, stop, table),
            np.full(n_pieces, PIECE),
            n_jobs if n_pieces >= _MANY else 1,
            _COST_PER_CALL,
        )
    return table


@kernel(fast_sums=True)
def _products(step, change, gradient, new_step, new_change, sums):
    """Fill `sums` with the products of a pair; see `_N_PRODUCTS`.

    Parameters
    ----------
    step, change : arrays of shape (n,)
        The pair.
    gradient, new_step, new_change : arrays of shape (n,)
        The current gradient, and the new pair.
    sums : array of shape (_N_PRODUCTS,)
        Output.
    """
    a = b = c = d = e = 0.0
    for i in range(gradient.shape[0]):
        a += step[i] * gradient[i]
        b += change[i] * gradient[i]
        # Products of two numbers of float32 would be of float32.
        c += step[i] * np.float64(new_change[i])
        d += change[i] * np.float64(new_step[i])
        e += change[i] * np.float64(new_change[i])
    sums[0] = a
    sums[1] = b
    sums[2] = c
    sums[3] = d
    sums[4] = e


def _remember_range(pairs, held, row, step, gradient, start, stop, table):
    """Replace the direction and the gradient before the step in `row` by the pair, and compute products.

    Parameters
    ----------
    pairs, held, row, gradient, start, stop
        See the module.
    step : float
        The step is this multiple of the direction.
    table : array of shape (n_pieces, n_held * _N_PRODUCTS)
        Output: the products of all stored pairs with the new pair and with the gradient, for each piece.
    """
    for p in range(start, stop):
        first = p * PIECE
        last = min((p + 1) * PIECE, gradient.shape[0])
        now, new_step, new_change = gradient[first:last], pairs.steps[row, first:last], pairs.changes[row, first:last]
        for i in range(last - first):
            new_step[i] = step * new_step[i]
            new_change[i] = now[i] - new_change[i]
        for k in range(held.shape[0]):
            j = held[k]
            found = table[p, k * _N_PRODUCTS : (k + 1) * _N_PRODUCTS]
            _products(pairs.steps[j, first:last], pairs.changes[j, first:last], now, new_step, new_change, found)


def _combine_range(pairs, held, row, coefficients, gradient, start, stop, table):
    """Write a linear combination of the gradient and all pairs, and the gradient, to `row`, which may be of a pair.

    Parameters
    ----------
    pairs, held, row, gradient, start, stop
        See the module.
    coefficients : array of shape (1 + 2 * n_held,)
        The coefficient of the gradient, then those of the steps, then those of the changes.
    table : array of shape (n_pieces, 2)
        Output: products of the direction with the gradient and with itself, for each piece.
    """
    n = held.shape[0]
    whole = np.empty(PIECE)
    for p in range(start, stop):
        first = p * PIECE
        last = min((p + 1) * PIECE, gradient.shape[0])
        now, own = gradient[first:last], whole[: last - first]
        for i in range(last - first):
            own[i] = coefficients[0] * now[i]
        for k in range(n):
            j, a, b = held[k], coefficients[1 + k], coefficients[1 + n + k]
            add_two(own, a, pairs.steps[j, first:last], b, pairs.changes[j, first:last])
        direction, before = pairs.steps[row, first:last], pairs.changes[row, first:last]
        for i in range(last - first):
            direction[i] = own[i]
            before[i] = now[i]
            # The products are those of the rounded direction.
            own[i] = direction[i]
        table[p, 0] = dot(own, now)
        table[p, 1] = dot(own, own)


# Functions by the type of the pairs.
_REMEMBER, _COMBINE = (
    {dtype: entry(types.void(pairs, INTS, types.int64, *arguments, types.int64, types.int64, FLOATS_2D_OUT))(function)
     for dtype, pairs in _PAIR_ARRAYS.items()}
    for function, arguments in ((_remember_range, (types.float64, FLOATS)), (_combine_range, (FLOATS, FLOATS)))
)  # fmt: skip
MOVE, _SLOPE = (
    {dtype: entry(types.void(FLOATS, vector, *arguments, types.int64, types.int64, FLOATS_2D_OUT))(function)
     for dtype, vector in (("float64", FLOATS), ("float32", FLOATS_32))}
    for function, arguments in ((_move_range, (types.float64, FLOATS_OUT)), (_slope_range, ()))
)  # fmt: skip


class CurvaturePairs:
    """The last pairs of steps and changes of the gradient, and the direction of the next step.

    Parameters
    ----------
    n : int
        Length of the vectors.
    n_jobs : int or None

    Attributes
    ----------
    most : int
        Maximum number of pairs.
    direction : array of shape (n,)
        The result of `combine`; `remember` overwrites it.
    """

    def __init__(self, n, n_jobs):
        self._n, self._n_jobs = n, n_jobs
        self.most = most = _N_PAIRS if n < LONG else _N_LONG_PAIRS
        # The system allocates memory for a row when it is first written to.
        self._dtype = "float64" if n < LONG else "float32"
        self._arrays = PairArrays(*(np.empty((most, n), self._dtype) for _ in range(2)))
        self._step_change, self._change_change = np.zeros((2, most, most))
        self._with_gradient = np.zeros((2, most))
        # Rows in use, the oldest first, and the row of the direction.
        self.held, self._row = [], 0

    @property
    def before(self):
        """The gradient in the last call of `combine`, in the type of the pairs; `remember` overwrites it."""
        return self._arrays.changes[self._row]

    def remember(self, step, gradient, gain):
        """Store a pair, given the step, as a multiple of the direction, and the gradient after it.

        `gain` is the product of the step with the change of the gradient, divided by minus its product with the
        gradient before.
        """
        row = self._row
        keeps = gain > _FLAT
        if keeps:
            self.held = [*self.held, row]
        n = len(self.held)
        held = readonly(self.held, np.int64)
        table = over_pieces(
            self._n, self._n_jobs, n * _N_PRODUCTS, _REMEMBER[self._dtype], self._arrays, held, row, step, gradient
        )
        products = table.sum(axis=0).reshape(n, _N_PRODUCTS).T
        self._with_gradient[:, held] = products[:2]
        if keeps:
            self._step_change[held, row], self._step_change[row, held] = products[2:4]
            self._change_change[held, row] = self._change_change[row, held] = products[4]

    def combine(self, gradient):
        """Compute minus the gradient, multiplied by the approximate inverse of the Hessian: the direction.

        If no row is free, it replaces the oldest pair. Returns the products of the direction with the gradient and with
        itself.
        """
        coefficients = readonly(-self._coefficients(), np.float64)
        held = readonly(self.held, np.int64)
        self._row = min(set(range(self.most)) - set(self.held), default=None)
        if self._row is None:
            self._row, *self.held = self.held
        self.direction = self._arrays.steps[self._row]
        table = over_pieces(
            self._n, self._n_jobs, 2, _COMBINE[self._dtype], self._arrays, held, self._row, coefficients, gradient
        )
        return table.sum(axis=0)

    def move(self, step, x):
        """Add a multiple of the direction to a point. Ctrl-C does not stop it halfway."""
        way = self.direction
        MOVE[self._dtype](x, way, step, x, 0, -(-self._n // PIECE), np.zeros((0, 0)))

    def slope(self, gradient):
        """Return the product of a gradient with the direction, and its largest absolute entry."""
        table = over_pieces(self._n, self._n_jobs, 2, _SLOPE[self._dtype], gradient, self.direction)
        return float(table[:, 0].sum()), float(table[:, 1].max())

    def _coefficients(self):
        """Return the coefficients of gradient, steps and changes in the product with the inverse Hessian."""
        held = self.held
        n = len(self.held)
        if not held:
            return np.ones(1)
        places = np.ix_(held, held)
        step_change, change_change = self._step_change[places], self._change_change[places]
        with_step, with_change = self._with_gradient[:, held]
        curvatures = step_change.diagonal()
        scale = curvatures[-1] / change_change[-1, -1]
        first, second = np.zeros((2, n))
        for i in range(n - 1, -1, -1):
            first[i] = (with_step[i] - step_change[i] @ first) / curvatures[i]
        with_change = scale * (with_change - change_change @ first)
        for i in range(n):
            second[i] = first[i] - (with_change[i] + second @ step_change[:, i]) / curvatures[i]
        return np.concatenate([[scale], second, -scale * first])
