"""Solvers for small graphs without pairs, with little code to compile.

Nearly all samples of such graphs need neither pairs, nor presolve (which is about pairs), nor the preconditioner of
Newton's method, its wide boxes and its proof of infeasibility, nor facets of structures. Without these, a solver is
compiled in less than half of the time. It takes the same steps as the solver in `batch.py`, and its marginals are equal
bit by bit. It gives up if a sample needs more; `batch.py` then solves the sample from the start.

Newton's method ends with the gradient of the dual. So its gap and residual need no certificate by the closed forms of
all factors (`certificate.py`), which would take a third of the code.

Used by `choice.py`.
"""

import numpy as np
from numba import types

from .._core.jit import entry, kernel
from .._numerics.cholesky import dot
from .._numerics.support import mix
from .arrays import FORBIDDEN, ORACLES, SMALL_ARRAYS, STRUCTURE_ARRAYS
from .batch import LOOP, link_multipliers, solve_by_block
from .closed_forms import clip01
from .newton import solve_plainly
from .proximal import new_proximal
from .rows import CONVERGED, Dual
from .samples import GAP, N_ITER, OBJECTIVE, RESIDUAL, STATUS, row_of
from .structures import PLAIN_SOLVERS, new_plain_structures


@kernel
def _mix_additional(structures, additional, joint):
    """Set `joint` to the marginals of the additional scores of all structures; return their part of the objective."""
    graph, value = structures.graph, 0.0
    for index in range(graph.structures.shape[0]):
        f = graph.structures[index]
        first, last = graph.additional_ptr[f], graph.additional_ptr[f + 1]
        if last > first:
            weights = structures.weights[index]
            mix(structures.additional[index], weights.shape[0], weights, joint[first:last])
            for a in range(first, last):
                if joint[a] != 0.0:
                    value += joint[a] * additional[a]
    return value


@kernel
def _solve(graph, structures, is_logic, samples, tol, limits, i, gradient, scratch, out):
    """Solve sample `i`.

    Parameters
    ----------
    graph : SmallArrays
    structures : PlainStructures, or None
    is_logic : bool or None
        None if there are structures. Numba drops code for an argument that is None, but not code for one that is not.
    tol, limits, i
        See `_graphs/__init__.py`.
    samples : SampleArrays
    gradient : array of shape (n_rows,)
    scratch : array of shape (3, n_variables)
        Both are scratch.
    out : GraphSolutions
    """
    scores, u, mu, statistics = samples.scores[i], out.marginals[i], out.multipliers[i], out.statistics[i]
    warm = row_of(samples.warm, i)
    open_scores, a = scratch[1], scratch[2]
    for v in range(u.shape[0]):
        u[v], open_scores[v] = 0.0, scores[v]
        # Presolve fixes variables that are in no factor if their scores are clipped.
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
    n_iter, status, statistics[RESIDUAL] = solve_plainly(dual, structures, is_logic, additional, tol, limits)
    statistics[N_ITER], statistics[STATUS] = n_iter, status
    if status != CONVERGED:
        return
    objective = 0.0
    if structures is not None:
        objective = _mix_additional(structures, additional, out.joint[i])
    for v in range(u.shape[0]):
        if is_logic is not None and graph.degrees[v] == 0:
            u[v] = clip01(scores[v])
        if u[v] != 0.0:
            objective += u[v] * (scores[v] - 0.5 * u[v])
    # The dual is above the objective by what complementary slackness lacks.
    statistics[OBJECTIVE] = objective
    statistics[GAP] = abs(dot(mu, gradient))
    link_multipliers(graph, scores, None, mu, u, out.links[i], scratch[0])


@entry(types.void(SMALL_ARRAYS, *LOOP))
def small_logic_range(graph, samples, tol, limits, out, start, stop):
    """Solve samples start..stop of a graph without structures; see `batch.rows_range`."""
    gradient = np.empty(graph.row_bounds.shape[0])
    scratch = np.empty((3, graph.degrees.shape[0]))
    for i in range(start, stop):
        _solve(graph, None, True, samples, tol, limits, i, gradient, scratch, out)


_STRUCTURED = SMALL_ARRAYS, STRUCTURE_ARRAYS, ORACLES.type, PLAIN_SOLVERS


@entry(types.void(*_STRUCTURED, *LOOP))
def small_rows_range(graph, arrays, oracles, solvers, samples, tol, limits, out, start, stop):
    """Solve samples start..stop; see `batch.rows_range`.

    Parameters
    ----------
    graph : SmallArrays
    arrays : StructureArrays
    oracles, samples, tol, limits, out, start, stop
        See `batch.rows_range`.
    solvers : PlainSolvers
        Samples with a structure that prefers to be solved by facets are not solved.
    """
    gradient = np.empty(graph.row_bounds.shape[0])
    scratch = np.empty((3, graph.degrees.shape[0]))
    for i in range(start, stop):
        structures = new_plain_structures(arrays, oracles, solvers)
        _solve(graph, structures, None, samples, tol, limits, i, gradient, scratch, out)


@entry(types.void(*_STRUCTURED, *LOOP))
def small_block_range(graph, arrays, oracles, solvers, samples, tol, limits, out, start, stop):
    """Solve samples start..stop by block coordinate ascent; for the parameters see `small_rows_range`."""
    proximal = new_proximal(graph.degrees.shape[0])
    for i in range(start, stop):
        structures = new_plain_structures(arrays, oracles, solvers)
        solve_by_block(graph, structures, proximal, samples, tol, limits, i, out)
