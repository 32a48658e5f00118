"""SegmentationDisplay: labelled spans as strips of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._style import INK, MUTED, as_text, legend_below, name_axis, size_in_points, text_width
from .chain import ChainDisplay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike
    from typing_extensions import Self

# Colours of the labels, after Okabe and Ito: distinct for all kinds of colour vision, and light enough for text on top.
_FILLS = ("#e9b44c", "#8cc8ee", "#5fbf9f", "#f0e68c", "#6f9fd8", "#e58a5b", "#d9a3c4", "#c4c4c4")


class SegmentationDisplay(ChainDisplay):
    """The selected segmentations of a sequence: a strip of blocks for each, and below the marginals of the labels.

    A block is a span with its label. Next to the strips are the probabilities of their segmentations. In the last row,
    the stacked column of a step shows the probabilities of its labels.

    Parameters
    ----------
    structures : SparseMAPResult, list of (structure, probability), or list of structures
        Segmentations: the label of each step (ints from 0, or from `labels`), with adjacent steps of the same label
        forming one span; or int arrays of shape (n_spans, 3), with the first step of each span, the step after its last
        one, and its label.
    weights : array-like of shape (n_structures,), default=None
        Probabilities, if `structures` come without them.
    marginals : array-like of shape (n_steps, n_labels), default=None
        Probability of each label at each step; or of each span, shape (n_steps, max_length, n_labels). None: those of
        the mixture of the segmentations.
    y_true : a structure, default=None
        The right segmentation: the first strip.
    labels : sequence, default=None
        Names of the labels. Steps are then labelled by them, except in a SparseMAPResult, whose labels are ints.
    words : sequence of str, default=None
        Names of the steps; None numbers them from 1.

    Attributes
    ----------
    structures, weights, marginals, y_true, labels, words
        As above; labels are ints, the most probable segmentation is the first, and marginals are those of steps.
    blocks_ : list of BarContainer
        After `plot`: one for each strip.
    ax_, figure_, legend_
        Axes, figure and legend of the plot.

    Raises
    ------
    ValueError
        If the spans of a structure do not cover the steps in order, or weights are not probabilities.

    Examples
    --------
    >>> from sklearn_sparsemap.plotting import SegmentationDisplay
    >>> display = SegmentationDisplay([([0, 0, 1], 0.75), ([0, 1, 1], 0.25)], words=["a", "b", "c"])
    >>> display.marginals.tolist()
    [[1.0, 0.0], [0.75, 0.25], [0.0, 1.0]]
    >>> display.plot().figure_.savefig("segments.png")  # doctest: +SKIP
    """

    def __init__(
        self, structures: Any, weights: ArrayLike | None = None, *, marginals: Any = None, y_true: Any = None,
        labels: Sequence[Any] | None = None, words: Sequence[Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(structures, weights, marginals=marginals, y_true=y_true, labels=labels, words=words)

    def _read_marginals(self, marginals):
        return _of_steps(marginals) if marginals.ndim == 3 else marginals

    def _read(self, structure, name):
        if np.ndim(structure) != 2:
            return super()._read(structure, name)
        spans = np.asarray(structure)
        if spans.shape[1] != 3 or not len(spans) or spans.dtype.kind not in "iu":
            raise ValueError(f"{name}: spans are an int array of shape (n_spans, 3); got {structure!r}")
        first, after, labels = spans.T
        n_steps = self._count(range(after[-1]))
        if first[0] != 0 or (first[1:] != after[:-1]).any() or (after <= first).any() or after[-1] != n_steps:
            raise ValueError(f"{name}: spans follow each other from step 0 to step {n_steps}; got {structure!r}")
        if labels.min() < 0 or (self._n_columns is not None and labels.max() >= self._n_columns):
            raise ValueError(f"{name}: labels of spans are ints from 0{self._below_columns()}; got {structure!r}")
        return spans.astype(np.int64)

    def _path_of(self, structure):
        return structure if structure.ndim == 1 else np.repeat(structure[:, 2], structure[:, 1] - structure[:, 0])

    def plot(self, ax: Any = None, *, max_structures: int | None = 4) -> Self:
        """Draw the strips.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size. In your own figure, ``layout="constrained"``
            leaves room for the legend.
        max_structures : int, default=4
            How many segmentations have a strip, the most probable ones.

        Returns
        -------
        display : SegmentationDisplay
        """
        from matplotlib.patches import Patch

        strips = [("truth", structure) for structure in self._truth()]
        for members, weight, _ in self._strands(max_structures):
            if len(members) == 1 and members[0] < max_structures:
                strips.append((f"p = {as_text(weight)}", self.structures[members[0]]))
        n_steps = len(self.marginals)
        n_rows = len(strips) + 1
        size = np.clip(0.42 * n_steps + 1.6, 4.5, 18), np.clip(0.42 * n_rows + 1.6, 2.4, 8)
        ax, self.blocks_ = self._start(ax, size), []
        ax.set(xlim=(-0.6, n_steps - 0.4), ylim=(n_rows - 0.3, -0.6))
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        width, height = size_in_points(ax)
        size = float(np.clip(0.5 * height / n_rows, 6.0, 10.0))
        name_axis(ax.yaxis, [name for name, _ in strips] + ["marginals"], size=size)
        name_axis(ax.xaxis, self.words, across=width / n_steps, size=size)
        across = size_in_points(ax)[0] / (n_steps + 0.2)

        for row, (name, structure) in enumerate(strips):
            path = self._path_of(structure)
            first = structure[:, 0] if structure.ndim == 2 else np.flatnonzero(np.append(True, path[1:] != path[:-1]))
            lengths = np.diff(np.append(first, n_steps))
            edge = {"edgecolor": INK, "lw": 1.6 if name == "truth" else 0.8}
            fills = [_FILLS[label % len(_FILLS)] for label in path[first]]
            self.blocks_.append(ax.barh(np.full(len(first), row), lengths, 0.66, first - 0.5, color=fills, **edge))
            for begin, length in zip(first, lengths):
                text = str(self.labels[path[begin]])
                if text_width(text, size) < 0.9 * across * length:
                    middle = begin - 0.5 + length / 2
                    ax.text(middle, row, text, ha="center", va="center", fontsize=size, color=INK, parse_math=False)
        bottom = np.full(n_steps, n_rows - 1 + 0.36)
        shown = np.flatnonzero(self.marginals.any(axis=0))
        for label in shown:
            tall = 0.72 * self.marginals[:, label]
            fill = {"color": _FILLS[label % len(_FILLS)], "edgecolor": MUTED, "lw": 0.3}
            ax.bar(np.arange(n_steps), -tall, 1.0, bottom, **fill)
            bottom -= tall
        handles = [Patch(facecolor=_FILLS[i % len(_FILLS)], edgecolor=INK, label=str(self.labels[i])) for i in shown]
        self.legend_ = legend_below(ax, handles)
        return self


def _of_steps(marginals):
    """Return the marginals of the labels of steps, from those of spans."""
    n_steps, longest, n_labels = marginals.shape
    of_steps = np.zeros((n_steps, n_labels))
    for length in range(1, longest + 1):
        for later in range(min(length, n_steps)):
            of_steps[later:] += marginals[: n_steps - later, length - 1]
    return of_steps
