"""The hyperarcs into each node, from which the k best derivations are found; see `_numerics/derivations.py`.

Used by `structure.py`.
"""

import numpy as np

from ..._numerics.derivations import NONE, entering_arcs, put_arc
from .map import OTHER, PART, SLOT, TAIL, arcs_of, begins_of, value_by


@entering_arcs
def ways_of_hyperpath(scores, additional, dims, work, node, arcs, totals):
    """List the hyperarcs that enter a node."""
    begins = begins_of(dims)
    own = arcs_of(dims)
    first = begins[node]
    n = begins[node + 1] - first
    for k in range(n):
        a = first + k
        tail = own[a, TAIL] if own[a, TAIL] < dims[1] else np.int64(NONE)
        other = own[a, OTHER] if own[a, OTHER] < dims[1] else np.int64(NONE)
        put_arc(arcs, k, tail, other, own[a, SLOT], own[a, PART])
        totals[k] = value_by(own, a, scores, work)
    return n
