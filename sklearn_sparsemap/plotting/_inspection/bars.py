"""Bars of weights: the strongest features of each label, and the contributions to a prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import Display
from .._style import COLORS, INK, import_pyplot, lay_bare, name_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self


class FeatureTableDisplay(Display):
    """The strongest features of each label, as adjacent bar charts.

    Parameters
    ----------
    table : structured array
        As `sklearn_sparsemap.inspection.feature_table` makes it.

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
            raise ValueError("table must be what feature_table returns, with the columns label, feature and weight")
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
        from ...inspection import feature_table

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
        plt = import_pyplot()
        labels = self.labels if labels is None else list(labels)
        unknown = [label for label in labels if label not in self.labels]
        if unknown or not labels:
            raise ValueError(f"labels must be of {self.labels}; got {labels}")
        parts = [self.table[[own == label for own in self.table["label"].tolist()]] for label in labels]
        n_columns = min(3, len(parts))
        n_rows = -(-len(parts) // n_columns)
        tallest = max(map(len, parts))
        size = 4.2 * n_columns, min(40.0, n_rows * (0.22 * tallest + 0.8))
        self.figure_, axes = plt.subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)
        self.axes_ = list(axes.ravel()[: len(parts)])
        for ax in axes.ravel()[len(parts) :]:
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
        As `sklearn_sparsemap.inspection.explain` makes it.

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
            raise ValueError(f"explanation must be what explain returns; got {explanation!r}")
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
        from ...inspection import explain

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
