"""Samples of the Gibbs distribution of a chain: backward messages, then one state after the other.

Used by `structures/_sequence_budget` and `structure.py`.
"""

import numpy as np
from numba import types

from ..._core.jit import FLOATS, FLOATS_OUT, INTS, INTS_2D_OUT, INTS_OUT, entry
from .._sums import log_sum
from .counts import ANY_COUNT
from .log_sums import index_of_move
from .map import NO_TRANSITIONS, end_indices_of

_MOST_NOISE = 1_000_000  # random numbers that are drawn together; they take 8 MB


@entry(types.void(FLOATS, FLOATS, INTS, INTS, FLOATS_OUT))
def _fill_messages(scores, additional, dims, counted, messages):
    """Fill in the log-sums over the rests of paths, by their first state and by how many counted steps they may have.

    Parameters
    ----------
    scores, additional, dims : arrays
        As of the oracle of a chain.
    counted : int array
        See `counts.py`.
    messages : array of shape (n_steps * (counted[2] + 1) * n_states,)
        By step, number of counted steps left, and state. They include end scores, but no start scores.
    """
    n_steps, m, counted_state, n_counts = dims[0], dims[1], counted[0], counted[2] + 1
    _, at_end = end_indices_of(additional, dims)
    size = n_counts * m
    moves = np.zeros(m)
    for t in range(n_steps - 1, -1, -1):
        for j in range(m):
            if t + 1 < n_steps and dims[2] != NO_TRANSITIONS:
                first = index_of_move(dims, t + 1, j, np.int64(0))
                for k in range(m):
                    moves[k] = additional[first + k]
            for left in range(n_counts):
                rest = left - (j == counted_state)
                at, total = t * size + left * m + j, -np.inf
                if rest >= 0 and t + 1 < n_steps:
                    after = (t + 1) * size + rest * m
                    total = scores[t * m + j] + log_sum(moves, messages[after : after + m])
                elif 0 <= rest <= counted[2] - counted[1]:
                    total = scores[t * m + j] + (additional[at_end + j] if dims[4] else 0.0)
                messages[at] = total


@entry(types.void(FLOATS, INTS, INTS, FLOATS, FLOATS, types.int64, INTS_OUT, INTS_2D_OUT))
def _draw_steps(additional, dims, counted, messages, noise, start, left, paths):
    """Draw the states of some consecutive steps of all paths, by the Gumbel-max trick.

    Parameters
    ----------
    additional, dims, counted, messages : arrays
        As of `_fill_messages`.
    noise : array of shape (n_drawn_steps * n_paths * n_states,)
        Gumbel noise.
    start : int
        The first step to draw. The states before it are drawn.
    left : int array of shape (n_paths,)
        How many counted steps the rest of each path may have; updated.
    paths : int array of shape (n_paths, n_steps)
        Gets the states.
    """
    m, n_paths = dims[1], paths.shape[0]
    size = (counted[2] + 1) * m
    at_start = end_indices_of(additional, dims)[0]
    for t in range(start, start + noise.shape[0] // (n_paths * m)):
        for i in range(n_paths):
            message, own = t * size + left[i] * m, ((t - start) * n_paths + i) * m
            best = -np.inf
            state = np.int64(0)
            for j in range(m):
                logit = messages[message + j] + noise[own + j]
                if t == 0 and dims[3]:
                    logit += additional[at_start + j]
                elif t > 0 and dims[2] != NO_TRANSITIONS:
                    logit += additional[index_of_move(dims, t, paths[i, t - 1], j)]
                if logit > best:
                    best, state = logit, j
            paths[i, t] = state
            left[i] -= state == counted[0]


def draw_paths(sample, n, rng, counted=ANY_COUNT):
    """Draw paths: compute backward messages, then draw each state given the previous one.

    For `counted`, see `counts.py`. Messages are by the count that the rest of the path may still have.

    Returns
    -------
    paths : int array of shape (n, n_steps)
    """
    n_steps, m = sample.shape
    counted = np.array(counted)
    dims = sample.dims[:5].copy()
    messages = np.empty(n_steps * (counted[2] + 1) * m)
    _fill_messages(sample.scores, sample.additional, dims, counted, messages)
    paths = np.empty((n, n_steps), np.int64)
    left = np.full(n, counted[2])
    n_together = max(1, _MOST_NOISE // (n * m))
    for start in range(0, n_steps, n_together):
        noise = rng.gumbel(size=min(n_together, n_steps - start) * n * m)
        _draw_steps(sample.additional, dims, counted, messages, noise, start, left, paths)
    return paths
