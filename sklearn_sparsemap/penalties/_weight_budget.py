"""The budget rule that counts weights: which groups survive together with at most so many of them."""

import numpy as np

from .._core.jit import kernel
from .._core.select import order_downwards
from ._budget import between, least_strength
from ._shrink import group_ratio


@kernel
def _choose(ratios, counts, budget, chosen):
    """Take groups from the highest ratio down, each that still fits; return the strength at which they survive.

    It is the mean of the lowest ratio that was taken and the next lower one of a group that is alive, so that what goes
    is just what is weaker, where all that is stronger fits; 0 where nothing weaker is alive.
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
    """Return the strength with which `shrink` leaves at most `budget` weights, and write what has to die besides.

    Groups that do not overlap are taken by their ratio of norm to weight, the highest first, each whose weights still
    fit, as a greedy person fills a knapsack. Those that were not taken are doomed, also those that are too large and
    would survive the strength. With weights that are the roots of sizes, the ratio is the root of the squared norm by
    size; what is taken then has as large a sum of squares as possible, up to the group at the edge (Dantzig 1957).

    Groups that overlap die together with what is inside them: the strength is the least at which the atoms that
    survive have at most `budget` weights, and none is doomed. Where groups of weight 0 have more, all others die.

    Parameters
    ----------
    rho, weights, order, group_indptr, group_atoms : arrays
        See `_shrink`; `rho` is not changed.
    held : int64 array of shape (n_atoms,)
        How many weights each atom counts.
    budget : int
        Not negative.
    doomed : bool array of shape (n_atoms,)
        Written: the atoms that are to die whatever the strength.
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
