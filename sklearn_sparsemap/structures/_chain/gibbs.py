"""Marginals of LinearChain: forward-backward. `structures/_sequence_budget/gibbs.py` calls parts of it, too.

The fast method multiplies exponentiated scores and normalises each step. If a relevant number might underflow, it gives
up, and the same recursion runs on logarithms.

Two rules decide this. If all transitions are allowed and within `NARROW` of each other, then so are the messages of
one step: a number that underflows belongs to a state that is worse than another one by more than any path can
compensate. Otherwise only exact zeros may vanish: all factors must be above `SMALLEST`, so that the product of any
three of them is a normal number.

Used by `structures/_sequence_budget`, `spans.py` and `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, copy_into, kernel
from .._exp import exponentiate
from .._sums import softmax
from .log_sums import ANY_COUNT, shift_to_zero, sum_in_logs
from .map import NO_TRANSITIONS, PER_STEP, STATIONARY, end_indices_of

NARROW = 150.0
SMALLEST = 1e-100


@kernel
def prepare(scores, additional, dims, states, moves):
    """Fill `states` and `moves` with all scores, shifted to a maximum of 0 in each step and each matrix.

    Returns the sum of the shifts (-inf if a step has no state or no transition), the lowest transition, and the lowest
    of all numbers that are not -inf.
    """
    n_steps, n_states = dims[0], dims[1]
    at_start, at_end = end_indices_of(additional, dims)
    last = (n_steps - 1) * n_states
    copy_into(states, scores)
    for j in range(n_states * dims[3]):
        states[j] += additional[at_start + j]
    for j in range(n_states * dims[4]):
        states[last + j] += additional[at_end + j]
    total = lowest = lowest_finite = 0.0
    for t in range(n_steps):
        top, _, low = shift_to_zero(states[t * n_states : (t + 1) * n_states])
        total += top
        lowest_finite = min(lowest_finite, low)
    block = n_states * n_states
    if n_steps > 1:
        copy_into(moves, additional[: moves.shape[0]])
        n_blocks = moves.shape[0] // block
        for t in range(n_blocks):
            top, low, low_finite = shift_to_zero(moves[t * block : (t + 1) * block])
            total += top * ((n_steps - 1) // n_blocks)
            lowest = min(lowest, low)
            lowest_finite = min(lowest_finite, low_finite)
    return total, lowest, lowest_finite


@kernel(fast_sums=True)
def add_rows(total, shares, first, stride, rows):
    """Add all rows of a flat matrix to `total`, weighted by every `stride`-th entry of `shares` from `first` on."""
    n = total.shape[0]
    for i in range(rows.shape[0] // n):
        share, row = shares[first + i * stride], rows[i * n : (i + 1) * n]
        for j in range(n):
            total[j] += share * row[j]


@kernel(fast_sums=True)
def _arrive(before, moves, states, now):
    """Pass the message `before` through one transition matrix and the factors of the states; return its sum."""
    now[:] = 0.0
    add_rows(now, before, np.int64(0), np.int64(1), moves)
    norm = 0.0
    for j in range(now.shape[0]):
        now[j] *= states[j]
        norm += now[j]
    return norm


@kernel(fast_sums=True)
def depart(message, moves, backward):
    """Pass `message` backward through one transition matrix."""
    n_states = message.shape[0]
    for i in range(n_states):
        out_of = moves[i * n_states : (i + 1) * n_states]
        total = 0.0
        for j in range(n_states):
            total += out_of[j] * message[j]
        backward[i] = total


@kernel
def _count(forward, messages, moves, counts, n_states, stationary):
    """Compute the expected count of each transition from the messages of all steps.

    Parameters
    ----------
    forward, messages : arrays of shape (n_steps * n_states,)
        Messages from the first step on, and back from the last one.
    moves : array
        Exponentials of the scores of the transitions.
    counts : array like `moves`
        Gets the counts; the same memory as `moves`, unless all steps have the same matrix.
    n_states : int
    stationary : bool
        Whether all steps have the same matrix.
    """
    if stationary:
        for i in range(n_states):
            count, weights = counts[i * n_states : (i + 1) * n_states], moves[i * n_states : (i + 1) * n_states]
            count[:] = 0.0
            add_rows(count, forward, i, n_states, messages[n_states:])
            for j in range(n_states):
                count[j] *= weights[j]
        return
    for row in range(messages.shape[0] - n_states):
        count = counts[row * n_states : (row + 1) * n_states]
        step = row // n_states + 1
        message = messages[step * n_states : (step + 1) * n_states]
        share = forward[row]
        # If each step has its own matrix, its counts overwrite it.
        for j in range(n_states):
            count[j] *= share * message[j]


@kernel
def has_small(values):
    found = False
    for value in values:
        found |= 0.0 < value < SMALLEST
    return found


@kernel
def pass_messages(dims, states, moves, scratch, narrow):
    """Forward-backward on the exponentials of `states`, which the marginals overwrite, and of `moves`.

    Returns the log of the sum over all paths, or NaN if a factor is too small to continue. `spans.py` calls this, too.

    Parameters
    ----------
    dims : int array
        As of the oracle.
    states : array of shape (n_steps * n_states,)
        Shifted scores; overwritten with the marginals.
    moves : array
        Shifted scores of the transitions; overwritten with their exponentials.
    scratch : array
        At least ``n_steps * (2 * n_states + 1) + n_states`` numbers. It begins with the messages of all steps, from the
        first step on and back from the last one: the probability of a transition is the product of both and its factor.
    narrow : bool
        Whether small messages can be ignored; see the docstring of the module.
    """
    n_steps = dims[0]
    n_states = dims[1]
    stationary = dims[2] == STATIONARY
    block = n_states * n_states
    stride = 0 if stationary else block
    size = states.shape[0]
    forward, messages = scratch[:size], scratch[size : 2 * size]
    norms = scratch[2 * size : 2 * size + n_steps]
    backward = scratch[2 * size + n_steps : 2 * size + n_steps + n_states]
    exponentiate(states, forward)
    exponentiate(moves, forward)

    total = 0.0
    for t in range(n_steps):
        now, here = forward[t * n_states : (t + 1) * n_states], states[t * n_states : (t + 1) * n_states]
        if t == 0:
            norm = 0.0
            for j in range(n_states):
                now[j] = here[j]
                norm += now[j]
        else:
            first = (t - 1) * stride
            norm = _arrive(forward[(t - 1) * n_states : t * n_states], moves[first : first + block], here, now)
            if norm == 0.0:
                return -np.inf
        total += np.log(norm)
        norms[t] = 1.0 / norm
        for j in range(n_states):
            now[j] *= norms[t]
        if not narrow and has_small(now):
            return np.nan

    backward[:] = 1.0
    for t in range(n_steps - 1, -1, -1):
        now, here = forward[t * n_states : (t + 1) * n_states], states[t * n_states : (t + 1) * n_states]
        message = messages[t * n_states : (t + 1) * n_states]
        for j in range(n_states):
            # A state that no path reaches gets no message, because its message, unlike all others, could overflow.
            back = backward[j] if now[j] > 0.0 else 0.0
            message[j] = here[j] * back * norms[t]
            here[j] = now[j] * back
        if t > 0:
            first = (t - 1) * stride
            depart(message, moves[first : first + block], backward)
    return total


@kernel
def _multiply(dims, states, moves, counts, scratch, narrow):
    """Compute marginals and the expected counts of the transitions; see `pass_messages`.

    If each step has its own transitions, `counts` is the same memory as `moves`.
    """
    size = states.shape[0]
    total = pass_messages(dims, states, moves, scratch, narrow)
    if total > -np.inf:
        _count(scratch[:size], scratch[size : 2 * size], moves, counts, dims[1], dims[2] == STATIONARY)
    return total


@kernel
def copy_ends(dims, marginals, expected):
    """Copy the marginals of the first and the last step to the expected counts of start and end scores."""
    at_start, at_end = end_indices_of(expected, dims)
    last = marginals.shape[0] - dims[1]
    for j in range(dims[1] * dims[3]):
        expected[at_start + j] = marginals[j]
    for j in range(dims[1] * dims[4]):
        expected[at_end + j] = marginals[last + j]


@kernel
def sum_over_paths(scores, additional, dims, work):
    """Compute the expected counts of states and of additional parts; return the log-partition."""
    n_steps, n_states, layout, has_start, has_end = dims[0], dims[1], dims[2], dims[3], dims[4]
    size = n_steps * n_states
    ends = n_states * (has_start + has_end)
    n_transitions = additional.shape[0] - ends
    states = work[:size]
    counts = work[size : size + n_transitions]
    # A matrix for all steps needs separate space for its counts. Other matrices are overwritten by their counts.
    at = size if layout == PER_STEP else size + additional.shape[0]
    moves = work[at : at + n_transitions]
    scratch = work[size + additional.shape[0] + n_states * n_states :]

    shift, lowest, lowest_finite = prepare(scores, additional, dims, states, moves)
    if shift == -np.inf:
        return shift
    if n_steps == 1 or layout == NO_TRANSITIONS:
        total = 0.0
        for t in range(n_steps):
            total += softmax(states[t * n_states : (t + 1) * n_states])
        counts[:] = 0.0
    else:
        narrow = lowest >= -NARROW
        total = np.nan
        if narrow or lowest_finite >= np.log(SMALLEST):
            total = _multiply(dims, states, moves, counts, scratch, narrow)
            if np.isnan(total):
                prepare(scores, additional, dims, states, moves)
        if np.isnan(total):
            # The counts may overwrite the transitions.
            moves = moves.copy()
            counts[:] = 0.0
            total = sum_in_logs(dims, states, moves, counts, ANY_COUNT, np.int64(1), scratch)

    copy_ends(dims, states, work[size : size + additional.shape[0]])
    return shift + total


@as_oracle
def chain_marginals(scores, additional, dims, work, slots, additional_slots):
    """Compute the expected counts of states and of additional parts; return the log-partition."""
    return sum_over_paths(scores, additional, dims, work)
