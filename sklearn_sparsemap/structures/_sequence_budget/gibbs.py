"""Marginals of sequences with a limited count: forward-backward over pairs of a state and a count.

As in `structures/_chain/gibbs.py`, the fast method multiplies exponentiated scores, and gives up if a message might
underflow. All messages count here: a state with a small count can become the only one that the rest of the path allows.
Tables are those of `map.py`, but with zeros after the largest count.

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, kernel
from ..._core.lanes import WIDTH, load, spread, store, total
from .._chain.gibbs import SMALLEST, copy_ends, has_small, prepare, sum_over_paths
from .._chain.log_sums import index_of_move, sum_in_logs
from .._chain.map import NO_TRANSITIONS
from .._exp import exponentiate
from .map import FEWEST, MOST, STATE, stride_of


@kernel
def _normalise(dims, now):
    """Set the entries of a step after the largest count to 0, and divide the others by their sum, which is returned.

    The sum is NaN if an entry is too small to continue.
    """
    stride = stride_of(dims)
    norm = 0.0
    for j in range(dims[1]):
        for k in range(dims[MOST] + 1, stride):
            now[j * stride + k] = 0.0
    for k in range(now.shape[0]):
        norm += now[k]
    if norm == 0.0:
        return norm
    for k in range(now.shape[0]):
        now[k] /= norm
    return np.nan if has_small(now) else norm


@kernel
def _forward(dims, states, moves, forward, norms):
    """Fill in the products over all paths to each state and count; return the log of their sum, or NaN."""
    n_states = dims[1]
    state = dims[STATE]
    stride = stride_of(dims)
    size, log_sum = n_states * stride, 0.0
    forward[: size + 1] = 0.0
    for j in range(n_states):
        forward[j * stride + (j == state)] = states[j]
    for t in range(dims[0]):
        # As in `map.py`, a row that moves by one entry writes to the next row, which is therefore filled later.
        for j in range(n_states if t > 0 else 0):
            now, before = (t * n_states + j) * stride, (t - 1) * size
            for k in range(0, stride, WIDTH):
                arrived = spread(0.0)
                for i in range(n_states):
                    arrived += load(forward, before + i * stride + k) * moves[index_of_move(dims, t, i, j)]
                store(forward, now + (j == state) + k, arrived * states[t * n_states + j])
            if j == state:
                forward[now] = 0.0
        norm = _normalise(dims, forward[t * size : (t + 1) * size])
        if not norm > 0.0:
            return -np.inf if norm == 0.0 else norm
        norms[t] = 1.0 / norm
        log_sum += np.log(norm)
    return log_sum


@kernel
def _depart(dims, t, moves, before, message, backward, counts):
    """Pass the message of step t back to step t - 1, and add the expected counts of its transitions.

    Parameters
    ----------
    dims : int array
        As of the oracle.
    t : int
    moves : array
        Exponentials of the scores of the transitions.
    before : array
        Forward messages of step t - 1.
    message : array
        Backward message of step t, times the factors of its states.
    backward : array
        Gets the backward message of step t - 1.
    counts : array like `moves`
        Increased by the expected counts.
    """
    n_states = dims[1]
    stride = stride_of(dims)
    for i in range(n_states):
        backward[i * stride : (i + 1) * stride] = 0.0
        for j in range(n_states):
            place = index_of_move(dims, t, i, j)
            move = moves[place]
            both = spread(0.0)
            into = j * stride + (j == dims[STATE])
            for k in range(0, stride, WIDTH):
                after = load(message, into + k) * move
                both += load(before, i * stride + k) * after
                store(backward, i * stride + k, load(backward, i * stride + k) + after)
            if dims[2] != NO_TRANSITIONS:
                counts[place] += total(both)


@kernel
def _multiply(dims, states, moves, counts, scratch):
    """Forward-backward on the exponentials of `states` and `moves`; `states` becomes the marginals.

    Returns the log of the sum over all allowed paths, or NaN if a factor is too small to continue.
    """
    n_steps = dims[0]
    n_states = dims[1]
    stride = stride_of(dims)
    size = n_states * stride
    exponentiate(states, scratch)
    exponentiate(moves, scratch)
    forward, rest = scratch[: n_steps * size + 1], scratch[n_steps * size + 1 :]
    # In a row of the message that moves by one entry, the first entry after the row is read, too.
    message, backward, norms = rest[: size + 1], rest[size + 1 : 2 * size + 1], rest[2 * size + 1 :]
    log_sum = _forward(dims, states, moves, forward, norms)
    if not log_sum > -np.inf:
        return log_sum
    last, allowed = forward[(n_steps - 1) * size : n_steps * size], 0.0
    message[size] = 0.0
    for j in range(n_states):
        for k in range(stride):
            backward[j * stride + k] = 1.0 if dims[FEWEST] <= k <= dims[MOST] else 0.0
            allowed += last[j * stride + k] * backward[j * stride + k]
    if allowed == 0.0:
        return -np.inf
    for k in range(size):
        backward[k] /= allowed
    for t in range(n_steps - 1, -1, -1):
        now = forward[t * size : (t + 1) * size]
        for j in range(n_states):
            here, marginal = states[t * n_states + j] * norms[t], 0.0
            for k in range(j * stride, (j + 1) * stride):
                # A count that no path reaches gets no message, because its message, unlike all others, could overflow.
                back = backward[k] if now[k] > 0.0 else 0.0
                message[k] = here * back
                marginal += now[k] * back
            states[t * n_states + j] = marginal
        if t > 0:
            _depart(dims, t, moves, forward[(t - 1) * size : t * size], message, backward, counts)
    return log_sum + np.log(allowed)


@kernel
def _read(scores, additional, dims, states, moves):
    """Fill `states` and `moves` with the scores, as `prepare` does; without transitions, moves are zeros."""
    moves[:] = 0.0
    n_transitions = additional.shape[0] - dims[1] * (dims[3] + dims[4])
    return prepare(scores, additional, dims, states, moves[:n_transitions])


@as_oracle
def marginals_within(scores, additional, dims, work, slots, additional_slots):
    """Compute the expected counts of states and of additional parts; return the log-partition."""
    n_states, n_scores, n_keys = dims[1], scores.shape[0], scores.shape[0] + additional.shape[0]
    if dims[FEWEST] == 0 and dims[MOST] == dims[0]:
        return sum_over_paths(scores, additional, dims, work)
    states, expected = work[:n_scores], work[n_scores:n_keys]
    n_moves = max(additional.shape[0] - n_states * (dims[3] + dims[4]), n_states * n_states)
    moves, scratch = work[n_keys : n_keys + n_moves], work[n_keys + n_moves :]
    expected[:] = 0.0
    shift, _, lowest = _read(scores, additional, dims, states, moves)
    if shift == -np.inf:
        return shift
    log_sum = np.nan
    if lowest >= np.log(SMALLEST):
        log_sum = _multiply(dims, states, moves, expected, scratch)
    if np.isnan(log_sum):
        _read(scores, additional, dims, states, moves)
        counted = dims[STATE], dims[FEWEST], dims[MOST]
        log_sum = sum_in_logs(dims, states, moves, expected, counted, stride_of(dims), scratch)
    copy_ends(dims, states, expected)
    return shift + log_sum
