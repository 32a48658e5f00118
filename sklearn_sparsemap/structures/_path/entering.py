"""The arcs into each node of a graph, from which the k best paths are found; see `_numerics/derivations.py`.

Nodes are numbered from the target back to the source.

Used by `structure.py`.
"""

import numpy as np

from ..._numerics.derivations import NONE, entering_arcs, put_arc
from .map import DEPTH, EDGE, HEAD, TAIL, arcs_of


@entering_arcs
def ways_of_path(scores, additional, dims, work, node, arcs, totals):
    """List the arcs that lead to a node."""
    all_arcs = arcs_of(dims)
    last = dims[1] - 1
    n = np.int64(0)
    # They are sorted by their heads.
    first = np.int64(0)
    stop = all_arcs.shape[0]
    while first < stop:
        middle = (first + stop) // 2
        if all_arcs[middle, HEAD] < last - node:
            first = middle + 1
        else:
            stop = middle
    for a in range(first, all_arcs.shape[0]):
        tail, head, edge = all_arcs[a, TAIL], all_arcs[a, HEAD], all_arcs[a, EDGE]
        if head != last - node:
            break
        put_arc(arcs, n, last - tail, NONE, all_arcs[a, DEPTH], edge)
        totals[n] = work[tail] + scores[edge]
        n += 1
    return n
