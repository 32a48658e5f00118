"""Shrinkage of groups, computed from the squared norms of atoms.

An atom is a set of features that belong to exactly the same groups. By symmetry, the proximal operator of any group
lasso multiplies the weights of an atom by a common factor from 0 to 1, so kernels need only the squared norms of atoms.

Conventions
-----------
rho : float64 array of shape (n_atoms,)
    Squared norms. Negative values, which are rounding errors, are treated as 0.
weights : float64 array of shape (n_groups,)
    The weights d_m of the groups: finite and not negative. A group of weight 0 is never shrunk.
order, group_indptr, group_atoms : int64 arrays
    The atoms of group g are ``group_atoms[group_indptr[g]:group_indptr[g + 1]]``. Groups are shrunk one after another,
    as listed in `order`. See `Groups`.
factors : float64 array of shape (n_atoms,)
    Output: the factors of the weights of each atom.
strength : float
    Strength of the penalty, times the step size.
x, norms : float64 arrays of shape (n_atoms,)
    Norms of the atoms of the solution, and before the shrinkage.
duals : float64 array of shape (n_entries,)
    Dual variables, one for each entry of `group_atoms`.
moved : float
    Distance of `x` from the norms minus the sums of the dual variables.

Used by `_training`, `_budget.py`, `_prox.py` and `_weight_budget.py`.
"""

import numpy as np
from numba import types

from .._core.jit import FLOATS, FLOATS_OUT, INTS, entry, kernel

_ROUNDING = 1e-12  # relative difference below which lengths count as equal


def power_of_two(value):
    """Return the largest power of two up to a positive number, by which division is exact; 1 for 0."""
    return float(np.ldexp(1.0, int(np.frexp(value)[1]) - 1)) if value > 0 else 1.0


@kernel
def group_ratio(rho, weight, group, group_indptr, group_atoms):
    """Return the strength at which a group is discarded, its norm over its weight; infinite if its weight is 0."""
    total = 0.0
    for i in range(group_indptr[group], group_indptr[group + 1]):
        total += max(rho[group_atoms[i]], 0.0)
    if total <= 0.0:
        return 0.0
    return np.sqrt(total) / weight if weight > 0.0 else np.inf


@kernel
def shrink(rho, strength, weights, order, group_indptr, group_atoms, factors):
    """Shrink each group by `strength` times its weight, one after another (Martins et al. 2011, eq. 15).

    This is the proximal operator of the group lasso if the groups do not overlap, or if any two are disjoint or nested
    and the inner ones come first, as in `Groups.order`. `rho` is updated.

    A group survives exactly if its `group_ratio` is above `strength`, so ratios predict the survivors without rounding
    errors. The arguments are described in the module; `strength` is not negative.
    """
    for a in range(factors.shape[0]):
        factors[a] = 1.0
    if strength <= 0.0:
        return
    for place in range(order.shape[0]):
        group = order[place]
        ratio = group_ratio(rho, weights[group], group, group_indptr, group_atoms)
        if ratio == 0.0 or ratio == np.inf:
            continue
        # The difference of close numbers is exact, so it is never 0 for a group that survives.
        factor = (ratio - strength) / ratio if ratio > strength else 0.0
        for i in range(group_indptr[group], group_indptr[group + 1]):
            factors[group_atoms[i]] *= factor
            rho[group_atoms[i]] *= factor * factor


@entry(types.void(FLOATS_OUT, types.float64, FLOATS, INTS, INTS, INTS, FLOATS_OUT))
def shrink_atoms(rho, strength, weights, order, group_indptr, group_atoms, factors):
    """Call `shrink` from Python."""
    shrink(rho, strength, weights, order, group_indptr, group_atoms, factors)


@kernel
def _gap(x, moved, duals, strength, weights, group_indptr, group_atoms):
    """Return the duality gap as a sum of nonnegative terms, so that it is accurate even if tiny.

    The term of a group is ``strength d |x_g| - x_g . z_g``, expressed by the distance of z_g from its optimal value.
    Half the squared distance of x from ``norms - sum_g z_g``, which is `moved`, is added. Dual vectors that rounding
    has moved off the surface of their ball are treated as if they were on it, which adds to this distance. The
    arguments are described in the module.
    """
    gap, rounding = 0.0, 0.0
    for g in range(weights.shape[0]):
        radius = strength * weights[g]
        norm, length = 0.0, 0.0
        for i in range(group_indptr[g], group_indptr[g + 1]):
            norm += x[group_atoms[i]] ** 2
            length += duals[i] ** 2
        if norm <= 0.0 or radius <= 0.0:
            continue
        norm = np.sqrt(norm)
        length = np.sqrt(length)
        away = 0.0
        for i in range(group_indptr[g], group_indptr[g + 1]):
            away += (duals[i] - radius * x[group_atoms[i]] / norm) ** 2
        if abs(radius - length) <= _ROUNDING * radius:
            rounding += abs(radius - length)
        else:
            away += (radius - length) * (radius + length)
        gap += 0.5 * norm / radius * away
    return gap + 0.5 * (moved + rounding) ** 2


@kernel
def _clear_dead(norms, x, duals, strength, weights, group_indptr, group_atoms, cleared):
    """Set groups that are zero up to rounding, or whose dual vector is interior, to 0; return the distance of that.

    The arguments are described in the module. `cleared`, an array of shape (n_atoms,), is the output.
    """
    for a in range(x.shape[0]):
        cleared[a] = x[a]
    for g in range(weights.shape[0]):
        radius, length, left, before = strength * weights[g], 0.0, 0.0, 0.0
        for i in range(group_indptr[g], group_indptr[g + 1]):
            length += duals[i] ** 2
            left += x[group_atoms[i]] ** 2
            before += norms[group_atoms[i]] ** 2
        inside = np.sqrt(length) < radius * (1.0 - _ROUNDING)
        if inside or (radius > 0.0 and np.sqrt(left) < _ROUNDING * np.sqrt(before)):
            for i in range(group_indptr[g], group_indptr[g + 1]):
                cleared[group_atoms[i]] = 0.0
    moved = 0.0
    for a in range(x.shape[0]):
        moved += (x[a] - cleared[a]) ** 2
    return np.sqrt(moved)


@entry(
    types.Tuple((types.float64, types.int64))(
        FLOATS, types.float64, FLOATS, INTS, INTS, INTS, types.float64, types.int64, FLOATS_OUT
    )
)
def solve_overlapping(norms, strength, weights, order, group_indptr, group_atoms, tol, max_iter, solution):
    """Solve ``min_x 1/2 |x - norms|^2 + strength sum_g weights[g] |x_g|`` by block coordinate ascent on the dual.

    The solution is ``norms - sum_g z_g`` with dual vectors z_g in balls of radius ``strength * weights[g]``. Each z_g
    in turn is set to its optimal value. The first sweep is `shrink`, which is exact for nested groups.

    Parameters
    ----------
    norms, strength, weights, order, group_indptr, group_atoms
        See the module.
    tol : float
        The method stops when `solution` is certified to be within ``tol * |norms|`` of the exact solution.
    max_iter : int
        Maximum number of sweeps.
    solution : float64 array of shape (n_atoms,)
        Output.

    Returns
    -------
    gap : float
        Duality gap, an upper bound of half the squared distance to the solution.
    n_iter : int
    """
    n_atoms = norms.shape[0]
    duals = np.zeros(group_atoms.shape[0])
    x = norms.copy()
    target = 0.0
    for a in range(n_atoms):
        target += norms[a] ** 2
    target *= 0.5 * tol * tol
    gap = np.inf
    for sweep in range(max_iter):
        for place in range(order.shape[0]):
            g = order[place]
            radius = strength * weights[g]
            if radius <= 0.0:
                continue
            length = 0.0
            for i in range(group_indptr[g], group_indptr[g + 1]):
                length += (x[group_atoms[i]] + duals[i]) ** 2
            length = np.sqrt(length)
            factor = min(radius / length, 1.0) if length > 0.0 else 1.0
            for i in range(group_indptr[g], group_indptr[g + 1]):
                free = x[group_atoms[i]] + duals[i]
                duals[i] = factor * free
                x[group_atoms[i]] = free - duals[i] if factor < 1.0 else 0.0
        if sweep > 2 and sweep % 8 and sweep + 1 < max_iter:
            continue
        # The certificate needs x to be computed from the dual vectors.
        for a in range(n_atoms):
            x[a] = norms[a]
        for i in range(group_atoms.shape[0]):
            x[group_atoms[i]] -= duals[i]
        moved = _clear_dead(norms, x, duals, strength, weights, group_indptr, group_atoms, solution)
        gap = _gap(solution, moved, duals, strength, weights, group_indptr, group_atoms)
        if gap <= target:
            return gap, sweep + 1
    return gap, max_iter
