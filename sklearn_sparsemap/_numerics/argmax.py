"""The other two regularised argmaxes, as solvers: MAP (no regulariser) and Gibbs marginals (negative entropy).

They have the signature of `solver.py`, so they can replace a SparseMAP solver in every loop, and one kernel computes
all losses.

Used by `_graphs` and `inference`.
"""

import numpy as np

from .._core.jit import copy_into
from .solver import BY_STRUCTURES, INFEASIBLE, as_solver
from .support import mix


@as_solver
def map_argmax(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Return the structure of highest score with probability 1; the objective is its score. See `solver.py`."""
    work = np.empty(sizes[2])
    for i in range(work.shape[0]):
        work[i] = 0.0
    slots = np.empty((1, sizes[0]), np.int32)
    additional_slots = np.empty((1, sizes[1]), np.int32)
    weights = np.empty(1)
    weights[0] = 1.0
    value = oracle(scores, additional, dims, work, slots[0], additional_slots[0])
    if value == -np.inf:
        return slots, additional_slots, weights, INFEASIBLE, 0.0, 0.0, 1
    mix(slots, np.int64(1), weights, marginals)
    return slots, additional_slots, weights, BY_STRUCTURES, value, 0.0, 1


@as_solver
def gibbs_argmax(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Return the marginals of the Gibbs distribution; the objective is the log-partition. See `solver.py`.

    The support consists of all structures, which are too many to list. Instead, each row has a single additional part,
    and its weight is that part's marginal. `oracle` is a marginal oracle.
    """
    n_parts, n_additional = scores.shape[0], additional.shape[0]
    work = np.empty(sizes[3])
    none = np.empty(0, np.int32)
    slots = np.empty((n_additional, 0), np.int32)
    additional_slots = np.empty((n_additional, 1), np.int32)
    weights = np.empty(n_additional)
    value = oracle(scores, additional, dims, work, none, none)
    if value == -np.inf:
        return slots, additional_slots, weights, INFEASIBLE, 0.0, 0.0, 1
    copy_into(marginals, work[:n_parts])
    for a in range(n_additional):
        additional_slots[a, 0] = a
        weights[a] = work[n_parts + a]
    return slots, additional_slots, weights, BY_STRUCTURES, value, 0.0, 1
