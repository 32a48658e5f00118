"""Heat maps over pairs of labels: the transitions of a chain, and confusion matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.unwrap import transformed
from ..._core.validation import check_same_length
from .._base import Display, unwrap_fitted
from .._style import INK, SHADES, draw_grid, text_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike
    from typing_extensions import Self


class LabelPairsDisplay(Display):
    """Base of the heat maps: a matrix over pairs of labels, the row the first and the column the second of a pair."""

    _axes = "", ""

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
        cells, look = self._cells()
        self.image_, (across, down) = draw_grid(ax, cells, self.labels, self.labels, **look)
        ax.set(ylabel=self._axes[0], xlabel=self._axes[1])
        size = min(9.0, 0.35 * down)
        texts = {(i, j): self._text(self.matrix[i, j]) for i, j in np.ndindex(n, n)}
        if size >= 5.0 and max(text_width(text, size) for text in texts.values()) < 0.9 * across:
            for (i, j), text in texts.items():
                ax.text(j, i, text, ha="center", va="center", fontsize=size, color=INK, zorder=5)
        return self

    def _cells(self):
        raise NotImplementedError

    @staticmethod
    def _text(value):
        raise NotImplementedError


class TransitionsDisplay(LabelPairsDisplay):
    """The scores of going from one label (row) to the next (column), above and below zero in two colours.

    Parameters
    ----------
    matrix : array-like of shape (n_labels, n_labels)
        ``transitions_``; cells of -inf, which are forbidden, stay empty.
    labels : sequence, default=None
        None numbers them from 0.

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
    """How often each label (row) is predicted as which (column), over the steps of all samples.

    Parameters
    ----------
    matrix : array-like of shape (n_labels, n_labels)
        Counts.
    labels : sequence, default=None
        None numbers them from 0.

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

    _axes = "right label", "predicted"

    @classmethod
    def count(cls, y_true: Any, y_pred: Any, labels: Sequence[Any] | None = None) -> Self:
        """Count pairs of labels.

        Parameters
        ----------
        y_true, y_pred : sequences of label sequences, or of labels
            Steps with a gold label of None are left out.
        labels : sequence, default=None
            Their order; None sorts them.

        Returns
        -------
        display : LabelConfusionDisplay
        """
        check_same_length(y_true, y_pred)
        pairs = []
        for i, (right, found) in enumerate(zip(y_true, y_pred)):
            if isinstance(right, str) or not hasattr(right, "__len__"):
                right, found = [right], [found]
            if len(right) != len(found):
                raise ValueError(f"y_true[{i}] has {len(right)} labels, y_pred[{i}] has {len(found)}")
            pairs += [(a, b) for a, b in zip(_plain(right), _plain(found)) if a is not None]
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
        shares = self.matrix / np.where(total > 0, total, 1.0)
        return np.where(shares > 0, shares, np.nan), SHADES

    @staticmethod
    def _text(value):
        return f"{value:.0f}" if value else ""


def _plain(labels):
    return labels.tolist() if hasattr(labels, "tolist") else list(labels)
