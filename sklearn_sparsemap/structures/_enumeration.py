"""Integer programs with few open variables: enumeration around the linear relaxation.

Let r be the reduced costs for the dual variables of the relaxation. The choice of the variables with r < 0 costs at
most as much as any solution, though it may violate constraints. A solution that differs from it costs more, at least by
the sum of ``|r|`` over the variables that differ. So the best solution that differs only in a core, the few variables
with the smallest ``|r|``, limits this sum, and few sets of variables remain (Balas and Zemel: An Algorithm for Large
Zero-One Knapsack Problems, 1980).
"""

import numpy as np

# Size of the core; larger gives a lower limit, at twice the cost for each variable more.
_CORE = 8
# Largest number of sets of variables, and of variables in them. If more are open, a solver has to branch.
_MAX_SETS, _MAX_OPEN = 4096, 64
# Largest violation of a constraint by a solution; HiGHS's tolerance.
FEASIBLE = 1e-6
# Rounding of sums, relative to the sum of absolute costs.
_ROUNDING = 1e-12


def best_nearby(costs, allowed, below, equal, duals, equal_duals):
    """Return the 0-1 solution of lowest cost, or None if there may be too many to enumerate.

    Parameters
    ----------
    costs : array of shape (n,)
    allowed : bool array of shape (n,)
        Variables that may be 1.
    below, equal : pair of arrays (A, b)
        Constraints ``A @ x <= b`` and ``A @ x == b``.
    duals, equal_duals : arrays
        Dual variables of the constraints in the linear relaxation, as `scipy.optimize.linprog` returns them.

    Returns
    -------
    x : bool array of shape (n,) or None
    """
    (A, b), (A_eq, b_eq) = below, equal
    duals = np.minimum(duals, 0.0)
    reduced = costs - duals @ A - equal_duals @ A_eq
    first = allowed & (reduced < 0.0)
    bound = duals @ b + equal_duals @ b_eq + reduced[first].sum()
    # A solution may cost less than the bound by rounding, and by as much as it may violate constraints.
    slack = _ROUNDING * (np.abs(costs).sum() + np.abs(duals) @ np.abs(b) + np.abs(equal_duals) @ np.abs(b_eq))
    slack += FEASIBLE * (np.abs(duals).sum() + np.abs(equal_duals).sum())
    sizes = np.where(allowed, np.abs(reduced), np.inf)
    near, limit, best = np.argsort(sizes, kind="stable")[: min(_CORE, allowed.sum())], np.inf, None
    for _ in range(2):
        sets = _sets_within(sizes[near], limit) if len(near) <= _MAX_OPEN else None
        if sets is None:
            return None
        changes = sets * np.where(first[near], -1.0, 1.0)
        is_solution = (changes @ A[:, near].T <= b - A @ first + FEASIBLE).all(axis=1)
        is_solution &= (np.abs(changes @ A_eq[:, near].T - (b_eq - A_eq @ first)) <= FEASIBLE).all(axis=1)
        if not is_solution.any():
            return None
        totals = np.where(is_solution, costs[first].sum() + changes @ costs[near], np.inf)
        found = int(totals.argmin())
        best = first.copy()
        best[near] ^= sets[found]
        limit = max(totals[found] - bound, 0.0) + 2.0 * slack
        near = np.flatnonzero(sizes <= limit)
    return best


def _sets_within(sizes, limit):
    """Return all sets of variables whose sizes sum to at most `limit`: bool array, or None if there are too many."""
    sets, totals = np.zeros((1, len(sizes)), bool), np.zeros(1)
    for j, size in enumerate(sizes):
        fits = totals + size <= limit
        larger = sets[fits]
        larger[:, j] = True
        sets, totals = np.concatenate([sets, larger]), np.concatenate([totals, totals[fits] + size])
        if len(sets) > _MAX_SETS:
            return None
    return sets
