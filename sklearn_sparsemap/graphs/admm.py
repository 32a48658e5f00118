"""The alternating direction method of multipliers for factor graphs (Niculae and Martins 2020, algorithm 1).

Each factor has copies of its variables, and its share 1/degree of their scores and of the quadratic term. Where the
variables of a factor differ in degree, a proximal term towards the last copies makes their weights alike, so that the
factors are solved by the same closed forms and solvers as everywhere; where they do not, this is the paper's algorithm
unchanged but for the rule by which the penalty adapts.
"""

import numpy as np

from .._core.jit import copy_into, kernel
from ..numerics.solver import STRUCTURE_TOL
from .arrays import FORBIDDEN, STRUCTURE
from .block import blame, proves_infeasible, what_is_left
from .certificate import longest_factor, project_factor
from .closed_forms import clip01
from .rows import CONVERGED, INFEASIBLE, NOT_CONVERGED
from .structures import OFF

# The penalty follows the residuals: they are kept within this factor of each other. (The paper's 0.1 at first, and
# factors of 100 and 10, leave the penalty too small: matchings of 20 x 20 take 3,000 sweeps instead of 120.) A penalty
# that changes for ever need not converge, and one that follows residuals of rounding would cost all digits.
_FIRST_PENALTY, _BALANCE, _LARGEST_PENALTY = 1.0, 2.0, 1e3
_ADAPT_EVERY, _ADAPT_UNTIL = 10, 1000
# Sweeps between two searches for a proof of infeasibility.
_CHECK_EVERY = 200


@kernel
def _solve_factors(graph, structures, scores, additional, penalty, share, y, u, own, limits):
    """Solve each factor on its share of the scores; `own` gets what it answers, one entry a link.

    Returns
    -------
    f : int
        A factor that nothing satisfies; -1 if there is none.
    """
    longest, place = longest_factor(graph), np.int64(0)
    z, p, scaled = np.empty(longest), np.empty(longest), np.empty(additional.shape[0])
    joint = np.empty(additional.shape[0])
    for f in range(graph.kinds.shape[0]):
        start, stop = graph.link_ptr[f], graph.link_ptr[f + 1]
        quadratic = 0.0
        for link in range(start, stop):
            quadratic = max(quadratic, (1.0 + penalty) * share[link])
        for link in range(start, stop):
            i = graph.links[link]
            if scores[i] < 0.5 * FORBIDDEN:
                r = FORBIDDEN if graph.kinds[f] != STRUCTURE else -np.inf
            else:
                extra_weight = quadratic - (1.0 + penalty) * share[link]
                r = ((scores[i] + penalty * u[i]) * share[link] + y[link] + extra_weight * own[link]) / quadratic
            z[link - start] = r if graph.signs[link] > 0.0 else 1.0 - r
        for a in range(graph.additional_ptr[f], graph.additional_ptr[f + 1]):
            scaled[a] = additional[a] / quadratic
        _, feasible = project_factor(
            graph, structures, scaled, f, place, z[: stop - start], p[: stop - start], joint, STRUCTURE_TOL, limits
        )
        place += graph.kinds[f] == STRUCTURE
        if not feasible:
            return f
        for link in range(start, stop):
            own[link] = p[link - start] if graph.signs[link] > 0.0 else 1.0 - p[link - start]
            if scores[graph.links[link]] < 0.5 * FORBIDDEN and own[link] > OFF:
                return f
    return -1


@kernel
def _average_copies(graph, scores, penalty, share, own, y, u):
    """Set `u` to the weighted means of the factors' copies, and move their multipliers; return both residuals."""
    n, n_links, old_u = u.shape[0], y.shape[0], u.copy()
    for i in range(n):
        if graph.degrees[i] > 0:
            u[i] = 0.0
    for link in range(n_links):
        if scores[graph.links[link]] > 0.5 * FORBIDDEN:
            u[graph.links[link]] += own[link] * share[link]
    primal, dual = 0.0, 0.0
    for link in range(n_links):
        i = graph.links[link]
        y[link] -= penalty * share[link] * (own[link] - u[i])
        primal += (own[link] - u[i]) ** 2
        dual += (u[i] - old_u[i]) ** 2
    return np.sqrt(primal / max(n_links, 1)), np.sqrt(dual / max(n_links, 1))


@kernel
def solve_admm(graph, structures, scores, additional, warm, tol, limits):
    """Solve one sample; see `solve_block`."""
    n, n_links = scores.shape[0], graph.links.shape[0]
    lam, u, own = np.zeros(n_links), np.empty(n), np.zeros(n_links)
    if warm.shape[0] > 0:
        copy_into(lam, warm)
        what_is_left(graph, scores, lam, u)
    else:
        for i in range(n):
            u[i] = clip01(scores[i])
    # The multipliers of the copies: lambda_f = scores / degree + y_f - u / degree.
    y, share, most = np.zeros(n_links), np.empty(n_links), 1
    for link in range(n_links):
        i = graph.links[link]
        share[link] = 1.0 / graph.degrees[i]
        most = max(most, graph.degrees[i])
        own[link] = u[i]
        if warm.shape[0] > 0 and scores[i] > 0.5 * FORBIDDEN:
            y[link] = lam[link] - (scores[i] - u[i]) * share[link]
    far = y.copy()
    # Factors that share no variable are solved by one step without a penalty.
    penalty = _FIRST_PENALTY if most > 1 else 0.0
    primal, dual, n_iter = np.inf, np.inf, 0
    while (primal > tol or dual > tol) and n_iter < limits[0]:
        n_iter += 1
        f = _solve_factors(graph, structures, scores, additional, penalty, share, y, u, own, limits)
        if f >= 0:
            blame(lam, graph.link_ptr[f], graph.link_ptr[f + 1])
            return u, lam, n_iter, INFEASIBLE
        primal, dual = _average_copies(graph, scores, penalty, share, own, y, u)
        if most == 1:
            dual = 0.0
        if n_iter % _ADAPT_EVERY == 0 and n_iter <= _ADAPT_UNTIL and penalty > 0.0:
            if primal > _BALANCE * dual and penalty < _LARGEST_PENALTY:
                penalty *= 2.0
            elif dual > _BALANCE * primal and penalty > 1.0 / _LARGEST_PENALTY:
                penalty *= 0.5
        if n_iter % _CHECK_EVERY == 0:
            direction = y - far
            if proves_infeasible(graph, structures, scores, additional, limits, direction):
                copy_into(lam, direction)
                return u, lam, n_iter, INFEASIBLE
            copy_into(far, y)
    for link in range(n_links):
        i = graph.links[link]
        lam[link] = 0.0 if scores[i] < 0.5 * FORBIDDEN else (scores[i] - u[i]) * share[link] + y[link]
    status = CONVERGED if primal <= tol and dual <= tol else NOT_CONVERGED
    return u, lam, n_iter, status
