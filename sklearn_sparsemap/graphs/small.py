"""Newton's method for small graphs without pairs, with little code to compile.

Nearly all samples of such graphs need neither pairs, nor the presolve that is about them, nor the preconditioner, nor
the wide boxes, nor a proof of infeasibility, nor facets of structures. Without these, the solver is compiled in a
third of the time. It takes the same steps as `batch.rows_range` bit by bit, and gives up where that goes on by other
means. `rows_range` then solves the sample from the start.
"""

import numpy as np
from numba import types

from .._core.jit import entry, kernel
from ..numerics.solver import SOLVER
from .arrays import FORBIDDEN, GRAPH_ARRAYS, ORACLES
from .batch import LOOP, link_multipliers
from .certificate import certify
from .closed_forms import clip01
from .newton import solve_plainly
from .rows import CONVERGED, Dual
from .samples import GAP, N_ITER, OBJECTIVE, RESIDUAL, STATUS, row_of
from .structures import PREFERENCES, new_plain_structures


@kernel
def _is_settled(graph, scores, i):
    """Return whether presolve settles a variable: it is in no factor, and its score is clipped."""
    return graph.degrees[i] == 0 and not 0.0 < scores[i] < 1.0


@kernel
def _solve(graph, structures, samples, tol, limits, i, a, gradient, out):
    """Solve sample `i`.

    Parameters
    ----------
    graph, structures, tol, limits, i
        See `graphs/__init__.py`.
    samples : GraphSamples
    a, gradient : arrays of shape (n_variables,) and (n_rows,)
        Scratch.
    out : GraphSolutions
    """
    scores, u, mu, statistics = samples.scores[i], out.marginals[i], out.multipliers[i], out.statistics[i]
    warm = row_of(samples.warm, i)
    open_scores = scores.copy()
    for v in range(u.shape[0]):
        u[v] = 0.0
        if structures is None and _is_settled(graph, scores, v):
            open_scores[v] = FORBIDDEN
    for r in range(mu.shape[0]):
        mu[r] = min(max(warm[r], graph.row_low[r]), graph.row_high[r]) if warm.shape[0] > 0 else 0.0
    dual = Dual(
        graph.owners,
        graph.row_ptr,
        graph.row_vars,
        graph.row_coefs,
        graph.row_bounds,
        graph.row_low,
        graph.row_high,
        open_scores,
        a,
        u,
        mu,
        gradient,
        mu.shape[0],
    )
    additional = row_of(samples.additional, i)
    n_iter, status = solve_plainly(dual, structures, additional, tol, limits)
    statistics[N_ITER], statistics[STATUS] = n_iter, status
    if status != CONVERGED:
        return
    if structures is None:
        for v in range(u.shape[0]):
            if _is_settled(graph, scores, v):
                u[v] = clip01(scores[v])
    link_multipliers(graph, scores, None, mu, u, out.links[i])
    statistics[OBJECTIVE], statistics[GAP], statistics[RESIDUAL] = certify(
        graph, structures, scores, additional, u, out.links[i], limits, out.joint[i]
    )


@entry(types.void(GRAPH_ARRAYS, *LOOP))
def small_logic_range(graph, samples, tol, limits, start, stop, out):
    """Solve samples start..stop of a graph without structures; see `batch.rows_range`."""
    a, gradient = np.empty(graph.degrees.shape[0]), np.empty(graph.row_bounds.shape[0])
    for i in range(start, stop):
        _solve(graph, None, samples, tol, limits, i, a, gradient, out)


@entry(types.void(GRAPH_ARRAYS, ORACLES.type, PREFERENCES.type, SOLVER, *LOOP))
def small_rows_range(graph, oracles, prefers, solver, samples, tol, limits, start, stop, out):
    """Solve samples start..stop; see `batch.rows_range`.

    Parameters
    ----------
    graph, oracles, samples, tol, limits, start, stop, out
        See `batch.rows_range`.
    prefers : table of preferences
        Samples with a structure that prefers to be solved by facets are not solved.
    solver : solver
        Solves all structures.
    """
    a, gradient = np.empty(graph.degrees.shape[0]), np.empty(graph.row_bounds.shape[0])
    for i in range(start, stop):
        structures = new_plain_structures(graph, oracles, prefers, solver)
        _solve(graph, structures, samples, tol, limits, i, a, gradient, out)
