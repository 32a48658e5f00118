"""The best path with a limited number of steps in one state: Viterbi over pairs of a state and a count.

Tables have a row for each step and state, with an entry for each number of steps so far in the counted state. Rows are
so long that kernels read and write four entries at a time (`_core/lanes`). A step in the counted state moves a row by
one entry. The entries after the largest count have no meaning: counts only grow, so no smaller count depends on them.

Used by `entering.py`, `gibbs.py` and `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, kernel
from ..._core.lanes import WIDTH, larger, load, padded, spread, store
from .._chain.log_sums import index_of_move
from .._chain.map import NO_TRANSITIONS, best_path, end_indices_of, trace_back

# The entries of dims that follow those of a chain: the counted state, and its smallest and largest number of steps.
STATE, FEWEST, MOST = 5, 6, 7


@kernel
def stride_of(dims):
    """Return the number of entries of a row of a table: at least one more than the number of counts."""
    return padded(dims[MOST] + 2)


@kernel
def has_counts(dims):
    """Return whether some counts are not allowed, so that paths need a table of counts."""
    return dims[FEWEST] > 0 or dims[MOST] < dims[0]


@kernel
def fill_table(scores, additional, dims, table):
    """Fill in the score of the best path to each state of each step, for each count."""
    n_steps = dims[0]
    n_states = dims[1]
    state = dims[STATE]
    stride = stride_of(dims)
    at_start, _ = end_indices_of(additional, dims)
    # A row that moves by one entry writes to the first entry of the next row, which is therefore filled later.
    for j in range(n_states):
        table[j * stride : (j + 1) * stride] = -np.inf
        table[j * stride + (j == state)] = scores[j] + (additional[at_start + j] if dims[3] else 0.0)
    for t in range(1, n_steps):
        before = (t - 1) * n_states * stride
        for j in range(n_states):
            now, here = (t * n_states + j) * stride, scores[t * n_states + j]
            for k in range(0, stride, WIDTH):
                best = spread(-np.inf)
                for i in range(n_states):
                    move = additional[index_of_move(dims, t, i, j)] if dims[2] != NO_TRANSITIONS else 0.0
                    best = larger(best, load(table, before + i * stride + k) + move)
                store(table, now + (j == state) + k, best + here)
            if j == state:
                table[now] = -np.inf


@as_oracle
def best_path_within(scores, additional, dims, work, slots, additional_slots):
    """Find the best path whose count is allowed: the best of all paths, if its count is, else by a table of counts.

    `entering.py` reads the table in `work` afterwards, or fills it.
    """
    n_steps, n_states = dims[0], dims[1]
    value = best_path(scores, additional, dims, work, slots, additional_slots)
    count = np.int64(0)
    for t in range(n_steps):
        count += slots[t] == t * n_states + dims[STATE]
    if value == -np.inf or dims[FEWEST] <= count <= dims[MOST]:
        return value
    fill_table(scores, additional, dims, work)
    _, at_end = end_indices_of(additional, dims)
    first = (n_steps - 1) * n_states
    stride = stride_of(dims)
    value = -np.inf
    last = np.int64(0)
    count = np.int64(0)
    for j in range(n_states):
        end = additional[at_end + j] if dims[4] else 0.0
        for k in range(dims[FEWEST], dims[MOST] + 1):
            total = work[(first + j) * stride + k] + end
            if total > value:
                value, last, count = total, j, k
    if value == -np.inf:
        return value
    trace_back(additional, dims, work, stride, dims[STATE], last, count, slots, additional_slots)
    return value
