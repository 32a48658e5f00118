"""Forward-backward on logarithms, for scores of any range.

It runs over pairs of a state and a count of the steps so far in one state, for sequences with a budget
(`structures/_sequence_budget`). A plain chain counts no state. `counted` is a triple: the
state, and the smallest and the largest allowed number of steps in it. Tables have ``stride > counted[2]`` entries for
each step and state, one for each count.

Used by `structures/_sequence_budget` and `gibbs.py`.
"""

import numpy as np

from ..._core.jit import copy_into, kernel
from ..._numerics.sparsemax import highest
from .._sums import softmax
from .map import NO_TRANSITIONS, PER_STEP

# All paths have a count of zero, which is allowed.
ANY_COUNT = -1, 0, 0


@kernel
def index_of_move(dims, t, i, j):
    """Return the place, among the transitions, of that from state i at step t - 1 to state j."""
    first = (t - 1) * dims[1] * dims[1] if dims[2] == PER_STEP else 0
    return first + i * dims[1] + j


@kernel(no_nans=True)
def shift_to_zero(values):
    """Subtract the maximum; return it, the lowest shifted value, and the lowest shifted value that is not -inf."""
    top = -np.inf
    for i in range(values.shape[0]):
        top = max(top, values[i])
    lowest = lowest_finite = 0.0
    if top > -np.inf:
        for i in range(values.shape[0]):
            shifted = values[i] - top
            values[i] = shifted
            lowest = min(lowest, shifted)
            lowest_finite = min(lowest_finite, shifted if shifted > -np.inf else 0.0)
    return top, lowest, lowest_finite


@kernel
def _predecessors(dims, moves, forward, t, j, count, stride, logs):
    """Write the log-sums over the paths to state j of step t by way of each state of the step before.

    Parameters
    ----------
    dims, moves, forward, t, j, stride
        As in `_sum_forward`.
    count : int
        The count before step t.
    logs : array of shape (n_states,)
        Gets the sums, minus their maximum.

    Returns
    -------
    top : float
        The maximum.
    """
    n_states = dims[1]
    first = index_of_move(dims, t, np.int64(0), j)
    before = forward[(t - 1) * n_states * stride + count : t * n_states * stride]
    for i in range(n_states):
        logs[i] = before[i * stride] + moves[first + i * n_states]
    top = highest(logs)
    if top > -np.inf:
        for i in range(n_states):
            logs[i] -= top
    return top


@kernel
def _sum_forward(dims, states, moves, counted, stride, forward, logs):
    """Fill in the log-sums over all paths to each state and count, with a maximum of 0 in each step; return the shift.

    Parameters
    ----------
    dims, states, moves, counted, stride
        As in `sum_in_logs`.
    forward : array of shape (n_steps * n_states * stride,)
    logs : array of shape (n_states,)
        Scratch space.
    """
    size, shift = dims[1] * stride, 0.0
    forward[:] = -np.inf
    for t in range(dims[0]):
        for j in range(dims[1]):
            own = states[t * dims[1] + j]
            counts_here = np.int64(j == counted[0])
            row = (t * dims[1] + j) * stride
            if t == 0:
                forward[row + counts_here] = own
                continue
            for k in range(counts_here, counted[2] + 1):
                top = _predecessors(dims, moves, forward, t, j, k - counts_here, stride, logs)
                if top > -np.inf:
                    forward[row + k] = top + softmax(logs) + own
        top, _, _ = shift_to_zero(forward[t * size : (t + 1) * size])
        shift += top
        if top == -np.inf:
            break
    return shift


@kernel
def sum_in_logs(dims, states, moves, counts, counted, stride, scratch):
    """Compute the marginals of all states and transitions; return the log of the sum over all allowed paths.

    The backward pass distributes the probability of each state and count over its predecessors, so that all numbers
    there are probabilities.

    Parameters
    ----------
    dims : int array
        As of the oracle of a chain.
    states : array of shape (n_steps * n_states,)
        Scores; overwritten with the marginals.
    moves : array
        Scores of the transitions.
    counts : array like `moves`
        The expected counts of the transitions are added. Not used if `dims` says that there are no transitions.
    counted : tuple of int
        The counted state, and the smallest and the largest allowed count.
    stride : int
    scratch : array
        At least ``(n_steps + 2) * n_states * stride + n_states`` numbers.
    """
    n_steps, n_states = dims[0], dims[1]
    size = n_states * stride
    forward, rest = scratch[: n_steps * size], scratch[n_steps * size :]
    now, before, shares = rest[:size], rest[size : 2 * size], rest[2 * size : 2 * size + n_states]
    shift = _sum_forward(dims, states, moves, counted, stride, forward, shares)
    if shift == -np.inf:
        return shift
    copy_into(now, forward[(n_steps - 1) * size :])
    for k in range(size):
        now[k] = now[k] if counted[1] <= k % stride <= counted[2] else -np.inf
    top, _, _ = shift_to_zero(now)
    if top == -np.inf:
        return top
    shift += top + softmax(now)
    for t in range(n_steps - 1, -1, -1):
        before[:] = 0.0
        for j in range(n_states):
            marginal = 0.0
            counts_here = np.int64(j == counted[0])
            for k in range(j * stride, (j + 1) * stride):
                marginal += now[k]
            states[t * n_states + j] = marginal
            for k in range(counts_here, counted[2] + 1 if t > 0 else 0):
                own = now[j * stride + k]
                if own > 0.0:
                    _predecessors(dims, moves, forward, t, j, k - counts_here, stride, shares)
                    softmax(shares)
                    first = index_of_move(dims, t, np.int64(0), j)
                    for i in range(n_states):
                        before[i * stride + k - counts_here] += own * shares[i]
                        if dims[2] != NO_TRANSITIONS:
                            counts[first + i * n_states] += own * shares[i]
        copy_into(now, before)
    return shift
