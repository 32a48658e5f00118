"""Scores of rows of features under the weights of a linear model, dense or sparse, on threads.

Used by `estimators`.
"""

from collections import namedtuple

import numpy as np
from numba import types
from scipy import sparse

from .._core.jit import FLOATS, FLOATS_2D_OUT, FLOATS_32, PARTS, entry, kernel, readonly
from .._core.team import prefetch
from .._core.threads import count_threads, over_ranges
from ._data import ROWS, Rows, all_ones

# Sparse weights as CSR rows, one for each feature.
_Weights = namedtuple("_Weights", ["data", "indices", "indptr"])

# Number of multiplications in a call on a single thread.
_COST_PER_CALL = 2**22


@kernel
def _look_ahead(rows, weights, r):
    """Prefetch the row pointers of the weights of row `r`'s features."""
    for at in range(rows.indptr[r], rows.indptr[r + 1]):
        prefetch(weights.indptr, np.int64(rows.indices[at]))


def _add_products(rows, weights, scores):
    """Add the products of features and sparse weights to `scores`. Rows without data are rows of ones.

    Most time is spent on memory access at random places, so data are prefetched one or two rows ahead.
    """
    n = scores.shape[0]
    has_data = rows.data.shape[0] != 0
    for r in range(min(n, 2)):
        _look_ahead(rows, weights, r)
    for r in range(n):
        if r + 2 < n:
            _look_ahead(rows, weights, r + 2)
        if r + 1 < n:
            for at in range(rows.indptr[r + 1], rows.indptr[r + 2]):
                start = np.int64(weights.indptr[np.uint64(rows.indices[at])])
                prefetch(weights.data, start)
                prefetch(weights.indices, start)
        own = scores[r]
        for at in range(rows.indptr[r], rows.indptr[r + 1]):
            f = np.uint64(rows.indices[at])
            value = rows.data[at] if has_data else 1.0
            for place in range(weights.indptr[f], weights.indptr[f + np.uint64(1)]):
                own[np.uint64(weights.indices[np.uint64(place)])] += value * weights.data[np.uint64(place)]


# Functions by the type of the weights.
_ADD_PRODUCTS = {
    dtype: entry(types.void(ROWS, types.NamedTuple([floats, PARTS, PARTS], _Weights), FLOATS_2D_OUT))(_add_products)
    for dtype, floats in (("float64", FLOATS), ("float32", FLOATS_32))
}


# Callers check the scores. Overflow is possible in edited models.
@np.errstate(over="ignore", invalid="ignore")
def linear_scores(X, model, n_jobs):
    """Compute the scores of rows under a linear model, as float64.

    Products of dense weights of float32 are summed in float32.

    Parameters
    ----------
    X : array or CSR of shape (n_rows, n_features)
    model : LinearModel
    n_jobs : int or None
        Number of threads. The scores do not depend on it.

    Returns
    -------
    scores : array of shape (n_rows, n_outputs)
    """
    coef = model.coef
    intercept = model.intercept.astype(np.float64, copy=False)
    is_narrow = model.coef.dtype == np.float32
    if is_narrow:
        X = X.astype(np.float32, copy=False)
    if not sparse.issparse(coef) and not sparse.issparse(X):
        return X @ coef + intercept
    if not sparse.issparse(X):
        X = sparse.csr_array(X)
    if not sparse.issparse(coef) and not is_narrow and X.dtype == coef.dtype and count_threads(n_jobs) == 1:
        scores = X @ coef
        scores += intercept
        return scores
    scores = np.empty((X.shape[0], len(intercept)))
    scores[:] = intercept if sparse.issparse(coef) else 0.0
    if sparse.issparse(coef):
        if coef.format != "csr":
            used, indices = np.unique(X.indices, return_inverse=True)
            coef = model.of_features(used)
            X = sparse.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], len(used)))
        data = readonly(coef.data, coef.dtype)
        weights = _Weights(data, readonly(coef.indices, np.int32), readonly(coef.indptr, np.int32))
        ones = all_ones(X.data)

        def fill(start, stop):
            data, indices, indptr = _slice(X, start, stop)
            data = readonly(data[:0] if ones else data)
            rows = Rows(data, readonly(indices, np.int32), readonly(indptr, np.int64))
            _ADD_PRODUCTS[model.dtype.name](rows, weights, scores[start:stop])
    else:

        def fill(start, stop):
            own = sparse.csr_array(_slice(X, start, stop), shape=(stop - start, X.shape[1]))
            np.add(own @ coef, intercept, out=scores[start:stop])

    # Ranges of rows are converted to other types one by one, to save memory.
    over_ranges(fill, 1 + scores.shape[1] * np.diff(X.indptr), n_jobs, _COST_PER_CALL)
    return scores


def _slice(X, start, stop):
    """Return the arrays of some rows of a CSR matrix, as views except for `indptr`."""
    first, last = X.indptr[start], X.indptr[stop]
    return X.data[first:last], X.indices[first:last], X.indptr[start : stop + 1] - first
