"""Products of the features of all samples with weights, and with residuals: the two that a gradient needs."""

from itertools import pairwise

import numpy as np
from joblib import effective_n_jobs
from numba import types

from .._jit import FLOATS, FLOATS_2D_OUT, FLOATS_OUT, entry, kernel, readonly
from .._threads import cut_evenly, over_ranges
from ._data import ROWS, make_rows
from ._quasi_newton.pieces import PIECE, Pieces, dot

# Rows are cut into at most this many ranges.
_N_RANGES = 64
# Multiplications of a call on a single thread; products of fewer are not worth threads.
_COST_PER_CALL, _MANY = 2**22, 2**17


@kernel(fast_sums=True)
def _add(total, value, source):
    for j in range(total.shape[0]):
        total[j] += value * source[j]


@kernel(fast_sums=True)
def _add_two(total, value, source, other_value, other):
    for j in range(total.shape[0]):
        total[j] += value * source[j] + other_value * other[j]


@entry(types.void(ROWS, FLOATS, FLOATS, types.int64, types.int64, FLOATS_OUT))
def scores_of_rows(rows, coef, intercept, start, stop, out):
    """Fill rows start..stop of `out` with ``rows @ coef + intercept``; both are flat, one column for each intercept."""
    width = intercept.shape[0]
    for i in range(start, stop):
        own, first, last = out[i * width : (i + 1) * width], rows.indptr[i], rows.indptr[i + 1]
        if width == 1:
            total = intercept[0]
            for k in range(first, last):
                total += rows.data[k] * coef[rows.indices[k]]
            own[0] = total
            continue
        for j in range(width):
            own[j] = intercept[j]
        for k in range(first, last - 1, 2):
            a, b = rows.indices[k] * width, rows.indices[k + 1] * width
            _add_two(own, rows.data[k], coef[a : a + width], rows.data[k + 1], coef[b : b + width])
        if (last - first) % 2:
            a = rows.indices[last - 1] * width
            _add(own, rows.data[last - 1], coef[a : a + width])


@entry(types.void(ROWS, FLOATS, types.int64, FLOATS_OUT))
def transposed_product(rows, residuals, width, out):
    """Fill `out` with ``rows.T @ residuals``; both are flat, of `width` columns.

    Goes through the rows: what most of them have stays in the processor's cache.
    """
    for i in range(out.shape[0]):
        out[i] = 0.0
    for i in range(rows.indptr.shape[0] - 1):
        own = residuals[i * width : (i + 1) * width]
        for k in range(rows.indptr[i], rows.indptr[i + 1]):
            if width == 1:
                out[rows.indices[k]] += rows.data[k] * own[0]
            else:
                a = rows.indices[k] * width
                _add(out[a : a + width], rows.data[k], own)


@entry(types.void(types.float64, types.float64, FLOATS, FLOATS_OUT, types.int64, types.int64, FLOATS_2D_OUT))
def penalise_range(share, alpha, coef, out, start, stop, table):
    """Turn pieces start..stop of `out` into ``share * out + alpha * coef``; `table` gets the squares of `coef`."""
    for p in range(start, stop):
        first, last = p * PIECE, min((p + 1) * PIECE, coef.shape[0])
        for i in range(first, last):
            out[i] = share * out[i] + alpha * coef[i]
        table[p, 0] = dot(coef[first:last], coef[first:last])


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
    """Features as CSR rows, and for each thread the rows of some columns.

    Parameters
    ----------
    X : CSR of shape (n_rows, n_features)
    n_outputs : int
        Columns of the weights.
    n_jobs : int or None
        Number of threads. Each entry of a product is summed up by one of them, in the same order.
    """

    def __init__(self, X, n_outputs, n_jobs):
        self.n_outputs, self.n_jobs = n_outputs, n_jobs if n_outputs * X.nnz >= _MANY else 1
        self.rows = make_rows(X)
        self._row_cuts = cut_evenly(1.0 + np.diff(self.rows.indptr), _N_RANGES)
        self._row_costs = n_outputs * np.diff(self.rows.indptr[self._row_cuts])
        costs = 1.0 + np.bincount(self.rows.indices, minlength=X.shape[1])
        self._cuts = cut_evenly(costs, effective_n_jobs(self.n_jobs))
        self._blocks = [self.rows]
        if len(self._cuts) > 2:
            self._blocks = [make_rows(X[:, first:last]) for first, last in pairwise(self._cuts.tolist())]
        self._pieces = Pieces(X.shape[1] * n_outputs, n_jobs)

    def scores(self, model):
        """Return the scores of all rows under a model."""
        cuts, coef, intercept = self._row_cuts, model.coef.ravel(), readonly(model.intercept)
        scores = np.empty((cuts[-1], self.n_outputs))
        out = scores.reshape(-1)
        over_ranges(
            lambda start, stop: scores_of_rows(self.rows, coef, intercept, cuts[start], cuts[stop], out),
            self._row_costs,
            self.n_jobs,
            _COST_PER_CALL,
        )
        return scores

    def gradient(self, residuals, share, alpha, coef, out):
        """Fill `out` with ``share * X.T @ residuals + alpha * coef``; return the sum of the squares of `coef`."""
        m, cuts, residuals, coef, out = self.n_outputs, self._cuts, residuals.ravel(), coef.ravel(), out.reshape(-1)
        over_ranges(
            lambda start, stop: [
                transposed_product(self._blocks[b], residuals, m, out[cuts[b] * m : cuts[b + 1] * m])
                for b in range(start, stop)
            ],
            np.ones(len(self._blocks)),
            self.n_jobs,
        )
        return float(self._pieces.over(1, penalise_range, share, alpha, coef, out).sum())
