"""Marginals of monotone alignments: the tables of `map.py` with log-sums, and then their derivatives.

The derivative of log Z by an entry of a table is the probability that the alignment passes there. The backward pass
distributes the probability of each entry over the summands of its sum.

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, kernel
from .._sums import add_logs
from .map import LOCAL, WARPING, gap_scores, sum_alignments, sum_warps


@kernel
def _share(probability, part, whole):
    """Return the part of a probability that belongs to a summand, given the logarithms of the summand and the sum."""
    return probability * np.exp(part - whole) if probability > 0.0 else 0.0


@kernel
def _pass_warps(scores, n, m, paths, marginals):
    """Write the probability of each cell."""
    marginals[: n * m] = 0.0
    marginals[n * m - 1] = 1.0
    for cell in range(n * m - 1, 0, -1):
        i, j, p, whole = cell // m, cell % m, marginals[cell], paths[cell] - scores[cell]
        if i > 0:
            marginals[cell - m] += _share(p, paths[cell - m], whole)
        if j > 0:
            marginals[cell - 1] += _share(p, paths[cell - 1], whole)
        if i > 0 and j > 0:
            marginals[cell - m - 1] += _share(p, paths[cell - m - 1], whole)


@kernel
def _pass_alignments(n, m, is_local, gaps, tables, passed, marginals):
    """Write the probability of each cell; return the expected numbers of gaps in rows and in columns.

    Parameters
    ----------
    n, m : int
    is_local : bool
    gaps : tuple of float
        Scores of a gap in a row and in a column.
    tables : tuple of arrays
        As `sum_alignments` fills them.
    passed : tuple of arrays
        For each entry of the tables, the probability that an alignment ends there; gets that of passing it.
    marginals : array of shape (n * m,)
    """
    matched, paused, every = tables
    at_match, at_pause, at_any = passed
    width, in_rows, in_columns = m + 1, 0.0, 0.0
    for i in range(n, -1, -1):
        for j in range(m, -1, -1):
            here = i * width + j
            at_pause[here] += _share(at_any[here], paused[here], every[here])
            if j > 0:
                p = _share(at_any[here], every[here - 1] + gaps[1], every[here])
                at_any[here - 1] += p
                in_columns += p
            at_match[here] += _share(at_pause[here], matched[here], paused[here])
            if i > 0:
                p = _share(at_pause[here], paused[here - width] + gaps[0], paused[here])
                at_pause[here - width] += p
                in_rows += p
            if i > 0 and j > 0:
                p, before = at_match[here], every[here - width - 1]
                marginals[(i - 1) * m + j - 1] = p
                # A local alignment may also begin here.
                at_any[here - width - 1] += _share(p, before, add_logs(before, 0.0)) if is_local else p
    return in_rows, in_columns


@as_oracle
def alignment_marginals(scores, additional, dims, work, slots, additional_slots):
    """Compute the probability of each cell and the expected numbers of gaps; return log Z."""
    n, m, kind = dims[0], dims[1], dims[2]
    n_cells, n_gaps, size = n * m, additional.shape[0], (n + 1) * (m + 1)
    rest = work[n_cells + n_gaps :]
    if kind == WARPING:
        sum_warps(scores, n, m, rest)
        log_partition = rest[n_cells - 1]
        if log_partition > -np.inf:
            _pass_warps(scores, n, m, rest, work)
        return log_partition
    is_local = kind == LOCAL
    gaps = gap_scores(additional)
    tables = rest[:size], rest[size : 2 * size], rest[2 * size : 3 * size]
    passed = rest[3 * size : 4 * size], rest[4 * size : 5 * size], rest[5 * size : 6 * size]
    sum_alignments(scores, n, m, is_local, gaps, tables)
    log_partition = tables[2][size - 1]
    if is_local:
        # An alignment without pairs has a score of 0; others end with a match.
        log_partition = 0.0
        for here in range(size):
            log_partition = add_logs(log_partition, tables[0][here])
    if log_partition == -np.inf:
        return log_partition
    for here in range(size):
        passed[0][here] = np.exp(tables[0][here] - log_partition) if is_local else 0.0
        passed[1][here] = passed[2][here] = 0.0
    passed[2][size - 1] = 0.0 if is_local else 1.0
    in_rows, in_columns = _pass_alignments(n, m, is_local, gaps, tables, passed, work)
    if n_gaps:
        work[n_cells], work[n_cells + 1] = in_rows, in_columns
    return log_partition
