"""Products of rows of features and sparse weights, for the scores of a linear model.

Used by `score_models.py`.
"""

from collections import namedtuple

import numpy as np
from numba import types

from .._core.jit import FLOATS, FLOATS_2D_OUT, FLOATS_32, PARTS, entry, kernel
from .._core.team import prefetch
from ._data import ROWS

# Sparse weights as CSR rows, one for each feature.
Weights = namedtuple("Weights", ["data", "indices", "indptr"])


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
ADD_PRODUCTS = {
    dtype: entry(types.void(ROWS, types.NamedTuple([floats, PARTS, PARTS], Weights), FLOATS_2D_OUT))(_add_products)
    for dtype, floats in (("float64", FLOATS), ("float32", FLOATS_32))
}
