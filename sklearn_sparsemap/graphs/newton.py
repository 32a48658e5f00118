"""The semismooth Newton step on the multipliers of a graph, and the loop of sweeps and steps."""

import numpy as np

from .._core.jit import copy_into, kernel
from ..numerics.cholesky import add_scaled, dot
from .arrays import FORBIDDEN
from .forest import build_forest, solve_forest
from .rows import (
    CONVERGED,
    INFEASIBLE,
    NOT_CONVERGED,
    box_marginals,
    compute_gradient,
    multiplier_terms,
    sweep_pairs,
    sweep_rows,
    take,
)
from .structures import apply_faces, find_faces, recession_of_structures, solve_structures

# A direction of recession that gains less than this, relative to its size, proves nothing.
_CERTAIN = 1e-7

# So many sweeps over pairs come before the first step; in a graph of nothing but pairs, where a step takes as long as
# many sweeps, this many come before each.
_PATIENCE, _PAIRS_PATIENCE = 6, 15

# How often multipliers are examined for a proof that there is no solution.
_CHECK_EVERY = 20

# What the diagonal is multiplied by at first.
_FIRST_DAMPING = 1e-3

# Most steps of conjugate gradients, and those without a preconditioner.
_MOST_STEPS, _PLAIN_STEPS = 500, 60

# After so many Newton steps the box of the variables is widened, by the size of the scores first. It is narrowed by a
# factor whenever a solution is as exact as this, and is the unit box again in the end, or when that takes many steps:
# it does not in paths and trees of implications, but can where rows compete.
_SLOW, _NARROWING, _WIDE_TOL, _WIDE_STEPS, _NARROW = 60, 0.2, 1e-3, 20, 0.1


@kernel
def _free_multipliers(dual, free):
    """Mark the multipliers that can follow the negative gradient, those of rows first; return their number."""
    n_rows, count = dual.mu.shape[0], 0
    for r in range(n_rows):
        g, mu = dual.gradient[r], dual.mu[r]
        free[r] = not ((g >= 0.0 and mu <= dual.row_low[r]) or (g <= 0.0 and mu >= dual.row_high[r]))
        count += free[r]
    for e in range(dual.t.shape[0]):
        g, t = dual.gradient[n_rows + e], dual.t[e]
        free[n_rows + e] = not ((g >= 0.0 and t <= 0.0) or (g <= 0.0 and t >= abs(dual.pair[e])))
        count += free[n_rows + e]
    return count


@kernel
def _multiply(dual, structures, wide, damping, free, x, y, d):
    """Set `y` to ``(A J A' + damping diag(A A')) x`` on the free multipliers; `d` is scratch."""
    n_rows = dual.mu.shape[0]
    d[:] = 0.0
    take(dual, x, d)
    for i in range(d.shape[0]):
        if dual.owners[i] < 0 and not -wide < dual.u[i] < 1.0 + wide:
            d[i] = 0.0
    if structures is not None:
        apply_faces(structures, d)
    for r in range(n_rows):
        if free[r]:
            total, norm_squared = 0.0, 0.0
            for entry in range(dual.row_ptr[r], dual.row_ptr[r + 1]):
                total -= dual.row_coefs[entry] * d[dual.row_vars[entry]]
                norm_squared += dual.row_coefs[entry] * dual.row_coefs[entry]
            y[r] = total + damping * norm_squared * x[r]
    for e in range(dual.t.shape[0]):
        if free[n_rows + e]:
            first = dual.pair_signs[e, 0] * d[dual.pair_ends[e, 0]]
            second = dual.pair_signs[e, 1] * d[dual.pair_ends[e, 1]]
            change = first - second if dual.pair[e] > 0.0 else -first - second
            y[n_rows + e] = change + damping * 2.0 * x[n_rows + e]


@kernel
def _newton_direction(dual, structures, wide, damping, precision, use_forest, free, limits, x):
    """Solve for the Newton step on the free multipliers by conjugate gradients, into `x`.

    If these take long, or if `use_forest` says that they did before, they are preconditioned; return whether they were.
    """
    m = x.shape[0]
    if structures is not None:
        find_faces(structures)
    residual, direction, image, d = np.zeros(m), np.zeros(m), np.zeros(m), np.empty(dual.a.shape[0])
    count = 0
    for k in range(m):
        x[k] = 0.0
        if free[k]:
            residual[k] = -dual.gradient[k]
            count += 1
    rho = dot(residual, residual)
    goal = precision * precision * rho
    most, n_steps = min(2 * count + 10, _MOST_STEPS), 0
    if not use_forest:
        copy_into(direction, residual)
        while rho > goal and n_steps < min(most, _PLAIN_STEPS) and limits[0] > 0:
            n_steps += 1
            _multiply(dual, structures, wide, damping, free, direction, image, d)
            curvature = dot(direction, image)
            if not curvature > 0.0:
                return False
            step = rho / curvature
            add_scaled(x, step, direction)
            add_scaled(residual, -step, image)
            previous, rho = rho, dot(residual, residual)
            for k in range(m):
                direction[k] = residual[k] + rho / previous * direction[k]
        if rho <= goal or n_steps == most:
            return False
    forest = build_forest(dual, damping, wide, free)
    conditioned = np.empty(m)
    solve_forest(forest, residual, conditioned)
    copy_into(direction, conditioned)
    rho = dot(residual, conditioned)
    for _ in range(most):
        if limits[0] == 0:
            break
        _multiply(dual, structures, wide, damping, free, direction, image, d)
        curvature = dot(direction, image)
        if not curvature > 0.0:
            break
        step = rho / curvature
        add_scaled(x, step, direction)
        add_scaled(residual, -step, image)
        if dot(residual, residual) <= goal:
            break
        solve_forest(forest, residual, conditioned)
        previous, rho = rho, dot(residual, conditioned)
        for k in range(m):
            direction[k] = conditioned[k] + rho / previous * direction[k]
    return True


@kernel
def is_infeasible(dual, structures, additional, mu):
    """Tell whether multipliers of the rows prove that no marginals satisfy all factors; they are scaled in place.

    They do if phi falls without end along them.
    """
    size = 0.0
    for r in range(mu.shape[0]):
        # Only what may grow without bound counts.
        if (mu[r] > 0.0 and dual.row_high[r] < np.inf) or (mu[r] < 0.0 and dual.row_low[r] > -np.inf):
            mu[r] = 0.0
        size = max(size, abs(mu[r]))
    if size == 0.0:
        return False
    for r in range(mu.shape[0]):
        mu[r] /= size
    d, multipliers = np.zeros(dual.a.shape[0]), np.zeros(dual.multipliers.shape[0])
    copy_into(multipliers, mu)
    take(dual, multipliers, d)
    slope = dot(dual.row_bounds, mu)
    for i in range(d.shape[0]):
        if dual.owners[i] < 0 and dual.scores[i] > 0.5 * FORBIDDEN:
            slope += max(d[i], 0.0)
    if structures is not None:
        slope += recession_of_structures(structures, additional, dual, d)
    return slope < -_CERTAIN


@kernel
def _evaluate(dual, structures, additional, wide, limits):
    """Set scores, marginals and gradient for the multipliers; return phi and the largest violation."""
    copy_into(dual.a, dual.scores)
    take(dual, dual.multipliers, dual.a)
    value = box_marginals(dual, wide) + multiplier_terms(dual)
    if structures is not None:
        value += solve_structures(structures, additional, dual, limits)
    return value, compute_gradient(dual)


@kernel
def _move(dual, old, step, x):
    """Set the multipliers to those that lie a step along `x` from old ones, inside their bounds."""
    n_rows = dual.mu.shape[0]
    for k in range(old.shape[0]):
        low, high = (dual.row_low[k], dual.row_high[k]) if k < n_rows else (0.0, abs(dual.pair[k - n_rows]))
        dual.multipliers[k] = min(max(old[k] + step * x[k], low), high)


@kernel
def _sweep(dual, room, tol, limits, most):
    """Sweep over the pairs, and once over the rows; return the number of sweeps and the largest violation.

    That is infinite if a row cannot be satisfied. `room` has space for the longest row.
    """
    n_iter = max(sweep_pairs(dual, 0.25 * tol, limits, most, _PAIRS_PATIENCE), 1)
    if dual.mu.shape[0] > 0 and sweep_rows(dual, room) == np.inf:
        return n_iter, np.inf
    box_marginals(dual, 0.0)
    return n_iter, compute_gradient(dual)


@kernel
def solve_rows(dual, structures, additional, tol, limits, use_newton):
    """Solve one sample whose variables are in one structure at most.

    Parameters
    ----------
    dual : Dual
        With the multipliers to start from; in the end it is that of the solution.
    structures : Structures, or None
        Their supports are those of the solution, in the end.
    additional : array of shape (n_additional,)
    tol : float
        Largest violation allowed.
    limits : int array of shape (2,)
        Most sweeps and Newton steps together, and most calls of an oracle by one solve of a structure. Another thread
        can end the solver by setting them to 0.
    use_newton : bool

    Returns
    -------
    n_iter : int
    status : int
    """
    n_rows, n_pairs, n_structures = dual.mu.shape[0], dual.t.shape[0], np.int64(0)
    if structures is not None:
        n_structures = structures.graph.structures.shape[0]
    value, violation = _evaluate(dual, structures, additional, 0.0, limits)
    largest, floor = _NARROW, 4e-15
    for i in range(dual.scores.shape[0]):
        if dual.scores[i] > 0.5 * FORBIDDEN:
            largest = max(largest, abs(dual.scores[i]))
            floor = max(floor, 4e-16 * abs(dual.a[i]))
    tol, n_iter = max(tol, floor), np.int64(0)
    if value != value:
        return n_iter, INFEASIBLE
    is_swept = n_structures == 0 and n_rows == 0
    if is_swept:
        # Most label sets end here, sooner than it takes to make room for what follows.
        if violation > tol:
            n_iter, violation = _sweep(dual, dual.a, tol, limits, limits[0])
        if violation <= tol:
            return n_iter, CONVERGED
    first = dual.multipliers.copy()
    longest = 1
    for r in range(n_rows):
        longest = max(longest, dual.row_ptr[r + 1] - dual.row_ptr[r])
    z = np.empty(longest)
    x, old, free = np.empty(n_rows + n_pairs), np.empty(n_rows + n_pairs), np.zeros(n_rows + n_pairs, np.bool_)
    far_mu = dual.mu.copy()
    damping, next_check = _FIRST_DAMPING, _CHECK_EVERY
    wide, n_steps, stage_end, use_forest = 0.0, 0, 0, np.bool_(False)
    saved, saved_value = old, np.inf
    while (violation > tol or wide > 0.0) and n_iter < limits[0]:
        if n_steps == _SLOW and n_structures == 0 and n_rows > 0:
            # Where variables are clipped, the step is blind for how far their multipliers must go.
            saved, saved_value = dual.multipliers.copy(), value
            wide = largest
            copy_into(dual.multipliers, first)
            value, violation = _evaluate(dual, structures, additional, wide, limits)
            damping, n_steps = _FIRST_DAMPING, n_steps + 1
            stage_end = n_steps + _WIDE_STEPS
        while wide > 0.0 and (violation <= _WIDE_TOL or n_steps >= stage_end):
            wide = 0.0 if n_steps >= stage_end or wide < _NARROW else _NARROWING * wide
            stage_end = n_steps + _WIDE_STEPS
            value, violation = _evaluate(dual, structures, additional, wide, limits)
            if wide == 0.0 and not value < saved_value:
                copy_into(dual.multipliers, saved)
                value, violation = _evaluate(dual, structures, additional, wide, limits)
            copy_into(far_mu, dual.mu)
        previous = violation
        if n_structures == 0 and wide == 0.0 and not is_swept:
            # Sweeps over pairs are cheaper than a step as long as they get on.
            most = limits[0] - n_iter if n_rows == 0 else 1
            n_more, violation = _sweep(dual, z, tol, limits, most)
            n_iter += n_more
            if violation == np.inf:
                return n_iter, INFEASIBLE
            if violation <= tol:
                break
        is_swept = False
        if n_iter >= next_check and wide == 0.0:
            next_check = n_iter + _CHECK_EVERY
            mu = dual.mu - far_mu
            if is_infeasible(dual, structures, additional, mu):
                copy_into(dual.mu, mu)
                return n_iter, INFEASIBLE
            copy_into(far_mu, dual.mu)
        many_pairs = n_structures == 0 and n_pairs > n_rows > 0
        if not use_newton or (many_pairs and wide == 0.0 and (n_iter < _PATIENCE or violation < 0.5 * previous)):
            continue
        n_iter += 1
        n_steps += 1
        if n_structures == 0 and wide == 0.0:
            value, violation = _evaluate(dual, structures, additional, wide, limits)
        if _free_multipliers(dual, free) == 0:
            break
        shrunk = damping * min(violation, 1.0) if n_structures == 0 else damping
        use_forest = _newton_direction(
            dual, structures, wide, shrunk, min(1e-2, violation), use_forest, free, limits, x
        )
        copy_into(old, dual.multipliers)
        old_value, old_violation = value, violation
        step = 1.0
        most = 8 if n_structures == 0 else 4
        for attempt in range(most + 1):
            # The last attempt goes back to where the step began.
            _move(dual, old, step if attempt < most else 0.0, x)
            value, violation = _evaluate(dual, structures, additional, wide, limits)
            if value < old_value or (violation < old_violation and value <= old_value + 1e-13 * (1.0 + abs(value))):
                break
            step *= 0.25
            if limits[0] == 0:
                break
        if attempt == 0:
            damping = max(0.1 * damping, 1e-10)
        elif attempt == most:
            damping *= 10.0
            if n_structures > 0 and damping > 1e3:
                break
    if wide > 0.0:
        # The end came before that of the homotopy.
        copy_into(dual.multipliers, saved)
        value, violation = _evaluate(dual, structures, additional, 0.0, limits)
    status = CONVERGED if violation <= tol else NOT_CONVERGED
    if status == NOT_CONVERGED:
        mu = dual.mu.copy()
        if is_infeasible(dual, structures, additional, mu):
            copy_into(dual.mu, mu)
            status = INFEASIBLE
    return n_iter, status
