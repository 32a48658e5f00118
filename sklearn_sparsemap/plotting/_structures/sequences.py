"""Displays of sequences: paths of states and orders of items over a grid, and labelled spans as strips of blocks.

Used by `spans.py`.
"""

from __future__ import annotations

from numbers import Integral

import numpy as np

from ..._core.annotations import Any, ArrayLike, Self, Sequence
from ..._core.validation import check_positive
from .._base import check_names
from .._style import (
    INK,
    MAX_STRUCTURES,
    MUTED,
    as_text,
    draw_grid,
    font_of_cells,
    import_library,
    legend_below,
    name_axis,
    rotate,
    size_in_points,
    text_width,
    write,
)
from .base import StructuresDisplay, as_ints

MAX_STEPS = 12  # of a chain in one line; longer ones are wrapped
_MAX_LINES = 5  # lines of a chain; each takes 0.2 seconds with 3 states, and 0.4 with 20
_MAX_SPAN_STEPS = 100  # steps of a segmentation; the names of more would overlap
# Colours of the labels, after Okabe and Ito: distinct for all kinds of colour vision, and light enough for text on top.
FILLS = ("#e9b44c", "#8cc8ee", "#5fbf9f", "#f0e68c", "#6f9fd8", "#e58a5b", "#d9a3c4", "#c4c4c4")


class ChainDisplay(StructuresDisplay):
    """The selected paths of a chain, over the grid of its steps and states.

    A cell is shaded by the marginal probability of the state at the step; a cell that is exactly zero is empty. The
    width of a path shows its probability. If states are numbers, a path is a line. If they are names, which have no
    order, a path is a stroke in each of its cells, connected by thin lines.

    Parameters
    ----------
    structures : SparseMAPResult, list of (structure, probability), or list of structures
        Paths: sequences of states (ints from 0), or of `labels`.
    weights : array-like of shape (n_structures,), default=None
        Probabilities, if `structures` come without them.
    marginals : array-like of shape (n_steps, n_states), default=None
        Probability of each state at each step. By default, those of the mixture of the paths.
    y_true : sequence of length n_steps, default=None
        The true path, marked by circles; in terms of `labels` if given.
    labels : sequence, default=None
        Names of the states. Paths then consist of names, except in a SparseMAPResult, whose paths are ints.
    words : sequence of str, default=None
        Names of the steps. By default, numbers from 1.

    Attributes
    ----------
    structures, weights, marginals, y_true, labels, words
        As above; paths are of ints, the most probable first.
    paths_ : list of Line2D
        After `plot`: in each line one for each path that is drawn separately, then those of the others.
    ax_, figure_, legend_
        Axes (a ndarray of them if the chain has several lines), figure and legend of the plot.

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

    def plot(
        self,
        ax: Any = None,
        *,
        max_structures: int = MAX_STRUCTURES,
        all_states: bool = True,
        max_steps: int | None = MAX_STEPS,
        max_lines: int | None = None,
        start: int = 0,
    ) -> Self:
        """Draw the paths.

        Parameters
        ----------
        ax : matplotlib Axes, or sequence of Axes, default=None
            Axes to draw on: one, which is divided if the chain has several lines, or one for each line. By default, a
            new figure of fitting size. In your own figure, ``layout="constrained"`` leaves room for the legend.
        max_structures : int, default=4
            Number of paths drawn separately, the most probable ones; the others are drawn as one group.
        all_states : bool, default=True
            Whether states of probability zero at all steps have a row.
        max_steps : int, default=12
            Maximum number of steps in a line. Longer chains are wrapped into several lines of about equal lengths. None
            draws a single line. Rankings are never wrapped.
        max_lines : int, default=None
            Maximum number of lines. The legend says which steps they show. By default 5, or as many as several given
            axes.
        start : int, default=0
            The first step that is drawn, counted from 0.

        Returns
        -------
        display : ChainDisplay

        Raises
        ------
        ValueError
            If `start` is not a step of the chain.
        """

        strands = self._strands(max_structures)
        used = self.marginals.any(axis=0) | all_states
        for path in [*self.structures, *self._truth()]:
            used[path] = True
        states = np.flatnonzero(used)
        if max_lines is None:
            max_lines = max(_MAX_LINES, np.size(ax))
        lines = self._wrap(max_steps, max_lines, self._check_start(start))
        # A step is as wide as its name, if that is not very long.
        width = np.clip(
            max(text_width(self.words[step], 10.0) for steps in lines for step in steps) / 72 + 0.15, 0.85, 1.4
        )
        height = 0.5 * len(states) + (1.5 if len(lines) == 1 else 0.9)
        size = (
            np.clip(width * len(lines[0]) + 1.2, 4.5, 18),
            np.clip(len(lines) * np.clip(height, 1.2, 12), 2.6, 12 if len(lines) == 1 else 40),
        )
        axes = [self._start(ax, size)] if len(lines) == 1 else self._start_panels(ax, size, len(lines))
        self.paths_ = []
        # All lines have cells of one size.
        size = None
        for each, steps in zip(axes, lines):
            handles, size = self._draw_line(each, steps, states, strands, len(lines[0]), size)
        handles += self._note(lines[0][0], lines[-1][-1] + 1)
        labels = [label for each in axes for label in each.get_xticklabels()]
        if any(label.get_rotation() for label in labels):
            rotate(labels)
        if self.y_true is not None:
            mark = {"marker": "o", "linestyle": "", "markersize": 9, "mfc": "none", "mec": INK}
            Line2D = import_library("matplotlib.lines").Line2D
            handles.append(Line2D([], [], label="truth", **mark))
        self.legend_ = legend_below(axes[-1], handles)
        return self

    def _check_start(self, start):
        """Return the index of the first step that is drawn; raise ValueError if there is no such step."""
        n_steps = len(self.marginals)
        if not isinstance(start, Integral) or not 0 <= start < n_steps:
            raise ValueError(f"start must be a step, an int from 0 to {n_steps - 1}; got {start!r}")
        return int(start)

    def _wrap(self, max_steps, max_lines, start):
        """Return the steps of each line, as ranges of about equal lengths."""
        n_steps = len(self.marginals)
        n_left = n_steps - start
        if max_steps is None:
            return [range(start, n_steps)]
        check_positive("max_steps", max_steps, integer=True)
        length = -(-n_left // -(-n_left // max_steps))
        check_positive("max_lines", max_lines, integer=True)
        return [range(first, min(first + length, n_steps)) for first in range(start, n_steps, length)][:max_lines]

    def _note(self, start, stop):
        """Return an entry of the legend that names the steps that are drawn; none if these are all steps."""
        n_steps = len(self.marginals)
        if stop - start == n_steps:
            return []
        Line2D = import_library("matplotlib.lines").Line2D
        return [Line2D([], [], lw=0.0, label=f"only steps {start + 1} to {stop} of {n_steps} are drawn")]

    def _draw_line(self, ax, steps, states, strands, room, size):
        """Draw some steps of all paths in axes with room for `room` steps, with cells of the given size.

        Returns the handles of the legend, and the size of cells, which is measured if it is None.
        """
        Line2D = import_library("matplotlib.lines").Line2D

        cells = self.marginals[np.ix_(steps, states)].T
        names = [self.labels[state] for state in states]
        words = [self.words[step] for step in steps]
        _, size = draw_grid(ax, cells, names, words, room=room, size=size)
        across, down = size
        # A path goes on to the steps of the neighbouring lines, half of a cell of which is within the axes.
        around = np.arange(max(steps[0] - 1, 0), min(steps[-1] + 2, len(self.marginals)))
        courses = [np.searchsorted(states, path[around]) for path in self.structures]
        inside = np.isin(around, steps)
        has_order = all(isinstance(label, (int, float, np.number)) for label in self.labels)
        drawn = [courses[k] for members, _, _ in strands for k in members] if has_order else []
        _write_cells(ax, cells, around - steps[0], drawn, across, down)
        # Small shifts show all paths with common states; the most probable path is on top.
        thick = min(1.0, down / 24)
        handles = []
        apart = min(0.13, 0.5 / max(1, len(strands) - 1))
        for place, (members, _, style) in enumerate(strands):
            shift = apart * (place - (len(strands) - 1) / 2) + 0.05
            for k in members:
                lw = (1.3 + 4.5 * self.weights[k]) * thick
                style = {**style, "lw": lw, "marker": "o", "markersize": max(5.0 * thick, 1.4 * lw)}
                x, y = around - steps[0], courses[k] + shift
                line = style if has_order else {**style, "lw": 0.3 * lw, "linestyle": "-", "marker": "", "alpha": 0.7}
                self.paths_ += ax.plot(x, y, solid_joinstyle="round", zorder=15 - place, **line)
                if not has_order:
                    stroke = {"color": style["color"], "lw": 1.5 * lw, "zorder": 15 - place, "capstyle": "round"}
                    ax.hlines(y[inside], x[inside] - 0.24, x[inside] + 0.24, **stroke)
            handles.append(Line2D([], [], **style if has_order else {**style, "marker": "", "linestyle": "-"}))
        if self.y_true is not None:
            # Below the paths, which it would hide.
            mark = {"marker": "o", "linestyle": "", "markersize": min(17.0, 0.62 * down), "mfc": "none", "mec": INK}
            ax.plot(range(len(steps)), np.searchsorted(states, self.y_true[steps]), zorder=5, **mark)
        return handles, size


def _write_cells(ax, cells, steps, courses, across, down):
    """Write the probabilities of cells into their corners, all in one size, if there is room.

    `courses` are the rows of the paths at `steps`, from which numbers keep away; without paths, all are in the upper
    left corner. `across` and `down` are the size of a cell in points.
    """
    texts = {place: as_text(value) for place, value in np.ndenumerate(cells) if value}
    size = font_of_cells(texts.values(), across, 0.32 * down)
    if size is None:
        return
    for (row, step), text in texts.items():
        reach = 0.5 * text_width(text, size) / across, 0.5 * size / down
        write(ax, _free_corner(step, row, steps, courses, reach), text, size, halo=2.5, zorder=20)


def _free_corner(step, row, steps, courses, reach):
    """Return the corner of a cell at which a number is farthest from all lines, preferably the upper left one.

    `courses` are the rows of each path at `steps`; `reach` is half of the size of the number, in cells.
    """
    along = np.linspace(-0.5, 0.5, 21)
    places = [(x * (0.47 - reach[0]), y * (0.45 - reach[1])) for x, y in ((-1, -1), (1, 1), (1, -1), (-1, 1))]
    near = np.full(len(places), np.inf)
    for rows in courses:
        height = np.interp(step + along, steps, rows) - row
        for place, (x, y) in enumerate(places):
            gaps = np.hypot(np.maximum(abs(along - x) - reach[0], 0.0), np.maximum(abs(height - y) - reach[1], 0.0))
            near[place] = min(near[place], gaps.min())
    x, y = places[int(np.argmax(near >= near.max() - 0.02))]
    return step + x, row + y


class RankingDisplay(ChainDisplay):
    """The selected rankings of some items, over the grid of places and items.

    A cell is shaded by the probability that the item has the place. Items are sorted by their mean place, so that a
    certain ranking is the diagonal.

    Parameters
    ----------
    structures : SparseMAPResult, list of (structure, probability), or list of structures
        Rankings: int arrays with the items, the best one first.
    weights : array-like of shape (n_structures,), default=None
        Probabilities, if `structures` come without them.
    marginals : ignored
        Marginals of rankings are points, which are less informative than probabilities of places.
    y_true : int array, default=None
        The true ranking, marked by circles.
    items : sequence of str, default=None
        Names of the items. By default, numbers from 0.

    Attributes
    ----------
    structures, weights, y_true
        As above, in terms of the sorted items; the most probable ranking is first.
    items
        Names of the items, sorted.
    marginals : array of shape (n_places, n_items)
        Probability of each place for each of the sorted items.
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
        # Marginals of rankings are points of items, which this display does not use.
        return None

    def _wrap(self, max_steps, max_lines, start):
        return super()._wrap(None, None, start)


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
        Probability of each label at each step; or of each span, shape (n_steps, max_length, n_labels). By default,
        those of the mixture of the segmentations.
    y_true : a structure, default=None
        The true segmentation: the first strip.
    labels : sequence, default=None
        Names of the labels. Steps are then labelled by them, except in a SparseMAPResult, whose labels are ints.
    words : sequence of str, default=None
        Names of the steps. By default, numbers from 1.

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

    def plot(
        self,
        ax: Any = None,
        *,
        max_structures: int = MAX_STRUCTURES,
        max_steps: int | None = _MAX_SPAN_STEPS,
        start: int = 0,
    ) -> Self:
        """Draw the strips.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size. In your own figure, ``layout="constrained"``
            leaves room for the legend.
        max_structures : int, default=4
            Number of segmentations with a strip, the most probable ones.
        max_steps : int, default=100
            Maximum number of steps that are drawn. The legend says which ones. None draws all steps.
        start : int, default=0
            The first step that is drawn, counted from 0.

        Returns
        -------
        display : SegmentationDisplay

        Raises
        ------
        ValueError
            If `start` is not a step of the sequence.
        """
        Patch = import_library("matplotlib.patches").Patch

        strips = [("truth", structure) for structure in self._truth()]
        for members, weight, _ in self._strands(max_structures):
            if len(members) == 1 and members[0] < max_structures:
                strips.append((f"p = {as_text(weight)}", self.structures[members[0]]))
        start = self._check_start(start)
        stop = len(self.marginals)
        if max_steps is not None:
            check_positive("max_steps", max_steps, integer=True)
            stop = min(stop, start + max_steps)
        marginals = self.marginals[start:stop]
        n_steps = stop - start
        n_rows = len(strips) + 1
        size = np.clip(0.42 * n_steps + 1.6, 4.5, 18), np.clip(0.42 * n_rows + 1.6, 2.4, 8)
        ax = self._start(ax, size)
        self.blocks_ = []

        ax.set(xlim=(-0.6, n_steps - 0.4), ylim=(n_rows - 0.3, -0.6))
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        width, height = size_in_points(ax)
        size = float(np.clip(0.5 * height / n_rows, 6.0, 10.0))
        name_axis(ax.yaxis, [name for name, _ in strips] + ["marginals"], size=size)
        name_axis(ax.xaxis, self.words[start:stop], across=width / n_steps, size=size)
        across = size_in_points(ax)[0] / (n_steps + 0.2)

        for row, (name, structure) in enumerate(strips):
            path = self._path_of(structure)
            first = structure[:, 0] if structure.ndim == 2 else np.flatnonzero(np.append(True, path[1:] != path[:-1]))
            first = np.append(start, first[(first > start) & (first < stop)]) - start
            path = path[start:stop]
            lengths = np.diff(np.append(first, n_steps))
            edge = {"edgecolor": INK, "lw": 1.6 if name == "truth" else 0.8}
            fills = [FILLS[label % len(FILLS)] for label in path[first]]
            self.blocks_.append(ax.barh(np.full(len(first), row), lengths, 0.66, first - 0.5, color=fills, **edge))
            for begin, length in zip(first, lengths):
                text = str(self.labels[path[begin]])
                if text_width(text, size) < 0.9 * across * length:
                    write(ax, (begin - 0.5 + length / 2, row), text, size)
        bottom = np.full(n_steps, n_rows - 1 + 0.36)
        shown = np.flatnonzero(marginals.any(axis=0))
        for label in shown:
            tall = 0.72 * marginals[:, label]
            fill = {"color": FILLS[label % len(FILLS)], "edgecolor": MUTED, "lw": 0.3}
            ax.bar(np.arange(n_steps), -tall, 1.0, bottom, **fill)
            bottom -= tall
        handles = [Patch(facecolor=FILLS[i % len(FILLS)], edgecolor=INK, label=str(self.labels[i])) for i in shown]
        handles += self._note(start, stop)
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
