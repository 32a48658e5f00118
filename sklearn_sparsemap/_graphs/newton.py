"""The semismooth Newton step on the multipliers of a graph, and the loop of sweeps and steps.

`rows.py` defines the function phi, its rows A and the `Dual`. `solve_plainly` is the part of `solve_rows` that small
graphs need, and must give the same bits; tests compare them.
(`_numerics/newton.py` is another method, on the cuts of one polytope.)

Used by `batch.py` and `small.py`.
"""

import numpy as np

from .._core.jit import copy_into, kernel
from .._numerics.cholesky import add_scaled, dot
from .arrays import FORBIDDEN
from .forest import build_forest, solve_forest
from .rows import (
    CONVERGED,
    INFEASIBLE,
    NOT_CONVERGED,
    box_marginals,
    compute_gradient,
    sweep_pairs,
    sweep_rows,
    take,
)
from .structures import apply_faces, find_faces, recession_of_structures, solve_structures

_CERTAIN = 1e-7  # slope of phi along a direction of unit size, below which the direction proves infeasibility

_PATIENCE = 6  # sweeps over the pairs before the first Newton step
_PAIRS_PATIENCE = 15  # sweeps before each Newton step if there are only pairs, because a step costs many sweeps

_CHECK_EVERY = 20  # iterations between two searches for a proof of infeasibility

_FIRST_DAMPING = 1e-3  # damping at the start, relative to the diagonal
_MAX_DAMPING = 1e3  # a graph with structures is given up at this damping

_MAX_STEPS, _PLAIN_STEPS = 500, 60  # maximum numbers of steps of conjugate gradients: all, without preconditioner

# After _SLOW Newton steps the box of the variables is widened by _FIRST_BOX times the size of the scores. Early steps
# go too far and ignore variables that they clip, so that long paths of implications never left a smaller box.
# Whenever the violation is at most _WIDE_TOL, the width is multiplied by _NARROWING. Below the width _NARROW, or if a
# box takes _WIDE_STEPS steps, the unit box follows. Boxes of paths and trees of implications take few steps, those of
# competing rows can take many.
_SLOW, _FIRST_BOX, _NARROWING, _WIDE_TOL, _WIDE_STEPS, _NARROW = 60, 4.0, 0.2, 1e-3, 20, 0.1


@kernel
def _free_multipliers(dual, free):
    """Mark the multipliers that can follow the negative gradient; return their number."""
    count = 0
    for r in range(free.shape[0]):
        g, multiplier = dual.gradient[r], dual.multipliers[r]
        is_stuck = (g >= 0.0 and multiplier <= dual.row_low[r]) or (g <= 0.0 and multiplier >= dual.row_high[r])
        free[r] = not is_stuck
        count += free[r]
    return count


@kernel
def _multiply(dual, structures, system, x, y, d):
    """Set `y` to ``(A J A' + damping diag(A A')) x`` on the free multipliers.

    Parameters
    ----------
    dual : Dual
    structures : Structures, or None
    system : (wide, damping, free)
        See `_newton_step`; `free` marks the free multipliers.
    x, y : arrays of shape (n_multipliers,)
    d : array of shape (n_open,)
        Scratch.
    """
    wide, damping, free = system
    d[:] = 0.0
    take(dual, x, d)
    for i in range(d.shape[0]):
        if dual.owners[i] < 0 and not -wide < dual.u[i] < 1.0 + wide:
            d[i] = 0.0
    if structures is not None:
        apply_faces(structures, d)
    for r in range(x.shape[0]):
        if free[r]:
            total, norm_squared = 0.0, 0.0
            for entry in range(dual.row_ptr[r], dual.row_ptr[r + 1]):
                total -= dual.row_coefs[entry] * d[dual.row_vars[entry]]
                norm_squared += dual.row_coefs[entry] * dual.row_coefs[entry]
            y[r] = total + damping * norm_squared * x[r]


@kernel
def _conjugate_gradients(dual, structures, system, forest, goal, most, limits, residual, x):
    """Continue to solve for the Newton step by conjugate gradients.

    Parameters
    ----------
    dual, structures, system
        See `_multiply`.
    forest : Forest, or None
        The preconditioner.
    goal : float
        Squared norm of the residual that is small enough.
    most : int
        Maximum number of steps.
    limits : int array of shape (2,)
    residual, x : arrays of shape (n_multipliers,)
        Residual of the system, and its solution; both are changed.

    Returns
    -------
    has_ended : bool
        Whether the goal is reached, or no step can reach it.
    """
    m = x.shape[0]
    conditioned = residual if forest is None else np.empty(m)
    direction = np.zeros(m)
    image = np.zeros(m)
    d = np.empty(dual.a.shape[0])
    rho = 1.0
    for _ in range(most):
        if limits[0] == 0:
            return False
        if forest is not None:
            solve_forest(forest, residual, conditioned)
        previous = rho
        rho = dot(residual, conditioned)
        for k in range(m):
            direction[k] = conditioned[k] + rho / previous * direction[k]
        _multiply(dual, structures, system, direction, image, d)
        curvature = dot(direction, image)
        if not curvature > 0.0:
            return True
        add_scaled(x, rho / curvature, direction)
        add_scaled(residual, -rho / curvature, image)
        if dot(residual, residual) <= goal:
            return True
    return False


@kernel
def _newton_direction(dual, structures, wide, damping, precision, use_forest, free, limits, x):
    """Solve for the Newton step on the free multipliers by conjugate gradients, into `x`.

    Parameters
    ----------
    dual, structures, wide, damping, use_forest, limits
        See `_newton_step`.
    precision : float
        Norm of the residual, relative to the gradient, that is small enough.
    free : bool array of shape (n_multipliers,)
    x : array of shape (n_multipliers,)

    Returns
    -------
    use_forest : bool
        Whether the preconditioner was used: if `use_forest`, or because many steps did not suffice. If `use_forest` is
        None, there is no preconditioner, and the result is whether the steps sufficed.
    """
    m = x.shape[0]
    if structures is not None:
        find_faces(structures)
    residual = np.zeros(m)
    count = 0
    for k in range(m):
        x[k] = 0.0
        if free[k]:
            residual[k] = -dual.gradient[k]
            count += 1
    goal = precision * precision * dot(residual, residual)
    most = min(2 * count + 10, _MAX_STEPS)
    system = (wide, damping, free)
    n_plain = min(most, _PLAIN_STEPS)
    if use_forest is None:
        has_ended = _conjugate_gradients(dual, structures, system, None, goal, n_plain, limits, residual, x)
        return has_ended or n_plain == most
    if not use_forest:
        has_ended = _conjugate_gradients(dual, structures, system, None, goal, n_plain, limits, residual, x)
        if has_ended or n_plain == most:
            return False
    forest = build_forest(dual, damping, wide, free)
    _conjugate_gradients(dual, structures, system, forest, goal, most, limits, residual, x)
    return True


@kernel
def _is_infeasible(dual, structures, additional, mu):
    """Return whether multipliers of the rows prove that no marginals satisfy all factors.

    They do if phi is unbounded below along them. The multipliers `mu` are scaled in place. If they are a proof, they
    become those of the dual.
    """
    size = 0.0
    for r in range(mu.shape[0]):
        # Multipliers with a finite bound in this direction are no direction of recession.
        if (mu[r] > 0.0 and dual.row_high[r] < np.inf) or (mu[r] < 0.0 and dual.row_low[r] > -np.inf):
            mu[r] = 0.0
        size = max(size, abs(mu[r]))
    if size == 0.0:
        return False
    for r in range(mu.shape[0]):
        mu[r] /= size
    d = np.zeros(dual.a.shape[0])
    multipliers = np.zeros(dual.multipliers.shape[0])
    copy_into(multipliers, mu)
    take(dual, multipliers, d)
    slope = dot(mu, dual.row_bounds)
    for i in range(d.shape[0]):
        if dual.owners[i] < 0 and dual.scores[i] > 0.5 * FORBIDDEN:
            slope += max(d[i], 0.0)
    if structures is not None:
        slope += recession_of_structures(structures, additional, dual, d)
    if slope < -_CERTAIN:
        copy_into(dual.multipliers, mu)
        return True
    return False


@kernel
def _evaluate(dual, structures, additional, wide, limits):
    """Set scores, marginals and gradient for the multipliers; return phi and the largest violation."""
    copy_into(dual.a, dual.scores)
    take(dual, dual.multipliers, dual.a)
    value = box_marginals(dual, wide) + dot(dual.row_bounds, dual.multipliers)
    if structures is not None:
        value += solve_structures(structures, additional, dual, limits)
    return value, compute_gradient(dual)


@kernel
def _restore(dual, multipliers, limits):
    """Restore earlier multipliers and the unit box; return phi and the largest violation there."""
    copy_into(dual.multipliers, multipliers)
    return _evaluate(dual, None, multipliers, 0.0, limits)


@kernel
def _least_tol(dual):
    """Return the largest violation due to rounding errors."""
    tol = 4e-15
    for i in range(dual.scores.shape[0]):
        if dual.scores[i] > 0.5 * FORBIDDEN:
            tol = max(tol, 4e-16 * abs(dual.a[i]))
    return tol


@kernel
def _sweep(dual, tol, limits, most):
    """Sweep over the pairs, and once over the other rows; return the number of sweeps and the largest violation.

    The violation is infinite if a row is infeasible. There are at most `most` sweeps, and one if there are other rows.
    """
    has_logic = dual.n_logic > 0
    n_iter = max(sweep_pairs(dual, 0.25 * tol, limits, 1 if has_logic else most, _PAIRS_PATIENCE), 1)
    if has_logic and sweep_rows(dual) == np.inf:
        return n_iter, np.inf
    box_marginals(dual, 0.0)
    return n_iter, compute_gradient(dual)


@kernel
def _move(dual, old, step, x):
    """Set the multipliers to ``old + step * x``, clipped to their bounds."""
    for r in range(old.shape[0]):
        dual.multipliers[r] = min(max(old[r] + step * x[r], dual.row_low[r]), dual.row_high[r])


@kernel
def _line_search(dual, structures, additional, wide, value, violation, limits, x):
    """Search along a direction for multipliers with a smaller phi.

    Parameters
    ----------
    dual, structures, additional, wide, value, violation, limits
        See `_newton_step`.
    x : array of shape (n_multipliers,)
        The direction.

    Returns
    -------
    value, violation : float
        Phi and the largest violation at the new multipliers, which are the old ones if there is no gain.
    attempt : int
        Number of steps without a gain.
    is_gain : bool
    """
    old = dual.multipliers.copy()
    step = 1.0
    most = 8 if structures is None else 4
    for attempt in range(most):
        _move(dual, old, step, x)
        new, new_violation = _evaluate(dual, structures, additional, wide, limits)
        if new < value or (new_violation < violation and new <= value + 1e-13 * (1.0 + abs(new))):
            return new, new_violation, attempt, True
        step *= 0.25
        if limits[0] == 0:
            break
    _move(dual, old, 0.0, x)
    value, violation = _evaluate(dual, structures, additional, wide, limits)
    return value, violation, most, False


@kernel
def _newton_step(dual, structures, additional, wide, value, violation, damping, use_forest, limits):
    """Take one Newton step with a line search.

    Parameters
    ----------
    dual : Dual
        Evaluated at its multipliers.
    structures : Structures, or None
    additional : array of shape (n_additional,)
    wide : float
        Width by which the box of the variables exceeds the unit box on both sides.
    value, violation : float
        Phi and the largest violation at the multipliers.
    damping : float
    use_forest : bool or None
        Whether the last step needed the preconditioner. If None, its code is not compiled.
    limits : int array of shape (2,)

    Returns
    -------
    value, violation : float
        Phi and the largest violation at the new multipliers.
    damping : float
    use_forest : bool
        Both for the next step.
    can_go_on : bool
        Whether another step can be a gain.
    """
    m = dual.multipliers.shape[0]
    free = np.zeros(m, np.bool_)
    x = np.empty(m)
    if _free_multipliers(dual, free) == 0:
        return value, violation, damping, use_forest, False
    shrunk = damping * min(violation, 1.0) if structures is None else damping
    used = _newton_direction(dual, structures, wide, shrunk, min(1e-2, violation), use_forest, free, limits, x)
    if use_forest is None:
        if not used:
            return value, violation, damping, use_forest, False
    else:
        use_forest = used
    value, violation, attempt, is_gain = _line_search(dual, structures, additional, wide, value, violation, limits, x)
    if attempt == 0:
        damping = max(0.1 * damping, 1e-10)
    elif not is_gain:
        damping *= 10.0
    return value, violation, damping, use_forest, structures is None or damping <= _MAX_DAMPING


@kernel
def _solve_by_wide_boxes(dual, start, value, use_forest, most, limits):
    """Solve in a sequence of narrowing boxes that contain the unit box, each from the solution of the last.

    A Newton step ignores clipped variables, and hence how far their multipliers must move. In a wide box fewer
    variables are clipped.

    Parameters
    ----------
    dual : Dual
        The dual of a graph without structures. It keeps its multipliers unless those in the unit box are better.
    start : array of shape (n_multipliers,)
        Multipliers for the first box.
    value : float
        Phi at the multipliers of the dual.
    use_forest : bool
    most : int
        Maximum number of steps.
    limits : int array of shape (2,)

    Returns
    -------
    n_iter : int
        Number of steps.
    violation, damping : float
    use_forest : bool
    has_ended : bool
        Whether the unit box is reached.
    """
    saved = dual.multipliers.copy()
    wide = _NARROW
    n_iter = np.int64(0)
    none = start[:0]
    for score in dual.scores:
        if score > 0.5 * FORBIDDEN:
            wide = max(wide, _FIRST_BOX * abs(score))
    damping, saved_value = _FIRST_DAMPING, value
    copy_into(dual.multipliers, start)
    value, violation = _evaluate(dual, None, none, wide, limits)
    while wide > 0.0:
        n_steps = 0
        while violation > _WIDE_TOL and n_steps < _WIDE_STEPS:
            value, violation, damping, use_forest, can_go_on = _newton_step(
                dual, None, none, wide, value, violation, damping, use_forest, limits
            )
            n_steps += 1
            n_iter += 1
            if n_iter >= most or limits[0] == 0 or not can_go_on:
                _, violation = _restore(dual, saved, limits)
                return n_iter, violation, damping, use_forest, False
        wide = 0.0 if n_steps == _WIDE_STEPS or wide < _NARROW else _NARROWING * wide
        value, violation = _evaluate(dual, None, none, wide, limits)
    if not value < saved_value:
        _, violation = _restore(dual, saved, limits)
    return n_iter, violation, damping, use_forest, True


@kernel
def solve_plainly(dual, structures, is_logic, additional, tol, limits):
    """Solve one sample without pairs as `solve_rows` does, but give up where that needs code which is seldom used.

    This is the preconditioner, the wide boxes and the proof of infeasibility. Results are the same bit by bit.

    Parameters
    ----------
    dual, structures, additional, tol, limits
        See `solve_rows`.
    is_logic : bool or None
        None if there are structures; any other value, also False, means rows of logic. Numba drops code by it.

    Returns
    -------
    n_iter : int
    status : int
        NOT_CONVERGED if `solve_rows` has to start again.
    violation : float
        Largest violation of a row, or of complementary slackness. The dual has the gradient there.
    """
    value, violation = _evaluate(dual, structures, additional, 0.0, limits)
    n_iter = np.int64(0)
    n_steps = np.int64(0)
    damping = _FIRST_DAMPING
    can_go_on = value == value
    tol = max(tol, _least_tol(dual))
    while can_go_on and violation > tol and n_iter < limits[0] and n_steps < _SLOW:
        if is_logic is not None:
            n_iter += 1
            if sweep_rows(dual) == np.inf:
                break
            box_marginals(dual, 0.0)
            violation = compute_gradient(dual)
            if violation <= tol or n_iter >= limits[0]:
                break
            value, violation = _evaluate(dual, structures, additional, 0.0, limits)
        n_iter += 1
        n_steps += 1
        value, violation, damping, _, can_go_on = _newton_step(
            dual, structures, additional, 0.0, value, violation, damping, None, limits
        )
    return n_iter, CONVERGED if value == value and violation <= tol else NOT_CONVERGED, violation


@kernel
def _status(dual, structures, additional, is_solved):
    """Return the status of the solver at the multipliers."""
    if is_solved:
        return CONVERGED
    logic_multipliers = dual.multipliers[: dual.n_logic].copy()
    return INFEASIBLE if _is_infeasible(dual, structures, additional, logic_multipliers) else NOT_CONVERGED


@kernel
def solve_rows(dual, structures, additional, tol, limits, use_newton):
    """Solve one sample in which no variable is in two structures.

    Parameters
    ----------
    dual : Dual
        Contains the multipliers to start from; overwritten with the solution.
    structures : Structures, or None
        Their supports become those of the solution.
    additional, tol, limits
        See `_graphs/__init__.py`. Sweeps and Newton steps are both iterations.
    use_newton : bool
        Whether to use Newton steps; otherwise there are only sweeps.

    Returns
    -------
    n_iter : int
    status : int
    """
    n_logic, mu = dual.n_logic, dual.multipliers[: dual.n_logic]
    # As long as sweeps over pairs make progress, they are cheaper than a step.
    patience = _PATIENCE if dual.multipliers.shape[0] > 2 * n_logic > 0 else 0
    value, violation = _evaluate(dual, structures, additional, 0.0, limits)
    n_iter = np.int64(0)
    n_steps = np.int64(0)
    next_check = np.int64(_CHECK_EVERY)
    if value != value:
        return n_iter, INFEASIBLE
    tol = max(tol, _least_tol(dual))
    damping = _FIRST_DAMPING
    use_forest = np.bool_(False)
    start = dual.multipliers.copy()
    checked = mu.copy()
    while violation > tol and n_iter < limits[0]:
        if structures is None:
            if n_steps == _SLOW and n_logic > 0:
                n_more, violation, damping, use_forest, has_ended = _solve_by_wide_boxes(
                    dual, start, value, use_forest, limits[0] - n_iter, limits
                )
                n_iter += n_more
                n_steps += n_more + 1
                if not has_ended:
                    break
                copy_into(checked, mu)
            previous = violation
            n_more, violation = _sweep(dual, tol, limits, limits[0] - n_iter)
            n_iter += n_more
            if violation == np.inf:
                return n_iter, INFEASIBLE
            if violation <= tol or n_iter >= limits[0]:
                break
        if n_iter >= next_check:
            next_check = n_iter + _CHECK_EVERY
            if _is_infeasible(dual, structures, additional, mu - checked):
                return n_iter, INFEASIBLE
            copy_into(checked, mu)
        if not use_newton:
            continue
        if structures is None:
            if n_iter < patience or (patience > 0 and violation < 0.5 * previous):
                continue
            value, violation = _evaluate(dual, structures, additional, 0.0, limits)
        n_iter += 1
        n_steps += 1
        value, violation, damping, use_forest, can_go_on = _newton_step(
            dual, structures, additional, 0.0, value, violation, damping, use_forest, limits
        )
        if not can_go_on:
            break
    return n_iter, _status(dual, structures, additional, violation <= tol)
