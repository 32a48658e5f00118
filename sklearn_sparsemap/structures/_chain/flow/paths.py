"""Decomposition of a chain's flow into paths, the structures of the solution."""

import numpy as np
from numba import types

from ...._core.jit import FLOATS, FLOATS_OUT, INTS, PARTS, PARTS_2D_OUT, entry, kernel

# Largest flow that counts as rounding error.
_NOTHING = 1e-12


@kernel
def _couple_steps(u, paths, weights):
    """Write paths with the marginals `u` (T, M) of independent steps; return their number.

    Each path takes, in every step, the first state with remaining weight. Its weight is the smallest of these.
    """
    n_steps, n_states = u.shape
    here, left, k = np.zeros(n_steps, np.int64), u.copy(), np.int64(0)
    while k < weights.shape[0]:
        weight = np.inf
        for t in range(n_steps):
            while here[t] < n_states and left[t, here[t]] <= _NOTHING:
                here[t] += 1
            if here[t] == n_states:
                return k
            weight = min(weight, left[t, here[t]])
        for t in range(n_steps):
            paths[k, t] = here[t]
            left[t, here[t]] -= weight
        weights[k] = weight
        k += 1
    return k


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
            width[t, i], arc[t, i] = np.inf if t == 0 else 0.0, -1
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
def _take_paths(n_steps, n_states, nodes, parts, flow, paths, weights):
    """Decompose a flow along arcs, listed step by step, into paths, the widest first; return their number.

    Parameters
    ----------
    n_steps, n_states, nodes, parts, flow
        As in `_widest_path`.
    paths : int array of shape (n_paths, n_steps)
    weights : array of shape (n_paths,)
    """
    width, arc = np.empty((n_steps, n_states)), np.empty((n_steps, n_states), np.int64)
    left, k = flow.copy(), np.int64(0)
    while k < weights.shape[0]:
        state, weight = _widest_path(n_steps, n_states, nodes, parts, left, width, arc)
        if weight <= _NOTHING:
            return k
        for t in range(n_steps - 1, -1, -1):
            paths[k, t] = state
            if t > 0:
                a = arc[t, state]
                left[a] -= weight
                state = nodes[a] % n_states
        weights[k] = weight
        k += 1
    return k


@entry(types.Tuple((PARTS_2D_OUT, FLOATS_OUT))(INTS, FLOATS, PARTS, PARTS, FLOATS))
def flow_paths(dims, marginals, slots, parts, weights):
    """Return paths (k, T) and their probabilities whose mixture is a flow, as `_numerics.facets` describes it.

    Every path uses up an arc (or a node, if steps are independent), so there are at most as many paths. Their unary
    parts are affinely independent if the marginals determine the flow.
    """
    n_steps, n_states, n_arcs = dims[0], dims[1], np.int64(0)
    while n_arcs < slots.shape[0] and slots[n_arcs] >= 0:
        n_arcs += 1
    most = max(n_arcs, n_steps * n_states)
    paths, found = np.empty((most, n_steps), np.int32), np.empty(most)
    if n_arcs == 0:
        k = _couple_steps(marginals.copy().reshape((n_steps, n_states)), paths, found)
    else:
        k = _take_paths(n_steps, n_states, slots[:n_arcs], parts[:n_arcs], weights[:n_arcs], paths, found)
    total = 0.0
    for s in range(k):
        total += found[s]
    for s in range(k):
        found[s] /= total
    return paths[:k].copy(), found[:k].copy()
