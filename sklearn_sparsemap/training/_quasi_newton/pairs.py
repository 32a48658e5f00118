"""The memory of L-BFGS (the last steps and changes of the gradient) and its direction.

The recursion of L-BFGS needs only products of these vectors, and its direction is a linear combination of them. So an
iteration needs two loops over all vectors, one for the products with the new vectors and one for the combination. The
recursion itself is over a few numbers (Chen, Wang and Zhou 2014, "Large-scale L-BFGS using MapReduce"). Both loops run
over pieces of the vectors that fit into the processor's cache.

Products are sums over pieces of a fixed size, added in a fixed order, so they do not depend on the number of threads.

Conventions
-----------
pairs : PairArrays
held : int64 array
    The rows of `pairs` in use, the oldest first.
gradient, before, direction : float64 arrays of shape (n,)
    The gradients after and before the last step, and the direction of the step.
start, stop, table
    See `pieces`.
"""

from collections import namedtuple

import numpy as np
from numba import types

from ..._core.jit import FLOATS, FLOATS_2D_OUT, FLOATS_OUT, INTS, entry, kernel, readonly
from ...numerics.cholesky import dot
from .pieces import PIECE, add_two

# Number of pairs (step, change of the gradient) that are kept, as in L-BFGS-B, and the number for vectors of at least
# `_LONG` entries, whose pairs determine the memory of a fit. With 5, fits took 0.8 to 1.2 times the CPU seconds.
_N_PAIRS, _N_LONG_PAIRS, _LONG = 10, 5, 2**20
# Smallest curvature of a stored pair: the change of the gradient along the step, relative to the slope.
_FLAT = np.finfo(float).eps

# One row for each pair: the step, and the change of the gradient.
PairArrays = namedtuple("PairArrays", ["steps", "changes"])
PAIR_ARRAYS = types.NamedUniTuple(FLOATS_2D_OUT, 2, PairArrays)
# Number of products of a pair: its step with the gradient, its change with the gradient, its step with the new change,
# its change with the new step, its change with the new change.
_N_PRODUCTS = 5


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
        c += step[i] * new_change[i]
        d += change[i] * new_step[i]
        e += change[i] * new_change[i]
    sums[0] = a
    sums[1] = b
    sums[2] = c
    sums[3] = d
    sums[4] = e


@entry(
    types.void(
        PAIR_ARRAYS, INTS, types.int64, FLOATS, types.float64, FLOATS, FLOATS, types.int64, types.int64, FLOATS_2D_OUT
    )
)  # fmt: skip
def remember_range(pairs, held, row, direction, step, before, gradient, start, stop, table):
    """Write a new pair, and compute the products of the stored pairs with it and with the gradient.

    Parameters
    ----------
    pairs, held, direction, before, gradient, start, stop
        See the module.
    row : int
        The row of `pairs` for the new pair.
    step : float
        The step is this multiple of the direction.
    table : array of shape (n_pieces, n_held * _N_PRODUCTS)
        Output: the products of all stored pairs, for each piece.
    """
    for p in range(start, stop):
        first, last = p * PIECE, min((p + 1) * PIECE, gradient.shape[0])
        now, old, own = gradient[first:last], before[first:last], direction[first:last]
        new_step, new_change = pairs.steps[row, first:last], pairs.changes[row, first:last]
        for i in range(last - first):
            new_step[i] = step * own[i]
            new_change[i] = now[i] - old[i]
        for k in range(held.shape[0]):
            j = held[k]
            found = table[p, k * _N_PRODUCTS : (k + 1) * _N_PRODUCTS]
            _products(pairs.steps[j, first:last], pairs.changes[j, first:last], now, new_step, new_change, found)


@entry(types.void(PAIR_ARRAYS, INTS, FLOATS, FLOATS, FLOATS_OUT, types.int64, types.int64, FLOATS_2D_OUT))
def combine_range(pairs, held, coefficients, gradient, direction, start, stop, table):
    """Write a linear combination of the gradient and all pairs to `direction`.

    Parameters
    ----------
    pairs, held, gradient, direction, start, stop
        See the module.
    coefficients : array of shape (1 + 2 * n_held,)
        The coefficient of the gradient, then those of the steps, then those of the changes.
    table : array of shape (n_pieces, 2)
        Output: products of the direction with the gradient and with itself, for each piece.
    """
    n = held.shape[0]
    for p in range(start, stop):
        first, last = p * PIECE, min((p + 1) * PIECE, gradient.shape[0])
        now, own = gradient[first:last], direction[first:last]
        for i in range(last - first):
            own[i] = coefficients[0] * now[i]
        for k in range(n):
            j, a, b = held[k], coefficients[1 + k], coefficients[1 + n + k]
            add_two(own, a, pairs.steps[j, first:last], b, pairs.changes[j, first:last])
        table[p, 0] = dot(own, now)
        table[p, 1] = dot(own, own)


class Pairs:
    """The last pairs of steps and changes.

    Parameters
    ----------
    pieces : Pieces
        Pieces of the vectors.

    Attributes
    ----------
    most : int
        Maximum number of pairs.
    """

    def __init__(self, pieces):
        self._pieces = pieces
        self.most = most = _N_PAIRS if pieces.n < _LONG else _N_LONG_PAIRS
        # The system allocates memory for a row when it is first written to. The last row is for pairs that are not
        # stored.
        self._arrays = PairArrays(*(np.empty((most + 1, pieces.n)) for _ in range(2)))
        self._step_change, self._change_change = np.zeros((2, most, most))
        self._with_gradient = np.zeros((2, most))
        # Rows in use, the oldest first.
        self.held = []

    def forget(self):
        """Delete all pairs."""
        self.held = []

    def remember(self, direction, step, before, gradient, gain):
        """Store a pair, given a step along a direction, and the gradients before and after it.

        `gain` is the product of the step with the change of the gradient, divided by minus its product with the
        gradient before.
        """
        row = self.most
        if gain > _FLAT:
            full = len(self.held) == self.most
            row = self.held[0] if full else len(self.held)
            self.held = [*self.held[full:], row]
        n, held = len(self.held), readonly(self.held, np.int64)
        table = self._pieces.over(
            n * _N_PRODUCTS, remember_range, self._arrays, held, row, direction, step, before, gradient
        )
        products = table.sum(axis=0).reshape(n, _N_PRODUCTS).T
        self._with_gradient[:, held] = products[:2]
        if row < self.most:
            self._step_change[held, row], self._step_change[row, held] = products[2:4]
            self._change_change[held, row] = self._change_change[row, held] = products[4]

    def combine(self, gradient, direction):
        """Write minus the gradient, multiplied by the approximate inverse of the Hessian, to `direction`.

        Returns the products of the direction with the gradient and with itself.
        """
        coefficients = readonly(-self._coefficients(), np.float64)
        held = readonly(self.held, np.int64)
        return self._pieces.over(2, combine_range, self._arrays, held, coefficients, gradient, direction).sum(axis=0)

    def _coefficients(self):
        """Return the coefficients of gradient, steps and changes in the product with the inverse Hessian."""
        held, n = self.held, len(self.held)
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
