"""The solvers of factor graphs as loops over samples: one compiled call for many samples of one graph.

Used by `inference`, `choice.py` and `small.py`.
"""

from functools import partial

import numpy as np
from numba import types

from .._core.jit import INTS, copy_into, entry, kernel
from .admm import solve_admm
from .arrays import FORBIDDEN, GRAPH_ARRAYS, ORACLES, STRUCTURE
from .block import solve_block
from .certificate import certify
from .newton import solve_rows
from .presolve import (
    ON,
    fix_variables,
    gap_of,
    new_presolve,
    pairwise_bounds,
    value_of,
    write_fixed_multipliers,
    write_marginals,
    write_multipliers,
)
from .proximal import MAX_STEPS, begin, grow, new_proximal, next_step
from .rows import CONVERGED, INFEASIBLE, new_dual
from .samples import (
    GAP,
    N_ITER,
    OBJECTIVE,
    RESIDUAL,
    SAMPLES,
    SOLUTIONS,
    STATUS,
    additional_of,
    row_of,
    scales_of,
)
from .structures import STRUCTURE_SOLVERS, new_structures
from .tables.batch import tables_range


@kernel
def link_multipliers(graph, scores, additional, multipliers, u, lam, left):
    """Write the dual variables of all links from the multipliers of rows and pairs.

    The dual variable of a link is the part of the score that the rows and pairs of its factor take. The rest of the
    score of a clipped variable is divided among its factors, so that each of them has a score beyond the bound.

    Parameters
    ----------
    graph, scores, additional, u, lam
        See `_graphs/__init__.py`. `additional` is None if there are no pairs.
    multipliers : array of shape (n_rows + n_pairs,)
    left : array of shape (n_variables,)
        Scratch.
    """
    n_rows = graph.row_bounds.shape[0]
    for i in range(scores.shape[0]):
        left[i] = scores[i] - u[i]
    for link in range(lam.shape[0]):
        lam[link] = 0.0
    for r in range(n_rows):
        for k in range(graph.row_ptr[r], graph.row_ptr[r + 1]):
            lam[graph.row_links[k]] += graph.row_coefs[k] * multipliers[r]
    if additional is not None:
        for e in range(graph.pairs.shape[0]):
            link, t = graph.link_ptr[graph.pairs[e]], multipliers[n_rows + e]
            score = additional[graph.additional_ptr[graph.pairs[e]]]
            first, second = (-t, t - score) if score > 0.0 else (t, t)
            lam[link] += graph.pair_signs[e, 0] * first
            lam[link + 1] += graph.pair_signs[e, 1] * second
    for link in range(graph.links.shape[0]):
        left[graph.links[link]] -= lam[link]
    for f in range(graph.factor_types.shape[0]):
        is_structure = graph.factor_types[f] == STRUCTURE
        for link in range(graph.link_ptr[f], graph.link_ptr[f + 1]):
            i = graph.links[link]
            if scores[i] < 0.5 * FORBIDDEN:
                lam[link] = 0.0
            elif is_structure:
                lam[link] = left[i]
            elif graph.owners[i] < 0:
                lam[link] += left[i] / graph.degrees[i]


# The parameters of each loop after the graph: samples, tol, limits, solutions, start, stop. Graphs with structures come
# with their oracles and solvers.
LOOP = SAMPLES, types.float64, INTS, SOLUTIONS, types.int64, types.int64
_STRUCTURED = GRAPH_ARRAYS, ORACLES.type, STRUCTURE_SOLVERS


@kernel
def _finish(graph, structures, scores, additional, i, limits, n_iter, status, out):
    """Write the statistics of a sample, with the certificate of its solution.

    Parameters
    ----------
    graph, structures, scores, additional, i, limits
        See `_graphs/__init__.py`.
    n_iter, status : int
        Results of the solver.
    out : GraphSolutions
        Contains marginals and dual variables of the links, which are moved as by `certify`.
    """
    statistics = out.statistics[i]
    statistics[N_ITER], statistics[STATUS] = n_iter, status
    if status != INFEASIBLE:
        statistics[OBJECTIVE], statistics[GAP], statistics[RESIDUAL] = certify(
            graph, structures, scores, additional, out.marginals[i], out.links[i], limits, out.joint[i]
        )


@kernel
def _as_first_step(samples, i, proximal, out):
    """Scale multipliers and gap of the linear relaxation of sample `i` to the scores of the first step."""
    if scales_of(samples, i)[1] > 0.0:
        out.statistics[i, GAP] = proximal.hidden[0]
        grow(out.multipliers[i], 1.0 / proximal.growth[0])
        grow(out.links[i], 1.0 / proximal.growth[0])


@kernel
def _solve_open(use_newton, graph, structures, presolve, proximal, samples, tol, limits, i, out):
    """Solve for the open variables of one sample by sweeps and Newton steps; write marginals and multipliers.

    Parameters
    ----------
    use_newton : bool
        Whether to use Newton steps; otherwise there are only sweeps.
    graph, structures, tol, limits, i
        See `_graphs/__init__.py`.
    presolve : PresolveState
    proximal : Proximal
        State of the proximal point method, which solves the linear relaxation.
    samples : SampleArrays
    out : GraphSolutions

    Returns
    -------
    dual : Dual
    additional : array
        The additional scores of the last step; empty if no dual variables of links are written.
    n_iter, status : int
    """
    unscaled = row_of(samples.additional, i)
    warm = row_of(samples.warm, i)
    (scale, goal, _) = scales_of(samples, i)
    additional = additional_of(samples, i) if out.links.shape[1] > 0 else np.empty(0)
    dual = new_dual(graph, presolve, unscaled, scale, warm)
    n_iter = np.int64(0)
    status = np.int64(CONVERGED)
    begin(proximal)
    for step in range(MAX_STEPS if dual.a.shape[0] > 0 else 0):
        n_more, status = solve_rows(dual, structures, additional, tol, limits, use_newton)
        n_iter += n_more
        if goal == 0.0:
            break
        gap = gap_of(dual) if out.links.shape[1] == 0 else 0.0
        may_go_on = status == CONVERGED and limits[0] > 0 and step < MAX_STEPS - 1
        factor = next_step(proximal, dual.scores, dual.u, gap, goal, may_go_on)
        if factor == 0.0:
            break
        for array in (dual.row_high, dual.multipliers, additional):
            grow(array, factor)
    write_marginals(presolve, dual.u, out.marginals[i])
    if out.links.shape[1] > 0:
        write_multipliers(presolve, dual, out.multipliers[i])
    return dual, additional, n_iter, status


@kernel
def _last_scores(scores, presolve, proximal):
    """Return the scores of the last step."""
    last = scores.copy()
    growth = proximal.growth[0]
    if growth > 1.0:
        grow(last, growth)
        for i in range(last.shape[0]):
            last[i] += 1.0 if presolve.states[i] == ON else 0.0
        for k in range(presolve.counts[0]):
            last[presolve.variables[k]] += proximal.centre[k]
    return last


@kernel
def _solve_by_rows(use_newton, graph, structures, scratch, samples, tol, limits, i, out):
    """Solve sample `i` by sweeps and, if `use_newton`, Newton steps.

    Parameters
    ----------
    use_newton, graph, structures, samples, tol, limits, i, out
        See `_solve_open`.
    scratch : (PresolveState, PairwiseBounds, Proximal)
        The bounds are those of the sample's additional scores; the others are overwritten.
    """
    (presolve, bounds, proximal), u = scratch, out.marginals[i]
    scores = samples.scores[i]
    scale, _, _ = scales_of(samples, i)
    statistics = out.statistics[i]
    fix_variables(bounds, scores, scale, presolve)
    if presolve.counts[0] == 0 and out.links.shape[1] == 0:
        # A shortcut for the most frequent case of label sets.
        write_marginals(presolve, presolve.base[:0], u)
        statistics[OBJECTIVE] = value_of(bounds, scores, scale, u)
        return
    dual, additional, n_iter, status = _solve_open(
        use_newton, graph, structures, presolve, proximal, samples, tol, limits, i, out
    )
    if out.links.shape[1] > 0:
        write_fixed_multipliers(graph, presolve, additional, out.multipliers[i])
        last = _last_scores(scores, presolve, proximal)
        link_multipliers(graph, last, additional, out.multipliers[i], u, out.links[i], np.empty(u.shape[0]))
        _finish(graph, structures, last, additional, i, limits, n_iter, status, out)
    else:
        statistics[N_ITER], statistics[STATUS] = n_iter, status
        statistics[OBJECTIVE] = value_of(bounds, scores, scale, u)
        statistics[GAP] = gap_of(dual)
    _as_first_step(samples, i, proximal, out)


@entry(types.void(types.boolean, GRAPH_ARRAYS, *LOOP))
def logic_rows_range(use_newton, graph, samples, tol, limits, out, start, stop):
    """Solve samples start..stop of a graph without structures; for the parameters see `rows_range`."""
    presolve = new_presolve(graph)
    proximal = new_proximal(graph.degrees.shape[0])
    bounds = pairwise_bounds(graph, row_of(samples.additional, start))
    for i in range(start, stop):
        if i > start and samples.additional.shape[0] > 1:
            bounds = pairwise_bounds(graph, samples.additional[i])
        _solve_by_rows(use_newton, graph, None, (presolve, bounds, proximal), samples, tol, limits, i, out)


@entry(types.void(types.boolean, *_STRUCTURED, *LOOP))
def rows_range(use_newton, graph, oracles, solvers, samples, tol, limits, out, start, stop):
    """Solve samples start..stop by sweeps and, if `use_newton`, Newton steps.

    Parameters
    ----------
    use_newton : bool
    graph, oracles, solvers, tol, limits, start, stop
        See `_graphs/__init__.py`.
    samples : SampleArrays
    out : GraphSolutions
        Gets the solutions.
    """
    presolve = new_presolve(graph)
    proximal = new_proximal(graph.degrees.shape[0])
    for i in range(start, stop):
        structures = new_structures(graph, oracles, solvers)
        bounds = pairwise_bounds(graph, row_of(samples.additional, i))
        _solve_by_rows(use_newton, graph, structures, (presolve, bounds, proximal), samples, tol, limits, i, out)


@kernel
def _finish_links(graph, structures, scores, additional, i, solution, limits, out):
    """Write and certify the solution of a solver that works on the dual variables of the links.

    Parameters
    ----------
    graph, structures, scores, i, limits
        See `_graphs/__init__.py`.
    additional : array of shape (n_additional,)
        The additional scores of the sample.
    solution : (u, lam, n_iter, status)
        The result of the solver.
    out : GraphSolutions
    """
    u, lam, n_iter, status = solution
    copy_into(out.marginals[i], u)
    copy_into(out.links[i], lam)
    _finish(graph, structures, scores, additional, i, limits, n_iter, status, out)


@kernel
def solve_by_block(graph, structures, proximal, samples, tol, limits, i, out):
    """Solve sample `i` by block coordinate ascent; for the parameters see `_solve_open`."""
    additional = additional_of(samples, i)
    (_, goal, _) = scales_of(samples, i)
    warm = np.zeros(graph.links.shape[0])
    scores = samples.scores[i].copy()
    if samples.warm.shape[0] > 0:
        copy_into(warm, samples.warm[i])
    begin(proximal)
    solution = solve_block(graph, structures, scores, additional, warm, tol, limits)
    for _ in range(MAX_STEPS if goal > 0.0 else 0):
        factor = next_step(proximal, scores, solution[0], 0.0, goal, solution[3] == CONVERGED and limits[0] > 0)
        if factor == 0.0:
            break
        copy_into(warm, solution[1])
        grow(warm, factor)
        grow(additional, factor)
        solution = solve_block(graph, structures, scores, additional, warm, tol, limits)
    _finish_links(graph, structures, scores, additional, i, solution, limits, out)
    _as_first_step(samples, i, proximal, out)


@entry(types.void(GRAPH_ARRAYS, *LOOP))
def logic_block_range(graph, samples, tol, limits, out, start, stop):
    """Solve samples start..stop of a graph without structures; for the parameters see `rows_range`."""
    proximal = new_proximal(graph.degrees.shape[0])
    for i in range(start, stop):
        solve_by_block(graph, None, proximal, samples, tol, limits, i, out)


@entry(types.void(*_STRUCTURED, *LOOP))
def block_range(graph, oracles, solvers, samples, tol, limits, out, start, stop):
    """Solve samples start..stop by block coordinate ascent; for the parameters see `rows_range`."""
    proximal = new_proximal(graph.degrees.shape[0])
    for i in range(start, stop):
        structures = new_structures(graph, oracles, solvers)
        solve_by_block(graph, structures, proximal, samples, tol, limits, i, out)


@entry(types.void(*_STRUCTURED, *LOOP))
def admm_range(graph, oracles, solvers, samples, tol, limits, out, start, stop):
    """Solve samples start..stop by alternating directions; for the parameters see `rows_range`."""
    for i in range(start, stop):
        additional = additional_of(samples, i)
        warm = row_of(samples.warm, i)
        structures = new_structures(graph, oracles, solvers)
        solution = solve_admm(graph, structures, samples.scores[i], additional, warm, tol, limits)
        _finish_links(graph, structures, samples.scores[i], additional, i, solution, limits, out)


# The solvers by their public names, which `inference/_graph` knows, too. Each is compiled at its first use.
GRAPH_SOLVERS = {
    "newton": partial(rows_range, True),
    "pairwise": partial(rows_range, False),
    "block": block_range,
    "admm": admm_range,
    "tables": tables_range,
}
# The variants for graphs without structures, which compile faster.
LOGIC_SOLVERS = {
    "newton": partial(logic_rows_range, True),
    "pairwise": partial(logic_rows_range, False),
    "block": logic_block_range,
}
# Solvers whose warm start is the multipliers of rows and pairs. That of the others is the dual variables of the links.
BY_MULTIPLIERS = ("newton", "pairwise")
