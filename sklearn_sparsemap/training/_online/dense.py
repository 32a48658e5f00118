"""Dense weights, and what all stores of weights share: places, counters of a fit, and which columns a thread has.

A store holds the weights of an online optimiser in one array, by places: first the intercept, then the additional
scores, then the weights of pairs of feature and output.
"""

from collections import namedtuple

import numpy as np
from numba import types

from ..._core.jit import FLOATS_32_OUT, FLOATS_OUT, INTS_2D, kernel
from ..._core.team import prefetch

Dense = namedtuple(
    "Dense",
    [
        "n_outputs",
        "n_dense",  # number of intercepts and additional scores
        "values",
        "sums",  # for averaging, each change times the number of steps before it; empty without
        # The state of the step rule for each weight: for AdaGrad its sum of squared gradients, for MIRA the direction
        # of the current step (zeros between samples). Empty for other rules.
        "state",
    ],
)
# By the type of the weights. Kernels compute in float64, whatever they read and write.
DENSE = {
    dtype: types.NamedTuple([types.int64] * 2 + [floats] * 3, Dense)
    for dtype, floats in (("float64", FLOATS_OUT), ("float32", FLOATS_32_OUT))
}

# Places of the counters, of which each thread has its own row. Those of the first thread are shared with the caller,
# who may set STOP from another thread: PLACE is where in the order an epoch goes on, FRONT how many places of the store
# have been handed out to threads. The others are for stores of pairs: where a thread takes its next place and where its
# places end, weights that exist, what shrinkages note; and by size the first free block, see pairs.py.
STEP, SINCE, STOP, UNCONVERGED, PLACE, TOP, HELD, N_RECORDS, N_SHRINKAGES, FRONT, END, FREE = range(12)
N_KINDS = 32
# A multiple of a cache line.
N_COUNTERS = 48

# The columns that a thread has. Columns are cut into pieces, and a score is the sum of the pieces' sums, so that it
# does not depend on how many threads there are. A thread has the pieces from `first` on up to `last`. Of row r, the
# entries begins[p, r] to begins[p + 1, r] are of piece p. Its scores are `stride` behind those of the piece before.
Share = namedtuple("Share", ["begins", "first", "last", "stride"])
SHARE = types.NamedTuple([INTS_2D] + [types.int64] * 3, Share)

# Stores with more places than that are not in the processor's nearest caches, and what is needed next is fetched ahead.
_NEAR = 2**16
# Floats in a cache line.
LINE_OF_FLOATS = 8


def new_dense(coef, dense, *, first_state, average):
    """Make a store of these weights.

    Parameters
    ----------
    coef : array of shape (n_features, n_outputs)
    dense : array
        Intercept and additional scores; all of the store has their type.
    first_state : float or None
        What the step rule's state of a weight is at first; None if it keeps none.
    average : bool
    """
    values = np.concatenate([dense, coef.ravel()], dtype=dense.dtype)
    state = np.full(0 if first_state is None else len(values), first_state or 0.0, values.dtype)
    return Dense(coef.shape[1], len(dense), values, np.zeros(len(values) if average else 0, values.dtype), state)


@kernel
def add_at(values, sums, place, delta, step):
    """Add `delta` to a weight, from this step on.

    Like all that is done for each weight it takes arrays, not the store: Numba passes all fields of that at each call.
    """
    values[place] += delta
    if sums.shape[0]:
        sums[place] += (step - 1.0) * delta


@kernel
def no_space(store):
    """Return how many more places a feature can take: it has all of them."""
    return 0


@kernel
def locate_dense(store, counters, features, outputs, stride, places):
    """Write the places of all pairs of these features and outputs, as `locate_pairs` does."""
    for p in range(outputs.shape[0]):
        for k in range(features.shape[0]):
            places[p * stride + k] = store.n_dense + features[k] * store.n_outputs + outputs[p]


def new_counters(n_threads):
    """Make the counters of some threads."""
    counters = np.zeros((n_threads, N_COUNTERS), np.int64)
    counters[:, FREE : FREE + N_KINDS] = -1
    return counters


@kernel
def is_far(store):
    """Tell whether it pays to fetch weights ahead."""
    return store.values.shape[0] > _NEAR


@kernel
def begin_scores(values, piece, here):
    """Write what the scores of a row begin with: the intercept is with the first piece."""
    for j in range(here.shape[0]):
        here[j] = values[j] if piece == 0 else 0.0


@kernel
def fetch_ahead(array, start, stop):
    """Begin to fetch the floats of a range."""
    for place in range(start, stop, LINE_OF_FLOATS):
        prefetch(array, place)
    prefetch(array, stop - 1)


@kernel
def add_weights(here, value, weights, start):
    """Add a multiple of a feature's weights, which begin at `start`, to the scores of a row."""
    for j in range(here.shape[0]):
        # An unsigned index spares Numba's handling of negative indices.
        here[j] += value * weights[np.uint64(start + j)]


@kernel
def score_dense(store, rows, first_row, n_rows, share, scores):
    """Compute the scores of consecutive rows, from the columns of each piece of a share."""
    n_outputs, n_dense, has_data, far = store.n_outputs, store.n_dense, rows.data.shape[0] != 0, is_far(store)
    values, begins = store.values, share.begins
    for r in range(n_rows):
        row = first_row + r
        if far and r + 1 < n_rows:
            for at in range(begins[share.first, row + 1], begins[share.last, row + 1]):
                start = n_dense + rows.indices[at] * n_outputs
                fetch_ahead(values, start, start + n_outputs)
        for piece in range(share.first, share.last):
            place = piece * share.stride + r * n_outputs
            here = scores[place : place + n_outputs]
            begin_scores(values, piece, here)
            for at in range(begins[piece, row], begins[piece + 1, row]):
                value = np.float64(rows.data[at]) if has_data else 1.0
                add_weights(here, value, values, n_dense + rows.indices[at] * n_outputs)
