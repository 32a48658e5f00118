"""The best derivation of the target of a hypergraph.

`dims` holds the numbers of hyperarcs, of nodes and of slots, then the number of the first hyperarc into each node, and
then the hyperarcs, four numbers each; see `UsableArcs` in `arcs.py`. Tables of values have an entry more than there are
nodes: the value 0 of the tails that are given.

Used by `arcs.py`, `entering.py`, `gibbs.py`, `structure.py` and `tensors.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, kernel

# Number of entries of `dims` before those of the nodes.
N_HEAD = 3
PART, TAIL, OTHER, SLOT = range(4)


@kernel
def begins_of(dims):
    """Return the number of the first hyperarc into each node, and the number of all hyperarcs."""
    return dims[N_HEAD : N_HEAD + dims[1] + 1]


@kernel
def arcs_of(dims):
    """Return the hyperarcs, one a row. Behind them `dims` may be padded, to the width of those of larger problems."""
    first = N_HEAD + dims[1] + 1
    return dims[first : first + 4 * dims[first - 1]].reshape((-1, 4))


@kernel
def value_by(arcs, a, scores, values):
    """Return the value of a node by one hyperarc: its score plus the values of its tails."""
    return scores[arcs[a, PART]] + values[arcs[a, TAIL]] + values[arcs[a, OTHER]]


@as_oracle
def best_hyperpath(scores, additional, dims, work, slots, additional_slots):
    """Find the best derivation of the target.

    `entering.py` reads the values of the nodes at the beginning of `work` afterwards.
    """
    n_nodes = dims[1]
    best, entered_by = work[: n_nodes + 1], work[n_nodes + 1 : 2 * n_nodes + 1]
    is_used = work[2 * n_nodes + 1 : 3 * n_nodes + 2]
    begins = begins_of(dims)
    arcs = arcs_of(dims)
    best[n_nodes] = 0.0
    for node in range(n_nodes - 1, -1, -1):
        top = -np.inf
        for a in range(begins[node], begins[node + 1]):
            total = value_by(arcs, a, scores, best)
            if total > top:
                top = total
                entered_by[node] = a
        best[node] = top
    slots[:] = -1
    if best[0] == -np.inf:
        return -np.inf
    is_used[:] = 0.0
    is_used[0] = 1.0
    for node in range(n_nodes):
        if is_used[node] > 0.0:
            a = np.int64(entered_by[node])
            slots[arcs[a, SLOT]] = arcs[a, PART]
            is_used[arcs[a, TAIL]] = 1.0
            is_used[arcs[a, OTHER]] = 1.0
    return best[0]
