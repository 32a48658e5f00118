"""Products of the features of all samples with weights, and with residuals: the two that a gradient needs."""

import numpy as np
from numba import types

from .._jit import FLOATS, FLOATS_OUT, INTS, entry, kernel, readonly
from .._threads import cut_evenly, over_ranges
from ._data import ROWS, make_rows

# The rows of a matrix are always cut into at most this many ranges, so that sums do not depend on the threads.
_N_RANGES = 64
# Multiplications of a call on a single thread.
_COST_PER_CALL = 2**22


@kernel(fast_sums=True)
def _add(total, value, source):
    for j in range(total.shape[0]):
        total[j] += value * source[j]


@kernel(fast_sums=True)
def _add_two(total, value, source, other_value, other):
    for j in range(total.shape[0]):
        total[j] += value * source[j] + other_value * other[j]


@kernel(fast_sums=True)
def _finish(total, share, offset, offset_share):
    """Turn a row of the product into one of the result; return the sum of the squares of the offset."""
    squares = 0.0
    for j in range(total.shape[0]):
        squares += offset[j] * offset[j]
        total[j] = share * total[j] + offset_share * offset[j]
    return squares


@entry(
    types.void(ROWS, FLOATS, types.float64, FLOATS, types.float64, types.int64, INTS, FLOATS_OUT, FLOATS_OUT)
)
def multiply_ranges(matrix, factor, share, offset, offset_share, width, cuts, out, squares):
    """Fill ranges of rows of `out` with ``share * matrix @ factor + offset_share * offset``.

    `factor` and `out` have `width` columns; `offset` has, too: a single row for all, or as many as `out`. Range r has
    the rows cuts[r]..cuts[r + 1], and leaves the sum of the squares of their offset in squares[r].
    """
    stride = width if offset.shape[0] > width else 0
    for r in range(cuts.shape[0] - 1):
        total = 0.0
        for i in range(cuts[r], cuts[r + 1]):
            own, given = out[i * width : (i + 1) * width], offset[i * stride : i * stride + width]
            first, last = matrix.indptr[i], matrix.indptr[i + 1]
            if width == 1:
                sum_ = 0.0
                for k in range(first, last):
                    sum_ += matrix.data[k] * factor[matrix.indices[k]]
                own[0] = sum_
            else:
                for j in range(width):
                    own[j] = 0.0
                for k in range(first, last - 1, 2):
                    a, b = matrix.indices[k] * width, matrix.indices[k + 1] * width
                    _add_two(own, matrix.data[k], factor[a : a + width], matrix.data[k + 1], factor[b : b + width])
                if (last - first) % 2:
                    a = matrix.indices[last - 1] * width
                    _add(own, matrix.data[last - 1], factor[a : a + width])
            total += _finish(own, share, given, offset_share)
        squares[r] = total


class DenseFeatures:
    """Features as a dense array; BLAS does the work.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    n_outputs : int
        Columns of the weights.
    n_jobs : int or None
        Not used.
    """

    def __init__(self, X, n_outputs, n_jobs):
        self.X = X

    def scores(self, model):
        """Return the scores of all rows under a model."""
        scores = self.X @ model.coef
        scores += model.intercept
        return scores

    def gradient(self, residuals, share, alpha, coef, out):
        """Fill `out` with ``share * X.T @ residuals + alpha * coef``; return the sum of the squares of `coef`."""
        np.matmul(self.X.T, residuals, out=out)
        out *= share
        out += alpha * coef
        return float(np.vdot(coef, coef))


class SparseFeatures:
    """Features as CSR rows and as CSC columns, so that each entry of a product is summed up in one place.

    Parameters
    ----------
    X : CSR of shape (n_rows, n_features)
    n_outputs : int
        Columns of the weights.
    n_jobs : int or None
        Number of threads.
    """

    def __init__(self, X, n_outputs, n_jobs):
        self.n_outputs, self.n_jobs = n_outputs, n_jobs
        self.rows = make_rows(X)
        self.columns = make_rows(X.T)
        if (self.rows.data == 1.0).all():
            # One array of ones is enough.
            self.columns = self.columns._replace(data=self.rows.data)
        # Of the rows and of the columns: the ranges, and what each costs.
        self._ranges = []
        for matrix in (self.rows, self.columns):
            cuts = cut_evenly(1.0 + np.diff(matrix.indptr), _N_RANGES)
            costs = n_outputs * (np.diff(cuts) + np.diff(matrix.indptr[cuts]))
            self._ranges.append((readonly(cuts, np.int64), costs))

    def scores(self, model):
        """Return the scores of all rows under a model."""
        scores = np.empty((len(self.rows.indptr) - 1, self.n_outputs))
        self._multiply(0, model.coef, 1.0, model.intercept, 1.0, scores)
        return scores

    def gradient(self, residuals, share, alpha, coef, out):
        """Fill `out` with ``share * X.T @ residuals + alpha * coef``; return the sum of the squares of `coef`."""
        return self._multiply(1, residuals, share, coef, alpha, out)

    def _multiply(self, which, factor, share, offset, offset_share, out):
        matrix, (cuts, costs) = (self.rows, self.columns)[which], self._ranges[which]
        factor, offset, out = factor.ravel(), offset.ravel(), out.reshape(-1)
        squares = np.zeros(len(cuts) - 1)
        over_ranges(
            lambda start, stop: multiply_ranges(
                matrix, factor, share, offset, offset_share, self.n_outputs, cuts[start : stop + 1], out,
                squares[start:stop],
            ),
            costs,
            self.n_jobs,
            _COST_PER_CALL,
        )  # fmt: skip
        return float(squares.sum())
