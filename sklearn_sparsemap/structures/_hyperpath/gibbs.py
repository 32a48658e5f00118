"""Marginals and samples of derivations by the inside-outside algorithm.

Used by `structure.py`.
"""

import numpy as np
from numba import types

from ..._core.jit import FLOATS, FLOATS_OUT, INTS, as_oracle, entry
from ..._numerics.draw import draw_rows
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


@entry(types.void(FLOATS, INTS, FLOATS_OUT, FLOATS_OUT))
def log_values_of_arcs(scores, dims, totals, values):
    """Write the logarithms of the sums over the derivations of each node, and of those that end with each hyperarc."""
    sum_derivations(scores, dims, totals)
    arcs = arcs_of(dims)
    for a in range(arcs.shape[0]):
        values[a] = value_by(arcs, a, scores, totals)


def draw_derivations(sample, n, layout, rng):
    """Draw derivations of a `StructureBatch` of one problem from the Gibbs distribution, from the target on.

    Returns
    -------
    derivations : bool array of shape (n, n_arcs)
    """
    n_nodes = len(layout.nodes)
    values = np.empty(len(layout.arcs))
    log_values_of_arcs(sample.scores, sample.dims, np.empty(n_nodes + 1), values)
    derivations = np.zeros((n, sample.n_parts), bool)
    # The last row is that of tails that are given.
    is_used = np.zeros((n_nodes + 1, n), bool)
    is_used[0] = True
    for node in range(n_nodes):
        here = np.flatnonzero(is_used[node])
        first, stop = layout.begins[node : node + 2]
        drawn = layout.arcs[first + draw_rows(np.tile(values[first:stop], (len(here), 1)), rng)]
        derivations[here, drawn[:, PART]] = True
        is_used[drawn[:, TAIL], here] = True
        is_used[drawn[:, OTHER], here] = True
    return derivations
