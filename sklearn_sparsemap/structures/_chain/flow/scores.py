"""A chain as a layered network, and the places of its additional scores.

Used by `solver.py`.
"""

from collections import namedtuple

import numpy as np

from ...._core.jit import kernel
from ...._core.lanes import padded
from ..map import NO_TRANSITIONS, STATIONARY, end_indices_of

# A chain of T steps with M states. ``scores`` (T P) are those of the nodes, with rows padded to P, and ``gains`` those
# of the arcs: M rows of P numbers for each step, or for all steps. Scores of forbidden nodes and arcs, and of the
# padding, are -inf. ``stride`` is the distance from the gains of a step to those of the next; ``scale`` is the standard
# deviation of all scores.
Chain = namedtuple("Chain", ["scores", "gains", "stride", "n_steps", "n_states", "width", "scale"])


@kernel
def part_of(dims, t, i, j):
    """Return the additional part of a transition from state i of step t to state j of the next."""
    n_states = dims[1]
    first = 0 if dims[2] == STATIONARY else t * n_states * n_states
    return first + i * n_states + j


@kernel
def _scale_of(values):
    """Return the standard deviation of all finite values."""
    total, squares, count = 0.0, 0.0, 0.0
    for value in values:
        if value > -np.inf:
            total += value
            count += 1.0
    mean = total / max(count, 1.0)
    for value in values:
        if value > -np.inf:
            squares += (value - mean) ** 2
    return np.sqrt(squares / max(count, 1.0))


@kernel
def _padded_rows(values, n_rows, n, fill):
    """Return flat rows of `n` numbers as rows that are padded with `fill`."""
    width = padded(n)
    rows = np.full(n_rows * width, fill)
    for r in range(n_rows):
        for i in range(n):
            rows[r * width + i] = values[r * n + i]
    return rows


@kernel
def new_chain(scores, additional, dims, fill):
    """Return the network of a chain, its padding filled with -inf, or 0 for a direction."""
    n_steps, n_states = dims[0], dims[1]
    nodes = _padded_rows(scores, n_steps, n_states, fill)
    width = padded(n_states)
    start, end = end_indices_of(additional, dims)
    for i in range(n_states):
        if dims[3]:
            nodes[i] += additional[start + i]
        if dims[4]:
            nodes[(n_steps - 1) * width + i] += additional[end + i]
    n_tables = 0
    if n_steps > 1 and dims[2] != NO_TRANSITIONS:
        n_tables = 1 if dims[2] == STATIONARY else n_steps - 1
    gains = _padded_rows(additional, n_tables * n_states, n_states, fill)
    stride = 0 if dims[2] == STATIONARY else n_states * width
    scale = max(max(_scale_of(nodes), _scale_of(gains)), 1e-12)
    return Chain(nodes, gains, stride, n_steps, n_states, width, scale)
