"""The weights of pairs, read and written: scores of rows, and sparse matrices."""

import numpy as np
from numba import types

from ..._jit import FLOATS, FLOATS_2D_OUT, FLOATS_OUT, INTS, INTS_OUT, PARTS_OUT, copy_into, entry, kernel
from ..._threads import over_ranges
from .._data import ROWS
from .dense import STEP
from .pairs import ATOM, COUNT, HEAD, PAIRS, block_of, locate_pairs, move_pairs, scale_until


@kernel(fast_sums=True)
def _add_row(here, values, start, factor):
    """Add a multiple of a dense block to scores."""
    for j in range(here.shape[0]):
        # Of what may be negative Numba would look from the end.
        here[j] += factor * values[np.uint64(start + j)]


@kernel
def score_pairs(store, rows, first_row, n_rows, scores):
    """Compute the scores of consecutive rows.

    Nearly all time goes into fetching what lies anywhere in memory. So each kind of fetch has a loop of its own over
    the entries of a row, without branches, in which many fetches are under way at a time.
    """
    n_outputs, most = store.n_outputs, 0
    for r in range(first_row, first_row + n_rows):
        most = max(most, rows.indptr[r + 1] - rows.indptr[r])
    starts, counts, outputs = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    factors, values = np.empty(most), np.empty(most)
    for r in range(n_rows):
        here = scores[r * n_outputs : (r + 1) * n_outputs]
        copy_into(here, store.values[:n_outputs])
        first, n = rows.indptr[first_row + r], 0
        for at in range(first, rows.indptr[first_row + r + 1]):
            f = np.uint64(rows.indices[at])
            starts[n], counts[n] = store.features[f, HEAD], store.features[f, COUNT]
            factors[n] = rows.data[at] * store.scale[np.uint64(store.features[f, ATOM])]
            n += counts[n] != 0
        for k in range(n):
            start = np.uint64(starts[k])
            outputs[k], values[k] = store.outputs[start], store.values[start]
        for k in range(n):
            if counts[k] < 0:
                _add_row(here, store.values, starts[k], factors[k])
            else:
                here[np.uint64(outputs[k])] += factors[k] * values[k]
                for i in range(starts[k] + 1, starts[k] + counts[k]):
                    place = np.uint64(i)
                    here[np.uint64(store.outputs[place])] += factors[k] * store.values[place]


@entry(types.void(PAIRS, INTS_OUT, types.boolean, INTS_OUT, PARTS_OUT, FLOATS_OUT))
def read_pairs(store, counters, average, indptr, outputs, weights):
    """Write all weights as CSR rows, one for each feature; averaged over the steps if asked for."""
    step = counters[STEP]
    at = 0
    for f in range(store.features.shape[0]):
        indptr[f] = at
        if store.features[f, COUNT] == 0:
            continue
        atom = store.features[f, ATOM]
        so_far = scale_until(store, atom, step)
        start, stop = block_of(store, f)
        for place in range(start, stop):
            weight = store.values[place] * store.scale[atom]
            if average and step > 0:
                weight = (store.values[place] * so_far - store.sums[place]) / step
            if weight != 0.0:
                outputs[at] = place - start if store.features[f, COUNT] < 0 else store.outputs[place]
                weights[at] = weight
                at += 1
    indptr[store.features.shape[0]] = at


@entry(types.void(ROWS, ROWS, types.int64, types.int64, FLOATS_2D_OUT))
def _add_sparse_scores(rows, coef, start, stop, scores):
    """Add to `scores`, for rows `start` to `stop`, the products of features and sparse weights, both in CSR rows."""
    for r in range(start, stop):
        for at in range(rows.indptr[r], rows.indptr[r + 1]):
            f, value = rows.indices[at], rows.data[at]
            for place in range(coef.indptr[f], coef.indptr[f + 1]):
                scores[r, coef.indices[place]] += value * coef.data[place]


@entry(types.void(PAIRS, INTS_OUT, INTS, INTS, FLOATS))
def load_pairs(store, counters, indptr, outputs, weights):
    """Put the weights of CSR rows, one for each feature, into an empty store that has the space."""
    feature, one, places = np.zeros(1, np.int64), np.ones(1), np.empty(store.n_outputs, np.int64)
    for f in range(store.features.shape[0]):
        feature[0] = f
        here = outputs[indptr[f] : indptr[f + 1]]
        locate_pairs(store, counters, feature, here, 1, places)
        move_pairs(store, feature, one, weights[indptr[f] : indptr[f + 1]], places, 1.0, 1)


def sparse_scores(rows, coef, intercept, n_jobs):
    """Compute the scores of rows of features under sparse weights, both in `Rows`."""
    scores = np.empty((len(rows.indptr) - 1, len(intercept)))
    scores[:] = intercept
    costs = np.diff(rows.indptr) + 1
    over_ranges(lambda start, stop: _add_sparse_scores(rows, coef, start, stop, scores), costs, n_jobs)
    return scores
