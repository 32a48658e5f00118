"""The budget rule for weights: the groups that survive together with at most a number of weights."""

import numpy as np

from .._core.jit import kernel
from .._core.select import order_downwards
from ._budget import between, least_strength
from ._shrink import group_ratio


@kernel
def _choose(ratios, counts, budget, chosen):
    """Take groups in decreasing order of ratio, each one that still fits; return the strength at which they survive.

    It is the mean of the lowest ratio taken and the next lower ratio of a nonzero group, so that only weaker groups are
    discarded, if all stronger ones fit; 0 if no nonzero group is weaker.
    """
    order = np.empty(ratios.shape[0], np.int64)
    order_downwards(ratios, order)
    left, lowest = np.int64(budget), np.inf
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
    # `lowest` is infinite if no group was taken, or only groups that no strength discards. All other groups are then
    # discarded.
    return between(lowest, below) if lowest < np.inf else below


@kernel
def weight_budget_rule(rho, weights, order, group_indptr, group_atoms, held, budget, doomed):
    """Return the strength with which `shrink` leaves at most `budget` weights, and mark groups to discard in addition.

    Groups that do not overlap are taken by their ratio of norm to weight, the highest first, each one whose weights
    still fit: a greedy solution of the knapsack problem. Groups that were not taken are marked in `doomed`, including
    those that are too large and would survive the strength. If group weights are the square roots of sizes, the ratio
    is the root of squared norm over size; the groups taken then have the largest possible sum of squares, up to the
    group at the threshold (Dantzig 1957).

    Overlapping groups are discarded together with the groups inside them: the strength is the least at which the
    surviving atoms have at most `budget` weights, and none is marked. If groups of weight 0 have more, all others are
    discarded.

    Parameters
    ----------
    rho, weights, order, group_indptr, group_atoms : arrays
        See `_shrink`; `rho` is not changed.
    held : int64 array of shape (n_atoms,)
        Number of weights of each atom.
    budget : int
        Not negative.
    doomed : bool array of shape (n_atoms,)
        Output: the atoms to discard whatever the strength.
    """
    n_groups, n_atoms, total, high = weights.shape[0], rho.shape[0], np.int64(0), 0.0
    ratios, counts = np.empty(n_groups), np.zeros(n_groups, np.int64)
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
        factors, left = np.empty(n_atoms), np.empty(n_atoms)
        return least_strength(rho, budget, high, weights, order, group_indptr, group_atoms, held, factors, left)
    chosen = np.zeros(n_groups, np.bool_)
    strength = _choose(ratios, counts, budget, chosen)
    for g in range(n_groups):
        for i in range(group_indptr[g], group_indptr[g + 1]):
            doomed[group_atoms[i]] = not chosen[g]
    return strength
