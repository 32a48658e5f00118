"""Adam, in place and in threads, in one pass over the weights, even if the features of the batch are sparse.

Conventions
-----------
weights, gradient : arrays of float64 or float32
    Weights, which are updated, and the gradient of the loss.
first, second : arrays of the shape and the type of the weights
    Adam's moments, which are updated.
rate : float
    Learning rate, divided by ``1 - beta_1^t`` at step t.
second_scale : float
    ``1 / (1 - beta_2^t)``.
alpha : float
    Strength of the penalty.
start, stop : int
    The range of weights, or of features, of a call.

Used by `_minibatch.py`.
"""

import numpy as np
from numba import types

from .._core.jit import (
    FLOATS,
    FLOATS_2D,
    FLOATS_2D_OUT,
    FLOATS_32,
    FLOATS_32_OUT,
    FLOATS_OUT,
    INTS,
    entry,
    kernel,
    readonly,
)
from .._core.threads import over_ranges
from ._data import ROWS, Rows

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8
_FLOATS_2D_32 = types.Array(types.float32, 2, "C", readonly=True)
_FLOATS_2D_32_OUT = types.Array(types.float32, 2, "C")


@kernel(fast_sums=True)
def move(weights, gradient, first, second, rate, second_scale, alpha):
    """Update weights by a step of Adam. The gradient is ``gradient + alpha * weights``."""
    for i in range(weights.shape[0]):
        g = gradient[i] + alpha * weights[i]
        m = _BETA_1 * first[i] + (1.0 - _BETA_1) * g
        v = _BETA_2 * second[i] + (1.0 - _BETA_2) * g * g
        first[i] = m
        second[i] = v
        weights[i] -= rate * m / (np.sqrt(v * second_scale) + _EPSILON)


def _move_range(weights, gradient, first, second, rate, second_scale, alpha, start, stop):
    """Update the weights from `start` to `stop`."""
    move(weights[start:stop], gradient[start:stop], first[start:stop], second[start:stop], rate, second_scale, alpha)


def _move_rows_range(weights, rows, columns, residuals, first, second, numbers, start, stop):
    """Update the weights of rows `start` to `stop` of some features, for a sparse batch.

    Parameters
    ----------
    weights, first, second : arrays of shape (n_features, n_outputs)
        Weights and Adam's moments, which are updated.
    rows : int array of shape (n_rows,)
        The features whose weights are updated.
    columns : Rows
        These features of the batch in CSC: for each feature its samples.
    residuals : array of shape (n_samples, n_outputs)
        Gradients with respect to the scores.
    numbers : (float, float, float)
        `rate`, `second_scale` and `alpha`.
    start, stop
        See the module.
    """
    rate, second_scale, alpha = numbers
    gradient = np.empty(weights.shape[1])
    for place in range(start, stop):
        gradient[:] = 0.0
        for entry_ in range(columns.indptr[place], columns.indptr[place + 1]):
            value = columns.data[entry_]
            residual = residuals[columns.indices[entry_]]
            for output in range(gradient.shape[0]):
                gradient[output] += value * residual[output]
        row = rows[place]
        move(weights[row], gradient, first[row], second[row], rate, second_scale, alpha)


_RANGE = [types.int64] * 2
# Functions by the type of the weights.
_MOVE_RANGE = {
    dtype: entry(types.void(out, floats, out, out, *[types.float64] * 3, *_RANGE))(_move_range)
    for dtype, floats, out in (("float64", FLOATS, FLOATS_OUT), ("float32", FLOATS_32, FLOATS_32_OUT))
}
_MOVE_ROWS_RANGE = {
    dtype: entry(types.void(out, INTS, ROWS, floats, out, out, types.UniTuple(types.float64, 3), *_RANGE))(
        _move_rows_range
    )
    for dtype, floats, out in (("float64", FLOATS_2D, FLOATS_2D_OUT), ("float32", _FLOATS_2D_32, _FLOATS_2D_32_OUT))
}


class Adam:
    """Adam: moments of arrays of weights, and steps that change the weights in place.

    Parameters
    ----------
    arrays : list of arrays
        The weights.

    `estimators/_state/optimizers.py` reads and sets `first`, `second` and `n_steps`.
    """

    def __init__(self, arrays):
        self.first = [np.zeros_like(a) for a in arrays]
        self.second = [np.zeros_like(a) for a in arrays]
        self.n_steps = 0

    def copy(self):
        copied = Adam([])
        copied.first, copied.second = ([a.copy() for a in moments] for moments in (self.first, self.second))
        copied.n_steps = self.n_steps
        return copied

    def step(self, arrays, gradients, rates, alphas, n_jobs=None):
        """Update all arrays.

        Parameters
        ----------
        arrays : list of arrays
            The weights.
        gradients : list
            The gradient of each array, or ``(features, residuals)`` of a sparse batch. The latter means ``features.T @
            residuals``, which is never stored. ``(features, residuals, rows)`` is the gradient of some rows of the
            weights; the others, with their moments, do not change.
        rates, alphas : lists of float
            Learning rate of each array, and strength of its penalty ``alpha / 2 * |weights|^2``.
        n_jobs : int, default=None
            Number of threads.
        """
        self.n_steps += 1
        scale = 1.0 / (1.0 - _BETA_1**self.n_steps)
        second_scale = 1.0 / (1.0 - _BETA_2**self.n_steps)
        for weights, gradient, first, second, rate, alpha in zip(
            arrays, gradients, self.first, self.second, rates, alphas
        ):
            numbers = rate * scale, second_scale, float(alpha)
            if isinstance(gradient, tuple):
                features, residuals, *given = gradient
                rows = given[0] if given else np.arange(len(weights))
                columns = features.tocsc()
                flat = columns.data, columns.indices, columns.indptr
                laid_out = Rows(*map(readonly, flat, (np.float64, np.int32, np.int64)))
                parts = weights, readonly(rows, np.int64), laid_out, residuals, first, second, numbers
                kernel_ = _MOVE_ROWS_RANGE[weights.dtype.name]
                costs = np.diff(columns.indptr) + 4.0
            else:
                parts = weights.ravel(), gradient.ravel(), first.ravel(), second.ravel(), *numbers
                kernel_ = _MOVE_RANGE[weights.dtype.name]
                costs = np.ones(max(1, weights.size // 4096))
            n_blocks = len(costs)
            size = len(parts[1])

            def run(start, stop, kernel_=kernel_, parts=parts, n_blocks=n_blocks, size=size):
                kernel_(*parts, start * size // n_blocks, stop * size // n_blocks)

            if n_blocks == 1:
                # A few microseconds, less than the division into ranges takes.
                run(0, 1)
            else:
                over_ranges(run, costs, n_jobs, cost_per_call=np.inf)
