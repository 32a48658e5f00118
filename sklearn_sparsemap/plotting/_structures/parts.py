"""PartsDisplay: choices of parts as stacked bars."""

from __future__ import annotations

import numpy as np

from ..._core.annotations import Any, ArrayLike, Self, Sequence
from .._base import check_names
from .._style import HATCHES, INK, MAX_STRUCTURES, clean_axes, import_library, legend_below, name_axis, size_in_points
from .base import StructuresDisplay


class PartsDisplay(StructuresDisplay):
    """The selected choices of parts (subsets, classes, custom structures): a bar for the marginal of each part.

    A bar is a stack of the probabilities of the structures that have the part, in the colours of the structures.

    Parameters
    ----------
    structures : SparseMAPResult, list of (structure, probability), or list of structures
        A bool mask of parts, a sequence of the parts' indices, or a single index.
    weights : array-like of shape (n_structures,), default=None
        Probabilities, if `structures` come without them.
    marginals : array-like of shape (n_parts,), default=None
        Probability of each part. By default, those of the mixture of the structures.
    y_true : a structure, default=None
        The true structure, whose parts are marked.
    names : sequence of str, default=None
        Names of the parts. By default, numbers from 0; for an estimator with classes, these.

    Attributes
    ----------
    structures, weights, marginals, y_true, names
        As above; structures are bool arrays, the most probable first.
    bars_ : list of BarContainer
        After `plot`: one for each structure that is drawn separately, then one for the others.
    ax_, figure_, legend_
        Axes, figure and legend of the plot.

    Raises
    ------
    ValueError
        If a structure is neither a bool array nor indices of parts, or weights are not probabilities.

    Examples
    --------
    >>> from sklearn_sparsemap.plotting import PartsDisplay
    >>> display = PartsDisplay([[0, 1], [2]], [0.75, 0.25], names=["tea", "milk", "juice"])
    >>> display.marginals.tolist()
    [0.75, 0.75, 0.25]
    >>> display.plot().figure_.savefig("parts.png")  # doctest: +SKIP
    """

    def __init__(
        self, structures: Any, weights: ArrayLike | None = None, *, marginals: Any = None, y_true: Any = None,
        names: Sequence[Any] | None = None,
    ) -> None:  # fmt: skip
        self._n_columns = None if names is None else len(names)
        super().__init__(structures, weights, marginals=marginals, y_true=y_true)
        n_parts = len(self.marginals)
        self.names = check_names("names", names, n_parts) or [str(i) for i in range(n_parts)]

    @classmethod
    def _names_of(cls, estimator):
        classes = getattr(estimator, "classes_", None)
        return {} if classes is None else {"names": classes}

    @classmethod
    def _parts_of(cls, estimator, structure):
        classes = getattr(estimator, "classes_", None)
        if classes is None:
            return structure
        labels = classes.tolist()
        is_collection = isinstance(structure, (tuple, list, set, frozenset))
        if np.ndim(structure) == 1 and len(structure) == len(classes) and np.asarray(structure).dtype.kind in "iufb":
            # A label set is a row of an indicator matrix.
            return np.asarray(structure) == 1
        if not is_collection or not all(isinstance(label, str) for label in structure):
            label = structure.item() if isinstance(structure, np.generic) else structure
            if np.ndim(structure) or label not in labels:
                raise ValueError(f"{structure!r} is no class of the estimator; it has {labels}")
            return labels.index(label)
        # A label set is a collection of names.
        if not set(structure) <= set(labels):
            raise ValueError(f"{structure!r} has a label that the estimator does not know; it has {labels}")
        return [labels.index(label) for label in structure]

    def _read(self, structure, name):
        array = np.atleast_1d(np.asarray(structure))
        if array.size == 0:
            array = array.astype(np.int64)
        if array.ndim != 1 or array.dtype.kind not in "iub":
            raise ValueError(f"{name}: a structure is a bool array, or indices of parts; got {structure!r}")
        return array

    def _mix(self):
        """Return the marginals of the mixture. All structures become masks, because only now their length is known."""
        n_parts = self._n_columns
        if n_parts is None:
            n_parts = max(len(p) if p.dtype == bool else p.max(initial=-1) + 1 for p in self.structures)
        self.structures = [_as_mask(parts, n_parts, "structures") for parts in self.structures]
        self.y_true = None if self.y_true is None else _as_mask(self.y_true, n_parts, "y_true")
        return self.weights @ np.array(self.structures, dtype=np.float64)

    def plot(self, ax: Any = None, *, max_structures: int = MAX_STRUCTURES) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size. In your own figure, ``layout="constrained"``
            leaves room for the legend.
        max_structures : int, default=4
            Number of structures drawn separately, the most probable ones; the others are drawn as one group.

        Returns
        -------
        display : PartsDisplay
        """
        Line2D = import_library("matplotlib.lines").Line2D
        Patch = import_library("matplotlib.patches").Patch

        strands = self._strands(max_structures)
        n_parts = len(self.marginals)
        size = np.clip(0.55 * n_parts + 1.2, 4.6, 16), 3.4
        ax = self._start(ax, size)
        self.bars_ = []

        places = np.arange(n_parts)
        mixture = self.weights @ np.array(self.structures, dtype=np.float64)
        # Marginals can be those of a distribution other than the mixture.
        stretch = np.divide(self.marginals, mixture, out=np.zeros(n_parts), where=mixture > 0)
        bottom = np.zeros(n_parts)
        handles = []
        for k, (members, _, style) in enumerate(strands):
            height = stretch * (self.weights[members] @ np.array([self.structures[i] for i in members], dtype=float))
            hatch = HATCHES[k % len(HATCHES)] if k < max_structures else ""
            look = {"facecolor": style["color"], "edgecolor": "white", "hatch": hatch, "lw": 0.8}
            self.bars_.append(ax.bar(places, height, bottom=bottom, width=0.72, zorder=2, **look))
            handles.append(Patch(label=style["label"], **look))
            bottom += height
        if self.y_true is not None:
            mark = {"marker": "v", "linestyle": "", "color": INK, "markersize": 6}
            ax.plot(np.flatnonzero(self.y_true), bottom[self.y_true] + 0.05, zorder=3, **mark)
            handles.append(Line2D([], [], label="truth", **mark))
        ax.set(xlim=(-0.6, n_parts - 0.4), ylim=(0, 1.1), ylabel="probability")
        ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
        clean_axes(ax, "y")
        ax.tick_params(axis="x", length=0)
        name_axis(ax.xaxis, self.names, across=size_in_points(ax)[0] / n_parts)
        self.legend_ = legend_below(ax, handles)
        return self


def _as_mask(parts, n_parts, name):
    """Return a structure as a bool array over all parts."""
    is_wrong = len(parts) != n_parts if parts.dtype == bool else ((parts < 0) | (parts >= n_parts)).any()
    if is_wrong:
        raise ValueError(f"{name}: there are {n_parts} parts, which does not match {parts.tolist()}")
    return parts if parts.dtype == bool else np.isin(np.arange(n_parts), parts)
