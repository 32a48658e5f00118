"""The primal-dual method [1]_: cheap steps to the neighbourhood of a solution, without linear systems.

If a small gap suffices, its result is the solution. Otherwise, Newton's method needs few steps from there. A step moves
the messages by the differences between the marginals of nodes and tables, with the nodes' marginals computed exactly
for the moved messages. Then it moves the joint marginals of the tables along the messages, extrapolated by one move.

.. [1] Chambolle and Pock. A first-order primal-dual algorithm for convex problems with applications to imaging. Journal
   of Mathematical Imaging and Vision 40, 2011.

Used by `batch.py`.
"""

from collections import namedtuple

import numpy as np

from ..._core.jit import copy_into, kernel
from ..rows import CONVERGED, NOT_CONVERGED
from .certificate import certify_tables
from .state import largest_finite, pass_messages, to_simplex

_LANES = 16  # edges that are moved together, one in each lane of vector instructions
_STEP = 0.3  # step size of the tables, if their largest score is at most _SIZE; otherwise it is inversely proportional
_SIZE = 1.5
# The step size of the messages is 1 / (step size of the tables * _EASE). The method converges surely if _EASE is twice
# the number of values, and usually with less, because few cells are in use. _EASE is doubled when the gap stalls.
_EASE = 8.0
_AT_ONCE = 25  # steps between two computations of the gap
_NEAR = 1e-4  # gap below which Newton's method is faster, unless the user's tolerance is larger
_MAX_STEPS, _MAX_ROUGH_STEPS = 400, 4000  # maximum numbers of steps: before Newton's method, for a large tolerance
_STALLED = 0.95  # the gap stalls if it is multiplied by more than this in _AT_ONCE steps

# Block k contains 16 edges from edge ``16 k``, one in each lane. In `joint` and `table`, row x and column y of its
# tables begin at ``cells[k] + 16 (widths[k] x + y)``. In `messages`, and in `sums` (the row and column sums of the
# joint marginals), the value x of the first nodes begins at ``ends[k] + 16 x``, and the value y of the second nodes at
# ``ends[k] + 16 (widths[k] + y)``. `degrees` are the numbers of edges of the nodes. The nodes' marginals are the
# projection of `target`. `ahead` is scratch for one block. Message k of a `TableArrays` is at ``message_indices[k]``,
# and cell c at ``cell_indices[c]``.
Lanes = namedtuple(
    "Lanes",
    [
        *("cells", "ends", "widths", "degrees", "joint", "table", "messages", "sums", "ahead", "target"),
        *("message_indices", "cell_indices"),
    ],
)


@kernel
def new_lanes(tables):
    """Return the arrays for the edges of a graph."""
    n_edges = tables.ends.shape[0]
    n_blocks = (n_edges + _LANES - 1) // _LANES
    cells = np.zeros(n_blocks + 1, np.int64)
    ends = np.zeros(n_blocks + 1, np.int64)
    widths = np.zeros(n_blocks, np.int64)
    degrees = np.zeros(tables.order.shape[0])
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
    message_indices = np.empty(tables.messages[-1], np.int64)
    cell_indices = np.empty(tables.cells[-1], np.int64)
    for e in range(n_edges):
        k, lane = e // _LANES, e % _LANES
        start, n, cell = tables.messages[e], (tables.messages[e + 1] - tables.messages[e]) // 2, tables.cells[e]
        for x in range(n):
            message_indices[start + x] = ends[k] + lane + _LANES * x
            message_indices[start + n + x] = ends[k] + lane + _LANES * (widths[k] + x)
            for y in range(n):
                cell_indices[cell + n * x + y] = cells[k] + lane + _LANES * (widths[k] * x + y)
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
        message_indices,
        cell_indices,
    )


@kernel
def _fill_lanes(lanes, tables, additional, messages, joint):
    """Copy tables, messages and joint marginals into the lanes; lanes without an edge have cells of -inf."""
    lanes.sums[:] = 0.0
    for k in range(messages.shape[0]):
        lanes.messages[lanes.message_indices[k]] = messages[k]
    for e in range(tables.ends.shape[0]):
        start, cell = tables.messages[e], tables.cells[e]
        n = (tables.messages[e + 1] - start) // 2
        for x in range(n):
            for y in range(n):
                lanes.table[lanes.cell_indices[cell]] = additional[cell]
                lanes.joint[lanes.cell_indices[cell]] = joint[cell]
                lanes.sums[lanes.message_indices[start + x]] += joint[cell]
                lanes.sums[lanes.message_indices[start + n + y]] += joint[cell]
                cell += 1


@kernel
def _read_lanes(lanes, tables, messages, joint):
    """Write messages and joint marginals in the order of `TableArrays`."""
    for k in range(messages.shape[0]):
        messages[k] = lanes.messages[lanes.message_indices[k]]
    for cell in range(tables.cells[0], tables.cells[-1]):
        joint[cell] = lanes.joint[lanes.cell_indices[cell]]


@kernel(fast_sums=True, no_nans=True)
def _move_cells(joint, table, ahead, sums, step, n):
    """Move the joint marginals of a block; set their row and column sums.

    Parameters
    ----------
    joint, table : arrays of shape (16 * n * n,)
        Joint marginals and scores of the block.
    ahead, sums : arrays of shape (32 * n,)
        Extrapolated messages, and the sums.
    step : float
        Step size.
    n : int
        Number of values.
    """
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
    """Move the messages of a block; `ahead` has the marginals of their nodes, and gets the extrapolated messages."""
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
    """Add the messages and marginals of the edges of block k to the target of the nodes."""
    start, stop = _messages_of(tables, k)
    for message in range(start, stop):
        slot = lanes.message_indices[message]
        lanes.target[tables.values[message]] += lanes.messages[slot] + lanes.sums[slot] / pace


@kernel
def _look_up(lanes, tables, k, u):
    """Write the marginals of the nodes of block k to `ahead`; lanes without an edge get zeros."""
    lanes.ahead[:] = 0.0
    start, stop = _messages_of(tables, k)
    for message in range(start, stop):
        lanes.ahead[lanes.message_indices[message] - lanes.ends[k]] = u[tables.values[message]]


@kernel
def _aim(lanes, tables, scores, pace):
    """Set the target of the nodes."""
    for i in range(scores.shape[0]):
        lanes.target[i] = scores[i]
    for k in range(lanes.widths.shape[0]):
        _aim_block(lanes, tables, k, pace)


@kernel
def _take_steps(lanes, tables, scores, u, step, pace):
    """Take `_AT_ONCE` steps.

    Parameters
    ----------
    lanes : Lanes
    tables : TableArrays
    scores, u : arrays of shape (n_variables,)
        Scores, and the marginals, which are overwritten.
    step : float
        Step size of the tables.
    pace : float
        Inverse step size of the messages.
    """
    for _ in range(_AT_ONCE):
        for i in range(tables.order.shape[0]):
            weight = 1.0 / (1.0 + lanes.degrees[i] / pace)
            for x in range(tables.nodes[i], tables.nodes[i + 1]):
                lanes.target[x] *= weight
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
    """Approach a solution from the messages of `state` and the joint marginals `before`; both are changed.

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
        See `solve_tables`.
    limits : int array
        There are no steps if the first entry is 0.

    Returns
    -------
    n_steps, status : int
    """
    (scores, additional), (tol, max_gap) = problem, tols
    size = largest_finite(additional)
    step = _STEP * min(1.0, _SIZE / max(size, 1e-100))
    ease = _EASE
    last = np.inf
    n_steps = np.int64(0)
    most_ease = 2.0
    for k in range(lanes.widths.shape[0]):
        most_ease = max(most_ease, 2.0 * lanes.widths[k])
    _fill_lanes(lanes, tables, additional, state.messages, before)
    _aim(lanes, tables, scores, ease * step)
    max_steps = _MAX_STEPS if max_gap < _NEAR else _MAX_ROUGH_STEPS
    while n_steps < max_steps and limits[0] > 0:
        _take_steps(lanes, tables, scores, state.u, step, ease * step)
        n_steps += _AT_ONCE
        _read_lanes(lanes, tables, state.messages, before)
        copy_into(state.joint, before)
        bound = pass_messages(tables, scores, state)
        objective, gap, residual = certify_tables(tables, scores, additional, state, bound)
        gap /= max(1.0, abs(objective - reference))
        if gap <= max_gap and residual <= max(tol, 1e-12):
            return n_steps, np.int64(CONVERGED)
        if gap <= _NEAR and max_gap < _NEAR:
            break
        if not gap < _STALLED * last:
            if ease >= most_ease:
                break
            ease = min(2.0 * ease, most_ease)
            _aim(lanes, tables, scores, ease * step)
        last = gap
    return n_steps, np.int64(NOT_CONVERGED)
