"""The loop over many samples of one factor graph, inside one compiled call each."""

import numpy as np
from numba import types

from .._jit import FLOATS_2D, FLOATS_2D_OUT, ORACLE, copy_into, entry, kernel
from ..factors._arrays import FORBIDDEN, GRAPH_ARRAYS, STRUCTURE
from ._graph_admm import solve_admm
from ._graph_block import solve_block
from ._graph_certificate import certify
from ._graph_newton import solve_rows
from ._graph_rows import INFEASIBLE
from ._protocol import SOLVER

# Columns of the statistics of a batch.
OBJECTIVE, GAP, RESIDUAL, N_ITER, STATUS = range(5)

# The numbers of the solvers, by the names of the public `solver` parameter.
NEWTON, PAIRWISE, BLOCK, ADMM = range(4)


@kernel
def _link_multipliers(graph, dual, lam):
    """Write the dual variables of all links: what rows and pairs take from the scores, and what is left of them.

    What a clipped variable has left is shared by its factors, so that each sees it beyond the bound.
    """
    lam[:] = 0.0
    for r in range(dual.mu.shape[0]):
        for l in range(graph.row_ptr[r], graph.row_ptr[r + 1]):
            lam[graph.row_links[l]] += graph.row_coefs[l] * dual.mu[r]
    for e in range(dual.t.shape[0]):
        l = graph.link_ptr[graph.pairs[e]]
        if dual.pair[e] > 0.0:
            lam[l] -= graph.pair_signs[e, 0] * dual.t[e]
            lam[l + 1] -= graph.pair_signs[e, 1] * (dual.pair[e] - dual.t[e])
        else:
            lam[l] += graph.pair_signs[e, 0] * dual.t[e]
            lam[l + 1] += graph.pair_signs[e, 1] * dual.t[e]
    for f in range(graph.kinds.shape[0]):
        is_structure = graph.kinds[f] == STRUCTURE
        for l in range(graph.link_ptr[f], graph.link_ptr[f + 1]):
            i = graph.links[l]
            left = dual.a[i] - dual.u[i]
            if dual.scores[i] < 0.5 * FORBIDDEN:
                lam[l] = 0.0
            elif is_structure:
                lam[l] = left
            elif graph.owners[i] < 0:
                lam[l] += left / graph.degrees[i]


@entry(
    types.void(
        GRAPH_ARRAYS, ORACLE, ORACLE, ORACLE, ORACLE, SOLVER,
        types.int64, FLOATS_2D, FLOATS_2D, FLOATS_2D, FLOATS_2D, types.float64, types.int64, types.int64, types.int64,
        FLOATS_2D_OUT, FLOATS_2D_OUT, FLOATS_2D_OUT, FLOATS_2D_OUT, FLOATS_2D_OUT,
    )
)  # fmt: skip
def graph_range(
    graph, o0, o1, o2, o3, solver, method, scores, additional, warm_multipliers, warm_links, tol,
    max_iter, start, stop, marginals, joint, multipliers, links, statistics
):  # fmt: skip
    """Solve samples start..stop.

    `scores`, `additional` and all arrays that are written have one row a sample (`additional` may have a single row for
    all, and the warm starts none). `multipliers` are those of rows and pairs, `links` the dual variables of all links.
    """
    oracles = (o0, o1, o2, o3)
    cold = np.empty(0)
    n_rows = graph.row_bounds.shape[0]
    for i in range(start, stop):
        own = additional[min(i, additional.shape[0] - 1)]
        if method <= PAIRWISE:
            warm = warm_multipliers[i] if warm_multipliers.shape[0] > 0 else cold
            dual, supports, extra, weights, n_iter, status = solve_rows(
                graph, oracles, solver, scores[i], own, warm, tol, max_iter, method == NEWTON
            )
            copy_into(marginals[i], dual.u)
            copy_into(multipliers[i], dual.mu)
            copy_into(multipliers[i, n_rows:], dual.t)
            _link_multipliers(graph, dual, links[i])
        else:
            warm = warm_links[i] if warm_links.shape[0] > 0 else cold
            if method == BLOCK:
                u, lam, supports, extra, weights, n_iter, status = solve_block(
                    graph, oracles, solver, scores[i], own, warm, tol, max_iter
                )
            else:
                u, lam, supports, extra, weights, n_iter, status = solve_admm(
                    graph, oracles, solver, scores[i], own, warm, tol, max_iter
                )
            copy_into(marginals[i], u)
            copy_into(links[i], lam)
        if status == INFEASIBLE:
            statistics[i, 4] = status
            continue
        objective, gap, residual = certify(
            graph, oracles, solver, scores[i], own, marginals[i], links[i], supports, extra, weights, joint[i]
        )
        statistics[i, 0] = objective
        statistics[i, 1] = gap
        statistics[i, 2] = residual
        statistics[i, 3] = n_iter
        statistics[i, 4] = status
