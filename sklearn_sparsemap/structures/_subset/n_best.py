"""The k best subsets: a best-first search over moves of items, for each size from the best subset of that size.

Items are sorted by decreasing score, so the best subset of a size has the first ones. In any other subset of that size
they have moved: the last one first, place by place, then the one before it, up to the place of the next. So each subset
has one parent, from which it differs by the move of one item to the next place.

Used by `structure.py`.
"""

import numpy as np
from numba import types

from ..._core.jit import INTS, INTS_OUT, entry, kernel, new_ints, new_parts
from ..._core.select import order_downwards
from ..._numerics.best_first import (
    FIRST,
    FIRST_ROWS,
    LISTS,
    N_LEFT,
    PARENT,
    SECOND,
    keep,
    new_lists,
    new_queue,
    pop,
    push,
)
from ..._numerics.loops import PROBLEMS


@kernel
def _push_sizes(scores, order, n_allowed, sizes, needed, queue):
    """Push the best subset of each size. FIRST is the size, as if the item after the last one had moved to the end."""
    (values, rows), total = queue, 0.0
    for size in range(min(sizes[1], n_allowed) + 1):
        if size >= sizes[0] and total > values[0]:
            end = n_allowed * (n_allowed + 1) + n_allowed
            values, rows = push(values, rows, needed, total, np.int64(-1), size, end)
        if size < n_allowed:
            total += scores[order[size]]
    return values, rows


@kernel
def _push_moves(scores, order, n_allowed, candidate, value, number, needed, queue):
    """Push the subsets with one more move: of the item that has moved last, or of the one before it.

    FIRST is the number of that item among the chosen ones. SECOND is ``place * (n_allowed + 1) + bound``, where it can
    only move to places before the bound.
    """
    values, rows = queue
    item, place, bound = candidate[FIRST], candidate[SECOND] // (n_allowed + 1), candidate[SECOND] % (n_allowed + 1)
    if place + 1 < bound:
        total = value + (scores[order[place + 1]] - scores[order[place]])
        if total > values[0]:
            values, rows = push(values, rows, needed, total, number, item, candidate[SECOND] + n_allowed + 1)
    if 0 < item < place:
        total = value + (scores[order[item]] - scores[order[item - 1]])
        if total > values[0]:
            values, rows = push(values, rows, needed, total, number, item - 1, item * (n_allowed + 1) + place)
    return values, rows


@kernel
def _write_subset(order, n_allowed, candidate, earlier, slots):
    """Write a subset, given those found before it."""
    n_slots, parent, place = slots.shape[0], candidate[PARENT], candidate[SECOND] // (n_allowed + 1)
    for s in range(n_slots):
        slots[s] = earlier[parent * n_slots + s] if parent >= 0 else -1
    if parent < 0:
        for p in range(candidate[FIRST]):
            slots[order[p]] = order[p]
    else:
        slots[order[place - 1]], slots[order[place]] = -1, order[place]


@entry(LISTS(PROBLEMS, INTS, INTS_OUT, types.int64, types.int64))
def best_subsets(problems, limit, counts, start, stop):
    """Find the k best subsets of problems start..stop; see `_numerics/derivations.py`."""
    lists = new_lists()
    candidate = new_ints(np.int64(3))
    for i in range(start, stop):
        scores = problems.scores[problems.score_ptr[i] : problems.score_ptr[i + 1]]
        order = new_ints(scores.shape[0])
        slots = new_parts(scores.shape[0])
        n_allowed = np.int64(0)
        order_downwards(scores, order)
        for score in scores:
            n_allowed += score > -np.inf
        queue = new_queue(np.int64(FIRST_ROWS), -np.inf)
        n = np.int64(0)
        at = lists[2]
        queue = _push_sizes(scores, order, n_allowed, problems.dims[i, 1:], limit[0], queue)
        while n < limit[0] and queue[1][0, N_LEFT] > 0:
            value = pop(queue[0], queue[1], candidate)
            _write_subset(order, n_allowed, candidate, lists[0][at:], slots)
            # Read once, because Ctrl-C sets the limit to zero.
            needed = limit[0] - n - 1
            if needed > 0:
                queue = _push_moves(scores, order, n_allowed, candidate, value, n, needed, queue)
            lists = keep(lists, slots, value)
            n = n + 1
        counts[i] = n
    return lists[0][: lists[2]], lists[1][: lists[3]]
