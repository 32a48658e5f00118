"""The scores of a chain, and where its additional scores are."""

import numpy as np

from ...._core.jit import kernel
from ...._core.lanes import padded
from ..map import STATIONARY, places_of_ends


@kernel
def part_of(dims, t, i, j):
    """Return the additional part of a transition from state i of step t to state j of the next."""
    n_states = dims[1]
    first = 0 if dims[2] == STATIONARY else t * n_states * n_states
    return first + i * n_states + j


@kernel
def node_scores(scores, additional, dims):
    """Return the scores of the nodes (T, P), including the start and end scores."""
    n_steps, n_states = dims[0], dims[1]
    nodes = np.zeros((n_steps, padded(n_states)))
    for t in range(n_steps):
        for i in range(n_states):
            nodes[t, i] = scores[t * n_states + i]
    start, end = places_of_ends(additional, dims)
    for i in range(n_states):
        if dims[3]:
            nodes[0, i] += additional[start + i]
        if dims[4]:
            nodes[n_steps - 1, i] += additional[end + i]
    return nodes
