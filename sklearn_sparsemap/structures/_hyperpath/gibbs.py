"""Marginals of derivations by the inside-outside algorithm.

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle
from .map import OTHER, PART, TAIL, arcs_of, begins_of, sum_derivations, value_by


@as_oracle
def hyperpath_marginals(scores, additional, dims, work, slots, additional_slots):
    """Compute the probability of each hyperarc; return log Z."""
    n_arcs, n_nodes = dims[0], dims[1]
    middle = n_arcs + n_nodes + 1
    totals, visits = work[n_arcs:middle], work[middle : middle + n_nodes + 1]
    sum_derivations(scores, dims, totals)
    if totals[0] == -np.inf:
        return -np.inf
    work[:n_arcs] = 0.0
    visits[:] = 0.0
    visits[0] = 1.0
    begins = begins_of(dims)
    arcs = arcs_of(dims)
    for node in range(n_nodes):
        for a in range(begins[node], begins[node + 1]) if visits[node] > 0.0 else range(0):
            probability = visits[node] * np.exp(value_by(arcs, a, scores, totals) - totals[node])
            work[arcs[a, PART]] = probability
            visits[arcs[a, TAIL]] += probability
            visits[arcs[a, OTHER]] += probability
    return totals[0]
