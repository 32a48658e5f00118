"""What the solver of tables goes through: messages, and the function of them that it minimises.

Conventions of this folder: `tables` is a `TableArrays`. A message is by how much an edge raises the score of a value
of one of its nodes. With messages a to the first and b to the second node, the dual of LP-SparseMAP is ::

    min  sum_i max_{u in simplex} <s_i + messages to i, u> - |u|^2 / 2     with   T_e[x, y] <= a_e[x] + b_e[y],

and the multipliers of the constraints are the tables P_e of joint marginals.
"""

from collections import namedtuple

import numpy as np

from ..._core.jit import copy_into, kernel

# `messages`; the scores `z` of the variables with the messages, and the marginals `u` that they make; the `joint`
# marginals of all cells that the messages make, and the `gradient` with respect to the messages: by how much the
# marginals of the nodes are above those of the tables.
State = namedtuple("State", ["messages", "z", "u", "joint", "gradient"])


@kernel
def new_state(tables):
    """Make a state with no messages."""
    n, n_messages = tables.nodes[-1], tables.messages[-1]
    return State(np.zeros(n_messages), np.zeros(n), np.zeros(n), np.zeros(tables.cells[-1]), np.zeros(n_messages))


@kernel
def add_messages(tables, scores, state):
    """Set `z` to the scores with the messages."""
    copy_into(state.z, scores)
    for k in range(state.messages.shape[0]):
        state.z[tables.values[k]] += state.messages[k]


@kernel
def pass_messages(tables, scores, state):
    """Set `z` and `u` to what the messages make of the scores; return the nodes' part of the dual."""
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
    # Newton's method on the threshold, relative to the highest score, from below.
    threshold, count = -1.0, stop - start + 1
    while True:
        total, above = 0.0, 0
        for k in range(start, stop):
            if z[k] - highest > threshold:
                total += z[k] - highest
                above += 1
        # Rounding must not let it go up again.
        if above >= count:
            break
        count = above
        threshold = (total - 1.0) / count
    value = 0.0
    for k in range(start, stop):
        own = z[k] - highest - threshold
        u[k] = own if own > 0.0 else 0.0
        if own > 0.0:
            value += (z[k] - highest) * own - 0.5 * own * own
    return value + highest


@kernel(fast_sums=True, no_nans=True)
def _fill_row(before, table, to_second, base, sigma, joint, columns):
    """Set one row of the joint marginals; add it up by columns; return the sums of its cells and of their squares."""
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

    ``joint = max(0, before + sigma (T - a - b))``.
    """
    value, squares = pass_messages(tables, scores, state), 0.0
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
            total, own = _fill_row(
                before[cell:stop], additional[cell:stop], to_second, base, sigma, joint[cell:stop], columns
            )
            gradient[start + x] = state.u[first + x] - total
            squares += own
            cell = stop
        for y in range(n):
            columns[y] = state.u[second + y] - columns[y]
    return value + squares / (2.0 * sigma)


@kernel
def largest_move(joint, before):
    """Return the largest difference of two tables of joint marginals."""
    found = 0.0
    for k in range(joint.shape[0]):
        found = max(found, abs(joint[k] - before[k]))
    return found


@kernel
def largest(array):
    """Return the largest absolute value."""
    found = 0.0
    for i in range(array.shape[0]):
        found = max(found, abs(array[i]))
    return found


@kernel
def largest_finite(scores):
    """Return the largest absolute value that is finite."""
    found = 0.0
    for k in range(scores.shape[0]):
        if abs(scores[k]) < np.inf:
            found = max(found, abs(scores[k]))
    return found
