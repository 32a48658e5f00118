"""The best matching: an auction, then shortest augmenting paths.

After Jonker and Volgenant (1987), for rectangles Crouse (2016). Conventions: the method minimises costs (the negated
scores). Lines run along the longer axis, and each line is matched. A column has a rate, which lines pay in addition to
the cost. `line_of` and `column_of` are -1 if unmatched.

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, kernel

# Number of bids for each line; more bids save less time than augmenting paths take.
_BIDS = 5


@kernel(no_nans=True)
def _lowest(costs, first, rate):
    """Return the minimum of a line's costs, and of its costs plus rates."""
    without, lowest = np.inf, np.inf
    for j in range(rate.shape[0]):
        cost = costs[first + j]
        without = min(without, cost)
        lowest = min(lowest, cost + rate[j])
    return without, lowest


@kernel
def _start(costs, n, rate):
    """Keep the rates of the last call if they give a better bound than zero rates; otherwise reset them.

    Columns that remain unmatched must have a rate of 0. A square has no such columns, so only differences matter there.
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
        rate[:] = 0.0


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
    """Return the first column with a given key or, if `tied`, the first unmatched one among these, if any."""
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
    """Match lines with their cheapest columns, for a limited number of bids.

    A line raises the rate of its column by the difference to the second cheapest column, and the displaced line bids
    next: "augmenting row reduction". A line that is displaced at a tie remains unmatched, so that the auction ends.

    Parameters
    ----------
    costs : array of shape (n * m,)
        One line after the other.
    n : int
        Number of lines.
    rate : array of shape (m,)
        Rates of the columns; raised.
    key : array of shape (m,)
        Scratch space.
    line_of, column_of : int arrays
        The partners of columns and lines, -1 at the beginning.
    """
    m = rate.shape[0]
    n_left = _BIDS * n
    for start in range(n):
        i = start
        while i >= 0 and n_left > 0:
            n_left -= 1
            lowest, second = _two_lowest(costs, i * m, rate, key)
            # The line has at most one allowed column, so the difference is infinite.
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
    """Update the shortest paths to the open columns by way of a line; return the length of the shortest one.

    Closed columns have an infinite rate and an infinite key.

    Parameters
    ----------
    costs : array of shape (n * m,)
    first : int
        The beginning of the line's costs.
    rate : array of shape (m,)
    offset : float
        Length of the path to the line, minus its reduced cost there.
    line : int
    key : array of shape (m,)
        Lengths of the shortest paths to the open columns; lowered.
    before : int array of shape (m,)
        The line before each column on its shortest path.
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
    """Find the best matching by an auction, followed by a shortest augmenting path for each unmatched line."""
    n_rows, n_cols = dims[0], dims[1]
    wide = n_rows <= n_cols
    n, m = (n_rows, n_cols) if wide else (n_cols, n_rows)
    # The rates are at a fixed place, the beginning, so that the next call can start from them.
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
    line_of[:] = -1
    column_of[:] = -1
    _auction(costs, n, rate, key, line_of, column_of)

    for start in range(n):
        if column_of[start] >= 0:
            continue
        key[:] = np.inf
        n_visited, i, offset = 0, start, 0.0
        while True:
            reached = _scan(costs, i * m, rate, offset, i, key, before)
            # Infinite or NaN: the scores have overflowed.
            if not reached < np.inf or n_visited == m:
                rate[:] = 0.0
                return -np.inf
            j = _column_of_key(key, reached, line_of, True)
            i = line_of[j]
            if i < 0:
                break
            # The reduced cost of a matched pair is zero.
            offset = reached - (costs[i * m + j] + rate[j])
            visited[n_visited] = j
            # The rate is restored when the path is complete.
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
