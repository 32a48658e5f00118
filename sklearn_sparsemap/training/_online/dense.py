"""Dense weights, and the common part of all stores of weights: places, counters, and the columns of a thread.

A store holds the weights of an online optimiser in one array, and a place is an index into it. The intercept comes
first, then the additional scores, then the weights of pairs of feature and output.

Conventions
-----------
store : Dense or Pairs
counters : int64 array of shape (N_COUNTERS,)
    Counters of a thread, see below.
features, outputs : int64 arrays
    Features of a row, and outputs whose weights change.
places : int64 array
    Output: ``places[p * stride + k]`` is the place of the weight of output p and feature k.
rows : Rows
first_row, n_rows : int
    The rows of a sample.
share : Share
    The columns of a thread.
scores : float64 array
    Output: the scores of the rows, for each piece of columns.
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
# By the type of the weights. Kernels compute in float64 for all types.
DENSE = {
    dtype: types.NamedTuple([types.int64] * 2 + [floats] * 3, Dense)
    for dtype, floats in (("float64", FLOATS_OUT), ("float32", FLOATS_32_OUT))
}

# Indices of the counters. Each thread has its own row. The first thread's row is shared with the caller, which may set
# STOP from another thread. PLACE is the position in the order of samples at which an epoch continues, and FRONT the
# number of places of the store that were assigned to threads. The others are for stores of pairs: the next and the end
# of a thread's places, the number of existing weights, the records of shrinkages, and for each size the first free
# block, see pairs.py.
STEP, SINCE, STOP, UNCONVERGED, PLACE, TOP, HELD, N_RECORDS, N_SHRINKAGES, FRONT, END, FREE = range(12)
N_KINDS = 32
# A multiple of the integers in a cache line.
N_COUNTERS = 48

# The columns of a thread. Columns are cut into pieces, and a score is the sum of the pieces' sums, so that it does not
# depend on the number of threads. A thread has the pieces from `first` to `last`. The entries begins[p, r] to begins[p
# + 1, r] of row r are in piece p. The scores of consecutive pieces are `stride` apart.
Share = namedtuple("Share", ["begins", "first", "last", "stride"])
SHARE = types.NamedTuple([INTS_2D] + [types.int64] * 3, Share)

# Stores with more places than this do not fit into the fast caches, so data are prefetched.
_NEAR = 2**16
# Floats in a cache line.
LINE_OF_FLOATS = 8


def new_dense(coef, dense, *, first_state, average):
    """Make a store with these weights.

    Parameters
    ----------
    coef : array of shape (n_features, n_outputs)
    dense : array
        Intercept and additional scores. The whole store has their type.
    first_state : float or None
        Initial state of the step rule for each weight; None if it has no state.
    average : bool
    """
    values = np.concatenate([dense, coef.ravel()], dtype=dense.dtype)
    state = np.full(0 if first_state is None else len(values), first_state or 0.0, values.dtype)
    return Dense(coef.shape[1], len(dense), values, np.zeros(len(values) if average else 0, values.dtype), state)


@kernel
def add_at(values, sums, place, delta, step):
    """Add `delta` to a weight, effective from this step on.

    Functions for single weights take arrays, not the store, because Numba passes all fields of a store at each call.
    """
    values[place] += delta
    if sums.shape[0]:
        sums[place] += (step - 1.0) * delta


@kernel
def no_space(store):
    """Return 0, the number of additional places that a feature may need: it has all of them."""
    return 0


@kernel
def locate_dense(store, counters, features, outputs, stride, places):
    """Write the places of all pairs of these features and outputs, as `locate_pairs` does."""
    for p in range(outputs.shape[0]):
        for k in range(features.shape[0]):
            places[p * stride + k] = store.n_dense + features[k] * store.n_outputs + outputs[p]


def new_counters(n_threads):
    """Allocate the counters of threads."""
    counters = np.zeros((n_threads, N_COUNTERS), np.int64)
    counters[:, FREE : FREE + N_KINDS] = -1
    return counters


@kernel
def is_far(store):
    """Tell whether prefetching weights pays off."""
    return store.values.shape[0] > _NEAR


@kernel
def begin_scores(values, piece, here):
    """Initialise the scores of a row; the intercept belongs to the first piece."""
    for j in range(here.shape[0]):
        here[j] = values[j] if piece == 0 else 0.0


@kernel
def fetch_ahead(array, start, stop):
    """Prefetch a range of floats."""
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
