"""Plots of learned weights and predictions: heat maps over pairs of labels, and bars."""

from __future__ import annotations

import numpy as np

from .._core.annotations import Any, ArrayLike, Self, Sequence
from .._core.unwrap import transformed
from .._core.validation import check_same_length
from ._base import Display, unwrap_fitted
from ._style import COLORS, INK, SHADES, draw_grid, lay_bare, name_axis, text_width, write


class LabelPairsDisplay(Display):
    """Base of the heat maps of a matrix over pairs of labels: rows are the first labels, columns the second ones.

    A subclass names the axes (`_axes`), returns the values of the cells and their colours (`_cells`), and the text of a
    value (`_text`).
    """

    def __init__(self, matrix: ArrayLike, labels: Sequence[Any] | None = None) -> None:
        self.matrix = np.asarray(matrix, dtype=np.float64)
        n = len(self.matrix)
        if self.matrix.shape != (n, n) or not n or np.isnan(self.matrix).any():
            raise ValueError(f"the matrix must be square, and have no NaN; got shape {self.matrix.shape}")
        self.labels = list(range(n)) if labels is None else list(labels)
        if len(self.labels) != n:
            raise ValueError(f"there are {len(self.labels)} labels for {n} rows; give one for each")

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
        side = float(np.clip(0.45 * n + 1.5, 3.2, 12))
        ax = self._start(ax, (side + 0.6, side))
        cells, colors = self._cells()
        self.image_, (across, down) = draw_grid(ax, cells, self.labels, self.labels, colors=colors)
        ax.set(ylabel=self._axes[0], xlabel=self._axes[1])
        size = min(9.0, 0.35 * down)
        texts = {(i, j): self._text(self.matrix[i, j]) for i, j in np.ndindex(n, n)}
        if size >= 5.0 and max(text_width(text, size) for text in texts.values()) < 0.9 * across:
            for (i, j), text in texts.items():
                write(ax, (j, i), text, size, zorder=5)
        return self


class TransitionsDisplay(LabelPairsDisplay):
    """The transition scores from each label (row) to the next label (column), with one colour for each sign.

    Parameters
    ----------
    matrix : array-like of shape (n_labels, n_labels)
        ``transitions_``. Cells of forbidden transitions, -inf, are empty.
    labels : sequence, default=None
        Names of the labels. By default, numbers from 0.

    Attributes
    ----------
    matrix, labels
    ax_, figure_, image_
        Axes, figure and heat map of the plot.

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
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the transitions of a fitted model of chains.

        Parameters
        ----------
        estimator : object
            With ``transitions_`` and ``classes_``; or a pipeline or a search around one.
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
        return cls(last.transitions_, last.classes_.tolist()).plot(ax=ax)

    def _cells(self):
        finite = np.abs(self.matrix[np.isfinite(self.matrix)])
        # Light enough for the numbers on top.
        most = 1.6 * max(finite.max(initial=0.0), np.finfo(float).tiny)
        return self.matrix, {"cmap": "PuOr", "vmin": -most, "vmax": most}

    @staticmethod
    def _text(value):
        # Adding zero removes the sign of a rounded zero.
        return "" if np.isinf(value) else f"{round(float(value), 1) + 0.0:.1f}"


class LabelConfusionDisplay(LabelPairsDisplay):
    """The confusion matrix of labels over the steps of all samples: gold labels are rows, predictions are columns.

    Parameters
    ----------
    matrix : array-like of shape (n_labels, n_labels)
        Counts.
    labels : sequence, default=None
        Names of the labels. By default, numbers from 0.

    Attributes
    ----------
    matrix, labels
    ax_, figure_, image_
        Axes, figure and heat map of the plot; colours are fractions of each row.

    Raises
    ------
    ValueError
        If the matrix is not square or has NaN, or there are not as many labels as rows.

    Examples
    --------
    >>> from sklearn_sparsemap.plotting import LabelConfusionDisplay
    >>> LabelConfusionDisplay.count([["D", "N"], ["N"]], [["D", "D"], ["N"]]).matrix.tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """

    _axes = "gold", "predicted"

    @classmethod
    def count(cls, y_true: Any, y_pred: Any, labels: Sequence[Any] | None = None) -> Self:
        """Count pairs of labels.

        Parameters
        ----------
        y_true, y_pred : sequences of label sequences, or of labels
            Steps with a gold label of None are left out.
        labels : sequence, default=None
            The labels in the order of rows and columns. By default, sorted.

        Returns
        -------
        display : LabelConfusionDisplay
        """
        check_same_length(y_true, y_pred)
        pairs = []
        for i, (gold, found) in enumerate(zip(y_true, y_pred)):
            if isinstance(gold, str) or not hasattr(gold, "__len__"):
                gold, found = [gold], [found]
            if len(gold) != len(found):
                raise ValueError(f"y_true[{i}] has {len(gold)} labels, y_pred[{i}] has {len(found)}")
            pairs += [(a, b) for a, b in zip(_plain(gold), _plain(found)) if a is not None]
        if labels is None:
            labels = sorted({label for pair in pairs for label in pair}, key=lambda label: (str(type(label)), label))
        place = {label: i for i, label in enumerate(labels)}
        matrix = np.zeros((len(place), len(place)))
        for a, b in pairs:
            if a in place and b in place:
                matrix[place[a], place[b]] += 1
        return cls(matrix, list(labels))

    @classmethod
    def from_predictions(cls, y_true: Any, y_pred: Any, *, labels: Sequence[Any] | None = None, ax: Any = None) -> Self:
        """Draw the confusion matrix.

        Parameters
        ----------
        y_true, y_pred, labels
            As for `count`.
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size.

        Returns
        -------
        display : LabelConfusionDisplay
        """
        return cls.count(y_true, y_pred, labels).plot(ax=ax)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None) -> Self:
        """Draw the confusion matrix of a fitted model.

        Parameters
        ----------
        estimator : object
            A model of labels; or a pipeline or a search around one.
        X, y : as in its `score`
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
        return cls.from_predictions(y, last.predict(transformed(steps, X)), labels=last.classes_.tolist(), ax=ax)

    def _cells(self):
        total = self.matrix.sum(axis=1, keepdims=True)
        return self.matrix / np.where(total > 0, total, 1.0), SHADES

    @staticmethod
    def _text(value):
        return f"{value:.0f}" if value else ""


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
    axes_ : list of Axes
        After `plot`: one for each label.
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
        cls, estimator: Any, *, feature_names: Sequence[str] | None = None, n: int = 8, labels: Any = None
    ) -> Self:
        """Draw the strongest features of a fitted model.

        Parameters
        ----------
        estimator, feature_names, n
            As for `feature_table`.
        labels : list, default=None
            Labels to draw, in this order. By default, all.

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

        return cls(feature_table(estimator, feature_names, n)).plot(labels=labels)

    def plot(self, *, labels: Sequence[Any] | None = None) -> Self:
        """Draw a panel of bars for each label.

        Parameters
        ----------
        labels : list, default=None
            Labels to draw, in this order. By default, all.

        Returns
        -------
        display : FeatureTableDisplay

        Raises
        ------
        ValueError
            If a label is not among those of the table.
        """
        labels = self.labels if labels is None else list(labels)
        unknown = [label for label in labels if label not in self.labels]
        if unknown or not labels:
            raise ValueError(f"labels must be of {self.labels}; got {labels}")
        parts = [self.table[[own == label for own in self.table["label"].tolist()]] for label in labels]
        n_columns = min(3, len(parts))
        n_rows = -(-len(parts) // n_columns)
        tallest = max(map(len, parts))
        size = 4.2 * n_columns, min(40.0, n_rows * (0.22 * tallest + 0.8))
        axes = np.ravel(self._start(None, size, n_rows, n_columns))
        self.axes_ = list(axes[: len(parts)])
        for ax in axes[len(parts) :]:
            ax.axis("off")
        for ax, label, part in zip(self.axes_, labels, parts):
            draw_bars(ax, part["feature"].tolist(), part["weight"])
            ax.set_title(str(label), fontsize=10, color=INK, parse_math=False)
        return self


class ExplanationDisplay(Display):
    """The contributions for and against a prediction, compared with another structure.

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

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size.
        n : int, default=12
            Number of contributions drawn separately.

        Returns
        -------
        display : ExplanationDisplay
        """
        table, why = self.explanation.table(n), self.explanation
        names = []
        for name, row, label, _ in table.tolist():
            where = "" if row < 0 else f" @{row}"
            names.append(f"{name}{where}" + ("" if label is None else f" → {label}"))
        values = table["contribution"].tolist()
        rest = why.score_difference - sum(values)
        if len(why.contributions) > len(values):
            names.append(f"{len(why.contributions) - len(values)} others")
            values.append(rest)
        ax = self._start(ax, (7.2, 0.28 * len(names) + 1.0))
        draw_bars(ax, names, np.array(values))
        ax.set_xlabel(f"contribution to a lead of {why.score_difference:.3g}", color=INK)
        return self


def draw_bars(ax, names, values):
    """Draw horizontal bars from the top, in one colour above zero and in another below."""
    values = np.asarray(values, dtype=np.float64)
    colors = [COLORS[3] if value >= 0 else COLORS[0] for value in values]
    ax.barh(np.arange(len(values)), values, color=colors, height=0.7, zorder=2)
    ax.axvline(0.0, color=INK, lw=0.8, zorder=3)
    lay_bare(ax)
    ax.set_ylim(len(values) - 0.4, -0.6)
    name_axis(ax.yaxis, [name if len(name) <= 40 else name[:39] + "…" for name in names], size=8.5)
