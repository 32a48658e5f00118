"""Subset: a choice of items, with bounds on their number."""

from __future__ import annotations

import numpy as np

from ..._core.annotations import Any, Mapping, NDArray, Sequence
from ..._core.validation import check_positive
from .._base import Structure, as_bools, as_parts, solver_in_tensors
from .facets import THRESHOLD
from .gibbs import subset_marginals
from .map import best_subset
from .n_best import best_subsets


class Subset(Structure):
    """A subset of n items, with at least `min_size` and at most `max_size` of them.

    Scores have shape (n,), and a structure is a bool array of shape (n,). -inf forbids an item. Samples with other
    bounds need a call of their own. See `Structure` for the conventions, [1]_ for SparseMAP over it.

    Parameters
    ----------
    min_size : int, default=0
        Minimum number of items.
    max_size : int, default=None
        Maximum number of items. By default, all.

    References
    ----------
    .. [1] Niculae, Martins, Blondel and Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

    Examples
    --------
    >>> from sklearn_sparsemap import sparsemap
    >>> from sklearn_sparsemap.structures import Subset
    >>> sparsemap(Subset(max_size=1), [0.75, 0.5, -1.0]).marginals.round(3).tolist()
    [0.625, 0.375, 0.0]
    """

    score_ndim = 1
    decodes_stacks = True
    oracle = best_subset
    tensor_solver = solver_in_tensors(__package__)
    polytope_solver = THRESHOLD
    marginal_oracle = subset_marginals
    strict_encode = True
    _rows_of_samples = "a subset has one row for each item"

    def __init__(self, min_size: int = 0, max_size: int | None = None) -> None:
        check_positive("min_size", min_size, integer=True, zero=True)
        if max_size is not None:
            check_positive("max_size", max_size, integer=True, zero=True)
            if max_size < min_size:
                raise ValueError(f"max_size={max_size} is less than min_size={min_size}")
        self.min_size = min_size
        self.max_size = max_size

    @property
    def fixed_size(self) -> bool:
        return self.min_size == self.max_size

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        n = shape[0]
        if self.min_size > n:
            raise ValueError(f"there are {n} items, fewer than min_size={self.min_size}")
        return n, self.min_size, n if self.max_size is None else min(n, self.max_size)

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        return dims[0], 0, dims[0]

    def marginal_work(self, dims: NDArray[np.int64]) -> int:
        n, low, high = (int(d) for d in dims)
        return 5 * n + (n + 2) * (min(high, n - low) + 1)

    def n_best(self, problems: Any, limit: Any, counts: Any, start: int, stop: int) -> Any:
        return best_subsets(problems, limit, counts, start, stop)

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        n, min_size, max_size = (int(d) for d in dims)
        only = "; for the index of the only one, use Simplex()" if min_size == max_size == 1 else ""
        chosen = as_bools(structure, n, f"a subset is {n} bools, one for each item{only}")
        if not min_size <= chosen.sum() <= max_size:
            raise ValueError(f"a subset has {min_size} to {max_size} items here; got {int(chosen.sum())}")
        return as_parts(np.where(chosen, np.arange(n), -1)), as_parts([])

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        return slots >= 0

    def example_shapes(self) -> Sequence[tuple[int, ...]]:
        low = max(1, self.min_size)
        return tuple((n,) for n in (low, low + 1, low + 2, low + 3))
