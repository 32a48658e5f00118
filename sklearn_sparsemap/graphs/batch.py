"""The loop over many samples of one factor graph, inside one compiled call each."""

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
    gap_of,
    new_settled,
    pull_slots,
    settle,
    value_of,
    write_marginals,
    write_multipliers,
    write_settled_multipliers,
)
from .proximal import MOST_STEPS, begin, grow, new_proximal, next_step
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
    goal_of,
    row_of,
    scale_of,
)
from .structures import STRUCTURE_SOLVERS, new_structures
from .tables.batch import tables_range


@kernel
def _link_multipliers(graph, scores, additional, multipliers, u, lam):
    """Write the dual variables of all links: what rows and pairs take from the scores, and what is left of them.

    What a clipped variable has left is shared by its factors, so that each sees it beyond the bound.
    """
    n_rows, left = graph.row_bounds.shape[0], scores - u
    lam[:] = 0.0
    for r in range(n_rows):
        for place in range(graph.row_ptr[r], graph.row_ptr[r + 1]):
            lam[graph.row_links[place]] += graph.row_coefs[place] * multipliers[r]
    for e in range(graph.pairs.shape[0]):
        link, t = graph.link_ptr[graph.pairs[e]], multipliers[n_rows + e]
        score = additional[graph.additional_ptr[graph.pairs[e]]]
        first, second = (-t, t - score) if score > 0.0 else (t, t)
        lam[link] += graph.pair_signs[e, 0] * first
        lam[link + 1] += graph.pair_signs[e, 1] * second
    for link in range(graph.links.shape[0]):
        left[graph.links[link]] -= lam[link]
    for f in range(graph.kinds.shape[0]):
        is_structure = graph.kinds[f] == STRUCTURE
        for link in range(graph.link_ptr[f], graph.link_ptr[f + 1]):
            i = graph.links[link]
            if scores[i] < 0.5 * FORBIDDEN:
                lam[link] = 0.0
            elif is_structure:
                lam[link] = left[i]
            elif graph.owners[i] < 0:
                lam[link] += left[i] / graph.degrees[i]


# Each loop takes a graph, with the oracles and solvers of its structures unless it has none; samples; tol, limits
# (see `solve_rows`); which samples, start..stop; and where to write their solutions.
_LOOP = SAMPLES, types.float64, INTS, types.int64, types.int64, SOLUTIONS
_STRUCTURED = GRAPH_ARRAYS, ORACLES.type, STRUCTURE_SOLVERS


@kernel
def _finish(graph, structures, scores, additional, i, limits, n_iter, status, out):
    """Certify the solution of sample `i`."""
    statistics = out.statistics[i]
    statistics[N_ITER], statistics[STATUS] = n_iter, status
    if status != INFEASIBLE:
        statistics[OBJECTIVE], statistics[GAP], statistics[RESIDUAL] = certify(
            graph, structures, scores, additional, out.marginals[i], out.links[i], limits, out.joint[i]
        )


@kernel
def _as_first_step(samples, i, proximal, out):
    """Let the solution of the linear relaxation of sample `i` look as if the first step had found it."""
    if goal_of(samples, i) > 0.0:
        out.statistics[i, GAP] = proximal.hidden[0]
        grow(out.multipliers[i], 1.0 / proximal.growth[0])
        grow(out.links[i], 1.0 / proximal.growth[0])


@kernel
def _solve_open(use_newton, graph, structures, settled, proximal, samples, tol, limits, i, out):
    """Solve what is open of sample `i` by sweeps and, if `use_newton`, Newton steps; write marginals and multipliers.

    Returns
    -------
    dual : Dual
    additional : array
        Those of the last step; nothing, where no more is written.
    n_iter, status : int
    """
    unscaled, warm, scale = row_of(samples.additional, i), row_of(samples.warm, i), scale_of(samples, i)
    additional = additional_of(samples, i) if out.links.shape[1] > 0 else np.empty(0)
    dual, goal = new_dual(graph, settled, unscaled, scale, warm), goal_of(samples, i)
    n_iter, status = np.int64(0), np.int64(CONVERGED)
    begin(proximal)
    for step in range(MOST_STEPS if dual.a.shape[0] > 0 else 0):
        n_more, status = solve_rows(dual, structures, additional, tol, limits, use_newton)
        n_iter += n_more
        if goal == 0.0:
            break
        gap = gap_of(dual) if out.links.shape[1] == 0 else 0.0
        may_go_on = status == CONVERGED and limits[0] > 0 and step < MOST_STEPS - 1
        factor = next_step(proximal, dual.scores, dual.u, gap, goal, may_go_on)
        if factor == 0.0:
            break
        for array in (dual.row_high, dual.multipliers, additional):
            grow(array, factor)
    write_marginals(settled, dual.u, out.marginals[i])
    if out.links.shape[1] > 0:
        write_multipliers(settled, dual, out.multipliers[i])
    return dual, additional, n_iter, status


@kernel
def _last_scores(scores, settled, proximal):
    """Return the scores of the last step."""
    last, growth = scores.copy(), proximal.growth[0]
    if growth > 1.0:
        grow(last, growth)
        for i in range(last.shape[0]):
            last[i] += 1.0 if settled.states[i] == ON else 0.0
        for k in range(settled.counts[0]):
            last[settled.variables[k]] += proximal.centre[k]
    return last


@kernel
def _solve_by_rows(use_newton, graph, structures, scratch, samples, tol, limits, i, out):
    """Solve sample `i` by sweeps and, if `use_newton`, Newton steps.

    Parameters
    ----------
    use_newton : bool
    graph : GraphArrays
    structures : Structures, or None
    scratch : (settled, slots, proximal)
        The second one is for the additional scores of the sample.
    samples : GraphSamples
    tol : float
    limits : int array of shape (2,)
        See `solve_rows`.
    i : int
    out : GraphSolutions
    """
    (settled, slots, proximal), u = scratch, out.marginals[i]
    scores, scale, statistics = samples.scores[i], scale_of(samples, i), out.statistics[i]
    settle(slots, scores, scale, settled)
    if settled.counts[0] == 0 and out.links.shape[1] == 0:
        # The most frequent case of label sets is the quickest.
        write_marginals(settled, settled.base[:0], u)
        statistics[OBJECTIVE] = value_of(slots, scores, scale, u)
        return
    dual, own, n_iter, status = _solve_open(
        use_newton, graph, structures, settled, proximal, samples, tol, limits, i, out
    )
    if out.links.shape[1] > 0:
        write_settled_multipliers(graph, settled, own, out.multipliers[i])
        last = _last_scores(scores, settled, proximal)
        _link_multipliers(graph, last, own, out.multipliers[i], u, out.links[i])
        _finish(graph, structures, last, own, i, limits, n_iter, status, out)
    else:
        statistics[N_ITER], statistics[STATUS] = n_iter, status
        statistics[OBJECTIVE], statistics[GAP] = value_of(slots, scores, scale, u), gap_of(dual)
    _as_first_step(samples, i, proximal, out)


@entry(types.void(types.boolean, GRAPH_ARRAYS, *_LOOP))
def logic_rows_range(use_newton, graph, samples, tol, limits, start, stop, out):
    """Solve samples start..stop of a graph without structures."""
    settled, proximal = new_settled(graph), new_proximal(graph.degrees.shape[0])
    slots = pull_slots(graph, row_of(samples.additional, start))
    for i in range(start, stop):
        if i > start and samples.additional.shape[0] > 1:
            slots = pull_slots(graph, samples.additional[i])
        _solve_by_rows(use_newton, graph, None, (settled, slots, proximal), samples, tol, limits, i, out)


@entry(types.void(types.boolean, *_STRUCTURED, *_LOOP))
def rows_range(use_newton, graph, oracles, solvers, samples, tol, limits, start, stop, out):
    """Solve samples start..stop by sweeps and, if `use_newton`, Newton steps."""
    settled, proximal = new_settled(graph), new_proximal(graph.degrees.shape[0])
    for i in range(start, stop):
        structures, slots = new_structures(graph, oracles, solvers), pull_slots(graph, row_of(samples.additional, i))
        _solve_by_rows(use_newton, graph, structures, (settled, slots, proximal), samples, tol, limits, i, out)


@kernel
def _finish_links(graph, structures, scores, own, i, found, limits, out):
    """Write and certify what a solver that works on the dual variables of the links has found for sample `i`."""
    u, lam, n_iter, status = found
    copy_into(out.marginals[i], u)
    copy_into(out.links[i], lam)
    _finish(graph, structures, scores, own, i, limits, n_iter, status, out)


@entry(types.void(*_STRUCTURED, *_LOOP))
def block_range(graph, oracles, solvers, samples, tol, limits, start, stop, out):
    """Solve samples start..stop by block coordinate ascent."""
    proximal, n_links = new_proximal(graph.degrees.shape[0]), graph.links.shape[0]
    for i in range(start, stop):
        own, goal, warm = additional_of(samples, i), goal_of(samples, i), np.zeros(n_links)
        scores = samples.scores[i].copy()
        if samples.warm.shape[0] > 0:
            copy_into(warm, samples.warm[i])
        structures = new_structures(graph, oracles, solvers)
        begin(proximal)
        found = solve_block(graph, structures, scores, own, warm, tol, limits)
        for _ in range(MOST_STEPS if goal > 0.0 else 0):
            factor = next_step(proximal, scores, found[0], 0.0, goal, found[3] == CONVERGED and limits[0] > 0)
            if factor == 0.0:
                break
            copy_into(warm, found[1])
            grow(warm, factor)
            grow(own, factor)
            found = solve_block(graph, structures, scores, own, warm, tol, limits)
        _finish_links(graph, structures, scores, own, i, found, limits, out)
        _as_first_step(samples, i, proximal, out)


@entry(types.void(*_STRUCTURED, *_LOOP))
def admm_range(graph, oracles, solvers, samples, tol, limits, start, stop, out):
    """Solve samples start..stop by alternating directions."""
    for i in range(start, stop):
        own, warm = additional_of(samples, i), row_of(samples.warm, i)
        structures = new_structures(graph, oracles, solvers)
        found = solve_admm(graph, structures, samples.scores[i], own, warm, tol, limits)
        _finish_links(graph, structures, samples.scores[i], own, i, found, limits, out)


# By the names of the public `solver` parameter. Each is compiled at its first use only.
GRAPH_SOLVERS = {
    "newton": partial(rows_range, True),
    "pairwise": partial(rows_range, False),
    "block": block_range,
    "admm": admm_range,
    "tables": tables_range,
}
# For graphs without structures, where these have one that knows of none, and is compiled much sooner.
LOGIC_SOLVERS = {"newton": partial(logic_rows_range, True), "pairwise": partial(logic_rows_range, False)}
# Those that start from the multipliers of rows and pairs; the others start from the dual variables of the links.
BY_MULTIPLIERS = ("newton", "pairwise")
