"""The best path: Viterbi. `flow` and `structures/_sequence_budget` use the layouts and functions, too.

Used by `structures/_chain/flow`, `structures/_sequence_budget`, `entering.py`, `gibbs.py`, `log_sums.py`, `spans.py`
and `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, kernel

# Layouts of the transitions of a problem: dims[2].
NO_TRANSITIONS, STATIONARY, PER_STEP = 0, 1, 2


@kernel
def end_indices_of(additional, dims):
    """Return the beginning of the start scores, and of the end scores, in the additional scores."""
    start = additional.shape[0] - dims[1] * (dims[3] + dims[4])
    return start, start + dims[1] * dims[3]


@kernel
def trace_back(additional, dims, table, width, counted, last, count, slots, additional_slots):
    """Write the best path with this last state and count, from its end to its start.

    Parameters
    ----------
    additional, dims, slots, additional_slots : arrays
        As of the oracle.
    table : array
        ``table[(t * n_states + i) * width + k]`` is the score of the best path to state i of step t with k steps in the
        state `counted`.
    width : int
    counted : int
        -1 if no state is counted; all counts are then 0.
    last, count : int
    """
    n_states, layout, has_start, has_end = dims[1], dims[2], dims[3], dims[4]
    stride = n_states * n_states if layout == PER_STEP else 0
    at_start, at_end = end_indices_of(additional, dims)
    last_slot = additional_slots.shape[0] - 1
    if has_end:
        additional_slots[last_slot] = at_end + last
    for t in range(dims[0] - 1, 0, -1):
        slots[t] = t * n_states + last
        count -= last == counted
        before = table[(t - 1) * n_states * width + count : t * n_states * width]
        first = (t - 1) * stride + last
        source = np.int64(0)
        best = -np.inf
        for i in range(n_states):
            total = before[i * width]
            if layout != NO_TRANSITIONS:
                total += additional[first + i * n_states]
            # Conditional moves instead of a branch, which would be unpredictable.
            source = i if total > best else source
            best = total if total > best else best
        if layout != NO_TRANSITIONS:
            additional_slots[t - 1] = first + source * n_states
        last = source
    slots[0] = last
    if has_start:
        additional_slots[last_slot - has_end] = at_start + last


@kernel
def _arrive(before, moves, now):
    """Write the best score of arriving in each state by the transitions `moves`, a flat matrix."""
    n_states = before.shape[0]
    into = moves[:n_states]
    for j in range(n_states):
        now[j] = before[0] + into[j]
    # Process four states at once, so that the running maximum is read and written less often.
    in_fours = 1 + (n_states - 1) // 4 * 4
    for i in range(1, in_fours, 4):
        at = i * n_states
        a, b, c, d = before[i], before[i + 1], before[i + 2], before[i + 3]
        into_a, into_b = moves[at : at + n_states], moves[at + n_states : at + 2 * n_states]
        at += 2 * n_states
        into_c, into_d = moves[at : at + n_states], moves[at + n_states : at + 2 * n_states]
        for j in range(n_states):
            x, y = a + into_a[j], b + into_b[j]
            z, best = c + into_c[j], d + into_d[j]
            x = y if y > x else x
            best = z if z > best else best
            best = x if x > best else best
            now[j] = best if best > now[j] else now[j]
    for i in range(in_fours, n_states):
        into = moves[i * n_states : (i + 1) * n_states]
        arrived = before[i]
        for j in range(n_states):
            candidate = arrived + into[j]
            now[j] = candidate if candidate > now[j] else now[j]


@kernel
def best_path(scores, additional, dims, work, slots, additional_slots):
    """Find the best path; `work` holds the best score of a path that ends in each state of each step.

    The forward pass keeps only scores, so that the inner loop is a plain maximum over a row. `trace_back`
    recomputes the one predecessor in each step that the best path needs. `entering.py` reads `work` afterwards.
    """
    n_steps, n_states, layout = dims[0], dims[1], dims[2]
    has_start, has_end = dims[3], dims[4]
    block = n_states * n_states
    stride = block if layout == PER_STEP else 0
    at_start, at_end = end_indices_of(additional, dims)

    for j in range(n_states):
        work[j] = scores[j] + additional[at_start + j] if has_start else scores[j]
    for t in range(1, n_steps):
        before = work[(t - 1) * n_states : t * n_states]
        now = work[t * n_states : (t + 1) * n_states]
        here = scores[t * n_states : (t + 1) * n_states]
        if layout == NO_TRANSITIONS:
            best = before[0]
            for i in range(1, n_states):
                best = before[i] if before[i] > best else best
            for j in range(n_states):
                now[j] = best
        else:
            first = (t - 1) * stride
            _arrive(before, additional[first : first + block], now)
        for j in range(n_states):
            now[j] += here[j]

    last = work[(n_steps - 1) * n_states : n_steps * n_states]
    state = np.int64(0)
    value = -np.inf
    for j in range(n_states):
        total = last[j] + additional[at_end + j] if has_end else last[j]
        if total > value:
            state, value = j, total
    trace_back(additional, dims, work, np.int64(1), np.int64(-1), state, np.int64(0), slots, additional_slots)
    return value


@as_oracle
def viterbi(scores, additional, dims, work, slots, additional_slots):
    """Find the best path."""
    return best_path(scores, additional, dims, work, slots, additional_slots)
