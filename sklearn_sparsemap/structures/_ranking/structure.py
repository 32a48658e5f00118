"""Ranking: items in order, or the first few of them."""

from __future__ import annotations

import numpy as np

from ..._core.annotations import Any, Mapping, NDArray, Sequence
from ..._core.jit import as_oracle
from ..._core.select import order_downwards
from ..._core.validation import check_positive
from .._base import Structure, as_ints, as_parts, solver_in_tensors
from .facets import ISOTONIC
from .n_best import best_rankings


@as_oracle
def best_ranking(scores, additional, dims, work, slots, additional_slots):
    """Sort the items by their scores; dims is (number of items, number of items with points)."""
    n, n_points = dims[0], dims[1]
    ints = work.view(np.int64)
    order, points = ints[:n], ints[n : 2 * n]
    order_downwards(scores, order)
    value = 0.0
    for place in range(n):
        points[order[place]] = max(n_points - place, 0)
        if place < n_points:
            value += scores[order[place]] * (n_points - place)
    slot = np.int64(0)
    for i in range(n):
        for _ in range(points[i]):
            slots[slot] = i
            slot += 1
    return value


class Ranking(Structure):
    """The order of some items, or the best few of them in order.

    Scores have shape (n_items,). The first of n items gets n - 1 points, each next item one point fewer, and the last
    item none. The score of a ranking is the sum of all items' scores times their points. So sorting by scores finds the
    best ranking, and marginals are expected points: a soft ranking. They are the point of the permutahedron that is
    nearest to the scores [1]_, computed by isotonic regression in O(n log n), with closed-form derivatives.

    A structure is an int array with the items, the best one first. -inf forbids that an item has points.

    Parameters
    ----------
    top_k : int, default=None
        Number of items that have points: the first one has `top_k`, the last one of them 1, all others 0. A structure
        has shape (top_k,). By default all n items are ranked: the first one has n - 1 points, and a structure has shape
        (n,).

    Notes
    -----
    Points are counts, not probabilities: an item with 3 points is three times in a structure (`Structure.repeats`). An
    encoded structure of n items takes n (n - 1) / 2 ints; marginals do not need it. Scores are measured in points:
    items whose scores differ by 1 or more are in a certain order, and items with equal scores have equal expected
    points.

    The cost of losses with a margin is half of the squared distance of the points. There are no Gibbs marginals.
    `score` of an estimator is the fraction of pairs of items in the correct order (with `top_k`, of pairs with an item
    of the true ranking). See `Structure` for the conventions.

    References
    ----------
    .. [1] Blondel, Teboul, Berthet and Djolonga. Fast Differentiable Sorting and Ranking. ICML 2020.

    Examples
    --------
    >>> from sklearn_sparsemap import map_inference, sparsemap
    >>> from sklearn_sparsemap.structures import Ranking
    >>> map_inference(Ranking(), [0.5, 3.0, 1.0])[0].tolist()
    [1, 2, 0]
    >>> sparsemap(Ranking(), [0.5, 3.0, 1.0]).marginals.tolist()
    [0.25, 2.0, 0.75]
    >>> sparsemap(Ranking(top_k=1), [0.5, 3.0, 2.5]).marginals.tolist()
    [0.0, 0.75, 0.25]
    """

    oracle = best_ranking
    tensor_solver = solver_in_tensors(__package__)
    polytope_solver = ISOTONIC
    fixed_size = True
    repeats = True
    strict_encode = True
    _rows_of_samples = "a ranking has one row for each item"
    no_marginals = "no way is known to sum over all orders of many items"

    def __init__(self, top_k: int | None = None) -> None:
        if top_k is not None:
            check_positive("top_k", top_k, integer=True)
            top_k = int(top_k)
        self.top_k = top_k

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        n = shape[0]
        if self.top_k is not None and n < self.top_k:
            raise ValueError(f"there are {n} items, fewer than top_k={self.top_k}")
        return n, n - 1 if self.top_k is None else self.top_k

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        n, n_points = dims
        return n_points * (n_points + 1) // 2, 0, 2 * n

    def n_best(self, problems: Any, limit: Any, counts: Any, start: int, stop: int) -> Any:
        return best_rankings(problems, limit, counts, start, stop)

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        n, n_points = (int(d) for d in dims)
        n_items = n if self.top_k is None else n_points
        form = f"a ranking is {n_items} ints from 0 to {n - 1}, the items from the best one on"
        items = as_ints(structure, (n_items,), 0, n - 1, form)
        if len(np.unique(items)) < n_items:
            raise ValueError(f"each item is ranked once; got {items.tolist()}")
        return as_parts(np.sort(np.repeat(items[:n_points], np.arange(n_points, 0, -1)))), as_parts([])

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        n, n_points = (int(d) for d in dims)
        order = np.argsort(-np.bincount(slots, minlength=n), kind="stable")
        return order if self.top_k is None else order[:n_points]

    def agreement(self, structure: Any, predicted: Any, dims: NDArray[np.int64]) -> tuple[int, int, int]:
        # Raises if it is not a ranking.
        self.encode(structure, dims)
        n = int(dims[0])
        # Items that are not ranked all have the last place.
        right, found = (np.full(n, n) for _ in range(2))
        for place, items in ((right, structure), (found, predicted)):
            place[np.asarray(items)] = np.arange(len(items))
        first, second = np.nonzero(right[:, None] < right)
        return int(np.count_nonzero(found[first] < found[second])), len(first), len(first)

    def example_shapes(self) -> Sequence[tuple[int, ...]]:
        return super().example_shapes() if self.top_k is None else ((self.top_k,), (self.top_k + 2,))
