"""MatchingDisplay: one-to-one alignments over a heat map of their marginals."""

from __future__ import annotations

import numpy as np

from ..._core.annotations import Any, ArrayLike, Self, Sequence
from .._base import check_names
from .._style import INK, MAX_STRUCTURES, as_text, draw_grid, import_library, legend_below, text_width, write
from .base import StructuresDisplay, as_ints


class MatchingDisplay(StructuresDisplay):
    """The selected alignments of rows and columns, outlined on a heat map of the marginals.

    A cell is shaded by its marginal probability; a cell that is exactly zero is empty. It has a frame for each
    alignment that contains it, in the colour of the alignment, or a single black frame if all contain it.

    Parameters
    ----------
    structures : SparseMAPResult, list of (structure, probability), or list of structures
        Alignments as int arrays: the column of each row, -1 for none.
    weights : array-like of shape (n_structures,), default=None
        Probabilities, if `structures` come without them.
    marginals : array-like of shape (n_rows, n_cols), default=None
        Probability of each pair. By default, those of the mixture of the alignments.
    y_true : array-like of shape (n_rows,), default=None
        The true alignment, marked by black corners.
    row_names, col_names : sequence of str, default=None
        Names of rows and columns. By default, numbers from 1.

    Attributes
    ----------
    structures, weights, marginals, y_true, row_names, col_names
        As above, the most probable alignment first.
    outlines_ : list of lists of Rectangle
        After `plot`: for each alignment that is drawn separately the outlines of its pairs, except pairs in all
        alignments; then the outlines of the other alignments, if any; last those of pairs in all alignments.
    ax_, figure_, legend_
        Axes, figure and legend of the plot.

    Raises
    ------
    ValueError
        If a structure is not an alignment of these rows and columns, weights are not probabilities, or the numbers of
        names, rows and columns do not match.

    Examples
    --------
    >>> from sklearn_sparsemap.plotting import MatchingDisplay
    >>> display = MatchingDisplay([[0, 1], [1, 0]], [0.75, 0.25], row_names=["a", "b"], col_names=["x", "y"])
    >>> display.marginals.tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    >>> display.plot().figure_.savefig("alignments.png")  # doctest: +SKIP
    """

    def __init__(
        self, structures: Any, weights: ArrayLike | None = None, *, marginals: Any = None, y_true: Any = None,
        row_names: Sequence[Any] | None = None, col_names: Sequence[Any] | None = None,
    ) -> None:  # fmt: skip
        # `_read`, which the constructor of the base class calls, checks columns against it.
        self._n_columns = None if col_names is None else len(col_names)
        super().__init__(structures, weights, marginals=marginals, y_true=y_true)
        n_rows, n_cols = self.marginals.shape
        self.row_names = check_names("row_names", row_names, n_rows) or [str(i + 1) for i in range(n_rows)]
        self.col_names = check_names("col_names", col_names, n_cols) or [str(j + 1) for j in range(n_cols)]

    def _read(self, structure, name):
        n_rows = self._count(structure)
        what = f"{name}: an alignment is {n_rows} ints from -1{self._below_columns()}, the column of each row, or -1"
        return as_ints(structure, n_rows, -1, self._n_columns, what)

    def _cells(self, structure):
        rows = np.flatnonzero(structure >= 0)
        return rows, structure[rows]

    def plot(self, ax: Any = None, *, max_structures: int = MAX_STRUCTURES) -> Self:
        """Draw the alignments.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size. In your own figure, ``layout="constrained"``
            leaves room for the legend.
        max_structures : int, default=4
            Number of alignments drawn separately, the most probable ones; the others are drawn as one group.

        Returns
        -------
        display : MatchingDisplay
        """
        Line2D = import_library("matplotlib.lines").Line2D
        Rectangle = import_library("matplotlib.patches").Rectangle

        strands = self._strands(max_structures)
        n_rows, n_cols = self.marginals.shape
        names = max(text_width(name, 10.0) for name in self.row_names) / 72
        size = np.clip(0.72 * n_cols + 0.5 + names, 3.2, 16), np.clip(0.56 * n_rows + 1.4, 2.4, 12)
        ax = self._start(ax, size)
        self.outlines_ = []

        _, size = draw_grid(ax, self.marginals, self.row_names, self.col_names, top=True)
        # In a cell of several alignments, the frames are nested.
        lw = float(np.clip(0.05 * min(size), 1.0, 2.2))
        step = (lw + 1.0) / size
        n_frames = np.zeros((n_rows, n_cols), dtype=int)
        handles = []
        cells_of = [set(zip(*self._cells(structure))) for structure in self.structures]
        shared = set.intersection(*cells_of) if len(cells_of) > 1 else set()
        groups = [(set.union(*(cells_of[k] for k in members)) - shared, style) for members, _, style in strands]
        groups.append((shared, {"color": INK, "linestyle": "-", "label": "in all"}))
        for cells, style in groups:
            outline = {"edgecolor": style["color"], "linestyle": style["linestyle"], "lw": lw}
            frames = []
            for i, j in sorted(cells):
                shrink = 0.02 + (n_frames[i, j] + 0.5) * step
                n_frames[i, j] += 1
                corner = j - 0.5 + shrink[0], i - 0.5 + shrink[1]
                frame = Rectangle(corner, *(1 - 2 * shrink), fill=False, joinstyle="miter", zorder=5, **outline)
                frames.append(ax.add_patch(frame))
            self.outlines_.append(frames)
            if cells:
                handles.append(Line2D([], [], lw=lw, **style))
        self._write_marginals(size * (1 - 2 * (0.02 + n_frames[..., None] * step)))
        if self.y_true is not None:
            handles.append(self._mark_truth(size))
        self.legend_ = legend_below(ax, handles)
        return self

    def _write_marginals(self, free):
        """Write the marginals into cells whose free parts, of these widths and heights in points, have room."""
        for i, j in zip(*np.nonzero(self.marginals)):
            across, down = free[i, j]
            text = as_text(self.marginals[i, j])
            font = min(9.0, 0.85 * down, 9.0 * across / text_width(text, 9.0))
            if font >= 5.0:
                write(self.ax_, (j, i), text, font, va="center_baseline", zorder=6)

    def _mark_truth(self, size):
        """Mark the pairs of the gold alignment by black corners of their cells; return a handle of the legend."""
        Line2D = import_library("matplotlib.lines").Line2D
        Polygon = import_library("matplotlib.patches").Polygon
        Path = import_library("matplotlib.path").Path

        fold = min(9.0, 0.3 * min(size)) / size
        for i, j in zip(*self._cells(self.y_true)):
            corner = np.array([j + 0.5, i + 0.5])
            points = [corner, corner - (fold[0], 0), corner - (0, fold[1])]
            self.ax_.add_patch(Polygon(points, facecolor=INK, edgecolor="none", zorder=7))
        corner = Path([(0.5, -0.5), (-0.5, -0.5), (0.5, 0.5), (0.5, -0.5)], closed=True)
        mark = {"marker": corner, "linestyle": "", "color": INK, "markersize": 8}
        return Line2D([], [], label="truth", **mark)
