"""The budget rule: the strength at which at most a given number of groups survives.

Conventions
-----------
rho, weights, order, group_indptr, group_atoms, factors
    See `_shrink`.
held : int64 array of shape (n_atoms,)
    A count for each atom; empty to count groups.
most : int
    Maximum number of surviving groups, or maximum sum of their counts.
high : float
    Largest strength to try.
left : float64 array of shape (n_atoms,)
    Work: squared norms after a shrinkage.

Used by `_training` and `_weight_budget.py`.
"""

import numpy as np
from numba import types

from .._core.jit import FLOATS, FLOATS_OUT, INTS, Entry, FirstClass, copy_into, kernel
from .._core.select import select_highest
from ._shrink import group_ratio, shrink

# The signature of `group_budget_factors`.
BUDGET_FACTORS_SIGNATURE = types.float64(FLOATS, INTS, INTS, INTS, INTS, types.int64, FLOATS_OUT, FLOATS_OUT)
BUDGET_FACTORS = FirstClass(BUDGET_FACTORS_SIGNATURE)

# Largest relative change of the weights of groups that breaks ties.
_TIE_BREAK = 1e-9
_MAX_HALVINGS = 2200  # enough to halve any interval down to adjacent floating-point numbers


@kernel
def between(above, below):
    """Return a strength in [below, above): their mean, if there is a number between them."""
    mean = below + 0.5 * (above - below)
    return mean if mean < above else below


@kernel
def _partition_strength(ratios, n_alive, budget):
    """Return the mean of the `budget`-th and the next largest ratio of the nonzero groups."""
    select_highest(ratios[:n_alive], budget + 1)
    below = ratios[budget]
    if below == np.inf:
        # More groups have weight 0 than the budget allows. They survive, and all others are discarded.
        below = 0.0
        for i in range(budget, n_alive):
            if ratios[i] < np.inf:
                below = max(below, ratios[i])
        return below
    above = np.inf
    for i in range(budget):
        above = min(above, ratios[i])
    return between(above, below)


@kernel
def count_survivors(rho, strength, weights, order, group_indptr, group_atoms, held, factors, left):
    """Return the number of groups with a nonzero atom after a shrinkage, or the sum of the counts of nonzero atoms.

    The arguments are described in the module. `factors` and `left` are work arrays. If `held` is not empty, its counts
    are summed.
    """
    copy_into(left, rho)
    shrink(left, strength, weights, order, group_indptr, group_atoms, factors)
    count = np.int64(0)
    if held.shape[0]:
        for atom in range(held.shape[0]):
            if left[atom] > 0.0:
                count += held[atom]
        return count
    for g in range(weights.shape[0]):
        for i in range(group_indptr[g], group_indptr[g + 1]):
            if left[group_atoms[i]] > 0.0:
                count += 1
                break
    return count


@kernel
def least_strength(rho, most, high, weights, order, group_indptr, group_atoms, held, factors, left):
    """Return the smallest strength up to `high` at which at most `most` survive, or `high`; see `count_survivors`.

    The arguments are described in the module.
    """
    low = 0.0
    for _ in range(_MAX_HALVINGS):
        middle = low + 0.5 * (high - low)
        if not low < middle < high:
            break
        count = count_survivors(rho, middle, weights, order, group_indptr, group_atoms, held, factors, left)
        low, high = (low, middle) if count <= most else (middle, high)
    return high


@kernel
def _alive_ratios(rho, weights, group_indptr, group_atoms, ratios):
    """Write the ratios of the nonzero groups; return their number, and the largest finite one."""
    n_alive, high = 0, 0.0
    for g in range(weights.shape[0]):
        ratio = group_ratio(rho, weights[g], g, group_indptr, group_atoms)
        if ratio > 0.0:
            ratios[n_alive] = ratio
            n_alive += 1
            high = max(high, ratio) if ratio < np.inf else high
    return n_alive, high


@kernel
def disjoint_budget_rule(rho, weights, order, group_indptr, group_atoms, budget, ratios, factors, left):
    """Return the strength sigma with which `shrink` leaves at most `budget` groups, which do not overlap.

    It is 0 if no more groups are nonzero. Groups are discarded in ascending order of norm divided by weight. Sigma is
    the mean of the B-th and the next largest of these ratios, for a budget of B. (Martins et al. 2011, section 3.2,
    sort by norms only, which is correct only for equal weights.) So exactly `budget` groups survive, unless some tie at
    the threshold; tied groups are discarded together. The arguments are those of `budget_rule`.
    """
    n_alive, high = _alive_ratios(rho, weights, group_indptr, group_atoms, ratios)
    return 0.0 if n_alive <= budget or high == 0.0 else _partition_strength(ratios, n_alive, budget)


@kernel
def budget_rule(rho, weights, order, group_indptr, group_atoms, budget, ratios, factors, left):
    """Return the strength sigma with which `shrink` leaves at most `budget` groups, which may overlap.

    It is 0 if no more groups are nonzero. For any `order`, the factors of `shrink`, and so the number of surviving
    groups, never increase with sigma. So bisection finds the smallest sigma that leaves at most `budget` groups, and
    the smallest one that leaves fewer. The result is their mean. If discarding a group discards others (because it
    contains all their atoms), the number can skip the budget, and fewer groups survive.

    Groups of weight 0 always survive. If there are more of them than `budget`, all others are discarded.

    Parameters
    ----------
    rho, weights, order, group_indptr, group_atoms : arrays
        See `_shrink`; `rho` is not changed.
    budget : int
        Not negative.
    ratios : float64 array of shape (n_groups,)
        Work.
    factors, left : float64 arrays of shape (n_atoms,)
        Work.
    """
    n_alive, high = _alive_ratios(rho, weights, group_indptr, group_atoms, ratios)
    if n_alive <= budget or high == 0.0:
        return 0.0
    # Count groups only.
    none = order[:0]
    below = least_strength(rho, budget, high, weights, order, group_indptr, group_atoms, none, factors, left)
    count = count_survivors(rho, below, weights, order, group_indptr, group_atoms, none, factors, left)
    if count == 0 or count > budget:
        return below
    above = least_strength(rho, count - 1, high, weights, order, group_indptr, group_atoms, none, factors, left)
    sigma = between(above, below)
    # Rounding could make a count increase with sigma in a narrow range. At `below` it is known.
    at_sigma = count_survivors(rho, sigma, weights, order, group_indptr, group_atoms, none, factors, left)
    return sigma if at_sigma == count else below


def as_budget(function):
    """Make a module-level function a budget, which computes the factors of the shrinkage that enforces it.

    It has the arguments of `group_budget_factors`.
    """
    return Entry(function, BUDGET_FACTORS_SIGNATURE)


@as_budget
def no_budget(weights, order, group_indptr, group_atoms, held, budget, rho, factors):
    """Do nothing: there is no budget."""
    return 0.0


def _factors_of(rule):
    """Return the kernel that does the work of a budget of groups; `rule` is the kernel for its strength."""

    @kernel
    def write_factors(weights, order, group_indptr, group_atoms, held, budget, rho, factors):
        """Do the work of a budget of groups."""
        n = weights.shape[0]
        ratios = np.empty(n)
        left = np.empty(rho.shape[0])
        none = held[:0]
        used = weights
        for attempt in range(2):
            strength = rule(rho, used, order, group_indptr, group_atoms, budget, ratios, factors, left)
            if attempt == 1 or strength <= 0.0:
                break
            if count_survivors(rho, strength, used, order, group_indptr, group_atoms, none, factors, left) >= budget:
                break
            # Groups that tie at the threshold would all be discarded, so ties are broken in favour of the first groups.
            unequal = np.empty(n)
            for g in range(n):
                unequal[g] = weights[g] * (1.0 + _TIE_BREAK * g / n)
            used = unequal
        shrink(rho, strength, used, order, group_indptr, group_atoms, factors)
        return strength

    return write_factors


_write_factors, _write_disjoint_factors = map(_factors_of, (budget_rule, disjoint_budget_rule))


@as_budget
def group_budget_factors(weights, order, group_indptr, group_atoms, held, budget, rho, factors):
    """Write the factors of the shrinkage that leaves at most `budget` groups, and return its strength.

    The arguments are described in the module. `rho` is updated, and `held` is not used.
    """
    return _write_factors(weights, order, group_indptr, group_atoms, held, budget, rho, factors)


@as_budget
def disjoint_budget_factors(weights, order, group_indptr, group_atoms, held, budget, rho, factors):
    """Do the same as `group_budget_factors` for groups that do not overlap."""
    return _write_disjoint_factors(weights, order, group_indptr, group_atoms, held, budget, rho, factors)
