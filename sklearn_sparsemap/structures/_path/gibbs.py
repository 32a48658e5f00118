"""Marginals and samples of paths: sums over the paths to each node, and then their derivatives back from the target.

Used by `structure.py`.
"""

import numpy as np
from numba import types

from ..._core.jit import FLOATS, FLOATS_OUT, INTS, as_oracle, entry
from ..._numerics.draw import draw_rows
from .map import EDGE, HEAD, N_HEAD, TAIL, arcs_of, sum_paths


@as_oracle
def path_marginals(scores, additional, dims, work, slots, additional_slots):
    """Compute the probability of each edge; return log Z."""
    n_edges, n_nodes = dims[0], dims[1]
    totals, visits = work[n_edges : n_edges + n_nodes], work[n_edges + n_nodes : n_edges + 2 * n_nodes]
    sum_paths(scores, dims, totals)
    log_partition = totals[n_nodes - 1]
    if log_partition == -np.inf:
        return log_partition
    work[:n_edges] = 0.0
    visits[:] = 0.0
    visits[n_nodes - 1] = 1.0
    arcs = arcs_of(dims)
    for a in range(arcs.shape[0] - 1, -1, -1):
        edge, tail, head = arcs[a, EDGE], arcs[a, TAIL], arcs[a, HEAD]
        if visits[head] > 0.0:
            work[edge] = visits[head] * np.exp(totals[tail] + scores[edge] - totals[head])
            visits[tail] += work[edge]
    return log_partition


@entry(types.void(FLOATS, INTS, FLOATS_OUT))
def sums_of_paths(scores, dims, totals):
    """Call `sum_paths`."""
    sum_paths(scores, dims, totals)


def draw_paths(sample, n, rng):
    """Draw paths of a `StructureBatch` of one problem from the Gibbs distribution, from the target to the source.

    Returns
    -------
    paths : bool array of shape (n, n_edges)
    """
    n_nodes = int(sample.dims[1])
    arcs = sample.dims[N_HEAD:].reshape(-1, 4)
    totals = np.empty(n_nodes)
    sums_of_paths(sample.scores, sample.dims, totals)
    paths = np.zeros((n, sample.n_parts), bool)
    at = np.full(n, n_nodes - 1)
    begins = np.searchsorted(arcs[:, HEAD], np.arange(n_nodes + 1))
    for node in range(n_nodes - 1, 0, -1):
        here = np.flatnonzero(at == node)
        entering = arcs[begins[node] : begins[node + 1]]
        logits = totals[entering[:, TAIL]] + sample.scores[entering[:, EDGE]]
        drawn = entering[draw_rows(np.tile(logits, (len(here), 1)), rng)]
        paths[here, drawn[:, EDGE]] = True
        at[here] = drawn[:, TAIL]
    return paths
