"""Block coordinate descent on the dual of a factor graph, factor by factor, with Anderson acceleration.

The dual is minimised over the variables lambda_f of one factor at a time. The minimum is SparseMAP of that factor under
the scores minus the dual variables of the other factors (Dykstra's algorithm, which needs no step size). The dual
decreases in every sweep. An extrapolated point is kept only if the dual after the next sweep is no larger than before.
`batch.py` calls `solve_block`; `admm.py` shares the tests of infeasibility and `subtract_multipliers`.

Used by `admm.py` and `batch.py`.
"""

import numpy as np

from .._core.jit import copy_into, kernel
from .._numerics.solver import STRUCTURE_TOL
from .anderson import extrapolate, forget, new_anderson
from .arrays import FORBIDDEN, STRUCTURE
from .certificate import literal_scores, longest_factor, project_factor
from .closed_forms import clip01
from .rows import CONVERGED, INFEASIBLE, NOT_CONVERGED
from .structures import OFF, without_supports

_MEMORY = 8  # steps that Anderson acceleration remembers
_CHECK_EVERY = 50  # sweeps between two searches for a proof of infeasibility
_SHARP = 1e8  # scale of the scores at which the quadratic term of SparseMAP is negligible, and it equals MAP


@kernel
def subtract_multipliers(graph, scores, lam, u):
    """Set ``u = scores - sum_f lambda_f``; variables in no factor are clipped, forbidden ones are 0."""
    for i in range(scores.shape[0]):
        u[i] = scores[i]
    for link in range(lam.shape[0]):
        u[graph.links[link]] -= lam[link]
    for i in range(scores.shape[0]):
        if scores[i] < 0.5 * FORBIDDEN:
            u[i] = 0.0
        elif graph.degrees[i] == 0:
            u[i] = clip01(scores[i])


@kernel
def _sweep(graph, structures, scores, additional, u, lam, copies, limits):
    """Minimise the dual over the variables of each factor in turn; return its value.

    The value is NaN if a factor is infeasible; then only the links of that factor have nonzero dual variables. For the
    parameters see `_graphs/__init__.py`. `u`, `lam` and `copies` are overwritten.
    """
    longest = longest_factor(graph)
    z = np.empty(longest)
    p = np.empty(longest)
    joint = np.empty(additional.shape[0])
    index = np.int64(0)
    value = 0.0
    for f in range(graph.factor_types.shape[0]):
        start, stop = graph.link_ptr[f], graph.link_ptr[f + 1]
        literal_scores(graph, f, scores, u, lam, z)
        linear, feasible = project_factor(
            graph, structures, additional, f, index, z[: stop - start], p[: stop - start], joint, STRUCTURE_TOL, limits
        )
        index += graph.factor_types[f] == STRUCTURE
        if not feasible:
            blame(lam, start, stop)
            return np.nan
        value += linear
        for link in range(start, stop):
            i = graph.links[link]
            new = p[link - start] if graph.signs[link] > 0.0 else 1.0 - p[link - start]
            copies[link] = new
            if scores[i] > 0.5 * FORBIDDEN:
                lam[link] += u[i] - new
                u[i] = new
                value += lam[link] * new
            elif new > OFF:
                blame(lam, start, stop)
                return np.nan
    for i in range(u.shape[0]):
        value += 0.5 * u[i] * u[i]
    return value


@kernel
def blame(lam, start, stop):
    """Mark the links start..stop, those of an infeasible factor."""
    for link in range(lam.shape[0]):
        lam[link] = 1.0 if start <= link < stop else 0.0


@kernel
def proves_infeasible(graph, structures, scores, additional, limits, direction):
    """Return whether a direction of the dual variables proves that no marginals satisfy all factors.

    Along a direction whose links sum to zero at each variable, the dual changes by the MAP values of the factors only.
    If their sum is negative, the dual is unbounded.

    Parameters
    ----------
    graph, structures, scores, additional, limits
        See `_graphs/__init__.py`.
    direction : array of shape (n_links,)
        Overwritten with its projection onto the directions that sum to zero.
    """
    n = scores.shape[0]
    total = np.zeros(n)
    for link in range(direction.shape[0]):
        total[graph.links[link]] += direction[link]
    size = 0.0
    for link in range(direction.shape[0]):
        i = graph.links[link]
        direction[link] -= total[i] / graph.degrees[i]
        if scores[i] < 0.5 * FORBIDDEN:
            direction[link] = 0.0
        size = max(size, abs(direction[link]))
    if not size > 0.0:
        return False
    none = np.empty(additional.shape[0])
    joint = np.empty(additional.shape[0])
    for a in range(none.shape[0]):
        none[a] = -np.inf if additional[a] == -np.inf else 0.0
    for link in range(direction.shape[0]):
        direction[link] *= _SHARP / size
    longest = longest_factor(graph)
    z = np.empty(longest)
    p = np.empty(longest)
    zeros = np.zeros(n)
    cold = without_supports(structures)
    slope = 0.0
    index = np.int64(0)
    for f in range(graph.factor_types.shape[0]):
        start, stop = graph.link_ptr[f], graph.link_ptr[f + 1]
        literal_scores(graph, f, scores, zeros, direction, z)
        _, feasible = project_factor(
            graph, cold, none, f, index, z[: stop - start], p[: stop - start], joint, 1.0, limits
        )
        index += graph.factor_types[f] == STRUCTURE
        if not feasible:
            return True
        # At this scale the values of SparseMAP and MAP differ by at most half the number of parts.
        slope += (stop - start) / _SHARP
        for link in range(start, stop):
            marginal = p[link - start] if graph.signs[link] > 0.0 else 1.0 - p[link - start]
            slope += direction[link] / _SHARP * marginal
    return slope < -1e-6


@kernel
def solve_block(graph, structures, scores, additional, warm, tol, limits):
    """Solve one sample.

    Parameters
    ----------
    graph, structures, scores, additional, tol, limits
        See `_graphs/__init__.py`.
    warm : array of shape (n_links,) or (0,)
        Dual variables of the links to start from; zeros if empty.

    Returns
    -------
    u : array of shape (n_variables,)
    lam : array of shape (n_links,)
        If `status` is INFEASIBLE, it is nonzero at the links of factors that contradict each other, which
        `check_feasible` (`inference/_graph/solve.py`) names in its message.
    n_iter : int
        Number of sweeps.
    status : int
    """
    n, n_links = scores.shape[0], graph.links.shape[0]
    lam = warm.copy() if warm.shape[0] > 0 else np.zeros(n_links)
    u = np.empty(n)
    copies = np.empty(n_links)
    before = np.empty(n_links)
    last = np.empty(n_links)
    checked = lam.copy()
    state = new_anderson(n_links, _MEMORY)
    # A smaller residual is rounding error.
    tol = max(tol, 4e-15)
    best, residual, n_iter, extrapolated = np.inf, np.inf, 0, False
    while residual > tol and n_iter < limits[0]:
        n_iter += 1
        copy_into(before, lam)
        subtract_multipliers(graph, scores, lam, u)
        value = _sweep(graph, structures, scores, additional, u, lam, copies, limits)
        if value != value:
            return u, lam, n_iter, INFEASIBLE
        residual = 0.0
        for link in range(n_links):
            residual = max(residual, abs(copies[link] - u[graph.links[link]]))
        if residual <= tol:
            break
        if n_iter % _CHECK_EVERY == 0:
            direction = np.empty(n_links)
            for link in range(n_links):
                direction[link] = lam[link] - checked[link]
            if proves_infeasible(graph, structures, scores, additional, limits, direction):
                copy_into(lam, direction)
                return u, lam, n_iter, INFEASIBLE
            copy_into(checked, lam)
        if extrapolated and value > best + 1e-12 * (1.0 + abs(best)):
            # The extrapolation did not decrease the dual; continue from the last point without it.
            copy_into(lam, last)
            forget(state)
            extrapolated = False
            continue
        best = min(best, value)
        copy_into(last, lam)
        extrapolate(state, before, lam)
        copy_into(lam, before)
        extrapolated = True
    return u, lam, n_iter, CONVERGED if residual <= tol else NOT_CONVERGED
