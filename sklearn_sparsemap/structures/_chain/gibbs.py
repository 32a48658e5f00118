"""Marginals of LinearChain: forward-backward.

The fast way multiplies exponentiated scores and divides by the sum at each step. Where a number might underflow that
matters later, it gives up, and the same recursion is done on logarithms.

What can matter is decided by two rules. If all transitions are allowed and within `_NARROW` of each other, then the
messages of one step are, too: a number that underflows belongs to a state that is worse than another by more than any
path can make good. Else nothing but 0 may vanish: all factors must be above `_SMALLEST`, so that the product of any
three of them is a normal number.
"""

import numpy as np

from ..._jit import as_oracle, copy_into, kernel
from .map import NO_TRANSITIONS, PER_STEP, STATIONARY

_NARROW = 150.0
_SMALLEST = 1e-100


@kernel
def _shift_to_zero(values):
    """Subtract the maximum; return it, with the lowest of the shifted values and the lowest that is not -inf."""
    top = -np.inf
    for i in range(values.shape[0]):
        top = values[i] if values[i] > top else top
    lowest = lowest_finite = 0.0
    if top > -np.inf:
        for i in range(values.shape[0]):
            values[i] -= top
            lowest = min(lowest, values[i])
            lowest_finite = values[i] if -np.inf < values[i] < lowest_finite else lowest_finite
    return top, lowest, lowest_finite


@kernel
def _prepare(scores, additional, dims, states, moves):
    """Fill `states` and `moves` with all scores, each step's and each matrix's shifted to a maximum of 0.

    Returns the sum of the shifts (-inf if a step has no state or no transition), the lowest transition, and the lowest
    of all numbers that is not -inf.
    """
    n_steps, n_states = dims[0], dims[1]
    at_start = additional.shape[0] - n_states * (dims[3] + dims[4])
    last = (n_steps - 1) * n_states
    copy_into(states, scores)
    for j in range(n_states * dims[3]):
        states[j] += additional[at_start + j]
    for j in range(n_states * dims[4]):
        states[last + j] += additional[at_start + n_states * dims[3] + j]
    total = lowest = lowest_finite = 0.0
    for t in range(n_steps):
        top, _, low = _shift_to_zero(states[t * n_states : (t + 1) * n_states])
        total += top
        lowest_finite = min(lowest_finite, low)
    block = n_states * n_states
    if n_steps > 1:
        copy_into(moves, additional[: moves.shape[0]])
        n_blocks = moves.shape[0] // block
        for t in range(n_blocks):
            top, low, low_finite = _shift_to_zero(moves[t * block : (t + 1) * block])
            total += top * ((n_steps - 1) // n_blocks)
            lowest = min(lowest, low)
            lowest_finite = min(lowest_finite, low_finite)
    return total, lowest, lowest_finite


@kernel
def _softmax(values):
    """Turn shifted scores into their softmax, in place; return the log of the normaliser."""
    norm = 0.0
    for j in range(values.shape[0]):
        values[j] = np.exp(values[j])
        norm += values[j]
    for j in range(values.shape[0]):
        values[j] /= norm
    return np.log(norm)


@kernel(fast_sums=True)
def _arrive(before, moves, states, now):
    """Send the message `before` through one transition matrix and the factors of the states; return its sum."""
    n_states = before.shape[0]
    for j in range(n_states):
        now[j] = 0.0
    for i in range(n_states):
        into = moves[i * n_states : (i + 1) * n_states]
        arrived = before[i]
        for j in range(n_states):
            now[j] += arrived * into[j]
    norm = 0.0
    for j in range(n_states):
        now[j] *= states[j]
        norm += now[j]
    return norm


@kernel(fast_sums=True)
def _depart(message, forward, moves, counts, backward, stationary):
    """Send `message` back through one transition matrix, and take down how often each transition was used."""
    n_states = message.shape[0]
    for i in range(n_states):
        out_of = moves[i * n_states : (i + 1) * n_states]
        count = counts[i * n_states : (i + 1) * n_states]
        total = 0.0
        for j in range(n_states):
            total += out_of[j] * message[j]
        backward[i] = total
        if stationary:
            for j in range(n_states):
                count[j] += forward[i] * message[j]
        else:
            for j in range(n_states):
                count[j] = forward[i] * out_of[j] * message[j]


@kernel
def _multiply(dims, states, moves, counts, scratch, narrow):
    """Forward-backward on the exponentials of `states` and `moves`, whose place the marginals take.

    Returns the log of the sum over all paths; NaN where a factor was too small to go on.
    """
    n_steps, n_states, stationary = dims[0], dims[1], dims[2] == STATIONARY
    block = n_states * n_states
    stride = 0 if stationary else block
    forward = scratch[: states.shape[0]]
    norms = scratch[states.shape[0] : states.shape[0] + n_steps]
    backward = scratch[states.shape[0] + n_steps : states.shape[0] + n_steps + n_states]
    message = scratch[states.shape[0] + n_steps + n_states : states.shape[0] + n_steps + 2 * n_states]
    for i in range(states.shape[0]):
        states[i] = np.exp(states[i])
    for i in range(moves.shape[0]):
        moves[i] = np.exp(moves[i])

    total = 0.0
    for t in range(n_steps):
        now = forward[t * n_states : (t + 1) * n_states]
        if t == 0:
            norm = 0.0
            for j in range(n_states):
                now[j] = states[j]
                norm += now[j]
        else:
            before = forward[(t - 1) * n_states : t * n_states]
            first = (t - 1) * stride
            norm = _arrive(before, moves[first : first + block], states[t * n_states : (t + 1) * n_states], now)
            if norm == 0.0:
                return -np.inf
        norms[t] = norm
        total += np.log(norm)
        too_small = False
        for j in range(n_states):
            now[j] /= norm
            too_small |= 0.0 < now[j] < _SMALLEST
        if too_small and not narrow:
            return np.nan

    if stationary:
        for i in range(block):
            counts[i] = 0.0
    for j in range(n_states):
        backward[j] = 1.0
    for t in range(n_steps - 1, -1, -1):
        now = forward[t * n_states : (t + 1) * n_states]
        here = states[t * n_states : (t + 1) * n_states]
        for j in range(n_states):
            # A state that no path leads to gets no message: unlike all others, it could overflow.
            message[j] = here[j] * backward[j] / norms[t] if now[j] > 0.0 else 0.0
            here[j] = now[j] * backward[j] if now[j] > 0.0 else 0.0
        if t > 0:
            before = forward[(t - 1) * n_states : t * n_states]
            first = (t - 1) * stride
            used = counts[first : first + block]
            _depart(message, before, moves[first : first + block], used, backward, stationary)
    if stationary:
        for i in range(block):
            counts[i] *= moves[i]
    return total


@kernel
def _add_logs(dims, states, moves, counts, scratch):
    """Do the work of `_multiply` on logarithms, whatever their range.

    The way back divides the marginal of each state among its predecessors, so that all numbers there are
    probabilities.
    """
    n_steps, n_states, stationary = dims[0], dims[1], dims[2] == STATIONARY
    block = n_states * n_states
    stride = 0 if stationary else block
    forward = scratch[: states.shape[0]]
    shares = scratch[states.shape[0] : states.shape[0] + n_states]
    total = 0.0
    for j in range(n_states):
        forward[j] = states[j]
    for t in range(1, n_steps):
        before = forward[(t - 1) * n_states : t * n_states]
        now = forward[t * n_states : (t + 1) * n_states]
        first = (t - 1) * stride
        for j in range(n_states):
            top = -np.inf
            for i in range(n_states):
                top = max(top, before[i] + moves[first + i * n_states + j])
            now[j] = top
            if top > -np.inf:
                norm = 0.0
                for i in range(n_states):
                    norm += np.exp(before[i] + moves[first + i * n_states + j] - top)
                now[j] += np.log(norm) + states[t * n_states + j]
        top, _, _ = _shift_to_zero(now)
        if top == -np.inf:
            return top
        total += top

    if stationary:
        for i in range(block):
            counts[i] = 0.0
    copy_into(states, forward)
    total += _softmax(states[(n_steps - 1) * n_states :])
    for t in range(n_steps - 1, 0, -1):
        before = forward[(t - 1) * n_states : t * n_states]
        marginals = states[(t - 1) * n_states : t * n_states]
        first = (t - 1) * stride
        for i in range(n_states):
            marginals[i] = 0.0
        for j in range(n_states):
            marginal = states[t * n_states + j]
            top = -np.inf
            for i in range(n_states):
                top = max(top, before[i] + moves[first + i * n_states + j])
            norm = 0.0
            for i in range(n_states):
                shares[i] = np.exp(before[i] + moves[first + i * n_states + j] - top) if marginal > 0.0 else 0.0
                norm += shares[i]
            for i in range(n_states):
                share = shares[i] * marginal / norm if marginal > 0.0 else 0.0
                marginals[i] += share
                at = first + i * n_states + j
                counts[at] = counts[at] + share if stationary else share
    return total


@as_oracle
def chain_marginals(scores, additional, dims, work, slots, additional_slots):
    """Compute the expected counts of states and of additional parts; return the log-partition."""
    n_steps, n_states, layout, has_start, has_end = dims[0], dims[1], dims[2], dims[3], dims[4]
    size = n_steps * n_states
    ends = n_states * (has_start + has_end)
    n_transitions = additional.shape[0] - ends
    states = work[:size]
    counts = work[size : size + n_transitions]
    # One matrix serves all steps, but its counts need a place of their own; others are replaced by their counts.
    at = size if layout == PER_STEP else size + additional.shape[0]
    moves = work[at : at + n_transitions]
    scratch = work[size + additional.shape[0] + n_states * n_states :]

    shift, lowest, lowest_finite = _prepare(scores, additional, dims, states, moves)
    if shift == -np.inf:
        return shift
    if n_steps == 1 or layout == NO_TRANSITIONS:
        total = 0.0
        for t in range(n_steps):
            total += _softmax(states[t * n_states : (t + 1) * n_states])
        for i in range(n_transitions):
            counts[i] = 0.0
    else:
        narrow = lowest >= -_NARROW
        total = np.nan
        if narrow or lowest_finite >= np.log(_SMALLEST):
            total = _multiply(dims, states, moves, counts, scratch, narrow)
            if np.isnan(total):
                _prepare(scores, additional, dims, states, moves)
        if np.isnan(total):
            total = _add_logs(dims, states, moves, counts, scratch)

    at = size + n_transitions
    for j in range(n_states * has_start):
        work[at + j] = states[j]
    at += n_states * has_start
    for j in range(n_states * has_end):
        work[at + j] = states[size - n_states + j]
    return shift + total


def chain_marginal_work(dims):
    """Return the length of `work` that `chain_marginals` needs."""
    n_steps, n_states, layout, has_start, has_end = (int(d) for d in dims)
    n_transitions = (0, 1, n_steps - 1)[layout] * n_states**2
    n_additional = n_transitions + n_states * (has_start + has_end)
    return n_steps * n_states + n_additional + n_states**2 + n_steps * (n_states + 1) + 2 * n_states
