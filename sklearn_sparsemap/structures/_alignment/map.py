"""The best monotone alignment.

In a gapped alignment, the gaps after a match come in a fixed order: first those in rows, then those in columns. So each
set of matched cells has one derivation. There are three tables with an entry for each number of processed rows and
columns: the best alignment that ends with a match, the best that ends with a match or a gap in a row, and the best of
all. With sums of exponentials in place of maxima, on logarithms, the same tables serve `gibbs.py`.

Used by `entering.py`, `gibbs.py` and `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, copy_into, kernel
from .._sums import add_logs, larger

WARPING, GLOBAL, LOCAL = 0, 1, 2


@kernel
def gap_scores(additional):
    """Return the score of a gap in a row, and of a gap in a column."""
    if additional.shape[0] == 0:
        return 0.0, 0.0
    return additional[0], additional[1]


@kernel
def sum_warps(scores, n, m, paths):
    """Fill in the logarithm of the sum over the paths to each cell of the exponentials of their scores."""
    for i in range(n):
        for j in range(m):
            before = 0.0 if i == 0 and j == 0 else -np.inf
            if i > 0:
                before = add_logs(before, paths[(i - 1) * m + j])
            if j > 0:
                before = add_logs(before, paths[i * m + j - 1])
            if i > 0 and j > 0:
                before = add_logs(before, paths[(i - 1) * m + j - 1])
            paths[i * m + j] = before + scores[i * m + j]


@kernel
def sum_alignments(scores, n, m, is_local, gaps, tables):
    """Fill in the log-sums over alignments of the first rows and columns; see the docstring of the module.

    Parameters
    ----------
    scores : array of shape (n * m,)
    n, m : int
    is_local : bool
        Whether an alignment may begin at each entry.
    gaps : tuple of float
        Scores of a gap in a row and in a column.
    tables : tuple of arrays
        Three, with (n + 1) * (m + 1) entries each.
    """
    matched, paused, every = tables
    width = m + 1
    for i in range(n + 1):
        for j in range(m + 1):
            here = i * width + j
            ends_here = 0.0 if i == 0 and j == 0 and not is_local else -np.inf
            if i > 0 and j > 0:
                before = every[here - width - 1]
                ends_here = scores[(i - 1) * m + j - 1] + (add_logs(before, 0.0) if is_local else before)
            matched[here] = ends_here
            paused[here] = add_logs(ends_here, paused[here - width] + gaps[0]) if i > 0 else ends_here
            every[here] = add_logs(paused[here], every[here - 1] + gaps[1]) if j > 0 else paused[here]


@kernel
def _best_warp_to(scores, i, j, m, paths):
    """Fill in the score of the best path to a cell that is not the first one."""
    here = i * m + j
    before = -np.inf
    if i > 0:
        before = paths[here - m]
        if j > 0:
            before = larger(before, paths[here - m - 1])
    if j > 0:
        before = larger(before, paths[here - 1])
    paths[here] = before + scores[here]


@kernel
def _best_warps(scores, n, m, paths):
    """Fill in the score of the best path to each cell.

    A cell waits for its neighbour to the left. So the processor fills in four rows together, each one column behind the
    row above it: cells of one antidiagonal do not wait for each other.
    """
    paths[0] = 0.0 + scores[0]
    for j in range(1, m):
        _best_warp_to(scores, 0, j, m, paths)
    n_strips = (n - 1) // 4 if m >= 4 else 0
    for strip in range(n_strips):
        first = 4 * strip + 1
        for row in range(3):
            for j in range(3 - row):
                _best_warp_to(scores, first + row, j, m, paths)
        _best_warps_of_strip(scores[first * m :], m, paths[(first - 1) * m :])
        for row in range(1, 4):
            for j in range(m - row, m):
                _best_warp_to(scores, first + row, j, m, paths)
    for i in range(4 * n_strips + 1, n):
        for j in range(m):
            _best_warp_to(scores, i, j, m, paths)


@kernel
def _best_warps_of_strip(scores, m, paths):
    """Fill in the antidiagonals of four rows that have a cell in each; see `_best_warps`.

    Parameters
    ----------
    scores : array
        Begins with the first of the rows.
    m : int
        Number of columns.
    paths : array
        Begins with the row above. Cells of earlier antidiagonals are filled in.
    """
    # In these views, cells of one antidiagonal have the same index.
    own_0, own_1, own_2, own_3 = scores, scores[m - 1 :], scores[2 * m - 2 :], scores[3 * m - 3 :]
    row_0, row_1, row_2, row_3 = paths[m:], paths[2 * m - 1 :], paths[3 * m - 2 :], paths[4 * m - 3 :]
    # The cells of the last antidiagonal, and of the one before it.
    last_0, last_1, last_2, last_3 = row_0[2], row_1[2], row_2[2], -np.inf
    before_0, before_1, before_2 = row_0[1], row_1[1], -np.inf
    for j in range(3, m):
        now_0 = larger(larger(paths[j], paths[j - 1]), last_0) + own_0[j]
        now_1 = larger(larger(last_0, before_0), last_1) + own_1[j]
        now_2 = larger(larger(last_1, before_1), last_2) + own_2[j]
        now_3 = larger(larger(last_2, before_2), last_3) + own_3[j]
        row_0[j] = now_0
        row_1[j] = now_1
        row_2[j] = now_2
        row_3[j] = now_3
        before_0, before_1, before_2 = last_0, last_1, last_2
        last_0, last_1, last_2, last_3 = now_0, now_1, now_2, now_3


@kernel
def _best_alignments(scores, n, m, is_local, gaps, tables):
    """Fill in the scores of the best alignments, row by row; see `sum_alignments`.

    The maximum over the entries above does not depend on the one to the left. It comes first, by vector instructions.
    """
    least = 0.0 if is_local else -np.inf
    width = m + 1
    for i in range(n + 1):
        first = i * width
        matched, paused, every = (
            tables[0][first : first + width], tables[1][first : first + width], tables[2][first : first + width],
        )  # fmt: skip
        matched[0] = 0.0 if i == 0 and not is_local else -np.inf
        if i == 0:
            matched[1:] = -np.inf
            copy_into(paused, matched)
        else:
            own, above, paused_above = scores[(i - 1) * m :], tables[2][first - width :], tables[1][first - width :]
            for j in range(1, width):
                matched[j] = larger(above[j - 1], least) + own[j - 1]
            for j in range(width):
                paused[j] = larger(matched[j], paused_above[j] + gaps[0])
        every[0] = best = paused[0]
        for j in range(1, width):
            best = larger(paused[j], best + gaps[1])
            every[j] = best


@kernel
def _trace_warp(n, m, best, slots):
    """Follow the best path back. All cells of an antidiagonal have the same slot, because a path has at most one."""
    i, j = n - 1, m - 1
    slots[i + j] = i * m + j
    while i > 0 or j > 0:
        value, to_i, to_j = -np.inf, i, j
        if i > 0 and j > 0:
            value, to_i, to_j = best[(i - 1) * m + j - 1], i - 1, j - 1
        if i > 0 and best[(i - 1) * m + j] > value:
            value, to_i, to_j = best[(i - 1) * m + j], i - 1, j
        if j > 0 and best[i * m + j - 1] > value:
            value, to_i, to_j = best[i * m + j - 1], i, j - 1
        i, j = to_i, to_j
        slots[i + j] = i * m + j


@kernel
def _trace(m, is_local, tables, end, slots, additional_slots):
    """Follow the best alignment back from an entry; write a match in row i to slot i, gaps to free slots.

    A local alignment ends with a match; others can end with a match or a gap.

    Parameters
    ----------
    m : int
        Number of columns.
    is_local : bool
    tables : tuple of arrays
        Of maxima.
    end : int
        The entry.
    slots, additional_slots : arrays
        As of the oracle.
    """
    matched, paused, best = tables
    width, here, n_gaps = m + 1, end, 0
    at_match = is_local
    while True:
        while not at_match and best[here] > paused[here]:
            here -= 1
            if additional_slots.shape[0]:
                additional_slots[n_gaps] = 1
            n_gaps += 1
        while not at_match and paused[here] > matched[here]:
            here -= width
            if additional_slots.shape[0]:
                additional_slots[n_gaps] = 0
            n_gaps += 1
        if here // width == 0 or here % width == 0:
            break
        i, j = here // width - 1, here % width - 1
        slots[i] = i * m + j
        here -= width + 1
        at_match = False
        if is_local and not best[here] > 0.0:
            break


@as_oracle
def best_alignment(scores, additional, dims, work, slots, additional_slots):
    """Find the best alignment: time warping, global, or local. `entering.py` reads the tables in `work` afterwards."""
    n, m, kind = dims[0], dims[1], dims[2]
    slots[:] = -1
    if kind == WARPING:
        best = work[: n * m]
        _best_warps(scores, n, m, best)
        if best[n * m - 1] > -np.inf:
            _trace_warp(n, m, best, slots)
        return best[n * m - 1]
    additional_slots[:] = -1
    is_local = kind == LOCAL
    size = (n + 1) * (m + 1)
    tables = work[:size], work[size : 2 * size], work[2 * size : 3 * size]
    _best_alignments(scores, n, m, is_local, gap_scores(additional), tables)
    end = size - 1
    value = tables[2][end]
    if is_local:
        for here in range(size):
            end = here if tables[0][here] > tables[0][end] else end
        # An empty local alignment has score 0.
        value = max(tables[0][end], 0.0)
    if value > (0.0 if is_local else -np.inf):
        _trace(m, is_local, tables, end, slots, additional_slots)
    return value
