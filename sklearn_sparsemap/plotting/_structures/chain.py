"""ChainDisplay: sequences of states as paths over a grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import check_names
from .._style import INK, as_text, draw_marginals, halo, legend_below, text_width
from .base import StructuresDisplay, as_ints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike
    from typing_extensions import Self


class ChainDisplay(StructuresDisplay):
    """The selected paths of a chain, over the grid of its steps and states.

    A cell is shaded by the marginal probability of the state at the step; a cell that is exactly zero is empty. The
    width of a path shows its probability. If states are numbers, a path is a line. If they are names, which have no
    order, it is a stroke in each of its cells, and thin lines connect its strokes.

    Parameters
    ----------
    structures : SparseMAPResult, list of (structure, probability), or list of structures
        Paths: sequences of states (ints from 0), or of `labels`.
    weights : array-like of shape (n_structures,), default=None
        Probabilities, if `structures` come without them.
    marginals : array-like of shape (n_steps, n_states), default=None
        Probability of each state at each step. By default, those of the mixture of the paths.
    y_true : sequence of length n_steps, default=None
        The gold path, marked by circles; in terms of `labels` if given.
    labels : sequence, default=None
        Names of the states. Paths then consist of names, except in a SparseMAPResult, whose paths are ints.
    words : sequence of str, default=None
        Names of the steps; None numbers them from 1.

    Attributes
    ----------
    structures, weights, marginals, y_true, labels, words
        As above; paths are of ints, the most probable first.
    paths_ : list of Line2D
        After `plot`: one for each path that is drawn separately, then those of the others.
    ax_, figure_, legend_
        Axes, figure and legend of the plot.

    Raises
    ------
    ValueError
        If structures differ in their number of steps, a label is not in `labels`, or weights are not probabilities.

    Examples
    --------
    >>> from sklearn_sparsemap.plotting import ChainDisplay
    >>> display = ChainDisplay([(["rain", "sun"], 0.6), (["sun", "sun"], 0.4)], labels=["rain", "sun"])
    >>> display.marginals.tolist()
    [[0.6, 0.4], [0.0, 1.0]]
    >>> display.plot().figure_.savefig("paths.png")  # doctest: +SKIP
    """

    def __init__(
        self, structures: Any, weights: ArrayLike | None = None, *, marginals: Any = None, y_true: Any = None,
        labels: Sequence[Any] | None = None, words: Sequence[Any] | None = None,
    ) -> None:  # fmt: skip
        self.labels = None if labels is None else list(labels)
        if labels is not None:
            self._n_columns = len(self.labels)
        self._coded = hasattr(structures, "structures")
        super().__init__(structures, weights, marginals=marginals, y_true=y_true)
        n_steps, n_states = self.marginals.shape
        self.words = check_names("words", words, n_steps) or [str(step) for step in range(1, n_steps + 1)]
        self.labels = list(range(n_states)) if labels is None else self.labels

    @classmethod
    def _names_of(cls, estimator):
        if not hasattr(estimator, "classes_"):
            raise ValueError("ChainDisplay is for structures made of labels, but the estimator has no classes_")
        return {"labels": estimator.classes_.tolist()}

    def _read(self, structure, name):
        n_steps = self._count(structure)
        if self.labels is not None and (name == "y_true" or not self._coded):
            structure = self._encode(structure, name)
        what = f"{name}: a path is {n_steps} ints from 0{self._below_columns()}, or with `labels` that many of these"
        return as_ints(structure, n_steps, 0, self._n_columns, what)

    def _encode(self, path, name):
        place = {label: i for i, label in enumerate(self.labels)}
        path = path.tolist() if isinstance(path, np.ndarray) else list(path)
        unknown = [label for label in path if label not in place]
        if unknown:
            raise ValueError(f"{name}: {unknown[0]!r} is not among the labels {self.labels!r}")
        return np.array([place[label] for label in path], dtype=np.int64)

    def _cells(self, structure):
        return np.arange(self._n_items), self._path_of(structure)

    def _path_of(self, structure):
        """Return the state of each step in a structure as it was read."""
        return structure

    def plot(self, ax: Any = None, *, max_structures: int | None = 4, all_states: bool = True) -> Self:
        """Draw the paths.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size. In your own figure, ``layout="constrained"``
            leaves room for the legend.
        max_structures : int, default=4
            Number of paths drawn separately, the most probable ones; the others are drawn as one group.
        all_states : bool, default=True
            Whether states of probability zero at all steps have a row.

        Returns
        -------
        display : ChainDisplay
        """
        from matplotlib.lines import Line2D

        strands = self._strands(max_structures)
        used = self.marginals.any(axis=0) | all_states
        for path in [*self.structures, *self._truth()]:
            used[path] = True
        states = np.flatnonzero(used)
        row_of = np.cumsum(used) - 1
        n_steps, n_rows = len(self.marginals), len(states)
        size = np.clip(0.85 * n_steps + 1.2, 4.5, 18), np.clip(0.5 * n_rows + 1.5, 2.6, 12)
        ax, self.paths_ = self._start(ax, size), []

        names = [self.labels[state] for state in states]
        across, down = draw_marginals(ax, self.marginals[:, states].T, names, self.words)

        size = min(9.0, 0.32 * down)
        if size >= 5.0 and text_width("0.00", size) < 0.6 * across:
            reach = 0.5 * text_width("0.00", size) / across, 0.5 * size / down
            courses = [row_of[self.structures[k]] for members, _, _ in strands for k in members]
            for step, row in zip(*np.nonzero(self.marginals[:, states])):
                text = as_text(self.marginals[step, states[row]])
                x, y = _free_place(step, row, courses, reach)
                text = ax.text(x, y, text, ha="center", va="center", fontsize=size, color=INK, zorder=20)
                text.set_path_effects(halo())
        has_order = all(isinstance(label, (int, float, np.number)) for label in self.labels)
        # Set apart a little, so that paths with common stretches can all be seen; the most probable is on top.
        thick = min(1.0, down / 24)
        handles, steps = [], np.arange(n_steps)
        apart = min(0.13, 0.5 / max(1, len(strands) - 1))
        for place, (members, _, style) in enumerate(strands):
            shift = apart * (place - (len(strands) - 1) / 2) + 0.05
            for k in members:
                lw = (1.3 + 4.5 * self.weights[k]) * thick
                style = {**style, "lw": lw, "marker": "o", "markersize": max(5.0 * thick, 1.4 * lw)}
                rows = row_of[self.structures[k]] + shift
                line = style if has_order else {**style, "lw": 0.3 * lw, "linestyle": "-", "marker": "", "alpha": 0.7}
                self.paths_ += ax.plot(steps, rows, solid_joinstyle="round", zorder=15 - place, **line)
                if not has_order:
                    stroke = {"color": style["color"], "lw": 1.5 * lw, "zorder": 15 - place, "capstyle": "round"}
                    ax.hlines(rows, steps - 0.24, steps + 0.24, **stroke)
            handles.append(Line2D([], [], **style if has_order else {**style, "marker": "", "linestyle": "-"}))
        if self.y_true is not None:
            mark = {"marker": "o", "linestyle": "", "markersize": min(17.0, 0.62 * down), "mfc": "none", "mec": INK}
            ax.plot(steps, row_of[self.y_true], zorder=18, **mark)
            handles.append(Line2D([], [], label="truth", **{**mark, "markersize": 9}))
        self.legend_ = legend_below(ax, handles)
        return self


def _free_place(step, row, courses, reach):
    """Return the corner of a cell at which a number is farthest from all lines, preferably the upper left one.

    `courses` are the rows of each path, by step; `reach` is half of the size of the number, in cells.
    """
    along = np.linspace(-0.5, 0.5, 21)
    places = [(x * (0.47 - reach[0]), y * (0.45 - reach[1])) for x, y in ((-1, -1), (1, 1), (1, -1), (-1, 1))]
    near = np.full(len(places), np.inf)
    for rows in courses:
        height = np.interp(step + along, np.arange(len(rows)), rows) - row
        for place, (x, y) in enumerate(places):
            gaps = np.hypot(np.maximum(abs(along - x) - reach[0], 0.0), np.maximum(abs(height - y) - reach[1], 0.0))
            near[place] = min(near[place], gaps.min())
    x, y = places[int(np.argmax(near > near.max() - 0.02))]
    return step + x, row + y
