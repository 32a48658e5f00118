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
from .arrays import FORBIDDEN, ORACLES, SMALL_ARRAYS, STRUCTURE_ARRAYS
from .batch import LOOP, link_multipliers
from .certificate import certify
from .closed_forms import clip01
from .newton import solve_plainly
from .rows import CONVERGED, Dual
from .samples import GAP, N_ITER, OBJECTIVE, RESIDUAL, STATUS, row_of
from .structures import PREFERENCES, new_plain_structures


@kernel
def _solve(graph, structures, is_logic, samples, tol, limits, i, a, gradient, out):
    """Solve sample `i`.

    Parameters
    ----------
    graph : SmallArrays
    structures : PlainStructures, or None
    is_logic : bool or None
        None if there are structures. Numba drops code for an argument that is None, but not code for one that is not.
    tol, limits, i
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
        # Presolve settles variables that are in no factor if their scores are clipped.
        if is_logic is not None and graph.degrees[v] == 0 and not 0.0 < scores[v] < 1.0:
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
    n_iter, status = solve_plainly(dual, structures, is_logic, additional, tol, limits)
    statistics[N_ITER], statistics[STATUS] = n_iter, status
    if status != CONVERGED:
        return
    if is_logic is not None:
        for v in range(u.shape[0]):
            if graph.degrees[v] == 0:
                u[v] = clip01(scores[v])
    link_multipliers(graph, scores, None, mu, u, out.links[i])
    statistics[OBJECTIVE], statistics[GAP], statistics[RESIDUAL] = certify(
        graph, structures, scores, additional, u, out.links[i], limits, out.joint[i]
    )


@entry(types.void(SMALL_ARRAYS, *LOOP))
def small_logic_range(graph, samples, tol, limits, start, stop, out):
    """Solve samples start..stop of a graph without structures; see `batch.rows_range`."""
    a, gradient = np.empty(graph.degrees.shape[0]), np.empty(graph.row_bounds.shape[0])
    for i in range(start, stop):
        _solve(graph, None, True, samples, tol, limits, i, a, gradient, out)


@entry(types.void(SMALL_ARRAYS, STRUCTURE_ARRAYS, ORACLES.type, PREFERENCES.type, SOLVER, *LOOP))
def small_rows_range(graph, arrays, oracles, prefers, solver, samples, tol, limits, start, stop, out):
    """Solve samples start..stop; see `batch.rows_range`.

    Parameters
    ----------
    graph : SmallArrays
    arrays : StructureArrays
    oracles, samples, tol, limits, start, stop, out
        See `batch.rows_range`.
    prefers : table of preferences
        Samples with a structure that prefers to be solved by facets are not solved.
    solver : solver
        Solves all structures.
    """
    a, gradient = np.empty(graph.degrees.shape[0]), np.empty(graph.row_bounds.shape[0])
    for i in range(start, stop):
        structures = new_plain_structures(arrays, oracles, prefers, solver)
        _solve(graph, structures, None, samples, tol, limits, i, a, gradient, out)
