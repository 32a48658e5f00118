"""The budget rule for weights: the surviving groups together have at most a given number of weights.

Used by `_training`.
"""

import numpy as np

from .._core.jit import kernel
from .._core.select import order_downwards
from ._budget import as_budget, between, least_strength
from ._shrink import group_ratio, shrink


@kernel
def _choose(ratios, counts, budget, chosen):
    """Take groups in descending order of ratio, each one that still fits; return the strength at which they survive.

    The strength is the mean of the smallest ratio of the taken groups and the next smaller ratio of a nonzero group; 0
    if there is no smaller one.
    """
    order = np.empty(ratios.shape[0], np.int64)
    order_downwards(ratios, order)
    left = np.int64(budget)
    lowest = np.inf
    for place in range(order.shape[0]):
        g = order[place]
        chosen[g] = ratios[g] > 0.0 and counts[g] <= left
        if chosen[g]:
            left -= counts[g]
            lowest = ratios[g]
    below = 0.0
    for g in range(ratios.shape[0]):
        if ratios[g] < lowest:
            below = max(below, ratios[g])
    if below == 0.0:
        return 0.0
    # `lowest` is infinite if no group was taken, or only groups that no strength discards. All other groups must then
    # be discarded.
    return between(lowest, below) if lowest < np.inf else below


@kernel
def weight_budget_rule(rho, weights, order, group_indptr, group_atoms, held, budget, doomed):
    """Return the strength with which `shrink` leaves at most `budget` weights, and mark atoms to discard in addition.

    Groups that do not overlap are taken in descending order of norm divided by group weight, each one whose weights
    still fit: a greedy solution of the knapsack problem. The atoms of other groups are marked in `doomed`, including
    groups that would survive the strength, but are too large, also those of weight 0. If group weights are the square
    roots of sizes, the ratio is the square root of the squared norm divided by the size. The taken groups then have the
    largest possible sum of squares, up to the group at the threshold (Dantzig 1957).

    Overlapping groups are discarded together with the groups inside them. The strength is then the smallest one at
    which the surviving atoms have at most `budget` weights, and no atom is marked. If groups of weight 0 have more
    weights, all others are discarded.

    Parameters
    ----------
    rho, weights, order, group_indptr, group_atoms : arrays
        See `_shrink`; `rho` is not changed.
    held : int64 array of shape (n_atoms,)
        Number of weights of each atom.
    budget : int
        Not negative.
    doomed : bool array of shape (n_atoms,)
        Output: whether to discard an atom, whatever the strength.
    """
    n_groups = weights.shape[0]
    n_atoms = rho.shape[0]
    total = np.int64(0)
    high = 0.0
    ratios = np.empty(n_groups)
    counts = np.zeros(n_groups, np.int64)
    for a in range(n_atoms):
        doomed[a] = False
        if rho[a] > 0.0:
            total += held[a]
    for g in range(n_groups):
        ratios[g] = group_ratio(rho, weights[g], g, group_indptr, group_atoms)
        high = max(high, ratios[g]) if ratios[g] < np.inf else high
        for i in range(group_indptr[g], group_indptr[g + 1]):
            counts[g] += held[group_atoms[i]]
    if total <= budget:
        return 0.0
    if group_atoms.shape[0] > n_atoms:
        factors = np.empty(n_atoms)
        left = np.empty(n_atoms)
        return least_strength(rho, budget, high, weights, order, group_indptr, group_atoms, held, factors, left)
    chosen = np.zeros(n_groups, np.bool_)
    strength = _choose(ratios, counts, budget, chosen)
    for g in range(n_groups):
        for i in range(group_indptr[g], group_indptr[g + 1]):
            doomed[group_atoms[i]] = not chosen[g]
    return strength


@as_budget
def weight_budget_factors(weights, order, group_indptr, group_atoms, held, budget, rho, factors):
    """Write the factors of the shrinkage that leaves at most `budget` weights, and return its strength.

    See `weight_budget_rule`. `rho` is updated.
    """
    doomed = np.zeros(rho.shape[0], np.bool_)
    strength = weight_budget_rule(rho, weights, order, group_indptr, group_atoms, held, budget, doomed)
    shrink(rho, strength, weights, order, group_indptr, group_atoms, factors)
    for atom in range(rho.shape[0]):
        if doomed[atom]:
            rho[atom] = factors[atom] = 0.0
    return strength
