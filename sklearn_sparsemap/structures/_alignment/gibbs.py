"""Marginals of monotone alignments: forward and backward tables as in `map.py`, with log-sums instead of maxima."""

import numpy as np

from ..._core.jit import as_oracle, kernel
from .._exp import add_logs
from .map import LOCAL, WARPING, gap_scores


@kernel
def _sum_warps(scores, n, m, forward, backward):
    """Fill in the log-sums of all paths to each cell (inclusive) and from each cell (exclusive); return log Z."""
    for i in range(n):
        for j in range(m):
            before = 0.0 if i == 0 and j == 0 else -np.inf
            if i > 0:
                before = add_logs(before, forward[(i - 1) * m + j])
            if j > 0:
                before = add_logs(before, forward[i * m + j - 1])
            if i > 0 and j > 0:
                before = add_logs(before, forward[(i - 1) * m + j - 1])
            forward[i * m + j] = before + scores[i * m + j]
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            after = 0.0 if i == n - 1 and j == m - 1 else -np.inf
            if i < n - 1:
                after = add_logs(after, backward[(i + 1) * m + j] + scores[(i + 1) * m + j])
            if j < m - 1:
                after = add_logs(after, backward[i * m + j + 1] + scores[i * m + j + 1])
            if i < n - 1 and j < m - 1:
                after = add_logs(after, backward[(i + 1) * m + j + 1] + scores[(i + 1) * m + j + 1])
            backward[i * m + j] = after
    return forward[n * m - 1]


@kernel
def _sum_forward(scores, n, m, is_local, gaps, tables):
    """Fill in the log-sums of alignments of the first rows and columns; the maxima are in `map.py`."""
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
def _sum_backward(scores, n, m, is_local, gaps, after):
    """Fill in the log-sums of completions after the first rows and columns, by the last element of the alignment."""
    from_match, from_row, from_every = after
    width = m + 1
    for i in range(n, -1, -1):
        for j in range(m, -1, -1):
            here = i * width + j
            onward = 0.0 if i == n and j == m and not is_local else -np.inf
            if i < n and j < m:
                onward = scores[i * m + j] + from_match[here + width + 1]
            if j < m:
                onward = add_logs(onward, gaps[1] + from_every[here + 1])
            from_every[here] = onward
            from_row[here] = add_logs(onward, gaps[0] + from_row[here + width]) if i < n else onward
            # A local alignment may end with any match.
            from_match[here] = add_logs(from_row[here], 0.0) if is_local else from_row[here]


@as_oracle
def alignment_marginals(scores, additional, dims, work, slots, additional_slots):
    """Compute the probability of each cell and the expected numbers of gaps; return log Z."""
    n, m, kind = dims[0], dims[1], dims[2]
    n_cells, width, n_gaps = n * m, m + 1, additional.shape[0]
    rest = work[n_cells + n_gaps :]
    if kind == WARPING:
        forward, backward = rest[:n_cells], rest[n_cells : 2 * n_cells]
        log_partition = _sum_warps(scores, n, m, forward, backward)
        if log_partition > -np.inf:
            for cell in range(n_cells):
                work[cell] = np.exp(forward[cell] + backward[cell] - log_partition)
        return log_partition
    is_local, gaps, size = kind == LOCAL, gap_scores(additional), (n + 1) * (m + 1)
    before = rest[:size], rest[size : 2 * size], rest[2 * size : 3 * size]
    after = rest[3 * size : 4 * size], rest[4 * size : 5 * size], rest[5 * size : 6 * size]
    _sum_forward(scores, n, m, is_local, gaps, before)
    _sum_backward(scores, n, m, is_local, gaps, after)
    log_partition = before[2][size - 1]
    if is_local:
        log_partition = 0.0
        for here in range(size):
            log_partition = add_logs(log_partition, before[0][here])
    if log_partition == -np.inf:
        return log_partition
    in_rows, in_columns = 0.0, 0.0
    for i in range(n + 1):
        for j in range(width):
            here = i * width + j
            if i > 0 and j > 0:
                work[(i - 1) * m + j - 1] = np.exp(before[0][here] + after[0][here] - log_partition)
            if i > 0:
                in_rows += np.exp(before[1][here - width] + gaps[0] + after[1][here] - log_partition)
            if j > 0:
                in_columns += np.exp(before[2][here - 1] + gaps[1] + after[2][here] - log_partition)
    if n_gaps:
        work[n_cells], work[n_cells + 1] = in_rows, in_columns
    return log_partition


def alignment_marginal_work(dims):
    """Return the length of `work` that `alignment_marginals` needs."""
    n, m, kind, n_gaps = (int(d) for d in dims)
    tables = 2 * n * m if kind == WARPING else 6 * (n + 1) * (m + 1)
    return n * m + n_gaps + tables
