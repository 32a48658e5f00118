"""Decide whether the solution of a tree is at a kink, if the multipliers of Newton's method do not tell.

Multipliers are seldom unique: if arcs have all the weight of their words, or sets overlap, some may vary. Newton's
method ends anywhere, often where an arc ties, or a tight set has no multiplier. A solution u for scores s is away from
kinks if and only if all best trees under s - u are in the face of u. Then there are multipliers for which no arc
without weight ties, and all tight sets have one (strict complementarity). The derivative is then the projection onto
the face, whatever the multipliers are.

One call of the oracle checks both. Arcs without weight get a slightly higher score, and arcs within tight sets a
slightly lower one, which favours trees that leave the face. If still no tree is better than u, no best tree leaves the
face.
"""

import numpy as np

from ..._core.jit import kernel
from ...numerics.facets import BINDING, ROUNDING, TIE
from ...numerics.newton import dependent_cuts
from .sets import cross, holds, place_of_set, same

# Maximum number of uncrossing steps for each set.
_PATIENCE = 20


@kernel
def _drop_rounding(rows):
    """Remove weights that are rounding errors; return whether all other weights are clearly positive."""
    for r in range(rows.u.shape[0]):
        count = 0.0
        for i in range(rows.u.shape[1]):
            u = rows.u[r, i]
            if ROUNDING < u <= TIE:
                return False
            rows.u[r, i] = u if u > ROUNDING else 0.0
            count += u > ROUNDING
        rows.count[r] = count
    return True


@kernel
def _nested_sets(cuts, k, n_free):
    """Return tight sets as bits, no two of which cross, that determine the same face as all known tight sets.

    If two tight sets overlap, their intersection and their union are tight, too, and no arc with weight connects their
    differences. So these two can replace one of the sets, given the other. None are returned if it takes too long.
    """
    capacity, n_words = 4 * k + 40, cuts.bits.shape[1]
    waiting, family = np.empty((capacity, n_words), np.uint64), np.empty((capacity, n_words), np.uint64)
    n_waiting, n = np.int64(0), np.int64(0)
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
        x, place, known = waiting[n_waiting], np.int64(-1), False
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
def _all_best_in_face(oracle, additional, dims, sizes, rows, family, size):
    """Tell whether all best trees under scores minus marginals are in the face of the marginals; see above."""
    n = rows.u.shape[0]
    # The margin is above the rounding of scores of this magnitude.
    margin = TIE * max(1.0, 1e-4 * size)
    scores, value = np.empty((n + 1) * n), 0.0
    for m in range(n):
        for h in range(n + 1):
            u = rows.u[m, h]
            reduced = rows.scores[m, h] - u
            if u == 0.0:
                reduced += margin
            for s in range(family.shape[0]):
                if holds(family[s], m + 1) and holds(family[s], h):
                    reduced -= margin
            scores[h * n + m] = reduced
            if u > 0.0:
                value += u * reduced
    slots, additional_slots = np.empty(sizes[0], np.int32), np.empty(sizes[1], np.int32)
    best = oracle(scores, additional, dims, np.zeros(sizes[2]), slots, additional_slots)
    return best - value <= 0.5 * margin


@kernel
def settle(oracle, additional, dims, sizes, rows, cuts, k, n_free, size):
    """Decide whether a solution is at a kink, if the multipliers do not tell.

    Returns
    -------
    tied : bool
        Whether it is at a kink.
    k : int
        The number of cuts. Sets that the face needs, but Newton's method did not, are added without a multiplier.
    needed : bool ndarray of shape (k,)
        Mask of cuts without a multiplier that the face needs.
    """
    nothing = np.zeros(k, np.bool_)
    if not _drop_rounding(rows):
        return True, k, nothing
    family = _nested_sets(cuts, k, n_free)
    if family.shape[0] == 0 or k + family.shape[0] > cuts.bound.shape[0]:
        return True, k, nothing
    if not _all_best_in_face(oracle, additional, dims, sizes, rows, family, size):
        return True, k, nothing
    nodes = np.empty(cuts.member.shape[1], np.bool_)
    order, n = np.empty(cuts.bound.shape[0], np.int64), np.int64(0)
    for c in range(k):
        if c < n_free or cuts.multiplier[c] > BINDING:
            order[n] = c
            n += 1
    n_held = n
    for s in range(family.shape[0]):
        for v in range(nodes.shape[0]):
            nodes[v] = holds(family[s], np.int64(v))
        place, k = place_of_set(cuts, k, nodes)
        if place >= 0 and place >= n_free and cuts.multiplier[place] <= BINDING:
            order[n] = place
            n += 1
    dependent = dependent_cuts(rows, cuts, order, n)
    needed = np.zeros(k, np.bool_)
    for a in range(n_held, n):
        needed[order[a]] = not dependent[a]
    return False, k, needed
