"""Matching: a one-to-one alignment of rows and columns."""

import numpy as np

from .._jit import as_oracle
from ._base import Structure, as_parts


@as_oracle
def best_matching(scores, additional, dims, work, slots, additional_slots):
    """Find the best matching by shortest augmenting paths (Jonker and Volgenant 1987; Crouse 2016 for rectangles).

    Written for costs (the scores, negated) and for lines on the shorter side, each of which is matched; the cells of
    a line are ``stride`` apart.
    """
    n_rows, n_cols = dims[0], dims[1]
    wide = n_rows <= n_cols
    n, m = (n_rows, n_cols) if wide else (n_cols, n_rows)
    costs = work[: n * m]
    if wide:
        for a in range(n * m):
            costs[a] = -scores[a]
    else:
        for i in range(n):
            for j in range(m):
                costs[i * m + j] = -scores[j * n + i]
    potential, price = work[n * m : n * m + n], work[n * m + n : n * m + n + m]
    shortest = work[n * m + n + m : n * m + n + 2 * m]
    ints = work[n * m + n + 2 * m :].view(np.int64)
    column_of, line_of = ints[:n], ints[n : n + m]
    before, remaining = ints[n + m : n + 2 * m], ints[n + 2 * m : n + 3 * m]
    scanned = ints[n + 3 * m : 2 * n + 3 * m]

    # Prices of zero are allowed for columns without a line; so every line may take its cheapest free column.
    for j in range(m):
        price[j] = 0.0
        line_of[j] = -1
    for i in range(n):
        row = costs[i * m : (i + 1) * m]
        best, lowest = 0, row[0]
        for j in range(1, m):
            best = j if row[j] < lowest else best
            lowest = row[j] if row[j] < lowest else lowest
        if lowest == np.inf:
            return -np.inf
        potential[i] = lowest
        column_of[i] = -1
        if line_of[best] < 0:
            line_of[best] = i
            column_of[i] = best

    for start in range(n):
        if column_of[start] >= 0:
            continue
        for j in range(m):
            shortest[j] = np.inf
            remaining[j] = j
        n_remaining, n_scanned, i, reached = m, 0, start, 0.0
        while True:
            scanned[n_scanned] = i
            n_scanned += 1
            row, offset = costs[i * m : (i + 1) * m], reached - potential[i]
            place, lowest = -1, np.inf
            for r in range(n_remaining):
                j = remaining[r]
                length = row[j] - price[j] + offset
                if length < shortest[j]:
                    shortest[j] = length
                    before[j] = i
                length = shortest[j]
                if length < lowest or (length == lowest and line_of[j] < 0):
                    place, lowest = r, length
            if place < 0 or lowest == np.inf:
                return -np.inf
            reached = lowest
            j = remaining[place]
            n_remaining -= 1
            # The columns that were scanned end up behind the remaining ones.
            remaining[place], remaining[n_remaining] = remaining[n_remaining], j
            i = line_of[j]
            if i < 0:
                break
        potential[start] += reached
        for s in range(1, n_scanned):
            potential[scanned[s]] += reached - shortest[column_of[scanned[s]]]
        for r in range(n_remaining + 1, m):
            price[remaining[r]] -= reached - shortest[remaining[r]]
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
    """A maximal one-to-one alignment of rows and columns: min(n_rows, n_cols) pairs (S 3).

    Scores have shape (n_rows, n_cols). A structure is an int array of shape (n_rows,): the column of each row, -1 for
    a row without one (only where there are more rows than columns). -inf forbids a pair. Marginals of a Gibbs
    distribution are #P-complete here, so there is no `marginal_inference` and no CRF loss. See `Structure` for the
    conventions.

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
    no_marginals = "summing over all matchings is #P-complete (it is the permanent of a matrix)"

    def dims(self, shape, given):
        return shape

    def sizes(self, dims):
        n_rows, n_cols = dims
        n, m = min(n_rows, n_cols), max(n_rows, n_cols)
        return n_rows, 0, n * m + 3 * n + 5 * m

    def encode(self, structure, dims):
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

    def decode(self, slots, dims):
        columns = slots.astype(np.int64)
        return np.where(columns >= 0, columns % int(dims[1]), -1)

    def scores_shape(self, rows, n_outputs):
        if len(rows) == 1:
            n = round(np.sqrt(rows[0]))
            rows = (n, n) if n * n == rows[0] else rows
        if len(rows) != 2:
            raise ValueError(
                f"a sample of a matching has one row for each pair; {rows[0]} rows are no square, so pass a sample of "
                "shape (n_rows, n_cols, n_features), or a RaggedArray with `shapes`"
            )
        return rows

    def example_shapes(self):
        return (1, 1), (2, 2), (1, 3), (3, 1), (2, 4), (4, 3), (3, 3)
