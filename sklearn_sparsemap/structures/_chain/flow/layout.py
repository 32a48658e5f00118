"""Flat arrays of chains whose steps have different numbers of states."""

from collections import namedtuple

import numpy as np

from ...._core.jit import kernel
from ...._core.lanes import padded

# Step t has counts[t] states. Its nodes begin at nodes[t], the arcs to the next step at arcs[t], and a matrix of its
# states at squares[t]; the last entry of each is the length of a flat array. See the package's docstring.
Layout = namedtuple("Layout", ["counts", "nodes", "arcs", "squares"])


@kernel
def new_layout(counts):
    """Return the layout of steps with these numbers of states."""
    n_steps = counts.shape[0]
    nodes, arcs, squares = np.zeros((3, n_steps + 1), np.int64)
    for t in range(n_steps):
        width = padded(counts[t])
        nodes[t + 1] = nodes[t] + width
        squares[t + 1] = squares[t] + counts[t] * width
        arcs[t + 1] = arcs[t]
        if t < n_steps - 1:
            arcs[t + 1] += counts[t] * padded(counts[t + 1])
    return Layout(counts, nodes, arcs, squares)


@kernel
def width_of(layout, t):
    """Return the padded number of states of a step."""
    return layout.nodes[t + 1] - layout.nodes[t]


@kernel
def into(layout, t):
    """Return where the potentials of the flow into step t begin."""
    return 2 * layout.nodes[t]


@kernel
def out_of(layout, t):
    """Return where the potentials of the flow out of step t begin."""
    return layout.nodes[t] + layout.nodes[t + 1]


@kernel
def arc_of(layout, t, i, j):
    """Return the place of the arc from node i of step t to node j of the next step."""
    return layout.arcs[t] + i * width_of(layout, t + 1) + j
