"""The loop over many samples of one factor graph, inside one compiled call each."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numba import types

from ..._jit import FLOATS_2D, FLOATS_2D_OUT, INTS, copy_into, entry, kernel
from ...graphs._arrays import FORBIDDEN, GRAPH_ARRAYS, ORACLES, STRUCTURE
from .admm import solve_admm
from .block import solve_block
from .certificate import certify
from .newton import solve_rows
from .rows import INFEASIBLE
from .structures import STRUCTURE_SOLVERS, new_structures

# Columns of the statistics of a batch.
OBJECTIVE, GAP, RESIDUAL, N_ITER, STATUS = range(5)


@kernel
def _link_multipliers(graph, dual, lam):
    """Write the dual variables of all links: what rows and pairs take from the scores, and what is left of them.

    What a clipped variable has left is shared by its factors, so that each sees it beyond the bound.
    """
    lam[:] = 0.0
    for r in range(dual.mu.shape[0]):
        for place in range(graph.row_ptr[r], graph.row_ptr[r + 1]):
            lam[graph.row_links[place]] += graph.row_coefs[place] * dual.mu[r]
    for e in range(dual.t.shape[0]):
        link = graph.link_ptr[graph.pairs[e]]
        if dual.pair[e] > 0.0:
            lam[link] -= graph.pair_signs[e, 0] * dual.t[e]
            lam[link + 1] -= graph.pair_signs[e, 1] * (dual.pair[e] - dual.t[e])
        else:
            lam[link] += graph.pair_signs[e, 0] * dual.t[e]
            lam[link + 1] += graph.pair_signs[e, 1] * dual.t[e]
    for f in range(graph.kinds.shape[0]):
        is_structure = graph.kinds[f] == STRUCTURE
        for link in range(graph.link_ptr[f], graph.link_ptr[f + 1]):
            i = graph.links[link]
            left = dual.a[i] - dual.u[i]
            if dual.scores[i] < 0.5 * FORBIDDEN:
                lam[link] = 0.0
            elif is_structure:
                lam[link] = left
            elif graph.owners[i] < 0:
                lam[link] += left / graph.degrees[i]


class GraphSamples(NamedTuple):
    """Samples of one graph, one row each, read-only."""

    scores: np.ndarray  # with FORBIDDEN in place of -inf
    additional: np.ndarray  # a single row is that of all samples
    warm: np.ndarray  # multipliers or link variables to start from; no row: from nothing


class GraphSolutions(NamedTuple):
    """What is found for samples of one graph, one row each."""

    marginals: np.ndarray  # of the variables
    joint: np.ndarray  # marginals of the additional scores
    multipliers: np.ndarray  # of rows and pairs
    links: np.ndarray  # dual variables of the links
    statistics: np.ndarray  # see the columns above

    def take(self, rows):
        """Return the solutions of some samples."""
        return GraphSolutions(*(array[rows] for array in self))

    def put(self, rows, others):
        """Write the solutions of some samples."""
        for array, new in zip(self, others):
            array[rows] = new


_SAMPLES = types.NamedUniTuple(FLOATS_2D, 3, GraphSamples)
_SOLUTIONS = types.NamedUniTuple(FLOATS_2D_OUT, 5, GraphSolutions)

# Each loop takes a graph, with the oracles and solvers of its structures unless it has none; samples; tol, limits
# (see `solve_rows`); which samples, start..stop; and where to write their solutions.
_LOOP = _SAMPLES, types.float64, INTS, types.int64, types.int64, _SOLUTIONS
_STRUCTURED = GRAPH_ARRAYS, ORACLES, STRUCTURE_SOLVERS


@kernel
def _row_of(rows, i):
    """Return row `i` of rows of which there may be one for all, or none: then nothing."""
    return rows[min(i, rows.shape[0] - 1)] if rows.shape[0] > 0 else np.empty(0)


@kernel
def _finish(graph, structures, samples, i, limits, n_iter, status, out):
    """Certify the solution of sample `i`."""
    statistics = out.statistics[i]
    statistics[N_ITER], statistics[STATUS] = n_iter, status
    if status != INFEASIBLE:
        additional = _row_of(samples.additional, i)
        statistics[OBJECTIVE], statistics[GAP], statistics[RESIDUAL] = certify(
            graph, structures, samples.scores[i], additional, out.marginals[i], out.links[i], limits, out.joint[i]
        )


@kernel
def _solve_by_rows(use_newton, graph, structures, samples, tol, limits, i, out):
    """Solve sample `i` by sweeps and, if `use_newton`, Newton steps."""
    own, warm = _row_of(samples.additional, i), _row_of(samples.warm, i)
    dual, n_iter, status = solve_rows(graph, structures, samples.scores[i], own, warm, tol, limits, use_newton)
    copy_into(out.marginals[i], dual.u)
    copy_into(out.multipliers[i], dual.multipliers)
    _link_multipliers(graph, dual, out.links[i])
    _finish(graph, structures, samples, i, limits, n_iter, status, out)


@entry(types.void(types.boolean, GRAPH_ARRAYS, *_LOOP))
def logic_rows_range(use_newton, graph, samples, tol, limits, start, stop, out):
    """Solve samples start..stop of a graph without structures."""
    for i in range(start, stop):
        _solve_by_rows(use_newton, graph, None, samples, tol, limits, i, out)


@entry(types.void(types.boolean, *_STRUCTURED, *_LOOP))
def rows_range(use_newton, graph, oracles, solvers, samples, tol, limits, start, stop, out):
    """Solve samples start..stop by sweeps and, if `use_newton`, Newton steps."""
    for i in range(start, stop):
        structures = new_structures(graph, oracles, solvers)
        _solve_by_rows(use_newton, graph, structures, samples, tol, limits, i, out)


@kernel
def _finish_links(graph, structures, samples, i, found, limits, out):
    """Write and certify what a solver that works on the dual variables of the links has found for sample `i`."""
    u, lam, n_iter, status = found
    copy_into(out.marginals[i], u)
    copy_into(out.links[i], lam)
    _finish(graph, structures, samples, i, limits, n_iter, status, out)


@entry(types.void(*_STRUCTURED, *_LOOP))
def block_range(graph, oracles, solvers, samples, tol, limits, start, stop, out):
    """Solve samples start..stop by block coordinate ascent."""
    for i in range(start, stop):
        own, warm = _row_of(samples.additional, i), _row_of(samples.warm, i)
        structures = new_structures(graph, oracles, solvers)
        found = solve_block(graph, structures, samples.scores[i], own, warm, tol, limits)
        _finish_links(graph, structures, samples, i, found, limits, out)


@entry(types.void(*_STRUCTURED, *_LOOP))
def admm_range(graph, oracles, solvers, samples, tol, limits, start, stop, out):
    """Solve samples start..stop by alternating directions."""
    for i in range(start, stop):
        own, warm = _row_of(samples.additional, i), _row_of(samples.warm, i)
        structures = new_structures(graph, oracles, solvers)
        found = solve_admm(graph, structures, samples.scores[i], own, warm, tol, limits)
        _finish_links(graph, structures, samples, i, found, limits, out)


# By the names of the public `solver` parameter. Each is compiled at its first use only.
GRAPH_SOLVERS = {
    "newton": partial(rows_range, True),
    "pairwise": partial(rows_range, False),
    "block": block_range,
    "admm": admm_range,
}
# For graphs without structures, where these have one that knows of none, and is compiled much sooner.
LOGIC_SOLVERS = {"newton": partial(logic_rows_range, True), "pairwise": partial(logic_rows_range, False)}
# Those that start from the multipliers of rows and pairs; the others start from the dual variables of the links.
BY_MULTIPLIERS = ("newton", "pairwise")
