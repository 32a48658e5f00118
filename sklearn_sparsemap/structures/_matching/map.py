"""The best matching: an auction, then shortest augmenting paths.

After Jonker and Volgenant (1987), for rectangles Crouse (2016). Conventions: everything is for costs (the scores,
negated) and for the lines of the shorter side, each of which is matched. A column has a rate, which lines pay on top of
the cost. `line_of` and `column_of` are -1 for what is free.
"""

import numpy as np

from ..._core.jit import as_oracle, kernel

# So many bids for each line; more of them gain less than the paths would take.
_BIDS = 5


@kernel(no_nans=True)
def _lowest(costs, first, rate):
    """Return the lowest of a line's costs, and of its costs plus rates."""
    without, lowest = np.inf, np.inf
    for j in range(rate.shape[0]):
        cost = costs[first + j]
        without = min(without, cost)
        lowest = min(lowest, cost + rate[j])
    return without, lowest


@kernel
def _start(costs, n, rate):
    """Keep the rates of the last call if they bound the best value better than none; else begin without.

    Columns that stay without a line must have a rate of 0; in a square, where there are none, only differences matter.
    """
    m = rate.shape[0]
    shift, gain = rate[0], 0.0
    for j in range(m):
        rate[j] -= shift
        gain -= rate[j]
    if n == m and abs(gain) < np.inf:
        for i in range(n):
            without, lowest = _lowest(costs, i * m, rate)
            gain += lowest - without
    if n < m or not gain > 0.0:
        for j in range(m):
            rate[j] = 0.0


@kernel(no_nans=True)
def _two_lowest(costs, first, rate, key):
    """Return the two lowest of a line's costs plus rates. `key` is overwritten with the sums."""
    lowest, second = np.inf, np.inf
    for j in range(rate.shape[0]):
        key[j] = costs[first + j] + rate[j]
        second = min(second, max(lowest, key[j]))
        lowest = min(lowest, key[j])
    return lowest, second


@kernel
def _column_of_key(key, value, line_of, tied):
    """Return the first column whose key is a given one; if several may have it, one without a line before others."""
    m = key.shape[0]
    first = np.int64(0)
    while first < m - 1 and key[first] != value:
        first += 1
    if tied and line_of[first] >= 0:
        for j in range(first + 1, m):
            if line_of[j] < 0 and key[j] == value:
                return j
    return first


@kernel
def _auction(costs, n, rate, key, line_of, column_of):
    """Give lines their cheapest columns, for as many bids as are made.

    A line pays for its column what the second cheapest one is dearer, and whom it drives out bids next: the
    "augmenting row reduction". Who is driven out at a tie stays without a column, so that it ends.
    """
    m = rate.shape[0]
    n_left = _BIDS * n
    for start in range(n):
        i = start
        while i >= 0 and n_left > 0:
            n_left -= 1
            lowest, second = _two_lowest(costs, i * m, rate, key)
            # One column or none is open to this line: there is nothing that it could pay.
            if not second < np.inf:
                break
            j = _column_of_key(key, lowest, line_of, lowest == second)
            driven_out = line_of[j]
            if driven_out >= 0:
                column_of[driven_out] = -1
            line_of[j], column_of[i] = i, j
            rate[j] += second - lowest
            i = driven_out if lowest < second else np.int64(-1)


@kernel(no_nans=True)
def _scan(costs, first, rate, offset, line, key, before):
    """Shorten the paths to the open columns by way of a line; return the length of the shortest one.

    Closed columns have an infinite rate and an infinite key.
    """
    lowest = np.inf
    for j in range(rate.shape[0]):
        length = costs[first + j] + rate[j] + offset
        if length < key[j]:
            key[j] = length
            before[j] = line
        if key[j] < lowest:
            lowest = key[j]
    return lowest


@as_oracle
def best_matching(scores, additional, dims, work, slots, additional_slots):
    """Find the best matching by an auction, and by a shortest augmenting path for each line that it leaves."""
    n_rows, n_cols = dims[0], dims[1]
    wide = n_rows <= n_cols
    n, m = (n_rows, n_cols) if wide else (n_cols, n_rows)
    # First of all, so that they are found where the last call left them.
    rate, rest = work[:m], work[m:]
    key, distance, costs = rest[:m], rest[m : 2 * m], rest[2 * m : 2 * m + n * m]
    ints = rest[2 * m + n * m :].view(np.int64)
    line_of, before, visited, column_of = ints[:m], ints[m : 2 * m], ints[2 * m : 3 * m], ints[3 * m : 3 * m + n]
    if wide:
        for a in range(n * m):
            costs[a] = -scores[a]
    else:
        for i in range(n):
            for j in range(m):
                costs[i * m + j] = -scores[j * n + i]
    _start(costs, n, rate)
    for j in range(m):
        line_of[j] = -1
    for i in range(n):
        column_of[i] = -1
    _auction(costs, n, rate, key, line_of, column_of)

    for start in range(n):
        if column_of[start] >= 0:
            continue
        for j in range(m):
            key[j] = np.inf
        n_visited, i, offset = 0, start, 0.0
        while True:
            reached = _scan(costs, i * m, rate, offset, i, key, before)
            # Infinite, or no number: the scores have overflowed.
            if not reached < np.inf or n_visited == m:
                for q in range(m):
                    rate[q] = 0.0
                return -np.inf
            j = _column_of_key(key, reached, line_of, True)
            i = line_of[j]
            if i < 0:
                break
            # Along a line's own column nothing is lost.
            offset = reached - (costs[i * m + j] + rate[j])
            visited[n_visited] = j
            # The rate comes back once the path is found.
            distance[n_visited], key[j] = reached - rate[j], np.inf
            rate[j] = np.inf
            n_visited += 1
        for p in range(n_visited):
            rate[visited[p]] = reached - distance[p]
        while True:
            i = before[j]
            line_of[j] = i
            column_of[i], j = j, column_of[i]
            if i == start:
                break

    value = 0.0
    if wide:
        for i in range(n):
            slots[i] = i * n_cols + column_of[i]
            value += scores[slots[i]]
    else:
        for j in range(m):
            slots[j] = j * n_cols + line_of[j] if line_of[j] >= 0 else -1
        for i in range(n):
            value += scores[column_of[i] * n_cols + i]
    return value
