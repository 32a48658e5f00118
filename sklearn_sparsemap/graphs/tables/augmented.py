"""LP-SparseMAP over tables by the method of multipliers, whose steps Newton's method finds.

The tables' joint marginals are the multipliers: each step maximises the objective less ``|P - before|^2 / (2 sigma)``
over marginals and tables. Its dual is smooth in the messages and piecewise quadratic, and its Hessian involves only the
values and cells that are in use. The steps end at a solution: tables are part of a linear programme. They start where
steps without a system (`primal_dual.py`) have come near it.
"""

import numpy as np

from ..._core.jit import copy_into, kernel
from ...numerics.cholesky import dot
from ..rows import CONVERGED, NOT_CONVERGED
from .certificate import certify_tables
from .state import evaluate, largest, largest_finite, largest_move, pass_messages
from .system import build_system, solve_system

# sigma at the start, near a solution; by how much it grows a step, and until when: later where the tables' scores are
# below 1.
SIGMA = 25.0
_GROWTH, _MOST_SIGMA = 5.0, 300.0
# A step ends when the gradient is below this share of what the step has moved; or after so many Newton steps.
_SHARE, _MOST_NEWTON = 0.3, 30
_MOST_STEPS = 60
# With a larger difference of marginals there is no need to look at the gap.
_NEAR = 0.2
# The damping of Newton's method, as a share of the gradient's root, and its bounds. With less of it, cells that are
# nearly in use come and go.
_DAMPING, _MOST_DAMPING, _LEAST_DAMPING = 0.1, 1e-2, 1e-9
# If a direction brings no gain, the damping grows by the first factor, up to the second in all.
_BOOST, _MOST_BOOST = 30.0, 1e5
# Line search: sufficient decrease, largest rounding error, and maximum number of trials.
_SUFFICIENT, _ROUNDING, _MOST_TRIALS = 1e-4, 1e-13, 12


@kernel
def _line_search(tables, problem, before, sigma, value, state, trial, direction):
    """Go along a direction of descent; `trial` gets where it ends. Return its value, and whether it is a gain."""
    scores, additional = problem
    slope, t, new, size = dot(state.gradient, direction), 1.0, value, dot(state.gradient, state.gradient)
    for _ in range(_MOST_TRIALS):
        for k in range(direction.shape[0]):
            trial.messages[k] = state.messages[k] + t * direction[k]
        new = evaluate(tables, scores, additional, before, sigma, trial)
        if new <= value + _SUFFICIENT * t * slope:
            return new, True
        # Near the minimum rounding hides what is gained; the gradient tells.
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
        At the start.
    state, trial : State
        The latter is scratch.
    tols : (tol, gap)
        The former is for the difference between the marginals of nodes and tables, and how far the last step moved; the
        latter for the duality gap, relative to how far the objective is above the reference, where that is above 1.
        Either is enough.
    reference : float
    limits : int array
        Most Newton steps.

    Returns
    -------
    state, trial : State
        The first one holds the solution.
    n_iter, status : int
    """
    (scores, additional), (tol, most_gap) = problem, tols
    n_messages = tables.messages[-1]
    direction, scratch, w = np.empty(n_messages), np.empty(n_messages), np.empty(scores.shape[0])
    n_iter, status = np.int64(0), np.int64(NOT_CONVERGED)
    most_sigma = _MOST_SIGMA / min(max(largest_finite(additional), 1e-4), 1.0)
    for _ in range(_MOST_STEPS):
        value = evaluate(tables, scores, additional, before, sigma, state)
        residual, move = largest(state.gradient), largest_move(state.joint, before)
        boost = 1.0
        for newton in range(_MOST_NEWTON):
            enough = max(0.1 * tol, _SHARE * min(move, 1.0)) if newton > 0 else 0.1 * tol
            if residual <= enough or n_iter >= limits[0]:
                break
            damping = boost * max(min(_MOST_DAMPING, _DAMPING * np.sqrt(residual)), _LEAST_DAMPING)
            system = build_system(tables, state.joint, state.u, sigma, damping)
            solve_system(tables, system, state.gradient, w, direction, scratch)
            new, is_gain = _line_search(tables, problem, before, sigma, value, state, trial, direction)
            n_iter += 1
            if not is_gain:
                if boost > _MOST_BOOST:
                    break
                boost *= _BOOST
                continue
            state, trial, value, boost = trial, state, new, max(boost / _BOOST, 1.0)
            residual, move = largest(state.gradient), largest_move(state.joint, before)
        if not residual < np.inf:
            break
        copy_into(before, state.joint)
        if move <= tol and residual <= tol:
            status = np.int64(CONVERGED)
            break
        if residual <= _NEAR:
            # Certified on the scratch, for the tables change.
            copy_into(trial.messages, state.messages)
            copy_into(trial.joint, state.joint)
            bound = pass_messages(tables, scores, trial)
            objective, gap, own_residual = certify_tables(tables, scores, additional, trial, bound)
            if gap <= most_gap * max(1.0, abs(objective - reference)) and own_residual <= max(tol, 1e-12):
                status = np.int64(CONVERGED)
                break
        if n_iter >= limits[0]:
            break
        sigma = min(sigma * _GROWTH, most_sigma)
    return state, trial, n_iter, status
