"""Dense weights, and definitions for all stores of weights: places, counters, and the columns of a thread.

A store holds the weights of an online optimiser in one array. A place is an index into it. The intercept comes first,
then the additional scores, then the weights of pairs of a feature and an output.

`estimators/_state/optimizers.py` reads and writes the stores and the counters by the names of their fields, and relies
on the order of the places.

Conventions
-----------
store : Dense or Pairs
counters : int64 array of shape (N_COUNTERS,)
    Counters of a thread; see `STEP`.
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

Used by `_training`, `estimators` and most files here.
"""

from collections import namedtuple

import numpy as np
from numba import types

from ..._core.jit import FLOATS_32_OUT, FLOATS_OUT, INTS_2D, by_address, kernel
from ..._core.team import prefetch

Dense = namedtuple(
    "Dense",
    [
        "n_outputs",
        "n_dense",  # number of intercepts and additional scores
        "values",
        "sums",  # for averaging: the sum over changes, each times the clock before it (see `CLOCK`); else empty
        # The state of the step rule: for AdaGrad the sum of squared gradients (see `FADED`), for MIRA the
        # direction of the current step (zeros between samples). Empty for other rules.
        "state",
        "pace",  # see `CLOCK`
    ],
)
# Numba types by the type of the weights. Kernels compute in float64 for all types.
DENSE = {
    dtype: by_address([types.int64] * 2 + [floats] * 3 + [FLOATS_OUT], Dense)
    for dtype, floats in (("float64", FLOATS_OUT), ("float32", FLOATS_32_OUT))
}

# Indices of the counters. Each thread has its own row. The caller reads the first thread's row, and may set STOP there
# from another thread.
# STEP, SINCE: number of samples visited, in total and since the last penalty or shrinkage
# UNCONVERGED: number of samples whose inference did not converge
# PLACE: position in the order of samples at which an epoch continues
# FRONT: number of places of the store that are assigned to threads
# The following are for stores of pairs, see pairs.py:
# TOP, END: the next free place of a thread, and the end of its places
# HELD: number of existing weights
# N_RECORDS, N_SHRINKAGES: number of records of the number of weights, and of shrinkages
# FREE: from this index on, the first free block of each size
STEP, SINCE, STOP, UNCONVERGED, PLACE, TOP, HELD, N_RECORDS, N_SHRINKAGES, FRONT, END, FREE = range(12)
N_KINDS = 32  # number of sizes of blocks
N_COUNTERS = 48  # a multiple of 8, the number of integers in a cache line
# The counters of a new thread.
NEW_COUNTERS = np.zeros((1, N_COUNTERS), np.int64)
NEW_COUNTERS[:, FREE : FREE + N_KINDS] = -1

# Entries of `pace`. An average gives step t the weight by which the clock advances. If all steps have the same weight,
# the clock is the number of steps. The average after T steps is the current weight minus its entry of `sums`, divided
# by the clock.
# CLOCK, RATE, START: the clock after step START, and by how much each later step advances it
# FADED: the state of AdaGrad is in units in which new squared gradients are multiplied by this number, so a larger
# number fades all earlier ones at once; a power of 2, by which division is exact
# SKIPPED: number of steps that no longer shorten gradient steps (see shrinkage.py)
CLOCK, RATE, START, FADED, SKIPPED = range(5)
# The pace of a new store: steps with equal weights.
NEW_PACE = np.array([0.0, 1.0, 0.0, 1.0, 0.0])

# The columns of a thread. Columns are cut into pieces, and a score is the sum over the pieces of their partial sums, so
# it does not depend on the number of threads. A thread has the pieces from `first` to `last`. The entries begins[p, r]
# to begins[p + 1, r] of row r are in piece p. The scores of consecutive pieces are `stride` apart.
Share = namedtuple("Share", ["begins", "first", "last", "stride"])
SHARE = by_address([INTS_2D] + [types.int64] * 3, Share)

# Largest number of places of a store that fits into the fast caches. Data of larger stores are prefetched.
_NEAR = 2**16
LINE_OF_FLOATS = 8  # number of float64 in a cache line


@kernel
def clock_after(pace, step):
    """Return the sum of the weights of all steps up to this one."""
    return pace[CLOCK] + pace[RATE] * (step - pace[START])


@kernel
def add_at(values, sums, index, delta, clock):
    """Add `delta` to a weight. `clock` is the one before the step.

    Functions for single weights take arrays instead of the store, because Numba passes all fields of a store at each
    call.
    """
    values[index] += delta
    if sums.shape[0]:
        sums[index] += clock * delta


@kernel
def dense_has_space(store, rows, targets, order, start, stop, counters, n_threads):
    """Return True: dense features need no additional places; see `pairs_have_space`."""
    return True


@kernel
def locate_dense(store, counters, features, outputs, stride, indices):
    """Write the places of the weights of all pairs of these features and outputs; see `locate_pairs`."""
    for p in range(outputs.shape[0]):
        for k in range(features.shape[0]):
            indices[p * stride + k] = store.n_dense + features[k] * store.n_outputs + outputs[p]


@kernel
def is_far(store):
    """Tell whether the store is so large that prefetching saves time."""
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
        # With an unsigned index, Numba omits the handling of negative indices.
        here[j] += value * weights[np.uint64(start + j)]


@kernel
def score_dense(store, rows, first_row, n_rows, share, scores):
    """Compute the scores of consecutive rows, for each piece of columns of a thread.

    The arguments are described in the module.
    """
    n_outputs = store.n_outputs
    n_dense = store.n_dense
    has_data = rows.data.shape[0] != 0
    far = is_far(store)
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
