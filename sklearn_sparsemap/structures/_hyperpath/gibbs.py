"""Marginals of derivations by the inside-outside algorithm.

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, kernel
from .map import OTHER, PART, TAIL, arcs_of, begins_of, value_by


@kernel
def _sum_derivations(scores, begins, arcs, totals, shares):
    """Sum over the derivations of each node: write the logarithms, and the share of each hyperarc in its node's sum."""
    n_nodes = totals.shape[0] - 1
    totals[n_nodes] = 0.0
    for node in range(n_nodes - 1, -1, -1):
        own = shares[begins[node] : begins[node + 1]]
        first = begins[node]
        top = -np.inf
        for k in range(own.shape[0]):
            own[k] = value_by(arcs, first + k, scores, totals)
            top = own[k] if own[k] > top else top
        if top == -np.inf:
            totals[node] = -np.inf
            continue
        norm = 0.0
        for k in range(own.shape[0]):
            own[k] = np.exp(own[k] - top)
            norm += own[k]
        for k in range(own.shape[0]):
            own[k] /= norm
        totals[node] = top + np.log(norm)


@as_oracle
def hyperpath_marginals(scores, additional, dims, work, slots, additional_slots):
    """Compute the probability of each hyperarc; return log Z.

    For samples, `entering.py` reads the totals, which follow the probabilities in `work`.
    """
    n_arcs, n_nodes = dims[0], dims[1]
    begins = begins_of(dims)
    arcs = arcs_of(dims)
    # Totals and visits have an entry more, for tails that are given.
    middle = n_arcs + n_nodes + 1
    end = middle + n_nodes + 1
    totals, visits = work[n_arcs:middle], work[middle:end]
    shares = work[end : end + arcs.shape[0]]
    _sum_derivations(scores, begins, arcs, totals, shares)
    if totals[0] == -np.inf:
        return -np.inf
    work[:n_arcs] = 0.0
    visits[:] = 0.0
    visits[0] = 1.0
    for node in range(n_nodes):
        if visits[node] > 0.0:
            for a in range(begins[node], begins[node + 1]):
                probability = visits[node] * shares[a]
                work[arcs[a, PART]] = probability
                visits[arcs[a, TAIL]] += probability
                visits[arcs[a, OTHER]] += probability
    return totals[0]
