"""Decomposition of a chain's flow into paths, the structures of the solution.

Used by `choice.py`.
"""

import numpy as np
from numba import types

from ...._core.jit import FLOATS, FLOATS_OUT, INTS, PARTS, PARTS_2D_OUT, copy_into, entry, kernel

# Largest flow that counts as rounding error.
_NOTHING = 1e-12
_FEW_PATHS = 32  # space for paths at first; it is doubled if there are more


@kernel
def _grow(paths, weights):
    """Return copies of paths and weights with space for twice as many."""
    more_paths = np.empty((2 * paths.shape[0], paths.shape[1]), np.int32)
    more_weights = np.empty(2 * weights.shape[0])
    for k in range(paths.shape[0]):
        copy_into(more_paths[k], paths[k])
    copy_into(more_weights, weights)
    return more_paths, more_weights


@kernel
def _couple_steps(u):
    """Return paths with the marginals `u` (T, M) of independent steps, and their weights.

    Each path takes, in every step, the state with the largest remaining weight. Its weight is the smallest of these.
    It is at least 1 / M of all that remains, so that many steps do not need many paths.
    """
    n_steps, n_states = u.shape
    paths = np.empty((_FEW_PATHS, n_steps), np.int32)
    weights = np.empty(_FEW_PATHS)
    left = u.copy()
    k = np.int64(0)
    while True:
        if k == weights.shape[0]:
            paths, weights = _grow(paths, weights)
        weight = np.inf
        for t in range(n_steps):
            state = np.int64(0)
            for i in range(1, n_states):
                state = i if left[t, i] > left[t, state] else state
            paths[k, t] = state
            weight = min(weight, left[t, state])
        if weight <= _NOTHING:
            return paths[:k], weights[:k]
        for t in range(n_steps):
            left[t, paths[k, t]] -= weight
        weights[k] = weight
        k += 1


@kernel
def _widest_path(n_steps, n_states, nodes, parts, flow, width, arc):
    """Find the path whose smallest flow is largest; return its last state and that flow.

    ``width`` (T, M) gets the largest flow that reaches each node, and ``arc`` (T, M) the last arc of that path.

    Parameters
    ----------
    n_steps, n_states : int
    nodes, parts, flow : arrays of shape (n_arcs,)
        First node, transition and flow of each arc, step by step.
    width, arc : arrays of shape (n_steps, n_states)
        Get the largest flow that reaches each node, and the last arc of that path.
    """
    for t in range(n_steps):
        for i in range(n_states):
            width[t, i] = np.inf if t == 0 else 0.0
            arc[t, i] = -1
    for a in range(nodes.shape[0]):
        t, i, j = nodes[a] // n_states, nodes[a] % n_states, parts[a] % n_states
        through = min(width[t, i], flow[a])
        if through > width[t + 1, j]:
            width[t + 1, j], arc[t + 1, j] = through, a
    last = np.int64(0)
    for i in range(n_states):
        if width[n_steps - 1, i] > width[n_steps - 1, last]:
            last = i
    return last, width[n_steps - 1, last]


@kernel
def _take_paths(n_steps, n_states, nodes, parts, flow):
    """Decompose a flow along arcs, listed step by step, into paths, the widest first; return them and their weights.

    Parameters
    ----------
    n_steps, n_states, nodes, parts, flow
        As in `_widest_path`.
    """
    width = np.empty((n_steps, n_states))
    arc = np.empty((n_steps, n_states), np.int64)
    paths = np.empty((_FEW_PATHS, n_steps), np.int32)
    weights = np.empty(_FEW_PATHS)
    left = flow.copy()
    k = np.int64(0)
    while True:
        if k == weights.shape[0]:
            paths, weights = _grow(paths, weights)
        state, weight = _widest_path(n_steps, n_states, nodes, parts, left, width, arc)
        if weight <= _NOTHING:
            return paths[:k], weights[:k]
        for t in range(n_steps - 1, -1, -1):
            paths[k, t] = state
            if t > 0:
                a = arc[t, state]
                left[a] -= weight
                state = nodes[a] % n_states
        weights[k] = weight
        k += 1


@entry(types.Tuple((PARTS_2D_OUT, FLOATS_OUT))(INTS, FLOATS, PARTS, PARTS, FLOATS))
def flow_paths(dims, marginals, slots, parts, weights):
    """Return paths (k, T) and their probabilities whose mixture is a flow, as `_numerics.facets` describes it.

    Every path uses up an arc (or a node, if steps are independent), so there are at most as many paths. Their unary
    parts are affinely independent if the marginals determine the flow.
    """
    n_steps = dims[0]
    n_states = dims[1]
    n_arcs = np.int64(0)
    while n_arcs < slots.shape[0] and slots[n_arcs] >= 0:
        n_arcs += 1
    if n_arcs == 0:
        paths, found = _couple_steps(marginals.copy().reshape((n_steps, n_states)))
    else:
        paths, found = _take_paths(n_steps, n_states, slots[:n_arcs], parts[:n_arcs], weights[:n_arcs])
    total = 0.0
    for s in range(found.shape[0]):
        total += found[s]
    for s in range(found.shape[0]):
        found[s] /= total
    return paths.copy(), found.copy()
