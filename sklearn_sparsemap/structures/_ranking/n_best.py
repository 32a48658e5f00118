"""The k best rankings: a best-first search over exchanges of two items with neighbouring scores.

Items are numbered by decreasing score, so in the best ranking item v has place v. In any other ranking, some item v
comes after item v + 1. The parent of a ranking is the one in which the first such pair is exchanged; it is at least as
good. Items without points are in the order of their scores.

Used by `structure.py`.
"""

import numpy as np
from numba import types

from ..._core.jit import INTS, INTS_OUT, entry, kernel, new_ints, new_parts
from ..._core.select import order_downwards
from ..._numerics.best_first import (
    FIRST_ROWS,
    LISTS,
    N_LEFT,
    choices_of,
    keep,
    new_lists,
    new_queue,
    pop,
    push,
)
from ..._numerics.loops import PROBLEMS, pour


@kernel
def _push_exchanges(scores, order, n_points, rank_of, value, number, needed, queue):
    """Push the rankings of which this one is the parent; `rank_of` is that of each item by score."""
    values, rows = queue
    first = np.int64(0)
    n = rank_of.shape[0]
    while first + 1 < n and rank_of[first] < rank_of[first + 1]:
        first += 1
    # Exchanges before the first pair in reverse order, or just after it if this puts that pair in order.
    for v in range(min(first + 2, n - 1)):
        is_child = v < first or (v > first and rank_of[first] < rank_of[v + 1])
        if is_child and rank_of[v] < rank_of[v + 1] and rank_of[v] < n_points:
            lost = min(n_points - rank_of[v], rank_of[v + 1] - rank_of[v]) * (scores[order[v]] - scores[order[v + 1]])
            if value - lost > values[0]:
                values, rows = push(values, rows, needed, value - lost, number, v, np.int64(0))
    return values, rows


@kernel
def _write_ranks(choices, rank_of):
    """Write the place of each item by score, after the exchanges that `choices_of` lists."""
    for v in range(rank_of.shape[0]):
        rank_of[v] = v
    for c in range(0, choices.shape[0], 2):
        v = choices[c]
        rank_of[v], rank_of[v + 1] = rank_of[v + 1], rank_of[v]


@kernel
def _write_points(order, n_points, rank_of, points, slots):
    """Write each item as many times as it has points."""
    for v in range(rank_of.shape[0]):
        points[order[v]] = max(n_points - rank_of[v], 0)
    slot = np.int64(0)
    for item in range(points.shape[0]):
        for _ in range(points[item]):
            slots[slot] = item
            slot += 1


@entry(LISTS(PROBLEMS, INTS, INTS_OUT, types.int64, types.int64))
def best_rankings(problems, limit, counts, start, stop):
    """Find the k best rankings of problems start..stop; see `_numerics/derivations.py`."""
    lists = new_lists()
    candidate = new_ints(np.int64(3))
    for i in range(start, stop):
        scores, n_points = problems.scores[problems.score_ptr[i] : problems.score_ptr[i + 1]], problems.dims[i, 1]
        order = new_ints(scores.shape[0])
        place = new_ints(scores.shape[0])
        points = new_ints(scores.shape[0])
        order_downwards(scores, order)
        best = 0.0
        for v in range(n_points):
            best += scores[order[v]] * (n_points - v)
        queue = new_queue(np.int64(FIRST_ROWS), -np.inf)
        found = new_ints(np.int64(48))
        n = np.int64(0)
        slots = new_parts(problems.sizes[i, 0])
        if best > -np.inf:
            queue = push(queue[0], queue[1], limit[0], best, np.int64(-1), np.int64(-1), np.int64(-1))
        while n < limit[0] and queue[1][0, N_LEFT] > 0:
            value = pop(queue[0], queue[1], candidate)
            _write_ranks(choices_of(found, candidate), place)
            _write_points(order, n_points, place, points, slots)
            # Read once, because Ctrl-C sets the limit to zero.
            needed = limit[0] - n - 1
            if needed > 0:
                queue = _push_exchanges(scores, order, n_points, place, value, n, needed, queue)
            found, _ = pour(found, 3 * n, candidate)
            lists = keep(lists, slots, value)
            n = n + 1
        counts[i] = n
    return lists[0][: lists[2]], lists[1][: lists[3]]
