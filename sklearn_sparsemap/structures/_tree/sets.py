"""Sets of nodes as bits, 64 nodes an integer, for the cuts of `_numerics/newton.py`: equality, crossing, lookup.

Row k of k cuts is scratch space, which is overwritten even if no cut is added.

Used by `cuts.py` and `ties.py`.
"""

import numpy as np

from ..._core.jit import kernel
from ..._numerics.facets import BINDING


@kernel
def holds(bits, v):
    """Return whether a node is in a set."""
    return (bits[v >> 6] >> np.uint64(v & 63)) & np.uint64(1) != np.uint64(0)


@kernel
def same(x, y):
    """Return whether two sets are equal."""
    different = False
    for w in range(x.shape[0]):
        different |= x[w] != y[w]
    return not different


@kernel
def cross(x, y):
    """Return whether two sets overlap and neither contains the other."""
    common, only_x, only_y = False, False, False
    for w in range(x.shape[0]):
        common |= (x[w] & y[w]) != 0
        only_x |= (x[w] & ~y[w]) != 0
        only_y |= (y[w] & ~x[w]) != 0
    return common and only_x and only_y


@kernel
def have_crossing(cuts, k):
    """Return whether two sets with a multiplier cross."""
    for a in range(k):
        if cuts.multiplier[a] > BINDING:
            for b in range(a):
                if cuts.multiplier[b] > BINDING and cross(cuts.bits[a], cuts.bits[b]):
                    return True
    return False


@kernel
def read_set(words, nodes):
    """Mark the listed words; the list is padded with -1."""
    nodes[:] = False
    for v in words:
        if v >= 0:
            nodes[v] = True


@kernel
def find_set(cuts, k, nodes):
    """Return the index of a set's cut, added if it is new, or -1 for fewer than two words; and the number of cuts.

    The columns of labelled trees are all nodes as heads, for one label after the other.
    """
    n_words, n_columns = cuts.bits.shape[1], cuts.member.shape[1]
    for w in range(n_words):
        cuts.bits[k, w] = np.uint64(0)
    size = 0
    for v in range(nodes.shape[0]):
        size += nodes[v]
        for column in range(v, n_columns, nodes.shape[0]):
            cuts.member[k, column] = 1.0 if nodes[v] else 0.0
            if nodes[v]:
                cuts.bits[k, column >> 6] |= np.uint64(1) << np.uint64(column & 63)
    if size < 2:
        return np.int64(-1), k
    for c in range(k):
        if same(cuts.bits[c], cuts.bits[k]):
            return c, k
    cuts.bound[k] = size - 1.0
    cuts.multiplier[k] = 0.0
    return k, k + 1


@kernel
def add_set(cuts, k, nodes):
    """Add the cut of a set, unless it is known; return the number of cuts."""
    return find_set(cuts, k, nodes)[1]
