"""Best-first search for the k best structures: a queue of candidates, of which only those needed are kept.

The searches for the k best structures (`derivations.py`, `partition.py`, and those of subsets and rankings) order all
structures as a tree: each has a parent that is at least as good. The root is the best structure. So the best candidate
in the queue is the next structure of the list, and its children become candidates. Candidates with equal scores leave
the queue in the order in which they entered it, so the list for a smaller k is the beginning of that for a larger one.

A queue is a pair of arrays. ``values[c]`` is the score of candidate c, from 1 on, and ``rows[c]`` tells how to make
the structure: the structure of the list that is its parent, and two ints that depend on the search. The last column of
``rows`` is a heap of candidates, the best one at place 1. Row 0 holds the numbers of candidates in the heap and of rows
in use, and ``values[0]`` the score that new candidates must exceed.

Used by `structures`, `derivations.py` and `partition.py`.
"""

import numpy as np
from numba import types

from .._core.jit import FLOATS_OUT, PARTS_OUT, kernel, new_floats, new_ints, new_parts
from .._core.select import select_highest
from .loops import pour

PARENT, FIRST, SECOND, HEAP = 0, 1, 2, 3
N_LEFT, N_ROWS = 0, 1
FIRST_ROWS = 64
# The slots and the scores of the structures that a search has found for some problems, one after the other.
LISTS = types.Tuple((PARTS_OUT, FLOATS_OUT))


@kernel
def new_queue(n_rows, floor):
    """Return an empty queue."""
    values = new_floats(n_rows + 1)
    rows = np.empty((n_rows + 1, 4), np.int64)
    rows[0, N_LEFT] = rows[0, N_ROWS] = 0
    values[0] = floor
    return values, rows


@kernel
def _is_before(values, a, b):
    return values[a] > values[b] or (values[a] == values[b] and a < b)


@kernel
def _sift_down(values, rows, candidate, index, n):
    """Put a candidate at a place of the heap, or below it, where those below are not better."""
    while 2 * index <= n:
        below = 2 * index
        if below < n and _is_before(values, rows[below + 1, HEAP], rows[below, HEAP]):
            below += 1
        if not _is_before(values, rows[below, HEAP], candidate):
            break
        rows[index, HEAP] = rows[below, HEAP]
        index = below
    rows[index, HEAP] = candidate


@kernel
def _raise_floor(values, rows, needed):
    """Set the score that candidates must exceed to that of the last one needed; return how many with it are kept."""
    n_left = rows[0, N_LEFT]
    if n_left <= needed:
        return n_left
    scores = new_floats(n_left)
    for h in range(n_left):
        scores[h] = values[rows[h + 1, HEAP]]
    select_highest(scores, needed)
    values[0] = scores[needed - 1]
    n_ties = needed
    for h in range(needed):
        n_ties -= scores[h] > values[0]
    return n_ties


@kernel
def _keep_best(values, rows, needed):
    """Drop candidates that are not among the `needed` best ones; return the queue, larger if it is still full."""
    n_ties = _raise_floor(values, rows, needed)
    n_rows = rows[0, N_ROWS]
    n_left = np.int64(0)
    kept_values, kept_rows = values, rows
    if 2 * min(rows[0, N_LEFT], needed) > n_rows:
        kept_values, kept_rows = new_queue(2 * n_rows, values[0])
    # Rows keep their order, by which ties are broken. Those of candidates that left the heap have a score of -inf.
    for c in range(1, n_rows + 1):
        value = values[c]
        if value > values[0] or (value == values[0] and n_ties > 0 and value > -np.inf):
            n_ties -= value == values[0]
            n_left += 1
            kept_values[n_left], kept_rows[n_left, HEAP] = value, n_left
            for f in range(HEAP):
                kept_rows[n_left, f] = rows[c, f]
    for place in range(n_left // 2, 0, -1):
        _sift_down(kept_values, kept_rows, kept_rows[place, HEAP], place, n_left)
    kept_rows[0, N_LEFT] = kept_rows[0, N_ROWS] = n_left
    return kept_values, kept_rows


@kernel
def push(values, rows, needed, value, parent, first, second):
    """Add a candidate that exceeds ``values[0]``, where the `needed` best ones are needed; return the queue.

    `needed` is at least 1 and does not rise from one call to the next, because dropped candidates do not come back.
    """
    if rows[0, N_ROWS] + 1 == values.shape[0]:
        values, rows = _keep_best(values, rows, needed)
    rows[0, N_LEFT] += 1
    rows[0, N_ROWS] += 1
    c, place = rows[0, N_ROWS], rows[0, N_LEFT]
    values[c] = value
    rows[c, PARENT], rows[c, FIRST], rows[c, SECOND] = parent, first, second
    while place > 1 and _is_before(values, c, rows[place // 2, HEAP]):
        rows[place, HEAP] = rows[place // 2, HEAP]
        place //= 2
    rows[place, HEAP] = c
    return values, rows


@kernel
def pop(values, rows, candidate):
    """Remove the best candidate; write what is in its row to `candidate`, and return its score."""
    c, last, n_left = rows[1, HEAP], rows[rows[0, N_LEFT], HEAP], rows[0, N_LEFT] - 1
    value = values[c]
    for f in range(HEAP):
        candidate[f] = rows[c, f]
    values[c], rows[0, N_LEFT] = -np.inf, n_left
    if n_left > 0:
        _sift_down(values, rows, last, np.int64(1), n_left)
    return value


@kernel
def choices_of(structures, candidate):
    """Return the two ints of all candidates that lead from the best structure to a candidate, one after the other.

    `structures` holds what `pop` wrote for the structures of the list.
    """
    n = np.int64(0)
    parent = candidate[PARENT]
    while parent >= 0:
        n, parent = n + 1, structures[3 * parent + PARENT]
    choices = new_ints(2 * n)
    first = candidate[FIRST]
    second = candidate[SECOND]
    parent = candidate[PARENT]
    for c in range(2 * n - 2, -1, -2):
        choices[c], choices[c + 1] = first, second
        at = 3 * parent
        parent, first, second = structures[at + PARENT], structures[at + FIRST], structures[at + SECOND]
    return choices


@kernel
def keep(lists, slots, value):
    """Add a structure to lists: slots, scores, and the numbers of entries in use; return the lists."""
    all_slots, values, n_slots, n = lists
    one = new_floats(np.int64(1))
    one[0] = value
    all_slots, n_slots = pour(all_slots, n_slots, slots)
    values, n = pour(values, n, one)
    return all_slots, values, n_slots, n


@kernel
def new_lists():
    """Return empty lists of structures; see `keep`."""
    return new_parts(np.int64(64)), new_floats(np.int64(16)), np.int64(0), np.int64(0)
