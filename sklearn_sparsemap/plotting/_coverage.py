"""ConformalCoverageDisplay: coverage and size of conformal sets."""

from __future__ import annotations

from copy import copy

import numpy as np

from .._core.annotations import Any, ArrayLike, Self
from .._core.validation import check_same_length
from ._base import Display
from ._style import COLORS, INK


class ConformalCoverageDisplay(Display):
    """Empirical coverage and median size of conformal sets, by confidence level.

    Parameters
    ----------
    levels, coverages, sizes : array-like of shape (n_levels,)
        Confidence levels, fractions of samples whose set contains the gold structure, and median numbers of structures.

    Attributes
    ----------
    levels, coverages, sizes : ndarray of shape (n_levels,)
    ax_ : ndarray of shape (2,) of Axes
    figure_, coverage_line_, size_line_
        Figure and artists of the plot.

    See Also
    --------
    sklearn_sparsemap.conformal.ConformalStructures : Makes the sets.

    Examples
    --------
    >>> from sklearn_sparsemap.plotting import ConformalCoverageDisplay
    >>> display = ConformalCoverageDisplay([0.8, 0.9], [0.82, 0.9], [1, 3])
    >>> display.coverages
    array([0.82, 0.9 ])
    """

    def __init__(self, levels: ArrayLike, coverages: ArrayLike, sizes: ArrayLike) -> None:
        self.levels, self.coverages, self.sizes = (np.asarray(values, float) for values in (levels, coverages, sizes))
        check_same_length(self.levels, self.coverages)
        check_same_length(self.levels, self.sizes)

    @classmethod
    def from_estimator(
        cls,
        conformal: Any,
        X: Any,
        y: Any,
        *,
        groups: ArrayLike | None = None,
        levels: ArrayLike = (0.5, 0.6, 0.7, 0.8, 0.9),
        ax: Any = None,
    ) -> Self:
        """Draw the coverage of new samples.

        Parameters
        ----------
        conformal : ConformalStructures
            After `conformalize`.
        X, y : as in `conformalize`
            Samples that are neither in training nor in calibration.
        groups : array-like of shape (n_samples,), default=None
            As in `conformalize`.
        levels : array-like of shape (n_levels,), default=(0.5, 0.6, 0.7, 0.8, 0.9)
            Confidence levels.
        ax : ndarray of shape (2,) of Axes, default=None
            Axes for coverage and size.

        Returns
        -------
        display : ConformalCoverageDisplay
        """
        coverages, sizes = [], []
        for level in levels:
            levelled = copy(conformal).set_params(confidence_level=level)
            coverages.append(levelled.covers(X, y, groups=groups).mean())
            sizes.append(np.median([len(own) for own in levelled.predict_set(X, groups=groups)]))
        return cls(levels, coverages, sizes).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw coverage and size.

        Parameters
        ----------
        ax : ndarray of shape (2,) of Axes, default=None
            Axes for coverage and size. A new figure by default.

        Returns
        -------
        display : ConformalCoverageDisplay
        """
        first, second = self._start_panels(ax, (8.0, 3.6), 2, 2)
        ends = [self.levels.min(), self.levels.max()]
        first.plot(ends, ends, color=INK, lw=0.8, ls=":")
        (self.coverage_line_,) = first.plot(self.levels, self.coverages, color=COLORS[0], lw=1.5, marker="o", ms=4)
        first.set(xlabel="confidence level", ylabel="fraction of samples covered")
        (self.size_line_,) = second.plot(self.levels, self.sizes, color=COLORS[1], lw=1.5, marker="o", ms=4)
        second.set(xlabel="confidence level", ylabel="median size of a set", yscale="symlog")
        sizes = np.unique(self.sizes)
        second.set_yticks(sizes, [f"{size:g}" for size in sizes])
        second.yaxis.minorticks_off()
        return self
