"""Matching: a one-to-one alignment of rows and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._jit import as_oracle, kernel
from ._base import Structure, as_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


@kernel(no_nans=True)
def _cheapest(costs, first, rate, key, line_of):
    """Return the lowest of a line's costs plus rates, and its column: one without a line, if there is one.

    `key` is overwritten with the sums.
    """
    m = rate.shape[0]
    lowest = np.inf
    for j in range(m):
        reduced = costs[first + j] + rate[j]
        key[j] = reduced
        lowest = reduced if reduced < lowest else lowest
    column = np.int64(-1)
    for j in range(m):
        if key[j] == lowest:
            column = j
            if line_of[j] < 0:
                break
    return lowest, column


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
    """Find the best matching by shortest augmenting paths (Jonker and Volgenant 1987; Crouse 2016 for rectangles).

    Written for costs (the scores, negated) and for lines on the shorter side, each of which is matched.
    """
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
    # Columns that stay without a line must have a rate of 0. In a square there are none, and any rates do: those of the
    # last call are the best guess. Only their differences matter.
    shift = rate[0]
    for j in range(m):
        rate[j] = 0.0 if n < m else rate[j] - shift
        line_of[j] = -1
    for i in range(n):
        column_of[i] = -1
        lowest, j = _cheapest(costs, i * m, rate, key, line_of)
        if not lowest < np.inf or j < 0:
            return -np.inf
        if line_of[j] < 0:
            line_of[j] = i
            column_of[i] = j

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
            j = np.int64(0)
            while j < m - 1 and key[j] != reached:
                j += 1
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


class Matching(Structure):
    """A maximal one-to-one alignment of rows and columns: min(n_rows, n_cols) pairs.

    Scores have shape (n_rows, n_cols). A structure is an int array of shape (n_rows,): the column of each row, -1 for
    a row without one (only where there are more rows than columns). -inf forbids a pair. Marginals of a Gibbs
    distribution are #P-complete here, so there is no `marginal_inference` and no CRF loss. See `Structure` for the
    conventions, [1]_ for SparseMAP over it.

    References
    ----------
    .. [1] Niculae, Martins, Blondel and Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

    Examples
    --------
    >>> from sklearn_sparsemap import map_inference
    >>> from sklearn_sparsemap.structures import Matching
    >>> columns, value = map_inference(Matching(), [[2.0, 1.5, 0.0], [2.0, 0.0, 1.0]])
    >>> columns.tolist(), value
    ([1, 0], 3.5)
    """

    score_ndim = 2
    oracle = best_matching
    facets = "matching"
    fixed_size = True
    strict_encode = True
    no_marginals = "summing over all matchings is #P-complete (it is the permanent of a matrix)"

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        return shape

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        n_rows, n_cols = dims
        n, m = min(n_rows, n_cols), max(n_rows, n_cols)
        return n_rows, 0, n * m + n + 6 * m

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        n_rows, n_cols = (int(d) for d in dims)
        columns = np.asarray(structure)
        is_ints = columns.shape == (n_rows,) and columns.dtype.kind in "iu"
        if not is_ints or columns.min() < -1 or columns.max() >= n_cols:
            raise ValueError(
                f"a matching is {n_rows} ints from 0 to {n_cols - 1}, the column of each row, or -1; got {structure!r}"
            )
        columns = columns.astype(np.int64)
        matched = columns[columns >= 0]
        if len(np.unique(matched)) < len(matched):
            raise ValueError(f"a column can be matched once; got {columns.tolist()}")
        if len(matched) < min(n_rows, n_cols):
            raise ValueError(
                f"a matching of {n_rows} x {n_cols} has {min(n_rows, n_cols)} pairs; got {len(matched)} in "
                f"{columns.tolist()}"
            )
        return as_parts(np.where(columns >= 0, np.arange(n_rows) * n_cols + columns, -1)), as_parts([])

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        columns = slots.astype(np.int64)
        return np.where(columns >= 0, columns % int(dims[1]), -1)

    def scores_shape(self, rows: tuple[int, ...], n_outputs: int) -> tuple[int, ...]:
        if len(rows) == 1:
            n = round(np.sqrt(rows[0]))
            rows = (n, n) if n * n == rows[0] else rows
        if len(rows) != 2:
            raise ValueError(
                f"a sample of a matching has one row for each pair; {rows[0]} rows are no square, so pass a sample of "
                "shape (n_rows, n_cols, n_features), or a RaggedArray with `shapes`"
            )
        return rows

    def example_shapes(self) -> Sequence[tuple[int, ...]]:
        return (1, 1), (2, 2), (1, 3), (3, 1), (2, 4), (4, 3), (3, 3)
