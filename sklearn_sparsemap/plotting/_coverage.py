"""ConformalCoverageDisplay: coverage and size of conformal sets."""

from __future__ import annotations

import math
import warnings
from copy import copy

import numpy as np
from scipy.stats import betabinom

from .._core.annotations import Any, ArrayLike, Self
from .._core.validation import check_same_length, first_of
from ._base import Display
from ._style import COLORS, INK, MUTED, round_ticks

_MAX_SIZES = 6  # with more different sizes, ticks are round numbers


class ConformalCoverageDisplay(Display):
    """Empirical coverage and median size of conformal sets, by confidence level.

    Parameters
    ----------
    levels, coverages, sizes : array-like of shape (n_levels,)
        Confidence levels, fractions of samples whose set contains the true structure, and median numbers of structures.
        Or the fractions of correct parts that are in their sets, and median numbers of parts.
    bands : array-like of shape (n_levels, 2), default=None
        The interval of fractions that chance explains, by level.

    Attributes
    ----------
    levels, coverages, sizes : ndarray of shape (n_levels,)
    bands : ndarray of shape (n_levels, 2) or None
    ax_ : ndarray of shape (2,) of Axes
    figure_, coverage_line_, size_line_, band_
        Figure and artists of the plot; no band without `bands`.

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

    def __init__(
        self, levels: ArrayLike, coverages: ArrayLike, sizes: ArrayLike, bands: ArrayLike | None = None
    ) -> None:
        self.levels, self.coverages, self.sizes = (np.asarray(values, float) for values in (levels, coverages, sizes))
        check_same_length(self.levels, self.coverages, ("levels", "coverages"), "fraction")
        check_same_length(self.levels, self.sizes, ("levels", "sizes"), "mean size")
        self.bands = None if bands is None else np.asarray(bands, float)
        if self.bands is not None and self.bands.shape != (len(self.levels), 2):
            raise ValueError(f"bands must have a row of two numbers for each level; got shape {self.bands.shape}")

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

        The band contains the coverage with a probability of 95 %, given the numbers of samples in calibration and here.
        Coverage above the band is no fault if many sets have one structure (see the notes of `ConformalStructures`).
        With several groups, each of which has a threshold of its own, there is no band. Nor is there with
        ``risk="parts"``, for which the fraction of correct parts in the sets, and the number of parts in a set, are
        drawn.

        Coverage is that of the uncut sets. If half of the lists are cut at `max_size` of `conformal`, their median size
        is a lower bound, and a warning says so.

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
        ax
            As for `plot`.

        Returns
        -------
        display : ConformalCoverageDisplay
        """
        # Only figures of estimators need kernels.
        from ..conformal._conformal import list_sets

        of_parts = conformal.risk == "parts"
        coverages = []
        sizes = []
        bands = []
        cut = []
        for level in levels:
            levelled = copy(conformal).set_params(confidence_level=level)
            covered = 1.0 - levelled.missed(X, y, groups) if of_parts else levelled.covers(X, y, groups)
            coverages.append(covered.mean())
            size_of = _n_parts if of_parts else len
            # Cut lists do not change the median if fewer than half of them are cut.
            sizes.append(np.median([size_of(each) for each in list_sets(levelled, X, groups)]))
            if not of_parts and 2 * np.count_nonzero(levelled.truncated_) >= len(covered):
                cut.append(level)
            bands.append(_chance(level, len(levelled.nonconformity_), len(covered)))
        if cut:
            warnings.warn(
                f"half of the lists or more are cut at max_size={conformal.max_size} at confidence levels "
                f"{first_of(cut)}, so the median sizes there are lower bounds; choose a larger max_size",
                stacklevel=2,
            )
        has_band = not of_parts and len(set(conformal.groups_)) == 1
        return cls(levels, coverages, sizes, bands if has_band else None).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw coverage and size.

        Parameters
        ----------
        ax : matplotlib Axes, or sequence of two Axes, default=None
            Axes for coverage and size, or one that is divided. By default, a new figure.

        Returns
        -------
        display : ConformalCoverageDisplay
        """
        first, second = self._start_panels(ax, (8.0, 3.6), 2, 2)
        self.band_ = None
        if self.bands is not None:
            band = {"color": MUTED, "alpha": 0.25, "lw": 0, "label": "95 % by chance"}
            self.band_ = first.fill_between(self.levels, *self.bands.T, **band)
            first.legend(loc="upper left", frameon=False, fontsize=9, labelcolor=INK)
        ends = [self.levels.min(), self.levels.max()]
        first.plot(ends, ends, color=INK, lw=0.8, ls=":")
        (self.coverage_line_,) = first.plot(self.levels, self.coverages, color=COLORS[0], lw=1.5, marker="o", ms=4)
        first.set(xlabel="confidence level", ylabel="fraction covered")
        (self.size_line_,) = second.plot(self.levels, self.sizes, color=COLORS[1], lw=1.5, marker="o", ms=4)
        second.set(xlabel="confidence level", ylabel="median size of a set", yscale="symlog")
        sizes = np.unique(self.sizes)
        if len(sizes) > _MAX_SIZES:
            zero = [0.0] if sizes[0] == 0.0 else []
            sizes = [*zero, *round_ticks(sizes[len(zero)], sizes[-1])]
        second.set_yticks(sizes, [f"{size:g}" for size in sizes])
        second.yaxis.minorticks_off()
        return self


def _n_parts(inside):
    """Return the number of parts in a set of parts, a bool array or a dict of these."""
    return sum(map(np.count_nonzero, inside.values() if isinstance(inside, dict) else [inside]))


def _chance(level, n_calibration, n):
    """Return the interval in which the coverage of `n` samples is with a probability of 95 %."""
    # The same rank as `_thresholds` of conformal/_conformal.py finds for one group; change both together.
    rank = math.ceil((n_calibration + 1) * level - 1e-9)
    if rank > n_calibration:
        return 1.0, 1.0
    return tuple(betabinom(n, rank, n_calibration + 1 - rank).ppf([0.025, 0.975]) / n)
