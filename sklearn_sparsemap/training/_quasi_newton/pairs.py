"""What L-BFGS remembers: the last steps and the changes of the gradient, and the direction that they give.

The recursion of L-BFGS needs products of these vectors only, and its direction is a sum of them. So two loops over all
vectors are enough for an iteration: one for the products with what is new, one for the sum; the recursion itself is on
a few numbers (Chen, Wang and Zhou 2014, "Large-scale L-BFGS using MapReduce"). Both loops go through pieces of the
vectors that fit into the processor's cache.

Products are sums over pieces of a fixed size, added up in their order, so that they do not depend on the threads.
"""

from collections import namedtuple

import numpy as np
from numba import types

from ..._core.jit import FLOATS, FLOATS_2D_OUT, FLOATS_OUT, INTS, entry, kernel, readonly
from ...numerics.cholesky import dot
from .pieces import PIECE

# Number of pairs (step, change of the gradient) that are kept; as in L-BFGS-B.
_N_PAIRS = 10
# A step along which the gradient changes by less, relative to its first slope, is not remembered.
_FLAT = np.finfo(float).eps

# One row for each pair: the step, and the change of the gradient.
PairArrays = namedtuple("PairArrays", ["steps", "changes"])
PAIR_ARRAYS = types.NamedUniTuple(FLOATS_2D_OUT, 2, PairArrays)
# Columns of the products of a pair: its step and its change with the gradient, its step with the new change, its change
# with the new step and with the new change.
_N_PRODUCTS = 5


@kernel(fast_sums=True)
def _products(step, change, gradient, new_step, new_change, sums):
    """Fill `sums` with the products of a pair; see _N_PRODUCTS."""
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
    """Put a new pair into `row`, and multiply those held with it and with the gradient.

    Works on pieces start..stop of the vectors; each leaves the products of all pairs held in its row of `table`.
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


@kernel(fast_sums=True)
def _add_two(total, a, one, b, other):
    for i in range(total.shape[0]):
        total[i] += a * one[i] + b * other[i]


@entry(types.void(PAIR_ARRAYS, INTS, FLOATS, FLOATS, FLOATS_OUT, types.int64, types.int64, FLOATS_2D_OUT))
def combine_range(pairs, held, shares, gradient, direction, start, stop, table):
    """Sum up the gradient and all pairs, by their shares, as the direction.

    `shares` has that of the gradient, then those of the steps, and those of the changes. Works on pieces start..stop;
    each leaves the direction's products with the gradient and with itself in its row of `table`.
    """
    n = held.shape[0]
    for p in range(start, stop):
        first, last = p * PIECE, min((p + 1) * PIECE, gradient.shape[0])
        now, own = gradient[first:last], direction[first:last]
        for i in range(last - first):
            own[i] = shares[0] * now[i]
        for k in range(n):
            j = held[k]
            _add_two(own, shares[1 + k], pairs.steps[j, first:last], shares[1 + n + k], pairs.changes[j, first:last])
        table[p, 0] = dot(own, now)
        table[p, 1] = dot(own, own)


class Pairs:
    """The last pairs of steps and changes.

    Parameters
    ----------
    pieces : Pieces
        Of the vectors.
    """

    def __init__(self, pieces):
        self._pieces = pieces
        # The system gives memory for a row when it is first written to. The last one is for a pair that is not kept.
        self._arrays = PairArrays(*(np.empty((_N_PAIRS + 1, pieces.n)) for _ in range(2)))
        self._step_change, self._change_change = np.zeros((2, _N_PAIRS, _N_PAIRS))
        self._with_gradient = np.zeros((2, _N_PAIRS))
        # Rows, the oldest first.
        self.held = []

    def forget(self):
        """Forget all pairs."""
        self.held = []

    def remember(self, direction, step, before, gradient, gain):
        """Take a step along a direction, and the gradients before and after.

        `gain` is the product of the step with the change of the gradient, relative to that with the gradient before.
        """
        row = _N_PAIRS
        if gain > _FLAT:
            full = len(self.held) == _N_PAIRS
            row = self.held[0] if full else len(self.held)
            self.held = [*self.held[full:], row]
        n, held = len(self.held), readonly(self.held, np.int64)
        table = self._pieces.over(
            n * _N_PRODUCTS, remember_range, self._arrays, held, row, direction, step, before, gradient
        )
        products = table.sum(axis=0).reshape(n, _N_PRODUCTS).T
        self._with_gradient[:, held] = products[:2]
        if row < _N_PAIRS:
            self._step_change[held, row], self._step_change[row, held] = products[2:4]
            self._change_change[held, row] = self._change_change[row, held] = products[4]

    def combine(self, gradient, direction):
        """Fill `direction` with minus the gradient, multiplied by what approximates the inverse of the Hessian.

        Returns the products of the direction with the gradient and with itself.
        """
        shares = readonly(-self._shares(), np.float64)
        held = readonly(self.held, np.int64)
        return self._pieces.over(2, combine_range, self._arrays, held, shares, gradient, direction).sum(axis=0)

    def _shares(self):
        """Return the shares of the gradient, the steps and the changes in the product with the inverse Hessian."""
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
