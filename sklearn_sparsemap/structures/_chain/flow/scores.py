"""The scores of a chain, and where its additional scores are."""

import numpy as np

from ...._core.jit import kernel
from ...._core.lanes import padded

# The layouts of LinearChain.
NO_TRANSITIONS, STATIONARY = 0, 1


@kernel
def part_of(dims, t, i, j):
    """Return the additional part of a transition from state i of step t to state j of the next."""
    n_states = dims[1]
    first = 0 if dims[2] == STATIONARY else t * n_states * n_states
    return first + i * n_states + j


@kernel
def first_of_ends(dims):
    """Return the beginning of the start scores, and of the end scores, in the additional scores."""
    n_steps, n_states, layout = dims[0], dims[1], dims[2]
    n_transitions = 0
    if layout != NO_TRANSITIONS:
        n_transitions = n_states * n_states * (1 if layout == STATIONARY else n_steps - 1)
    return n_transitions, n_transitions + n_states * dims[3]


@kernel
def node_scores(scores, additional, dims):
    """Return the scores of the nodes (T, P), including the start and end scores."""
    n_steps, n_states = dims[0], dims[1]
    nodes = np.zeros((n_steps, padded(n_states)))
    for t in range(n_steps):
        for i in range(n_states):
            nodes[t, i] = scores[t * n_states + i]
    start, end = first_of_ends(dims)
    for i in range(n_states):
        if dims[3]:
            nodes[0, i] += additional[start + i]
        if dims[4]:
            nodes[n_steps - 1, i] += additional[end + i]
    return nodes
