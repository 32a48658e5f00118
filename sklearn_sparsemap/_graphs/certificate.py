"""Certificates of the solutions of all solvers: objective, duality gap and residual, from the dual variables alone.

The dual of Niculae and Martins 2020, eq. 10, with one vector lambda_f for the links of each factor, is

    1/2 |scores - sum_f lambda_f|^2 + sum_f sigma_f(lambda_f, scores_f),    sigma_f the MAP value of factor f.

At lambda_f = z - u_f, where u_f is the SparseMAP of the factor under z, sigma_f needs no further call: u_f is also MAP
there (Moreau).

Used by `admm.py`, `batch.py`, `block.py` and `faces.py`.
"""

import numpy as np

from .._core.jit import kernel
from .._numerics.solver import STRUCTURE_TOL
from .arrays import FORBIDDEN, STRUCTURE
from .closed_forms import clip01, project_logic
from .structures import force_parts, solve_structure


@kernel
def longest_factor(graph):
    """Return the number of literals of the largest factor, at least 1."""
    longest = 1
    for f in range(graph.factor_types.shape[0]):
        longest = max(longest, graph.link_ptr[f + 1] - graph.link_ptr[f])
    return longest


@kernel
def project_factor(graph, structures, additional, f, index, z, p, joint, tol, limits):
    """Compute SparseMAP of one factor under the scores `z` of its literals, into `p`; parts of +inf are forced.

    Parameters
    ----------
    graph, structures, additional, f, index, z, p, limits
        See `_graphs/__init__.py`. `index` is used only if the factor is a structure.
    joint : array of shape (n_additional,)
        Gets the marginals of the factor's additional scores.
    tol : float
        Tolerance of the solver of a structure.

    Returns
    -------
    value : float
        ``additional . joint`` of the factor.
    feasible : bool
    """
    kind = graph.factor_types[f]
    first, last = graph.additional_ptr[f], graph.additional_ptr[f + 1]
    if kind != STRUCTURE:
        start, stop = graph.link_ptr[f], graph.link_ptr[f + 1]
        score = additional[first] if last > first else 0.0
        both, feasible = project_logic(kind, graph.costs[start:stop], graph.low[f], graph.high[f], score, z, p)
        if last > first:
            joint[first] = both
        return score * both, feasible
    value, feasible = 0.0, False
    if structures is not None:
        force_parts(z, additional[first:last], structures.graph.sizes[f])
        objective = solve_structure(structures, additional, index, z, p, tol, limits)
        feasible = objective == objective
        joint[first:last] = 0.0
        if feasible and last > first:
            additional_slots, weights = structures.additional[index], structures.weights[index]
            for s in range(weights.shape[0]):
                for part in additional_slots[s]:
                    if part >= 0:
                        joint[first + part] += weights[s]
                        value += weights[s] * additional[first + part]
    return value, feasible


@kernel
def literal_scores(graph, f, scores, u, lam, z):
    """Set `z` to the scores ``u + lambda`` of a factor's literals; for the parameters see `_graphs/__init__.py`.

    Forbidden variables get FORBIDDEN. In structures they get -inf, or +inf if the literal is negated, because the
    structure must then have the part (see `force_parts`).
    """
    start = graph.link_ptr[f]
    for link in range(start, graph.link_ptr[f + 1]):
        i = graph.links[link]
        if scores[i] < 0.5 * FORBIDDEN:
            z[link - start] = FORBIDDEN if graph.factor_types[f] != STRUCTURE else -np.inf
        else:
            z[link - start] = u[i] + lam[link]
        if graph.signs[link] < 0.0:
            z[link - start] = 1.0 - z[link - start]


@kernel
def certify(graph, structures, scores, additional, u, lam, limits, joint):
    """Certify the marginals of a sample.

    Parameters
    ----------
    graph, structures, scores, additional, u, limits
        See `_graphs/__init__.py`.
    lam : array of shape (n_links,)
        Dual variables; overwritten with the dual point that is certified, at which each factor is optimal.
    joint : array of shape (n_additional,)
        Gets the marginals of the additional scores.

    Returns
    -------
    objective, gap, residual : float
        See `LPSparseMAPResult`.
    """
    n = scores.shape[0]
    rest = np.empty(n)
    objective = 0.0
    for i in range(n):
        forbidden = scores[i] < 0.5 * FORBIDDEN
        rest[i] = 0.0 if forbidden else scores[i]
        objective += 0.0 if forbidden else u[i] * (scores[i] - 0.5 * u[i])
    longest = longest_factor(graph)
    z = np.empty(longest)
    p = np.empty(longest)
    dual = 0.0
    index = np.int64(0)
    residual = 0.0
    for f in range(graph.factor_types.shape[0]):
        start, stop = graph.link_ptr[f], graph.link_ptr[f + 1]
        literal_scores(graph, f, scores, u, lam, z)
        linear, feasible = project_factor(
            graph, structures, additional, f, index, z[: stop - start], p[: stop - start], joint, STRUCTURE_TOL, limits
        )
        if not feasible:
            return objective, np.inf, np.inf
        index += graph.factor_types[f] == STRUCTURE
        objective += linear
        dual += linear
        for link in range(start, stop):
            i = graph.links[link]
            own_u = p[link - start] if graph.signs[link] > 0.0 else 1.0 - p[link - start]
            residual = max(residual, abs(own_u - u[i]))
            if scores[i] < 0.5 * FORBIDDEN:
                lam[link] = 0.0
            else:
                lam[link] += u[i] - own_u
                rest[i] -= lam[link]
                dual += lam[link] * own_u
    for i in range(n):
        if graph.degrees[i] == 0:
            free = clip01(rest[i])
            dual += free * (rest[i] - 0.5 * free)
        else:
            dual += 0.5 * rest[i] * rest[i]
    # The dual can be below the objective only if the marginals violate factors.
    return objective, abs(dual - objective), residual
