"""Steps that solve no system: the primal-dual method [1]_, with nodes solved as a whole.

They are cheap, and soon near a solution: that may be enough, and if not, Newton's method has little left to do. A step
moves the messages by what nodes and tables disagree on, the nodes all at once with what they then answer, and the
tables by the moved messages, looked one move ahead.

.. [1] Chambolle and Pock. A first-order primal-dual algorithm for convex problems with applications to imaging. Journal
   of Mathematical Imaging and Vision 40, 2011.
"""

from collections import namedtuple

import numpy as np

from ..._core.jit import copy_into, kernel
from ..rows import CONVERGED, NOT_CONVERGED
from .certificate import certify_tables
from .state import largest_finite, pass_messages, to_simplex

# Edges that are moved together, so that vector instructions take one cell of each.
_LANES = 16
# How far tables move, where their largest score is at most the second number; less where it is larger. Messages move
# by one over this times the third number: convergence is certain where that is twice the number of values, and usual
# where it is less, as few cells are in use; it is doubled where the gap stalls.
_STEP, _SIZE, _EASE = 0.3, 1.5, 8.0
# Steps between two looks at the gap. Where less of it is left, and after so many steps, Newton's method is the better
# one; but where no less is asked for these are, and may be many.
_AT_ONCE, _NEAR, _MOST_STEPS, _MOST_ROUGH_STEPS = 25, 1e-4, 400, 4000
# A step is too large where this share of the gap is left after it.
_STALLED = 0.95

# Block k has the edges ``16 k`` and following, one a lane. The tables' joint marginals and scores have the cells of row
# x and column y at ``cells[k] + 16 (widths[k] x + y)``; messages, and the sums of the tables' lines that belong to
# them, are at ``ends[k] + 16 x`` for the first and ``ends[k] + 16 (widths[k] + y)`` for the second nodes. `degrees`
# counts the edges of a node, and `target` is what nodes project. `ahead` is scratch for one block. The message k of a
# `TableArrays` is at ``message_places[k]``, and its cell c at ``cell_places[c]``.
Lanes = namedtuple(
    "Lanes",
    [
        *("cells", "ends", "widths", "degrees", "joint", "table", "messages", "sums", "ahead", "target"),
        *("message_places", "cell_places"),
    ],
)


@kernel
def new_lanes(tables):
    """Make the arrays for the edges of a graph."""
    n_edges = tables.ends.shape[0]
    n_blocks = (n_edges + _LANES - 1) // _LANES
    cells, ends = np.zeros(n_blocks + 1, np.int64), np.zeros(n_blocks + 1, np.int64)
    widths, degrees = np.zeros(n_blocks, np.int64), np.zeros(tables.order.shape[0])
    for e in range(n_edges):
        k = e // _LANES
        widths[k] = max(widths[k], (tables.messages[e + 1] - tables.messages[e]) // 2)
        degrees[tables.ends[e, 0]] += 1.0
        degrees[tables.ends[e, 1]] += 1.0
    widest = 0
    for k in range(n_blocks):
        cells[k + 1] = cells[k] + _LANES * widths[k] * widths[k]
        ends[k + 1] = ends[k] + 2 * _LANES * widths[k]
        widest = max(widest, widths[k])
    message_places, cell_places = np.empty(tables.messages[-1], np.int64), np.empty(tables.cells[-1], np.int64)
    for e in range(n_edges):
        k, lane = e // _LANES, e % _LANES
        start, n, cell = tables.messages[e], (tables.messages[e + 1] - tables.messages[e]) // 2, tables.cells[e]
        for x in range(n):
            message_places[start + x] = ends[k] + lane + _LANES * x
            message_places[start + n + x] = ends[k] + lane + _LANES * (widths[k] + x)
            for y in range(n):
                cell_places[cell + n * x + y] = cells[k] + lane + _LANES * (widths[k] * x + y)
    n_cells, n_ends = cells[n_blocks], ends[n_blocks]
    table = np.empty(n_cells)
    for k in range(n_cells):
        table[k] = -np.inf
    return Lanes(
        cells,
        ends,
        widths,
        degrees,
        np.zeros(n_cells),
        table,
        np.zeros(n_ends),
        np.zeros(n_ends),
        np.zeros(2 * _LANES * widest),
        np.zeros(tables.nodes[-1]),
        message_places,
        cell_places,
    )


@kernel
def _fill_lanes(lanes, tables, additional, messages, joint):
    """Take over tables, messages and joint marginals; lanes without an edge have cells of -inf."""
    lanes.sums[:] = 0.0
    for k in range(messages.shape[0]):
        lanes.messages[lanes.message_places[k]] = messages[k]
    for e in range(tables.ends.shape[0]):
        start, cell = tables.messages[e], tables.cells[e]
        n = (tables.messages[e + 1] - start) // 2
        for x in range(n):
            for y in range(n):
                lanes.table[lanes.cell_places[cell]] = additional[cell]
                lanes.joint[lanes.cell_places[cell]] = joint[cell]
                lanes.sums[lanes.message_places[start + x]] += joint[cell]
                lanes.sums[lanes.message_places[start + n + y]] += joint[cell]
                cell += 1


@kernel
def _read_lanes(lanes, tables, messages, joint):
    """Write messages and joint marginals as the other solvers have them."""
    for k in range(messages.shape[0]):
        messages[k] = lanes.messages[lanes.message_places[k]]
    for cell in range(tables.cells[0], tables.cells[-1]):
        joint[cell] = lanes.joint[lanes.cell_places[cell]]


@kernel(fast_sums=True, no_nans=True)
def _move_cells(joint, table, ahead, sums, step, n):
    """Move the joint marginals of a block; set the sums of their lines."""
    second = n * _LANES
    for k in range(2 * second):
        sums[k] = 0.0
    for x in range(n):
        first = x * _LANES
        for y in range(n):
            cell, column = _LANES * (x * n + y), second + y * _LANES
            for lane in range(_LANES):
                p = joint[cell + lane] + step * (table[cell + lane] - ahead[first + lane] - ahead[column + lane])
                p = max(p, 0.0)
                joint[cell + lane] = p
                sums[first + lane] += p
                sums[column + lane] += p


@kernel(fast_sums=True)
def _move_messages(messages, sums, ahead, pace):
    """Move the messages of a block, where `ahead` has the marginals of their nodes; set it to one move ahead."""
    for k in range(messages.shape[0]):
        move = (ahead[k] - sums[k]) / pace
        ahead[k] = messages[k] - 2.0 * move
        messages[k] -= move


@kernel
def _messages_of(tables, k):
    """Return the range of the messages of block k."""
    n_edges = tables.ends.shape[0]
    return tables.messages[k * _LANES], tables.messages[min((k + 1) * _LANES, n_edges)]


@kernel
def _aim_block(lanes, tables, k, pace):
    """Add to the nodes' target what the edges of block k answer."""
    start, stop = _messages_of(tables, k)
    for message in range(start, stop):
        place = lanes.message_places[message]
        lanes.target[tables.values[message]] += lanes.messages[place] + lanes.sums[place] / pace


@kernel
def _look_up(lanes, tables, k, u):
    """Write the marginals of the nodes of block k to `ahead`; lanes without an edge get zeros."""
    lanes.ahead[:] = 0.0
    start, stop = _messages_of(tables, k)
    for message in range(start, stop):
        lanes.ahead[lanes.message_places[message] - lanes.ends[k]] = u[tables.values[message]]


@kernel
def _aim(lanes, tables, scores, pace):
    """Set the nodes' target anew."""
    for i in range(scores.shape[0]):
        lanes.target[i] = scores[i]
    for k in range(lanes.widths.shape[0]):
        _aim_block(lanes, tables, k, pace)


@kernel
def _take_steps(lanes, tables, scores, u, step, pace):
    """Take some steps towards the target."""
    for _ in range(_AT_ONCE):
        for i in range(tables.order.shape[0]):
            share = 1.0 / (1.0 + lanes.degrees[i] / pace)
            for x in range(tables.nodes[i], tables.nodes[i + 1]):
                lanes.target[x] *= share
            to_simplex(lanes.target, u, tables.nodes[i], tables.nodes[i + 1])
        for i in range(scores.shape[0]):
            lanes.target[i] = scores[i]
        for k in range(lanes.widths.shape[0]):
            sums = lanes.sums[lanes.ends[k] : lanes.ends[k + 1]]
            _look_up(lanes, tables, k, u)
            _move_messages(lanes.messages[lanes.ends[k] : lanes.ends[k + 1]], sums, lanes.ahead, pace)
            _move_cells(
                lanes.joint[lanes.cells[k] : lanes.cells[k + 1]],
                lanes.table[lanes.cells[k] : lanes.cells[k + 1]],
                lanes.ahead,
                sums,
                step,
                lanes.widths[k],
            )
            _aim_block(lanes, tables, k, pace)


@kernel
def approach(tables, problem, lanes, before, state, tols, reference, limits):
    """Go near a solution, from the messages of `state` and the joint marginals `before`, which are changed.

    Parameters
    ----------
    tables : TableArrays
    problem : (scores, additional)
    lanes : Lanes
        Scratch.
    before : array of shape (n_additional,)
    state : State
    tols : (tol, gap)
        See `solve_tables`.
    reference : float
        What the objective is compared with.
    limits : int array
        No steps where the first is 0.

    Returns
    -------
    n_steps, status : int
    """
    (scores, additional), (tol, most_gap) = problem, tols
    size = largest_finite(additional)
    step = _STEP * min(1.0, _SIZE / max(size, 1e-100))
    ease, last, n_steps, most_ease = _EASE, np.inf, np.int64(0), 2.0
    for k in range(lanes.widths.shape[0]):
        most_ease = max(most_ease, 2.0 * lanes.widths[k])
    _fill_lanes(lanes, tables, additional, state.messages, before)
    _aim(lanes, tables, scores, ease * step)
    most_steps = _MOST_STEPS if most_gap < _NEAR else _MOST_ROUGH_STEPS
    while n_steps < most_steps and limits[0] > 0:
        _take_steps(lanes, tables, scores, state.u, step, ease * step)
        n_steps += _AT_ONCE
        _read_lanes(lanes, tables, state.messages, before)
        copy_into(state.joint, before)
        bound = pass_messages(tables, scores, state)
        objective, gap, residual = certify_tables(tables, scores, additional, state, bound)
        gap /= max(1.0, abs(objective - reference))
        if gap <= most_gap and residual <= max(tol, 1e-12):
            return n_steps, np.int64(CONVERGED)
        if gap <= _NEAR and most_gap < _NEAR:
            break
        if not gap < _STALLED * last:
            if ease >= most_ease:
                break
            ease = min(2.0 * ease, most_ease)
            _aim(lanes, tables, scores, ease * step)
        last = gap
    return n_steps, np.int64(NOT_CONVERGED)
