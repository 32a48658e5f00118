"""Marginals of paths: sums over the paths to each node, and then their derivatives back from the target.

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle
from .map import EDGE, HEAD, TAIL, arcs_of, sum_paths


@as_oracle
def path_marginals(scores, additional, dims, work, slots, additional_slots):
    """Compute the probability of each edge; return log Z.

    For samples, `entering.py` reads the totals, which follow the probabilities in `work`.
    """
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
