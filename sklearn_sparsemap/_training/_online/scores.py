"""Scores of rows from weights of pairs, and conversion of these weights from and to sparse matrices.

The conventions of `dense` hold.

Used by `optimizer.py` and `rules.py`.
"""

import numpy as np
from numba import types

from ..._core.jit import FLOATS, FLOATS_32_OUT, FLOATS_OUT, INTS, INTS_OUT, PARTS_OUT, entry, kernel
from ..._core.team import prefetch
from .dense import DENSE, STEP, Dense, add_weights, begin_scores, clock_after, fetch_ahead, is_far
from .pairs import ATOM, COUNT, HEAD, PAIRS, Pairs, block_of, locate_pairs, move_pairs, scale_until
from .rule import ROWS_OF


@kernel
def score_pairs(store, rows, first_row, n_rows, share, scores):
    """Compute the scores of consecutive rows, for each piece of columns of a thread.

    Nearly all time is spent on memory access at random places. So the blocks of a row are looked up before the weights
    of the previous row are read, and the addresses of the lookup are prefetched another row earlier. The arguments are
    described in `dense`.
    """
    n_outputs = store.n_outputs
    far = is_far(store)
    has_data = rows.data.shape[0] != 0
    begins = share.begins
    most = 0
    features, scale, values, outputs = store.features, store.score_scale, store.values, store.outputs
    for row in range(first_row, first_row + n_rows):
        most = max(most, begins[share.last, row] - begins[share.first, row])
    # The blocks of two rows, each with a spare place for a feature without weights: the beginning of each block, its
    # number of weights, the factor of the weights, and the end of each piece.
    most += 1
    starts = np.empty(2 * most, np.int64)
    counts = np.empty(2 * most, np.int64)
    factors = np.empty(2 * most)
    n_pieces = share.last - share.first
    ends = np.empty(2 * n_pieces, np.int64)
    now = np.int64(0)
    later = most
    now_end = np.int64(0)
    later_end = n_pieces
    for r in range(n_rows + 1):
        row = first_row + r
        if far and r + 1 < n_rows:
            for at in range(begins[share.first, row + 1], begins[share.last, row + 1]):
                prefetch(features, 4 * np.int64(rows.indices[at]))
        if r < n_rows:
            n = later
            for piece in range(share.first, share.last):
                for at in range(begins[piece, row], begins[piece + 1, row]):
                    f = np.uint64(rows.indices[at])
                    start = np.int64(features[f, HEAD])
                    count = np.int64(features[f, COUNT])
                    starts[n], counts[n] = start, count
                    factor = scale[np.uint64(features[f, ATOM])]
                    factors[n] = factor * (rows.data[at] if has_data else 1.0)
                    # A deferred shrinkage sets the factors of most groups to zero.
                    n += count != 0 and factor != 0.0
                ends[later_end + piece - share.first] = n
            if far:
                for k in range(later, n):
                    if counts[k] < 0:
                        fetch_ahead(values, starts[k], starts[k] + n_outputs)
                    else:
                        prefetch(values, starts[k])
                        prefetch(outputs, starts[k])
        k = now
        for piece in range(share.first, share.last if r > 0 else share.first):
            place = piece * share.stride + (r - 1) * n_outputs
            here = scores[place : place + n_outputs]
            begin_scores(values, piece, here)
            while k < ends[now_end + piece - share.first]:
                if counts[k] < 0:
                    add_weights(here, factors[k], values, starts[k])
                else:
                    for i in range(starts[k], starts[k] + counts[k]):
                        here[np.uint64(outputs[np.uint64(i)])] += factors[k] * values[np.uint64(i)]
                k += 1
        now, later, now_end, later_end = later, now, later_end, now_end


def _read_pairs(store, counters, average, indptr, outputs, weights):
    """Write all weights as CSR rows, one for each feature.

    Parameters
    ----------
    store : Pairs
    counters : int64 array
    average : bool
        Whether to average the weights over the steps.
    indptr, outputs, weights : arrays
        Output: the CSR matrix.
    """
    clock = clock_after(store.pace, counters[STEP])
    at = 0
    for f in range(store.features.shape[0]):
        indptr[f] = at
        if store.features[f, COUNT] == 0:
            continue
        atom = store.features[f, ATOM]
        so_far = scale_until(store, atom, clock)
        start, stop = block_of(store, f)
        for place in range(start, stop):
            weight = store.values[place] * store.score_scale[atom]
            if average and clock > 0.0:
                weight = (store.values[place] * so_far - store.sums[place]) / clock
            if weight != 0.0:
                outputs[at] = place - start if store.features[f, COUNT] < 0 else store.outputs[place]
                weights[at] = weight
                at += 1
    indptr[store.features.shape[0]] = at


def _compare_dense(store, counters, rows, averaged, current):
    """Compute the scores of rows with the averaged and with the current weights: arrays of (n_rows * n_outputs,)."""
    clock = clock_after(store.pace, counters[STEP])
    n_outputs = store.n_outputs
    has_data = rows.data.shape[0] != 0
    for r in range(rows.indptr.shape[0] - 1):
        for j in range(n_outputs):
            current[r * n_outputs + j] = store.values[j]
            averaged[r * n_outputs + j] = store.values[j] - store.sums[j] / clock
        for at in range(rows.indptr[r], rows.indptr[r + 1]):
            value = np.float64(rows.data[at]) if has_data else 1.0
            first = store.n_dense + rows.indices[at] * n_outputs
            for j in range(n_outputs):
                weight = store.values[first + j]
                current[r * n_outputs + j] += value * weight
                averaged[r * n_outputs + j] += value * (weight - store.sums[first + j] / clock)


def _compare_pairs(store, counters, rows, averaged, current):
    """Compute the scores of rows as `_compare_dense` does."""
    clock = clock_after(store.pace, counters[STEP])
    n_outputs = store.n_outputs
    has_data = rows.data.shape[0] != 0
    for r in range(rows.indptr.shape[0] - 1):
        for j in range(n_outputs):
            current[r * n_outputs + j] = store.values[j]
            averaged[r * n_outputs + j] = store.values[j] - store.sums[j] / clock
        for at in range(rows.indptr[r], rows.indptr[r + 1]):
            value = np.float64(rows.data[at]) if has_data else 1.0
            f = rows.indices[at]
            if store.features[f, COUNT] == 0:
                continue
            atom = store.features[f, ATOM]
            scale = store.score_scale[atom]
            so_far = scale_until(store, atom, clock)
            start, stop = block_of(store, f)
            for place in range(start, stop):
                at_output = r * n_outputs + (place - start if store.features[f, COUNT] < 0 else store.outputs[place])
                current[at_output] += value * store.values[place] * scale
                averaged[at_output] += value * (store.values[place] * so_far - store.sums[place]) / clock


def _sum_of_squares(store, multiplicity):
    """Return the sum of the squares of all weights; each stored weight is the sum of `multiplicity` equal weights."""
    total = 0.0
    for f in range(store.features.shape[0]):
        if store.features[f, COUNT] != 0:
            start, stop = block_of(store, f)
            own = 0.0
            for place in range(start, stop):
                own += store.values[place] ** 2
            total += own * store.scale[store.features[f, ATOM]] ** 2 / multiplicity[f]
    return total


def _load_pairs(store, counters, indptr, outputs, weights):
    """Load the weights of CSR rows, one for each feature, into an empty store with enough space."""
    feature = np.zeros(1, np.int64)
    one = np.ones(1)
    places = np.empty(store.n_outputs, np.int64)
    for f in range(store.features.shape[0]):
        feature[0] = f
        here = outputs[indptr[f] : indptr[f + 1]]
        locate_pairs(store, counters, feature, here, 1, places)
        move_pairs(store, feature, one, weights[indptr[f] : indptr[f + 1]], places, 1.0, 0.0)


# Functions by the type of the weights.
READ_PAIRS = {
    dtype: entry(types.void(store, INTS_OUT, types.boolean, INTS_OUT, PARTS_OUT, floats))(_read_pairs)
    for (dtype, store), floats in zip(PAIRS.items(), (FLOATS_OUT, FLOATS_32_OUT))
}
COMPARED_SCORES = {
    (store, dtype): entry(types.void(of_store[dtype], INTS_OUT, rows, FLOATS_OUT, FLOATS_OUT))(function)
    for store, of_store, function in ((Dense, DENSE, _compare_dense), (Pairs, PAIRS, _compare_pairs))
    for dtype, rows in ROWS_OF.items()
}
SUMS_OF_SQUARES = {dtype: entry(types.float64(store, FLOATS))(_sum_of_squares) for dtype, store in PAIRS.items()}
LOAD_PAIRS = {
    dtype: entry(types.void(store, INTS_OUT, INTS, INTS, FLOATS))(_load_pairs) for dtype, store in PAIRS.items()
}
