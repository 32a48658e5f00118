"""The loop over many samples of one factor graph, inside one compiled call each."""

from functools import partial

import numpy as np
from numba import types

from ..._jit import FLOATS_2D, FLOATS_2D_OUT, INTS, ORACLE, copy_into, entry, kernel
from ...graphs._arrays import FORBIDDEN, GRAPH_ARRAYS, STRUCTURE
from .._polytope.protocol import SOLVER
from .admm import solve_admm
from .block import solve_block
from .certificate import certify
from .newton import solve_rows
from .rows import INFEASIBLE, new_structures

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


# Arguments of each loop:
#   scores, additional    one row a sample (`additional` may have a single row for all)
#   warm                  multipliers or link variables to start from, one row a sample or no row
#   tol, limits, start, stop (see `solve_rows`)
# and what is written, one row a sample: marginals, marginals of the additional scores, multipliers of rows and pairs,
# dual variables of the links, statistics.
_LOOP = (
    FLOATS_2D, FLOATS_2D, FLOATS_2D, types.float64, INTS, types.int64, types.int64,
    FLOATS_2D_OUT, FLOATS_2D_OUT, FLOATS_2D_OUT, FLOATS_2D_OUT, FLOATS_2D_OUT,
)  # fmt: skip
# The MAP oracles of a graph's structures, and their solver.
_FUNCTIONS = (ORACLE, ORACLE, ORACLE, ORACLE, SOLVER)


@kernel
def _finish(graph, structures, scores, additional, u, lam, limits, n_iter, status, joint, statistics):
    """Certify the solution of one sample."""
    statistics[3], statistics[4] = n_iter, status
    if status != INFEASIBLE:
        statistics[0], statistics[1], statistics[2] = certify(
            graph, structures, scores, additional, u, lam, limits, joint
        )


@kernel
def _solve_by_rows(
    use_newton, graph, structures, scores, additional, warm, tol, limits, i, marginals, joint, multipliers, links,
    statistics
):  # fmt: skip
    """Solve sample `i` by sweeps and, if `use_newton`, Newton steps."""
    own = additional[min(i, additional.shape[0] - 1)]
    start = warm[i] if warm.shape[0] > 0 else np.empty(0)
    dual, n_iter, status = solve_rows(graph, structures, scores[i], own, start, tol, limits, use_newton)
    copy_into(marginals[i], dual.u)
    copy_into(multipliers[i], dual.multipliers)
    _link_multipliers(graph, dual, links[i])
    _finish(
        graph, structures, scores[i], own, marginals[i], links[i], limits, n_iter, status, joint[i], statistics[i]
    )


@entry(types.void(types.boolean, GRAPH_ARRAYS, *_LOOP))
def rows_range(
    use_newton, graph, scores, additional, warm, tol, limits, start, stop, marginals, joint, multipliers, links,
    statistics
):  # fmt: skip
    """Solve samples start..stop of a graph of nothing but logic and pairs."""
    for i in range(start, stop):
        _solve_by_rows(
            use_newton, graph, None, scores, additional, warm, tol, limits, i, marginals, joint, multipliers, links,
            statistics
        )  # fmt: skip


@entry(types.void(types.boolean, GRAPH_ARRAYS, *_FUNCTIONS, *_LOOP))
def structured_rows_range(
    use_newton, graph, o0, o1, o2, o3, solver, scores, additional, warm, tol, limits, start, stop, marginals, joint,
    multipliers, links, statistics
):  # fmt: skip
    """Solve samples start..stop of a graph with structures."""
    for i in range(start, stop):
        structures = new_structures(graph, (o0, o1, o2, o3), solver)
        _solve_by_rows(
            use_newton, graph, structures, scores, additional, warm, tol, limits, i, marginals, joint, multipliers,
            links, statistics
        )  # fmt: skip


@entry(types.void(GRAPH_ARRAYS, *_FUNCTIONS, *_LOOP))
def block_range(
    graph, o0, o1, o2, o3, solver, scores, additional, warm, tol, limits, start, stop, marginals, joint, multipliers,
    links, statistics
):  # fmt: skip
    """Solve samples start..stop by block coordinate ascent."""
    cold = np.empty(0)
    for i in range(start, stop):
        structures = new_structures(graph, (o0, o1, o2, o3), solver)
        own = additional[min(i, additional.shape[0] - 1)]
        u, lam, n_iter, status = solve_block(
            graph, structures, scores[i], own, warm[i] if warm.shape[0] > 0 else cold, tol, limits
        )
        copy_into(marginals[i], u)
        copy_into(links[i], lam)
        _finish(
            graph, structures, scores[i], own, marginals[i], links[i], limits, n_iter, status, joint[i], statistics[i]
        )


@entry(types.void(GRAPH_ARRAYS, *_FUNCTIONS, *_LOOP))
def admm_range(
    graph, o0, o1, o2, o3, solver, scores, additional, warm, tol, limits, start, stop, marginals, joint, multipliers,
    links, statistics
):  # fmt: skip
    """Solve samples start..stop by alternating directions."""
    cold = np.empty(0)
    for i in range(start, stop):
        structures = new_structures(graph, (o0, o1, o2, o3), solver)
        own = additional[min(i, additional.shape[0] - 1)]
        u, lam, n_iter, status = solve_admm(
            graph, structures, scores[i], own, warm[i] if warm.shape[0] > 0 else cold, tol, limits
        )
        copy_into(marginals[i], u)
        copy_into(links[i], lam)
        _finish(
            graph, structures, scores[i], own, marginals[i], links[i], limits, n_iter, status, joint[i], statistics[i]
        )


# By the names of the public `solver` parameter. Each is compiled at its first use only.
GRAPH_SOLVERS = {
    "newton": partial(structured_rows_range, True),
    "pairwise": partial(structured_rows_range, False),
    "block": block_range,
    "admm": admm_range,
}
# The same for graphs without structures, where they differ: without oracles and solver.
LOGIC_SOLVERS = {"newton": partial(rows_range, True), "pairwise": partial(rows_range, False)}
# Those that start from the multipliers of rows and pairs; the others start from the dual variables of the links.
BY_MULTIPLIERS = ("newton", "pairwise")
