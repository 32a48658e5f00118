"""LabelCalibrationDisplay: whether labels with a marginal of 0.7 are on in seven of ten cases."""

from __future__ import annotations

import numpy as np

from .._core.annotations import Any, ArrayLike, Self
from .._core.validation import check_positive
from ._base import Display
from ._style import COLORS, INK


class LabelCalibrationDisplay(Display):
    """Reliability of the marginals of label sets.

    Like scikit-learn's `CalibrationDisplay`, over all labels of all samples. Marginals of exactly 0 and 1, which are
    many, have separate points, and the size of a point shows the number of its labels.

    Parameters
    ----------
    marginals, frequencies, counts : array-like of shape (n_groups,)
        The mean marginal of each group, the fraction of its labels that are on, and their number.

    Attributes
    ----------
    marginals, frequencies, counts : ndarray of shape (n_groups,)
    calibration_error : float
        Mean distance of marginals and frequencies, weighted by the counts.
    ax_, figure_, line_, dots_
        Axes, figure and artists of the plot.

    Raises
    ------
    ValueError
        In `from_predictions`, where there are not as many labels as marginals.

    See Also
    --------
    sklearn.calibration.CalibrationDisplay : The same for one label.

    Examples
    --------
    >>> from sklearn_sparsemap.plotting import LabelCalibrationDisplay
    >>> display = LabelCalibrationDisplay.from_predictions([[0, 1], [0, 1], [1, 1]], [[0, 1], [0.5, 1], [0.5, 0.8]])
    >>> display.marginals, display.frequencies, display.counts
    (array([0. , 0.5, 0.8, 1. ]), array([0. , 0.5, 1. , 1. ]), array([1, 2, 1, 2]))
    """

    def __init__(self, marginals: ArrayLike, frequencies: ArrayLike, counts: ArrayLike) -> None:
        self.marginals, self.frequencies = np.asarray(marginals, float), np.asarray(frequencies, float)
        self.counts = np.asarray(counts)

    @property
    def calibration_error(self) -> float:
        return float(np.average(np.abs(self.marginals - self.frequencies), weights=self.counts))

    @classmethod
    def from_predictions(cls, y_true: ArrayLike, marginals: ArrayLike, *, n_bins: int = 10) -> Self:
        """Compare marginals with gold labels.

        Parameters
        ----------
        y_true, marginals : array-like of shape (n_samples, n_labels)
            NaN in `y_true` is left out.
        n_bins : int, default=10
            How many groups of equal width there are between 0 and 1.

        Raises
        ------
        ValueError
            If there are not as many labels as marginals.
        """
        check_positive("n_bins", n_bins, integer=True)
        gold, found = np.asarray(y_true, float).ravel(), np.asarray(marginals, float).ravel()
        if gold.shape != found.shape or not len(gold):
            raise ValueError(f"y_true has {gold.size} labels, marginals {found.size}; they must be as many, and some")
        gold, found = gold[~np.isnan(gold)], found[~np.isnan(gold)]
        places = np.where(found <= 0.0, 0, np.where(found >= 1.0, n_bins + 1, 1 + (found * n_bins).astype(int)))
        counts = np.bincount(places, minlength=n_bins + 2)
        used = counts > 0
        sums = [np.bincount(places, values, minlength=n_bins + 2)[used] / counts[used] for values in (found, gold)]
        return cls(*sums, counts[used])

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, *, n_bins: int = 10, ax: Any = None) -> Self:
        """Draw how reliable a model's marginals are; `estimator` is a fitted `MultilabelLPSparseMAP`, or a pipeline.

        Parameters
        ----------
        estimator : MultilabelLPSparseMAP or other
            With `predict_proba`.
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_labels)
        n_bins : int, default=10
        ax : matplotlib axes, default=None
        """
        predict = getattr(estimator, "predict_marginals", None) or estimator.predict_proba
        return cls.from_predictions(y, predict(X), n_bins=n_bins).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the groups, and the diagonal on which they should lie."""
        self._start(ax, (4.5, 4.5))
        self.ax_.plot([0, 1], [0, 1], color=INK, lw=0.8, ls=":")
        (self.line_,) = self.ax_.plot(self.marginals, self.frequencies, color=COLORS[0], lw=1.5)
        sizes = 20.0 + 180.0 * np.sqrt(self.counts / self.counts.sum())
        self.dots_ = self.ax_.scatter(self.marginals, self.frequencies, sizes, color=COLORS[0], zorder=3)
        self.ax_.set(xlabel="marginal", ylabel="fraction of labels that are on", xlim=(-0.05, 1.05), ylim=(-0.05, 1.05))
        return self
