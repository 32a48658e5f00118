"""The best path of a directed acyclic graph, and the sums over paths to each node.

`dims` holds the numbers of edges, of nodes and of slots, and then the arcs (see `arcs.py`), four numbers each.

Used by `entering.py`, `gibbs.py`, `structure.py` and `tensors.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, kernel
from .._sums import add_logs

# Number of entries of `dims` before the arcs.
N_HEAD = 3
EDGE, TAIL, HEAD, DEPTH = range(4)


@kernel
def arcs_of(dims):
    """Return the arcs, one a row."""
    return dims[N_HEAD:].reshape((-1, 4))


@kernel
def sum_paths(scores, dims, totals):
    """Write the logarithm of the sum over all paths from the source to each node of the exponential of their scores."""
    totals[: dims[1]] = -np.inf
    totals[0] = 0.0
    arcs = arcs_of(dims)
    for a in range(arcs.shape[0]):
        head = arcs[a, HEAD]
        totals[head] = add_logs(totals[head], totals[arcs[a, TAIL]] + scores[arcs[a, EDGE]])


@as_oracle
def best_path(scores, additional, dims, work, slots, additional_slots):
    """Find the best path; the slot of an edge is the largest number of edges between the source and its tail.

    `entering.py` reads the values of the nodes at the beginning of `work` afterwards.
    """
    n_nodes = dims[1]
    best, entered_by = work[:n_nodes], work[n_nodes : 2 * n_nodes]
    arcs = arcs_of(dims)
    best[:] = -np.inf
    best[0] = 0.0
    for a in range(arcs.shape[0]):
        total, head = best[arcs[a, TAIL]] + scores[arcs[a, EDGE]], arcs[a, HEAD]
        if total > best[head]:
            best[head] = total
            entered_by[head] = a
    slots[:] = -1
    node = n_nodes - 1
    if best[node] == -np.inf:
        return -np.inf
    while node > 0:
        a = np.int64(entered_by[node])
        slots[arcs[a, DEPTH]] = arcs[a, EDGE]
        node = arcs[a, TAIL]
    return best[n_nodes - 1]
