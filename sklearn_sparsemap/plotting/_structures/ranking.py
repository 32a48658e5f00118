"""RankingDisplay: orders of items as paths over a grid of places and items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import check_names
from .chain import ChainDisplay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike


class RankingDisplay(ChainDisplay):
    """The selected rankings of some items, over the grid of places and items.

    A cell is shaded by the probability of an item to have a place. Items are sorted by their mean place, so that a
    ranking that is certain goes down the diagonal.

    Parameters
    ----------
    structures : SparseMAPResult, list of (structure, probability), or list of structures
        Rankings: int arrays with the items, the best one first.
    weights : array-like of shape (n_structures,), default=None
        Probabilities, if `structures` come without them.
    marginals : ignored
        Marginals of rankings are points, which are less informative than probabilities of places.
    y_true : int array, default=None
        The right ranking, marked by circles.
    items : sequence of str, default=None
        Names of the items; None numbers them from 0.

    Attributes
    ----------
    structures, weights, y_true
        As above, but of the sorted items; the most probable ranking is the first.
    items
        Names of the items, sorted.
    marginals : array of shape (n_places, n_items)
        The probabilities of places, of the sorted items.
    paths_ : list of Line2D
        After `plot`: one for each ranking that is drawn separately, then those of the others.
    ax_, figure_, legend_
        Axes, figure and legend of the plot.

    Raises
    ------
    ValueError
        If a structure ranks an item twice, or another number of items, or weights are not probabilities.

    Examples
    --------
    >>> from sklearn_sparsemap.plotting import RankingDisplay
    >>> display = RankingDisplay([([1, 0, 2], 0.75), ([1, 2, 0], 0.25)], items=["tea", "milk", "juice"])
    >>> display.items
    ['milk', 'tea', 'juice']
    >>> display.marginals.tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.75, 0.25], [0.0, 0.25, 0.75]]
    >>> display.plot().figure_.savefig("rankings.png")  # doctest: +SKIP
    """

    def __init__(
        self, structures: Any, weights: ArrayLike | None = None, *, marginals: Any = None, y_true: Any = None,
        items: Sequence[Any] | None = None,
    ) -> None:  # fmt: skip
        points = getattr(structures, "marginals", marginals)
        if items is not None or points is not None:
            self._n_columns = np.size(points) if items is None else len(items)
        super().__init__(structures, weights, y_true=y_true)
        n_places, n_items = self.marginals.shape
        # Items without a place come last.
        places = np.arange(n_places) @ self.marginals + n_places * (1.0 - self.marginals.sum(axis=0))
        order = np.argsort(places, kind="stable")
        row = np.argsort(order)
        self.structures = [row[ranking] for ranking in self.structures]
        self.y_true = None if self.y_true is None else row[self.y_true]
        self.marginals = self.marginals[:, order]
        names = check_names("items", items, n_items) or list(map(str, range(n_items)))
        self.items = self.labels = [names[i] for i in order]

    @classmethod
    def _names_of(cls, estimator):
        return {}

    def _read(self, structure, name):
        ranking = super()._read(structure, name)
        if len(np.unique(ranking)) < len(ranking):
            raise ValueError(f"{name}: each item is ranked once; got {ranking.tolist()}")
        return ranking

    def _read_marginals(self, marginals):
        # Points of items.
        return None
