"""Matching: a one-to-one alignment of rows and columns."""

from __future__ import annotations

import numpy as np

from ..._core.annotations import Any, Mapping, NDArray, Sequence
from .._base import Structure, as_ints, as_parts, known_entries, solver_in_tensors
from .facets import MULTIPLIERS
from .map import best_matching


class Matching(Structure):
    """A maximal one-to-one alignment of rows and columns: min(n_rows, n_cols) pairs.

    Scores have shape (n_rows, n_cols). A structure is an int array of shape (n_rows,): the column of each row, or -1
    for an unmatched row (only if there are more rows than columns). -inf forbids a pair. Marginals of the Gibbs
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
    decodes_stacks = True
    oracle = best_matching
    tensor_solver = solver_in_tensors(__package__)
    polytope_solver = MULTIPLIERS
    fixed_size = True
    strict_encode = True
    no_marginals = "summing over all matchings is #P-complete (it is the permanent of a matrix)"

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        return shape

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        n_rows, n_cols = dims
        n = min(n_rows, n_cols)
        m = max(n_rows, n_cols)
        return n_rows, 0, n * m + n + 6 * m

    def exclusive_parts(self, dims: NDArray[np.int64]) -> NDArray[np.int64]:
        # Every row has a partner if there are no more rows than columns; otherwise every column has one.
        cells = np.arange(dims[0] * dims[1]).reshape(dims[0], dims[1])
        return cells if dims[0] <= dims[1] else cells.T

    def forbidden_by(self, known: Sequence[Any], shape: tuple[int, ...]) -> NDArray[np.bool_]:
        n, m = shape
        forbidden = np.zeros(shape, bool)
        for row, column in known_entries(known, n, "rows", "the column of a row", -1, m - 1):
            forbidden[row] |= np.arange(m) != column
            if column >= 0:
                forbidden[:, int(column)] |= np.arange(n) != row
        return forbidden

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        n_rows, n_cols = (int(d) for d in dims)
        form = f"a matching is {n_rows} ints from 0 to {n_cols - 1}, the column of each row, or -1"
        columns = as_ints(structure, (n_rows,), -1, n_cols - 1, form)
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
