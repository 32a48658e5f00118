"""Decide whether the solution of a tree is at a kink, if the multipliers of Newton's method do not tell.

The oracle decides, see `_numerics.rows.best_are_in_face`, given all tight sets, which this module finds.

Used by `cuts.py`.
"""

import numpy as np

from ..._core.jit import kernel
from ..._numerics.facets import BINDING, TIE
from ..._numerics.newton import dependent_cuts
from ..._numerics.rows import best_are_in_face, drop_rounding
from .sets import cross, find_set, holds, same

# Maximum number of uncrossing steps for each set.
_PATIENCE = 20


@kernel
def _nested_sets(cuts, k, n_free):
    """Return tight sets as bits, no two of which cross, that determine the same face as all known tight sets.

    If two tight sets overlap, their intersection and their union are tight, too, and no arc with weight connects their
    differences. So these two can replace one of the sets, given the other. None are returned if it takes too long.
    """
    capacity, n_words = 4 * k + 40, cuts.bits.shape[1]
    waiting = np.empty((capacity, n_words), np.uint64)
    family = np.empty((capacity, n_words), np.uint64)
    n_waiting = np.int64(0)
    n = np.int64(0)
    for c in range(k):
        if c < n_free or cuts.multiplier[c] > BINDING or cuts.slope[c] >= -TIE:
            for w in range(n_words):
                waiting[n_waiting, w] = cuts.bits[c, w]
            n_waiting += 1
    left = _PATIENCE * (n_waiting + 1)
    while n_waiting > 0:
        left -= 1
        if left == 0 or n_waiting + 1 >= capacity or n + 1 >= capacity:
            return family[:0]
        n_waiting -= 1
        x = waiting[n_waiting]
        place = np.int64(-1)
        known = False
        for s in range(n):
            known |= same(x, family[s])
            if cross(x, family[s]):
                place = s
        if known:
            continue
        if place < 0:
            for w in range(n_words):
                family[n, w] = x[w]
            n += 1
            continue
        for w in range(n_words):
            own, other = x[w], family[place, w]
            waiting[n_waiting, w], waiting[n_waiting + 1, w] = own & other, own | other
        n_waiting += 2
    return family[:n]


@kernel
def _count_sets(family, n, n_columns):
    """Return for each arc, by its word and the column of its head, the number of sets that hold both."""
    counts = np.zeros((n, n_columns))
    for s in range(family.shape[0]):
        for m in range(n):
            for h in range(n_columns):
                counts[m, h] += holds(family[s], m + 1) and holds(family[s], h)
    return counts


@kernel
def decide_kink(oracle, additional, dims, sizes, rows, cuts, k, n_free, steps, size):
    """Decide whether a solution is at a kink, if the multipliers do not decide it.

    Parameters
    ----------
    oracle, additional, dims, sizes
        The problem, as in `_numerics/solver.py`.
    rows : Rows
        Their marginals are rounded in place if they are nearly those of the face. The caller writes them again.
    cuts : Cuts
    k : int
        Number of cuts.
    n_free : int
        The first `n_free` cuts are equations.
    steps : tuple of int
        The layout of the parts, see `_numerics.rows`.
    size : float
        Magnitude of the scores.

    Returns
    -------
    tied : bool
        Whether it is at a kink, or this could not be decided.
    k : int
        The number of cuts. Sets that the face needs, but Newton's method did not, are added without a multiplier.
    needed : bool ndarray of shape (k,)
        Mask of cuts without a multiplier that the face needs.
    """
    nothing = np.zeros(k, np.bool_)
    if not drop_rounding(rows):
        return True, k, nothing
    family = _nested_sets(cuts, k, n_free)
    if family.shape[0] == 0 or k + family.shape[0] > cuts.bound.shape[0]:
        return True, k, nothing
    n_tight = _count_sets(family, rows.u.shape[0], rows.u.shape[1])
    if not best_are_in_face(oracle, additional, dims, sizes, rows, n_tight, steps, size):
        return True, k, nothing
    nodes = np.empty(rows.u.shape[0] + 1, np.bool_)
    order = np.empty(cuts.bound.shape[0], np.int64)
    n = np.int64(0)
    for c in range(k):
        if c < n_free or cuts.multiplier[c] > BINDING:
            order[n] = c
            n += 1
    n_held = n
    for s in range(family.shape[0]):
        for v in range(nodes.shape[0]):
            nodes[v] = holds(family[s], np.int64(v))
        place, k = find_set(cuts, k, nodes)
        if place >= 0 and place >= n_free and cuts.multiplier[place] <= BINDING:
            order[n] = place
            n += 1
    dependent = dependent_cuts(rows, cuts, order, n)
    needed = np.zeros(k, np.bool_)
    for a in range(n_held, n):
        needed[order[a]] = not dependent[a]
    return False, k, needed
