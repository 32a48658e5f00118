"""The state of the solvers of tables, and the function of the messages that they minimise.

Conventions of this folder: `tables` is a `TableArrays`. A message is the part of an edge in the score of a value of one
of its nodes. With messages a to the first and b to the second node, the dual of LP-SparseMAP is ::

    min  sum_i max_{u in simplex} <s_i + messages to i, u> - |u|^2 / 2     with   T_e[x, y] <= a_e[x] + b_e[y],

and the multipliers of the constraints are the tables P_e of joint marginals.

Used by `augmented.py`, `batch.py`, `derivative.py` and `primal_dual.py`.
"""

from collections import namedtuple

import numpy as np

from ..._core.jit import copy_into, kernel

# `messages`; `z`, the scores of the variables plus the messages to them; their marginals `u`; the `joint` marginals of
# all cells; and the `gradient` with respect to the messages: the marginals of the nodes minus those of the tables.
State = namedtuple("State", ["messages", "z", "u", "joint", "gradient"])


@kernel
def new_state(tables):
    """Return a state with messages of zero."""
    n, n_messages = tables.nodes[-1], tables.messages[-1]
    return State(np.zeros(n_messages), np.zeros(n), np.zeros(n), np.zeros(tables.cells[-1]), np.zeros(n_messages))


@kernel
def add_messages(tables, scores, state):
    """Set `z` to the scores plus the messages."""
    copy_into(state.z, scores)
    for k in range(state.messages.shape[0]):
        state.z[tables.values[k]] += state.messages[k]


@kernel
def pass_messages(tables, scores, state):
    """Set `z` and `u` from scores and messages; return the nodes' part of the dual."""
    z, u = state.z, state.u
    add_messages(tables, scores, state)
    value = 0.0
    for i in range(tables.order.shape[0]):
        value += to_simplex(z, u, tables.nodes[i], tables.nodes[i + 1])
    return value


@kernel
def to_simplex(z, u, start, stop):
    """Project the entries start..stop of `z` onto the simplex, into `u`; return the value of SparseMAP."""
    highest = z[start]
    for k in range(start + 1, stop):
        highest = max(highest, z[k])
    # Newton's method from below for the threshold, relative to the highest score.
    threshold, count = -1.0, stop - start + 1
    while True:
        total, above = 0.0, 0
        for k in range(start, stop):
            if z[k] - highest > threshold:
                total += z[k] - highest
                above += 1
        # The count decreases, except by rounding.
        if above >= count:
            break
        count = above
        threshold = (total - 1.0) / count
    value = 0.0
    for k in range(start, stop):
        marginal = z[k] - highest - threshold
        u[k] = marginal if marginal > 0.0 else 0.0
        if marginal > 0.0:
            value += (z[k] - highest) * marginal - 0.5 * marginal * marginal
    return value + highest


@kernel(fast_sums=True, no_nans=True)
def _fill_row(before, table, to_second, base, sigma, joint, columns):
    """Set one row of the joint marginals; return the sums of its cells and of their squares.

    Parameters
    ----------
    before, table : arrays of shape (n,)
        The row of the last joint marginals and of the scores.
    to_second : array of shape (n,)
        Messages to the second node.
    base : float
        The message to the first node.
    sigma : float
    joint, columns : arrays of shape (n,)
        The row, and column sums, to which it is added.
    """
    total, squares = 0.0, 0.0
    for y in range(table.shape[0]):
        p = max(before[y] + sigma * (table[y] - base - to_second[y]), 0.0)
        joint[y] = p
        columns[y] += p
        total += p
        squares += p * p
    return total, squares


@kernel
def evaluate(tables, scores, additional, before, sigma, state):
    """Compute the augmented dual at the messages, its gradient, and the joint marginals; return its value.

    The joint marginals are ``max(0, before + sigma (T - a - b))``.

    Parameters
    ----------
    tables : TableArrays
    scores, additional : arrays of shape (n_variables,) and (n_additional,)
    before : array of shape (n_additional,)
        Joint marginals of the last step.
    sigma : float
    state : State
        Contains the messages; the other arrays are set.
    """
    value = pass_messages(tables, scores, state)
    squares = 0.0
    messages, joint, gradient = state.messages, state.joint, state.gradient
    for e in range(tables.ends.shape[0]):
        start, cell = tables.messages[e], tables.cells[e]
        n = (tables.messages[e + 1] - start) // 2
        first, second = tables.nodes[tables.ends[e, 0]], tables.nodes[tables.ends[e, 1]]
        columns = gradient[start + n : start + 2 * n]
        columns[:] = 0.0
        to_second = messages[start + n : start + 2 * n]
        for x in range(n):
            stop, base = cell + n, messages[start + x]
            total, row_squares = _fill_row(
                before[cell:stop], additional[cell:stop], to_second, base, sigma, joint[cell:stop], columns
            )
            gradient[start + x] = state.u[first + x] - total
            squares += row_squares
            cell = stop
        for y in range(n):
            columns[y] = state.u[second + y] - columns[y]
    return value + squares / (2.0 * sigma)


@kernel
def largest_move(joint, before):
    """Return the largest absolute difference of two arrays."""
    largest = 0.0
    for k in range(joint.shape[0]):
        largest = max(largest, abs(joint[k] - before[k]))
    return largest


@kernel
def largest(array):
    """Return the largest absolute value."""
    largest = 0.0
    for i in range(array.shape[0]):
        largest = max(largest, abs(array[i]))
    return largest


@kernel
def largest_finite(scores):
    """Return the largest finite absolute value."""
    largest = 0.0
    for k in range(scores.shape[0]):
        if abs(scores[k]) < np.inf:
            largest = max(largest, abs(scores[k]))
    return largest
