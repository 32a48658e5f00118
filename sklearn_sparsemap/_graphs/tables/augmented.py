"""LP-SparseMAP over tables by the method of multipliers, with Newton's method for its steps.

The multipliers are the joint marginals P of the tables. Each step maximises the objective minus
``|P - before|^2 / (2 sigma)`` over marginals and tables. Its dual is smooth and piecewise quadratic in the messages,
and its Hessian involves only values and cells in use. The problem is linear in the tables, so finitely many steps reach
a solution. They start near it, from the result of the primal-dual method (`primal_dual.py`).

Used by `batch.py`.
"""

import numpy as np

from ..._core.jit import copy_into, kernel
from ..._numerics.cholesky import dot
from ..rows import CONVERGED, NOT_CONVERGED
from .certificate import certify_tables
from .state import evaluate, largest, largest_finite, largest_move, pass_messages
from .system import build_system, solve_system

SIGMA = 25.0  # sigma of the first step; with larger ones there are fewer steps, of more Newton steps each
_GROWTH = 5.0  # factor of sigma from step to step
_MAX_SIGMA = 300.0  # largest sigma, if the tables have scores of at least 1; otherwise divided by the largest score
_FRACTION = 0.3  # a step ends when the gradient is at most this fraction of its largest change of a joint marginal
_MAX_NEWTON = 30  # maximum number of Newton steps in a step
_MAX_STEPS = 60  # maximum number of steps
_NEAR = 0.2  # largest difference of marginals at which the gap is computed
# The damping of Newton's method is _DAMPING times the root of the largest gradient, within bounds. With less damping,
# cells that are nearly in use alternate between Newton steps.
_DAMPING, _MAX_DAMPING, _MIN_DAMPING = 0.1, 1e-2, 1e-9
_BOOST, _MAX_BOOST = 30.0, 1e5  # factor of the damping after a direction without gain, and its largest product
# Line search: sufficient decrease, largest rounding error, and maximum number of trials.
_SUFFICIENT, _ROUNDING, _MAX_TRIALS = 1e-4, 1e-13, 12


@kernel
def _line_search(tables, problem, before, sigma, value, state, trial, direction):
    """Search along a direction of descent; return the value of the last trial, and whether it is a gain.

    Parameters
    ----------
    tables, problem, before, sigma
        See `solve_tables`.
    value : float
        The value at `state`.
    state, trial : State
        The starting point, and the last trial.
    direction : array of shape (n_messages,)
    """
    scores, additional = problem
    slope = dot(state.gradient, direction)
    t = 1.0
    new = value
    size = dot(state.gradient, state.gradient)
    for _ in range(_MAX_TRIALS):
        for k in range(direction.shape[0]):
            trial.messages[k] = state.messages[k] + t * direction[k]
        new = evaluate(tables, scores, additional, before, sigma, trial)
        if new <= value + _SUFFICIENT * t * slope:
            return new, True
        # Near the minimum the gain is smaller than rounding errors, but the gradient decreases.
        if new <= value + _ROUNDING * abs(value) and dot(trial.gradient, trial.gradient) < size:
            return new, True
        new_slope = dot(trial.gradient, direction)
        if new_slope > 0.0:
            # The minimum of a quadratic function with these slopes.
            t *= min(max(slope / (slope - new_slope), 0.1), 0.7)
        else:
            t *= 0.5
    return new, False


@kernel
def solve_tables(tables, problem, before, sigma, state, trial, tols, reference, limits):
    """Solve one sample from the messages of `state` and the joint marginals `before`.

    Parameters
    ----------
    tables : TableArrays
    problem : (scores, additional)
    before : array of shape (n_additional,)
        Changed in place.
    sigma : float
        Its value in the first step.
    state, trial : State
        `trial` is scratch.
    tols : (tol, gap)
        The solver ends in either of two cases. The first number bounds the difference between the marginals of nodes
        and tables, and the change of the joint marginals in the last step. The second bounds the duality gap, divided
        by the distance of the objective from the reference if that is above 1.
    reference : float
    limits : int array
        Maximum number of Newton steps.

    Returns
    -------
    state, trial : State
        `state` contains the solution.
    n_iter, status : int
    """
    (scores, additional), (tol, most_gap) = problem, tols
    n_messages = tables.messages[-1]
    direction = np.empty(n_messages)
    scratch = np.empty(n_messages)
    w = np.empty(scores.shape[0])
    n_iter = np.int64(0)
    status = np.int64(NOT_CONVERGED)
    max_sigma = _MAX_SIGMA / min(max(largest_finite(additional), 1e-4), 1.0)
    for _ in range(_MAX_STEPS):
        value = evaluate(tables, scores, additional, before, sigma, state)
        residual = largest(state.gradient)
        move = largest_move(state.joint, before)
        boost = 1.0
        for newton in range(_MAX_NEWTON):
            enough = max(0.1 * tol, _FRACTION * min(move, 1.0)) if newton > 0 else 0.1 * tol
            if residual <= enough or n_iter >= limits[0]:
                break
            damping = boost * max(min(_MAX_DAMPING, _DAMPING * np.sqrt(residual)), _MIN_DAMPING)
            system = build_system(tables, state.joint, state.u, sigma, damping)
            solve_system(tables, system, state.gradient, w, direction, scratch)
            new, is_gain = _line_search(tables, problem, before, sigma, value, state, trial, direction)
            n_iter += 1
            if not is_gain:
                if boost > _MAX_BOOST:
                    break
                boost *= _BOOST
                continue
            state, trial, value, boost = trial, state, new, max(boost / _BOOST, 1.0)
            residual = largest(state.gradient)
            move = largest_move(state.joint, before)
        if not residual < np.inf:
            break
        copy_into(before, state.joint)
        if move <= tol and residual <= tol:
            status = np.int64(CONVERGED)
            break
        if residual <= _NEAR:
            # The certificate changes the joint marginals, so it gets a copy.
            copy_into(trial.messages, state.messages)
            copy_into(trial.joint, state.joint)
            bound = pass_messages(tables, scores, trial)
            objective, gap, own_residual = certify_tables(tables, scores, additional, trial, bound)
            if gap <= most_gap * max(1.0, abs(objective - reference)) and own_residual <= max(tol, 1e-12):
                status = np.int64(CONVERGED)
                break
        if n_iter >= limits[0]:
            break
        sigma = min(sigma * _GROWTH, max_sigma)
    return state, trial, n_iter, status
