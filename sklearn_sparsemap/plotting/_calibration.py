"""LabelCalibrationDisplay: the reliability diagram of the probabilities of label sets."""

from __future__ import annotations

import numpy as np

from .._core.annotations import Any, ArrayLike, Self
from .._core.indicators import label_sets, read_known, same_order
from .._core.unwrap import unwrap
from .._core.validation import check_positive
from ._base import Display
from ._style import COLORS, INK


class LabelCalibrationDisplay(Display):
    """Reliability of the probabilities of label sets, or of their marginals.

    Probabilities are calibrated if 70 % of the labels with a probability of 0.7 are on. Unlike scikit-learn's
    `CalibrationDisplay`, this is over all labels of all samples. Values of exactly 0 and 1, of which the marginals of
    SparseMAP have many, have separate points. The size of a point shows the number of its labels.

    Parameters
    ----------
    marginals, frequencies, counts : array-like of shape (n_groups,)
        For each group of labels the mean probability or marginal, the fraction of labels that are on, and the number of
        labels.

    Attributes
    ----------
    marginals, frequencies, counts : ndarray of shape (n_groups,)
    calibration_error : float
        Mean distance of `marginals` and `frequencies`, weighted by the counts.
    ax_, figure_, line_, dots_
        Axes, figure and artists of the plot.

    See Also
    --------
    sklearn.calibration.CalibrationDisplay : Reliability of the probabilities of one label.

    Examples
    --------
    >>> from sklearn_sparsemap.plotting import LabelCalibrationDisplay
    >>> y_true, marginals = [[0, 1], [0, 1], [1, 1]], [[0, 1], [0.5, 1], [0.5, 0.8]]
    >>> LabelCalibrationDisplay.from_predictions(y_true, marginals).figure_.savefig("bins.png")  # doctest: +SKIP
    >>> round(LabelCalibrationDisplay([0.0, 0.5, 1.0], [0.0, 0.4, 1.0], [1, 2, 1]).calibration_error, 3)
    0.05
    """

    def __init__(self, marginals: ArrayLike, frequencies: ArrayLike, counts: ArrayLike) -> None:
        self.marginals = np.asarray(marginals, float)
        self.frequencies = np.asarray(frequencies, float)
        self.counts = np.asarray(counts)

    @property
    def calibration_error(self) -> float:
        return float(np.average(np.abs(self.marginals - self.frequencies), weights=self.counts))

    @classmethod
    def from_predictions(cls, y_true: ArrayLike, marginals: ArrayLike, *, n_bins: int = 10, ax: Any = None) -> Self:
        """Draw the reliability of probabilities or marginals.

        Parameters
        ----------
        y_true, marginals : array-like of shape (n_samples, n_labels)
            Labels, and their probabilities or marginals. Labels of NaN are left out. The columns of two tables are
            matched by their names.
        n_bins : int, default=10
            Number of groups of equal width between 0 and 1.
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure.

        Returns
        -------
        display : LabelCalibrationDisplay

        Raises
        ------
        ValueError
            If the numbers of labels and marginals differ.
        """
        check_positive("n_bins", n_bins, integer=True)
        if label_sets(y_true) is not None:
            raise ValueError("y_true holds names of labels; use from_estimator, or pass an indicator matrix")
        y_true, marginals, _ = same_order(y_true, marginals, names=("y_true", "marginals"))
        filled, known = read_known(y_true)
        filled = filled.toarray() if hasattr(filled, "toarray") else filled
        gold = np.asarray(filled, float).ravel()
        found = np.asarray(marginals, float).ravel()
        if known is not None:
            gold[~known.ravel()] = np.nan
        if gold.shape != found.shape or not len(gold):
            raise ValueError(f"y_true has {gold.size} labels, marginals {found.size}; give equal numbers, at least one")
        is_known = ~np.isnan(gold)
        gold = gold[is_known]
        found = found[is_known]
        places = np.where(found <= 0.0, 0, np.where(found >= 1.0, n_bins + 1, 1 + (found * n_bins).astype(int)))
        counts = np.bincount(places, minlength=n_bins + 2)
        used = counts > 0
        sums = [np.bincount(places, values, minlength=n_bins + 2)[used] / counts[used] for values in (found, gold)]
        return cls(*sums, counts[used]).plot(ax=ax)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, *, n_bins: int = 10, ax: Any = None) -> Self:
        """Draw the reliability of a model's probabilities, `predict_proba`.

        For marginals, which are not calibrated, pass those of `predict_marginals` to `from_predictions`.

        Parameters
        ----------
        estimator : MultilabelLPSparseMAP or another estimator with `predict_proba`
            A fitted model, or a pipeline or a search around one.
        X : array-like of shape (n_samples, n_features)
        y : array-like or sparse matrix of shape (n_samples, n_labels), or sequence of collections of names
        n_bins, ax
            As for `from_predictions`.

        Returns
        -------
        display : LabelCalibrationDisplay
        """
        # Only figures of estimators need kernels.
        from ..estimators._face import face_of

        face = face_of(unwrap(estimator)[1])
        y = y if face is None else face.in_order(y)
        return cls.from_predictions(y, estimator.predict_proba(X), n_bins=n_bins, ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the groups, and the diagonal of perfect calibration.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure.

        Returns
        -------
        display : LabelCalibrationDisplay
        """
        self._start(ax, (4.5, 4.5))
        self.ax_.plot([0, 1], [0, 1], color=INK, lw=0.8, ls=":")
        (self.line_,) = self.ax_.plot(self.marginals, self.frequencies, color=COLORS[0], lw=1.5)
        sizes = 20.0 + 180.0 * np.sqrt(self.counts / self.counts.sum())
        self.dots_ = self.ax_.scatter(self.marginals, self.frequencies, sizes, color=COLORS[0], zorder=3)
        self.ax_.set(
            xlabel="probability", ylabel="fraction of labels that are on", xlim=(-0.05, 1.05), ylim=(-0.05, 1.05)
        )
        return self
