"""Dense weights, and what all stores of weights share: places, and the counters of a fit.

A store holds the weights of an online optimiser in one array, by places: first the intercept, then the additional
scores, then the weights of pairs of feature and output.
"""

from collections import namedtuple

import numpy as np
from numba import types

from ..._jit import FLOATS_OUT, copy_into, kernel

Dense = namedtuple(
    "Dense",
    [
        "n_outputs",
        "n_dense",  # number of intercepts and additional scores
        "values",
        "sums",  # for averaging, each change times the number of steps before it; empty without
        # What the step rule keeps of each weight: AdaGrad its sum of squared gradients, MIRA the direction of the
        # present step (zeros between samples); empty for others.
        "state",
    ],
)
DENSE = types.NamedTuple([types.int64] * 2 + [FLOATS_OUT] * 3, Dense)

# Places of the counters that an epoch shares with its caller, who may set STOP from another thread. PLACE is where in
# the order it goes on; the others are for stores of pairs: places in use, weights that exist, and what shrinkages note.
STEP, SINCE, STOP, UNCONVERGED, PLACE, TOP, HELD, N_RECORDS, N_SHRINKAGES = range(9)
N_COUNTERS = 9


def new_dense(coef, dense, *, first_state, average):
    """Make a store of these weights.

    Parameters
    ----------
    coef : array of shape (n_features, n_outputs)
    dense : array
        Intercept and additional scores.
    first_state : float or None
        What the step rule's state of a weight is at first; None if it keeps none.
    average : bool
    """
    values = np.concatenate([dense, coef.ravel()])
    state = np.full(0 if first_state is None else len(values), first_state or 0.0)
    return Dense(coef.shape[1], len(dense), values, np.zeros(len(values) if average else 0), state)


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


@kernel
def score_dense(store, rows, first_row, n_rows, scores):
    """Compute the scores of consecutive rows."""
    n_outputs = store.n_outputs
    for r in range(n_rows):
        here = scores[r * n_outputs : (r + 1) * n_outputs]
        copy_into(here, store.values[:n_outputs])
        for at in range(rows.indptr[first_row + r], rows.indptr[first_row + r + 1]):
            value, first = rows.data[at], store.n_dense + rows.indices[at] * n_outputs
            w = store.values[first : first + n_outputs]
            for j in range(n_outputs):
                here[j] += value * w[j]
