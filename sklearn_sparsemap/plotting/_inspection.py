"""Plots of learned weights and predictions: heat maps over pairs of labels, and bars."""

from __future__ import annotations

from collections.abc import Sized

import numpy as np

from .._core.annotations import Any, ArrayLike, Self, Sequence
from .._core.tables import aligned, column_names, is_named
from .._core.unwrap import transformed
from .._core.validation import check_choice, check_not_ignored, check_same_length
from ._base import Display, unwrap_fitted
from ._style import (
    COLORS,
    FAINT,
    INK,
    MUTED,
    SHADES,
    clean_axes,
    draw_grid,
    font_of_cells,
    import_library,
    ink_on,
    legend_below,
    name_axis,
    text_width,
    write,
)

_NORMALIZE = (None, "true", "pred", "all")
_VISIBLE = 5e-3  # smallest contribution with a bar, as a fraction of the largest
_NAME, _LEAST_NAME = 44, 16  # maximum number of characters of the name of a bar; of that of a feature at least


class LabelPairsDisplay(Display):
    """Base of the heat maps of a matrix over pairs of labels: rows are the first labels, columns the second ones.

    A subclass names the axes (`_axes`), returns the values of the cells and their colours (`_cells`), and the text of a
    value without `values_format` (`_text`).
    """

    def __init__(
        self, matrix: ArrayLike, labels: Sequence[Any] | None = None, *, values_format: str | None = None
    ) -> None:
        if labels is None and hasattr(matrix, "to_numpy") and is_named(matrix):
            labels = column_names(matrix, "matrix")
        if labels is not None:
            labels = list(labels)
            matrix = aligned(matrix, labels, labels, name="matrix", whose="the labels")
        self.matrix = np.asarray(matrix, dtype=np.float64)
        n = len(self.matrix)
        if self.matrix.shape != (n, n) or not n or np.isnan(self.matrix).any():
            raise ValueError(f"the matrix must be square, and have no NaN; got shape {self.matrix.shape}")
        self.labels = list(range(n)) if labels is None else list(labels)
        if len(self.labels) != n:
            raise ValueError(f"there are {len(self.labels)} labels for {n} rows; give one for each")
        self.values_format = values_format

    def plot(self, ax: Any = None) -> Self:
        """Draw the cells, and their values if there is room.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size.

        Returns
        -------
        display : the class
            With `ax_`, `figure_` and `image_`.
        """
        n = len(self.matrix)
        texts = {place: self._write(value) for place, value in np.ndenumerate(self.matrix)}
        # Cells are as wide as their texts, if the figure does not become too large.
        widest = max(text_width(text, 9.0) for text in set(texts.values())) / 72
        side = float(np.clip(0.45 * n + 1.5, 3.2, 12))
        ax = self._start(ax, (float(np.clip(1.25 * widest * n + 1.5, side + 0.6, 16)), side))
        cells, colors = self._cells()
        self.image_, (across, down) = draw_grid(ax, cells, self.labels, self.labels, colors=colors)
        ax.set(ylabel=self._axes[0], xlabel=self._axes[1])
        size = font_of_cells(texts.values(), across, 0.35 * down)
        if size:
            shades = self.image_.cmap(self.image_.norm(cells))
            for (i, j), text in texts.items():
                write(ax, (j, i), text, size, color=ink_on(shades[i, j]), zorder=5)
        return self

    def _write(self, value):
        """Return the text of a cell."""
        if not np.isfinite(value) or self.values_format is None:
            return self._text(value)
        # Formats of counts, such as "d", are for ints.
        return format(int(value) if value.is_integer() else value, self.values_format)


class TransitionsDisplay(LabelPairsDisplay):
    """The transition scores from each label (row) to the next label (column), with one colour for each sign.

    Parameters
    ----------
    matrix : array-like of shape (n_labels, n_labels)
        ``transitions_``. Cells of forbidden transitions, -inf, are hatched.
    labels : sequence, default=None
        Names of the labels. By default, those of the columns of a table, else numbers from 0.
    values_format : str, default=None
        Format of the scores, such as ``".3f"``. By default, the largest score has two significant digits, and all have
        the same number of decimals.

    Attributes
    ----------
    matrix, labels, values_format
    ax_, figure_, image_, legend_
        Axes, figure, heat map and legend of the plot; no legend if all transitions are allowed.

    Raises
    ------
    ValueError
        If the matrix is not square or has NaN, or there are not as many labels as rows.

    Examples
    --------
    >>> from sklearn_sparsemap.plotting import TransitionsDisplay
    >>> display = TransitionsDisplay([[0.5, -1.0], [0.0, 2.0]], ["B", "I"])
    >>> display.plot().figure_.savefig("transitions.png")  # doctest: +SKIP
    """

    _axes = "from", "to"

    @classmethod
    def from_estimator(cls, estimator: Any, *, values_format: str | None = None, ax: Any = None) -> Self:
        """Draw the transitions of a fitted model of chains.

        Parameters
        ----------
        estimator : object
            With ``transitions_`` and ``classes_``; or a pipeline or a search around one.
        values_format : str, default=None
            As for the class.
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size.

        Returns
        -------
        display : TransitionsDisplay

        Raises
        ------
        ValueError
            If the estimator has no transitions.
        """
        _, last = unwrap_fitted(estimator, "transitions_")
        return cls(last.transitions_, last.classes_.tolist(), values_format=values_format).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the scores, and hatch the cells of forbidden transitions.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size.

        Returns
        -------
        display : TransitionsDisplay
            With `ax_`, `figure_`, `image_` and `legend_`.
        """
        PatchCollection = import_library("matplotlib.collections").PatchCollection
        patches = import_library("matplotlib.patches")

        super().plot(ax)
        self.legend_ = None
        forbidden = np.argwhere(np.isinf(self.matrix))
        if len(forbidden):
            look = {"facecolor": FAINT, "edgecolor": MUTED, "hatch": "////", "lw": 0.0}
            cells = [patches.Rectangle((j - 0.5, i - 0.5), 1.0, 1.0) for i, j in forbidden.tolist()]
            self.ax_.add_collection(PatchCollection(cells, zorder=2, **look))
            self.legend_ = legend_below(self.ax_, [patches.Patch(label="forbidden", **look)])
        return self

    @property
    def _largest(self):
        return np.abs(self.matrix[np.isfinite(self.matrix)]).max(initial=0.0)

    def _cells(self):
        most = max(self._largest, np.finfo(float).tiny)
        return self.matrix, {"cmap": "PuOr", "vmin": -most, "vmax": most}

    def _text(self, value):
        if np.isinf(value):
            return ""
        decimals = 1 - int(np.floor(np.log10(self._largest))) if self._largest else 1
        if decimals > 4:
            return f"{value:.1e}"
        # Adding zero removes the sign of a rounded zero.
        return f"{round(float(value), max(decimals, 0)) + 0.0:.{max(decimals, 0)}f}"


class LabelConfusionDisplay(LabelPairsDisplay):
    """The confusion matrix of labels over the steps of all samples: true labels are rows, predictions are columns.

    Parameters
    ----------
    matrix : array-like of shape (n_labels, n_labels)
        Counts.
    labels : sequence, default=None
        Names of the labels. By default, those of the columns of a table, else numbers from 0.
    normalize : {None, "true", "pred", "all"}, default=None
        Whether to draw fractions instead of counts: of the true labels (each row sums to 1), of the predicted labels
        (columns), or of all steps.
    values_format : str, default=None
        Format of the values. Default: ``"d"`` for counts, ``".2f"`` for fractions.

    Attributes
    ----------
    matrix : ndarray of shape (n_labels, n_labels)
        Counts, or fractions with `normalize`.
    labels, normalize, values_format
    ax_, figure_, image_
        Axes, figure and heat map of the plot; without `normalize`, colours are fractions of each row.

    Raises
    ------
    ValueError
        If the matrix is not square or has NaN, there are not as many labels as rows, or `normalize` is unknown.

    See Also
    --------
    sklearn.metrics.ConfusionMatrixDisplay : The same for one label a sample.

    Examples
    --------
    >>> from sklearn_sparsemap.plotting import LabelConfusionDisplay
    >>> LabelConfusionDisplay([[3, 1], [0, 2]], ["D", "N"], normalize="true").matrix.tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """

    _axes = "true", "predicted"

    def __init__(
        self,
        matrix: ArrayLike,
        labels: Sequence[Any] | None = None,
        *,
        normalize: str | None = None,
        values_format: str | None = None,
    ) -> None:
        super().__init__(matrix, labels, values_format=values_format)
        check_choice("normalize", normalize, _NORMALIZE)
        self.normalize = normalize
        if normalize is not None:
            self.matrix = _fractions(self.matrix, {"true": 1, "pred": 0, "all": None}[normalize])

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_pred: Any,
        *,
        labels: Sequence[Any] | None = None,
        normalize: str | None = None,
        values_format: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the confusion matrix.

        Parameters
        ----------
        y_true, y_pred : sequences of label sequences, or of labels
            Steps with a true label of None are left out.
        labels : sequence, default=None
            The labels in the order of rows and columns. By default, sorted.
        normalize, values_format
            As for the class.
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size.

        Returns
        -------
        display : LabelConfusionDisplay
        """
        matrix, labels = _count_pairs(y_true, y_pred, labels)
        return cls(matrix, labels, normalize=normalize, values_format=values_format).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        normalize: str | None = None,
        values_format: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the confusion matrix of a fitted model.

        Parameters
        ----------
        estimator : object
            A model of labels; or a pipeline or a search around one.
        X, y : as in its `score`
        normalize, values_format
            As for the class.
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size.

        Returns
        -------
        display : LabelConfusionDisplay

        Raises
        ------
        ValueError
            If the estimator is not fitted, or `y` has other lengths than its predictions.
        """
        steps, last = unwrap_fitted(estimator, "classes_")
        options = {"labels": last.classes_.tolist(), "normalize": normalize, "values_format": values_format}
        return cls.from_predictions(y, last.predict(transformed(steps, X)), **options, ax=ax)

    def _cells(self):
        return self.matrix if self.normalize else _fractions(self.matrix, 1), SHADES

    def _text(self, value):
        return (f"{value:.2f}" if self.normalize else f"{value:.0f}") if value else ""


def _fractions(counts, axis):
    """Return counts as fractions of their sums along an axis (None: of all); zero if the sum is zero."""
    total = counts.sum(axis=axis, keepdims=True)
    return counts / np.where(total > 0, total, 1.0)


def _count_pairs(y_true, y_pred, labels):
    """Return the numbers of steps with each pair of a gold and a predicted label, and the labels."""
    check_same_length(y_true, y_pred, ("y_true", "y_pred"))
    # Neither may be a table.
    check_same_length(y_pred, y_true, ("y_pred", "y_true"))
    pairs = []
    for i, (gold, predicted) in enumerate(zip(y_true, y_pred)):
        if isinstance(gold, str) or not isinstance(gold, Sized):
            gold, predicted = [gold], [predicted]
        else:
            check_not_ignored(_plain(gold), [0] * i + [len(gold)], "y_true")
        if getattr(gold, "ndim", 1) != 1:
            raise ValueError(f"y_true[{i}] has shape {gold.shape}; it must be 1-D, one label for each step")
        if len(gold) != len(predicted):
            raise ValueError(f"y_true[{i}] has {len(gold)} labels, y_pred[{i}] has {len(predicted)}")
        pairs += [(a, b) for a, b in zip(_plain(gold), _plain(predicted)) if a is not None]
    if labels is None:
        labels = sorted({label for pair in pairs for label in pair}, key=lambda label: (str(type(label)), label))
    index = {label: i for i, label in enumerate(labels)}
    matrix = np.zeros((len(index), len(index)))
    for a, b in pairs:
        if a in index and b in index:
            matrix[index[a], index[b]] += 1
    return matrix, list(labels)


def _plain(labels):
    return labels.tolist() if hasattr(labels, "tolist") else list(labels)


class FeatureTableDisplay(Display):
    """The strongest features of each label, as adjacent bar charts.

    Parameters
    ----------
    table : structured array
        As from `sklearn_sparsemap.inspection.feature_table`.

    Attributes
    ----------
    table : structured array
    labels : list
    ax_ : ndarray of Axes
        After `plot`: one for each label that is drawn.
    figure_ : Figure

    Raises
    ------
    ValueError
        If `table` does not have the columns of a table of features, or is empty.

    Examples
    --------
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.plotting import FeatureTableDisplay
    >>> model = StructuredSparseMAPClassifier().fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> FeatureTableDisplay.from_estimator(model, n=2).figure_.savefig("features.png")  # doctest: +SKIP
    """

    def __init__(self, table: Any) -> None:
        self.table = np.asarray(table)
        if self.table.dtype.names is None or not {"label", "feature", "weight"} <= set(self.table.dtype.names):
            raise ValueError("table must be a result of feature_table, with the columns label, feature and weight")
        if not len(self.table):
            raise ValueError("the table is empty; no feature has a weight")
        self.labels = list(dict.fromkeys(self.table["label"].tolist()))

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature_names: Sequence[str] | None = None,
        n: int = 8,
        labels: Any = None,
        ax: Any = None,
    ) -> Self:
        """Draw the strongest features of a fitted model.

        Parameters
        ----------
        estimator, feature_names, n
            As for `feature_table`.
        labels, ax
            As for `plot`.

        Returns
        -------
        display : FeatureTableDisplay

        Raises
        ------
        ValueError
            As in `feature_table`; also if a label is not among those of the table.
        """
        # Imported here, because it imports inference, which is not needed for drawing existing tables.
        from ..inspection import feature_table

        return cls(feature_table(estimator, feature_names, n)).plot(ax=ax, labels=labels)

    def plot(self, ax: Any = None, *, labels: Sequence[Any] | None = None) -> Self:
        """Draw a panel of bars for each label.

        Parameters
        ----------
        ax : matplotlib Axes, or sequence of Axes, default=None
            One for each label, or one that is divided. By default, a new figure of fitting size.
        labels : list, default=None
            Labels to draw, in this order. By default, all.

        Returns
        -------
        display : FeatureTableDisplay

        Raises
        ------
        ValueError
            If a label is not among those of the table, or `ax` has another number of axes.
        """
        labels = self.labels if labels is None else list(labels)
        unknown = [label for label in labels if label not in self.labels]
        if unknown or not labels:
            raise ValueError(f"labels must be of {self.labels}; got {labels}")
        parts = [self.table[[each == label for each in self.table["label"].tolist()]] for label in labels]
        # At most three in a row, and rows of similar lengths.
        n_rows = -(-len(parts) // 3)
        n_columns = -(-len(parts) // n_rows)
        size = 4.2 * n_columns, min(40.0, n_rows * (0.22 * max(map(len, parts)) + 0.8))
        axes = self._start_panels(ax, size, len(parts), n_columns)
        for ax, label, part in zip(axes, labels, parts):
            draw_bars(ax, part["feature"].tolist(), part["weight"])
            ax.set_title(str(label), fontsize=10, color=INK, parse_math=False)
        return self


class ExplanationDisplay(Display):
    """The contributions for and against a prediction, compared with another structure.

    The title names both structures. Bars to the right speak for the predicted one, bars to the left for the other one.
    "→ not b" marks the contributions to a part b that only the other structure has.

    Parameters
    ----------
    explanation : Explanation
        As from `sklearn_sparsemap.inspection.explain`.

    Attributes
    ----------
    explanation : Explanation
    ax_, figure_
        Axes and figure of the plot.

    Raises
    ------
    ValueError
        If `explanation` is not a result of `explain`.

    Examples
    --------
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.plotting import ExplanationDisplay
    >>> model = StructuredSparseMAPClassifier().fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> display = ExplanationDisplay.from_estimator(model, [0.0, 1.0])  # doctest: +SKIP
    """

    def __init__(self, explanation: Any) -> None:
        if not hasattr(explanation, "contributions"):
            raise ValueError(f"explanation must be a result of explain; got {explanation!r}")
        self.explanation = explanation

    @classmethod
    def from_estimator(
        cls, estimator: Any, x: Any, *, against: Any = None, n: int = 12, ax: Any = None, **options: Any
    ) -> Self:
        """Draw the contributions to the prediction of a fitted model for one sample.

        Parameters
        ----------
        estimator, x, against, **options
            As for `explain`.
        n, ax
            As for `plot`.

        Returns
        -------
        display : ExplanationDisplay

        Raises
        ------
        ValueError
            As `explain`.
        """
        from ..inspection import explain

        return cls(explain(estimator, x, against=against, **options)).plot(n=n, ax=ax)

    def plot(self, ax: Any = None, *, n: int = 12) -> Self:
        """Draw the largest contributions, and the sum of the others.

        Contributions too small for a visible bar, below 0.5 % of the largest, count to the others.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size.
        n : int, default=12
            Maximum number of contributions drawn separately.

        Returns
        -------
        display : ExplanationDisplay
        """
        table = self.explanation.table(n)
        why = self.explanation
        sizes = np.abs(table["contribution"])
        table = table[sizes >= _VISIBLE * sizes.max(initial=0.0)]
        # Rows are left out if labels determine them, as variables of a graph do, and if there is only one.
        places = {*zip(why.rows[why.rows >= 0].tolist(), np.array(why.labels, object)[why.rows >= 0].tolist())}
        names = []
        is_clear = len(places) == len({label for _, label in places}) > 0
        for name, row, label, _, part_of in table.tolist():
            where = "" if row < 0 or is_clear else f" @{row}"
            is_absent = part_of == "rival"
            if label is None:
                names.append(f"{'not ' * is_absent}{name}{where}")
                continue
            end = f"{where} → {'not ' * is_absent}{label}"
            room = max(_NAME - len(end), _LEAST_NAME)
            names.append((name if len(name) <= room else name[: room - 1] + "…") + end)
        values = table["contribution"].tolist()
        rest = why.score_difference - sum(values)
        if len(why.contributions) > len(values):
            names.append(f"{len(why.contributions) - len(values)} others")
            values.append(rest)
        ax = self._start(ax, (7.2, 0.28 * len(names) + 1.0))
        draw_bars(ax, names, np.array(values))
        ax.set_title(why.title, fontsize=9.5, loc="left", color=INK)
        ax.set_xlabel(
            f"contribution to the difference of {why.quantity}, {why.score_difference:+.3g} in total\n"
            "← for the other          for the predicted →",
            color=INK,
            fontsize=8.5,
        )
        return self


def draw_bars(ax, names, values):
    """Draw horizontal bars from the top, in one colour above zero and in another below."""
    values = np.asarray(values, dtype=np.float64)
    colors = [COLORS[3] if value >= 0 else COLORS[0] for value in values]
    ax.barh(np.arange(len(values)), values, color=colors, height=0.7, zorder=2)
    ax.axvline(0.0, color=INK, lw=0.8, zorder=3)
    clean_axes(ax)
    ax.set_ylim(len(values) - 0.4, -0.6)
    name_axis(ax.yaxis, [name if len(name) <= _NAME else name[: _NAME - 1] + "…" for name in names], size=8.5)
