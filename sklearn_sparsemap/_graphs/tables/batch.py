"""The loop over samples of one graph of tables.

Used by `_graphs`.
"""

import numpy as np
from numba import types

from ..._core.jit import INTS, copy_into, entry, kernel
from ..arrays import FORBIDDEN
from ..proximal import MAX_STEPS, begin, grow, new_proximal, next_step
from ..rows import CONVERGED, INFEASIBLE
from ..samples import (
    GAP,
    N_ITER,
    OBJECTIVE,
    RESIDUAL,
    SAMPLES,
    SOLUTIONS,
    STATUS,
    additional_of,
    scales_of,
)
from ..table_arrays import TABLE_ARRAYS
from .augmented import SIGMA, solve_tables
from .certificate import certify_tables
from .primal_dual import approach, new_lanes
from .state import new_state, pass_messages

_AIM = 1e-2  # tolerance of the solver, as a fraction of the user's


@kernel
def _is_known(warm):
    """Return whether there are values to start from."""
    return warm.shape[0] > 0 and warm[0] == warm[0]


@kernel
def _write_independent_tables(tables, u, joint):
    """Set the joint marginals to those of nodes that are independent."""
    for e in range(tables.ends.shape[0]):
        start, begin, end = tables.messages[e], tables.cells[e], tables.cells[e + 1]
        n = (tables.messages[e + 1] - start) // 2
        for k in range(end - begin):
            joint[begin + k] = u[tables.values[start + k // n]] * u[tables.values[start + n + k % n]]


@kernel
def _begin(tables, scores, warm, state, joint):
    """Set messages and joint marginals to start from.

    `warm` contains dual variables of the links, and may contain joint marginals after them.
    """
    if _is_known(warm):
        for k in range(tables.links.shape[0]):
            state.messages[k] = -warm[tables.links[k]]
    else:
        state.messages[:] = 0.0
    pass_messages(tables, scores, state)
    n_links = tables.links.shape[0] + tables.node_links.shape[0]
    if warm.shape[0] > n_links and _is_known(warm):
        copy_into(joint, warm[n_links:])
    else:
        _write_independent_tables(tables, state.u, joint)


@kernel
def _has_forbidden_node(tables, scores):
    """Return whether all values of a node are forbidden."""
    for i in range(tables.order.shape[0]):
        highest = FORBIDDEN
        for k in range(tables.nodes[i], tables.nodes[i + 1]):
            highest = max(highest, scores[k])
        if highest < 0.5 * FORBIDDEN:
            return True
    return False


@kernel
def _write_links(tables, scores, state, links):
    """Write the dual variables of the links of tables and of the factors that make values exclusive."""
    for k in range(tables.links.shape[0]):
        links[tables.links[k]] = -state.messages[k]
    for i in range(tables.node_links.shape[0]):
        forbidden = scores[i] < 0.5 * FORBIDDEN
        links[tables.node_links[i]] = 0.0 if forbidden else state.z[i] - state.u[i]


@entry(types.void(TABLE_ARRAYS, SAMPLES, types.float64, INTS, SOLUTIONS, types.int64, types.int64))
def tables_range(tables, samples, tol, limits, out, start, stop):
    """Solve samples of a graph of tables.

    Parameters
    ----------
    tables : TableArrays
    samples : SampleArrays
    tol, limits, start, stop
        See `_graphs/__init__.py`. Newton steps are iterations.
    out : GraphSolutions
    """
    state = new_state(tables)
    trial = new_state(tables)
    proximal = new_proximal(tables.nodes[-1])
    lanes = new_lanes(tables)
    before = np.zeros(tables.cells[-1])
    # The error of marginals is at most the root of twice the gap.
    tols = _AIM * tol, 0.5 * tol * tol
    for i in range(start, stop):
        scores = samples.scores[i].copy()
        additional = additional_of(samples, i)
        _, goal, reference = scales_of(samples, i)
        statistics = out.statistics[i]
        if _has_forbidden_node(tables, scores):
            statistics[STATUS] = INFEASIBLE
            continue
        warm = samples.warm[i] if samples.warm.shape[0] > 0 else np.empty(0)
        _begin(tables, scores, warm, state, before)
        begin(proximal)
        n_iter, status = approach(tables, (scores, additional), lanes, before, state, tols, reference, limits)
        if status != CONVERGED:
            state, trial, n_more, status = solve_tables(
                tables, (scores, additional), before, SIGMA, state, trial, tols, reference, limits
            )
            n_iter += n_more
        for _ in range(MAX_STEPS if goal > 0.0 else 0):
            factor = next_step(proximal, scores, state.u, 0.0, goal, status == CONVERGED and limits[0] > 0)
            if factor == 0.0:
                break
            grow(additional, factor)
            grow(state.messages, factor)
            state, trial, n_more, status = solve_tables(
                tables, (scores, additional), before, SIGMA, state, trial, tols, 0.0, limits
            )
            n_iter += n_more
        value = pass_messages(tables, scores, state)
        certified = certify_tables(tables, scores, additional, state, value)
        statistics[OBJECTIVE], statistics[GAP], statistics[RESIDUAL] = certified
        statistics[N_ITER], statistics[STATUS] = n_iter, status
        copy_into(out.marginals[i], state.u)
        copy_into(out.joint[i], state.joint)
        _write_links(tables, scores, state, out.links[i])
        if goal > 0.0:
            # Gap and dual variables for the scores of the first step.
            statistics[GAP] = proximal.hidden[0] + statistics[GAP] / proximal.growth[0]
            grow(out.links[i], 1.0 / proximal.growth[0])
