"""The alternating direction method of multipliers for factor graphs (Niculae and Martins 2020, algorithm 1).

Each factor has copies of its variables, weighted by 1 / degree in the scores and in the quadratic term. If the
variables of a factor differ in degree, a proximal term towards the last copies equalises their weights, so that the
usual closed forms and solvers solve the factor. Otherwise this is the algorithm of the paper, except for the rule that
adapts the penalty.

Used by `batch.py`.
"""

import numpy as np

from .._core.jit import copy_into, kernel
from .._numerics.solver import STRUCTURE_TOL
from .arrays import FORBIDDEN, STRUCTURE
from .block import blame, proves_infeasible, subtract_multipliers
from .certificate import longest_factor, project_factor
from .closed_forms import clip01
from .rows import CONVERGED, INFEASIBLE, NOT_CONVERGED
from .structures import OFF

# The penalty doubles or halves if the primal and the dual residual differ by more than the factor _BALANCE. The paper
# starts at 0.1 and allows factors of 10 to 100; matchings of 20 x 20 then take 3,000 sweeps instead of 120.
_FIRST_PENALTY, _BALANCE = 1.0, 2.0
_MAX_PENALTY = 1e3  # and the inverse of the smallest one; beyond it, residuals are rounding errors
_ADAPT_EVERY = 10  # sweeps between two changes of the penalty
_ADAPT_UNTIL = 1000  # sweeps with changes; with a penalty that changes for ever, convergence is not certain
_CHECK_EVERY = 200  # sweeps between two searches for a proof of infeasibility


@kernel
def _solve_factors(graph, structures, scores, additional, penalty, weights, y, u, copies, limits):
    """Solve the subproblem of each factor; `copies` is overwritten with the new copies.

    Parameters
    ----------
    graph, structures, scores, additional, u, copies, limits
        See `_graphs/__init__.py`.
    penalty : float
        Penalty of the difference between copies and marginals.
    weights, y : arrays of shape (n_links,)
        Weight of each copy, and multiplier of its equality with the marginal.

    Returns
    -------
    f : int
        An infeasible factor; -1 if there is none.
    """
    longest = longest_factor(graph)
    index = np.int64(0)
    z = np.empty(longest)
    p = np.empty(longest)
    scaled = np.empty(additional.shape[0])
    joint = np.empty(additional.shape[0])
    for f in range(graph.factor_types.shape[0]):
        start, stop = graph.link_ptr[f], graph.link_ptr[f + 1]
        quadratic = 0.0
        for link in range(start, stop):
            quadratic = max(quadratic, (1.0 + penalty) * weights[link])
        for link in range(start, stop):
            i = graph.links[link]
            if scores[i] < 0.5 * FORBIDDEN:
                r = FORBIDDEN if graph.factor_types[f] != STRUCTURE else -np.inf
            else:
                extra_weight = quadratic - (1.0 + penalty) * weights[link]
                r = ((scores[i] + penalty * u[i]) * weights[link] + y[link] + extra_weight * copies[link]) / quadratic
            z[link - start] = r if graph.signs[link] > 0.0 else 1.0 - r
        for a in range(graph.additional_ptr[f], graph.additional_ptr[f + 1]):
            scaled[a] = additional[a] / quadratic
        _, feasible = project_factor(
            graph, structures, scaled, f, index, z[: stop - start], p[: stop - start], joint, STRUCTURE_TOL, limits
        )
        index += graph.factor_types[f] == STRUCTURE
        if not feasible:
            return f
        for link in range(start, stop):
            copies[link] = p[link - start] if graph.signs[link] > 0.0 else 1.0 - p[link - start]
            if scores[graph.links[link]] < 0.5 * FORBIDDEN and copies[link] > OFF:
                return f
    return -1


@kernel
def _average_copies(graph, scores, penalty, weights, copies, y, u):
    """Set `u` to the weighted means of the copies and update the multipliers; return the primal and dual residual.

    For the parameters see `_solve_factors`.
    """
    n = u.shape[0]
    n_links = y.shape[0]
    old_u = u.copy()
    for i in range(n):
        if graph.degrees[i] > 0:
            u[i] = 0.0
    for link in range(n_links):
        if scores[graph.links[link]] > 0.5 * FORBIDDEN:
            u[graph.links[link]] += copies[link] * weights[link]
    primal, dual = 0.0, 0.0
    for link in range(n_links):
        i = graph.links[link]
        y[link] -= penalty * weights[link] * (copies[link] - u[i])
        primal += (copies[link] - u[i]) ** 2
        dual += (u[i] - old_u[i]) ** 2
    return np.sqrt(primal / max(n_links, 1)), np.sqrt(dual / max(n_links, 1))


@kernel
def _start(graph, scores, warm, weights, y, u, copies):
    """Set marginals, copies, weights and multipliers at the start; return the largest degree.

    For the parameters see `_solve_factors`; `warm` contains dual variables of the links to start from, or nothing.
    """
    if warm.shape[0] > 0:
        subtract_multipliers(graph, scores, warm, u)
    else:
        for i in range(u.shape[0]):
            u[i] = clip01(scores[i])
    largest_degree = 1
    for link in range(y.shape[0]):
        i = graph.links[link]
        weights[link] = 1.0 / graph.degrees[i]
        largest_degree = max(largest_degree, graph.degrees[i])
        copies[link] = u[i]
        # The dual variable of a link is (scores - u) / degree + y.
        if warm.shape[0] > 0 and scores[i] > 0.5 * FORBIDDEN:
            y[link] = warm[link] - (scores[i] - u[i]) * weights[link]
    return largest_degree


@kernel
def _balance(penalty, primal, dual):
    """Return the penalty that brings the residuals closer to each other."""
    if primal > _BALANCE * dual and penalty < _MAX_PENALTY:
        return 2.0 * penalty
    if dual > _BALANCE * primal and penalty > 1.0 / _MAX_PENALTY:
        return 0.5 * penalty
    return penalty


@kernel
def solve_admm(graph, structures, scores, additional, warm, tol, limits):
    """Solve one sample; for parameters and results see `solve_block` in `block.py`.

    Other than there, `tol` bounds the root mean squares, over the links, of the primal and the dual residual.
    """
    n, n_links = scores.shape[0], graph.links.shape[0]
    lam = np.zeros(n_links)
    u = np.empty(n)
    copies = np.zeros(n_links)
    y = np.zeros(n_links)
    weights = np.empty(n_links)
    largest_degree = _start(graph, scores, warm, weights, y, u, copies)
    checked = y.copy()
    # One step without a penalty solves factors that have no variable in common.
    penalty = _FIRST_PENALTY if largest_degree > 1 else 0.0
    primal, dual, n_iter = np.inf, np.inf, 0
    while (primal > tol or dual > tol) and n_iter < limits[0]:
        n_iter += 1
        f = _solve_factors(graph, structures, scores, additional, penalty, weights, y, u, copies, limits)
        if f >= 0:
            blame(lam, graph.link_ptr[f], graph.link_ptr[f + 1])
            return u, lam, n_iter, INFEASIBLE
        primal, dual = _average_copies(graph, scores, penalty, weights, copies, y, u)
        if largest_degree == 1:
            dual = 0.0
        if n_iter % _ADAPT_EVERY == 0 and n_iter <= _ADAPT_UNTIL:
            penalty = _balance(penalty, primal, dual)
        if n_iter % _CHECK_EVERY == 0:
            direction = y - checked
            if proves_infeasible(graph, structures, scores, additional, limits, direction):
                copy_into(lam, direction)
                return u, lam, n_iter, INFEASIBLE
            copy_into(checked, y)
    for link in range(n_links):
        i = graph.links[link]
        lam[link] = 0.0 if scores[i] < 0.5 * FORBIDDEN else (scores[i] - u[i]) * weights[link] + y[link]
    status = CONVERGED if primal <= tol and dual <= tol else NOT_CONVERGED
    return u, lam, n_iter, status
