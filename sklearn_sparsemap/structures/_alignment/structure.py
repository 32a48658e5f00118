"""Alignment: two sequences step by step, in order."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..._core.annotations import Any, Mapping, NDArray
from ..._core.validation import check_choice
from .._base import Structure, as_ints, as_parts, solver_in_tensors
from .entering import ways_of_alignment
from .gibbs import alignment_marginals
from .map import GLOBAL, LOCAL, WARPING, best_alignment

_MODES = {"warping": WARPING, "global": GLOBAL, "local": LOCAL}


class Alignment(Structure):
    """A monotone alignment of two sequences, a path through the grid of their steps.

    Scores have shape (n_rows, n_columns), one for each pair of steps; -inf forbids a pair.

    Parameters
    ----------
    mode : {"warping", "global", "local"}, default="warping"
        - ``"warping"``: dynamic time warping (DTW) [1]_. A path from the first cell to the last one, by steps to the
          right, down, or both. Each step of either sequence is aligned, possibly with several steps. A structure is an
          int array of shape (n_cells, 2), the cells of the path.
        - ``"global"``: each step is aligned with at most one step of the other sequence, in order, and is a gap
          otherwise [2]_. A structure is an int array of shape (n_rows,): the column of each row, or -1.
        - ``"local"``: the same for a part of either sequence [3]_. Only gaps between the first pair and the last one
          count, and there may be no pair at all, for a score of 0.

    Notes
    -----
    Kinds with gaps have one optional additional score: `gaps`, shape (2,), the score of a gap in a row (a row that is
    not aligned) and of a gap in a column. By default gaps score 0. In a Gibbs distribution each set of pairs counts
    once, for all orders of the gaps between them.

    See `Structure` for the conventions, [4]_ for SparseMAP over a structure.

    References
    ----------
    .. [1] Sakoe and Chiba. Dynamic Programming Algorithm Optimization for Spoken Word Recognition. IEEE Transactions on
       Acoustics, Speech, and Signal Processing, 1978.
    .. [2] Needleman and Wunsch. A General Method Applicable to the Search for Similarities in the Amino Acid Sequence
       of Two Proteins. Journal of Molecular Biology, 1970.
    .. [3] Smith and Waterman. Identification of Common Molecular Subsequences. Journal of Molecular Biology, 1981.
    .. [4] Niculae, Martins, Blondel and Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import map_inference
    >>> from sklearn_sparsemap.structures import Alignment
    >>> first, second = np.array([0.0, 1.0, 5.0]), np.array([0.0, 0.0, 1.0, 5.0])
    >>> path, value = map_inference(Alignment(), -np.abs(first[:, None] - second))
    >>> path.tolist(), value
    ([[0, 0], [0, 1], [1, 2], [2, 3]], 0.0)
    >>> same = np.where(np.array(list("GATTA"))[:, None] == np.array(list("GTA")), 1.0, -1.0)
    >>> columns, value = map_inference(Alignment("global"), same, gaps=[-0.5, -0.5])
    >>> columns.tolist(), value
    ([0, -1, -1, 1, 2], 2.0)
    """

    score_ndim = 2
    oracle = best_alignment
    entering = ways_of_alignment
    tensor_solver = solver_in_tensors(__package__)
    marginal_oracle = alignment_marginals
    sums_for_entering = True
    strict_encode = True

    def __init__(self, mode: Literal["warping", "global", "local"] = "warping") -> None:
        check_choice("mode", mode, _MODES)
        self.mode = mode

    @property
    def additional_names(self) -> tuple[str, ...]:
        return () if self.mode == "warping" else ("gaps",)

    def additional_shapes(self, shape: tuple[int, ...]) -> dict[str, tuple[tuple[int, ...], ...]]:
        return {name: ((2,),) for name in self.additional_names}

    def learned_shapes(self, n_outputs: int) -> dict[str, tuple[int, ...]]:
        return {name: (2,) for name in self.additional_names}

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        return (*shape, _MODES[self.mode], 2 * ("gaps" in given))

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        n, m, mode, n_gaps = dims
        if mode == WARPING:
            return n + m - 1, 0, n * m
        return n, (n + m if n_gaps else 0), 3 * (n + 1) * (m + 1)

    def marginal_work(self, dims: NDArray[np.int64]) -> int:
        n, m, mode, n_gaps = (int(d) for d in dims)
        return n * m + n_gaps + (n * m if mode == WARPING else 6 * (n + 1) * (m + 1))

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        n, m, mode, n_gaps = (int(d) for d in dims)
        if mode == WARPING:
            return self._encode_path(np.asarray(structure), n, m), as_parts([])
        form = f"an alignment is {n} ints from 0 to {m - 1}, the column of each row, or -1"
        given = as_ints(structure, (n,), -1, m - 1, form)
        rows = np.flatnonzero(given >= 0)
        columns = given[rows]
        if (np.diff(columns) <= 0).any():
            raise ValueError(f"the columns of an alignment increase; got {given.tolist()}")
        slots = np.where(given >= 0, np.arange(n) * m + given, -1)
        if not n_gaps:
            return as_parts(slots), as_parts([])
        spans = n, m
        if mode == LOCAL:
            # A local alignment pays no gaps before its first pair and after its last pair.
            spans = (rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1) if len(rows) else (0, 0)
        gaps = np.full(n + m, -1)
        in_rows, in_columns = (int(span) - len(rows) for span in spans)
        gaps[:in_rows] = 0
        gaps[in_rows : in_rows + in_columns] = 1
        return as_parts(slots), as_parts(gaps)

    def _encode_path(self, path, n, m):
        """Return the slots of the cells of a path, one for each antidiagonal."""
        if path.ndim != 2 or path.shape[1] != 2 or not len(path) or path.dtype.kind not in "iu":
            raise ValueError(f"a path is an int array of shape (n_cells, 2); got shape {path.shape}")
        steps = np.diff(path.astype(np.int64), axis=0)
        ends = [[0, 0], [n - 1, m - 1]]
        if path[[0, -1]].tolist() != ends or not np.isin(steps, (0, 1)).all() or not steps.any(axis=1).all():
            raise ValueError(
                f"a path goes from cell {ends[0]} to cell {ends[1]}, by a row, a column, or both at a time; got "
                f"{path.tolist()}"
            )
        slots = np.full(n + m - 1, -1)
        slots[path.sum(axis=1)] = path[:, 0] * m + path[:, 1]
        return as_parts(slots)

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        m = int(dims[1])
        cells = slots.astype(np.int64)
        if self.mode == "warping":
            cells = cells[cells >= 0]
            return np.column_stack([cells // m, cells % m])
        return np.where(cells >= 0, cells % m, -1)

    def scores_shape(self, rows: tuple[int, ...], n_outputs: int) -> tuple[int, ...]:
        if len(rows) != 2:
            raise ValueError(
                f"a sample of an alignment has one row for each pair of steps; got shape {rows}, so pass a sample of "
                "shape (n_rows, n_columns, n_features), or a RaggedArray with `shapes`"
            )
        return rows
