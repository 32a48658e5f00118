"""MemoryCurveDisplay: the number of weights during training (Martins et al. 2011, Fig. 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.validation import check_positive
from .._base import Display, unwrap_fitted
from .._style import COLORS, DASHES, INK, MUTED, lay_bare, legend_above

if TYPE_CHECKING:
    from typing_extensions import Self

# With more records than this, a line is a blot.
_MOST_RECORDS = 300


class MemoryCurveDisplay(Display):
    """The number of weights during training: it grows with updates, and falls when groups are shrunk to zero.

    Parameters
    ----------
    curves : dict of str -> (steps, weights)
        For each model the numbers of samples visited, and the numbers of weights then: ``memory_steps_`` and
        ``memory_curve_``. Two entries with the same step are those before and after a shrinkage.
    full : int, default=None
        Number of weights of a model that selects nothing, to compare.

    Attributes
    ----------
    curves : dict of str -> (ndarray, ndarray)
    full : int or None
    ax_, figure_, legend_
        Axes, figure and legend of the plot; no legend for a single curve without a name.
    lines_ : dict of str -> Line2D
        The curves.

    Raises
    ------
    ValueError
        If there is nothing to draw, steps and weights do not match, or `full` is not a positive int.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import GroupLassoPerceptron
    >>> from sklearn_sparsemap.plotting import MemoryCurveDisplay
    >>> X = np.random.default_rng(0).normal(size=(300, 12))
    >>> y = X[:, :3].sum(axis=1) > 0
    >>> model = GroupLassoPerceptron(groups=np.repeat(range(4), 3), budget=1, shrink_every=50).fit(X, y)
    >>> display = MemoryCurveDisplay.from_estimator(model, full=24)  # doctest: +SKIP
    >>> display.figure_.savefig("memory.png")  # doctest: +SKIP
    """

    def __init__(self, curves: Any, full: float | None = None) -> None:
        if not curves:
            raise ValueError("there are no curves to draw")
        if full is not None:
            check_positive("full", full, integer=True)
        self.curves, self.full = {}, full
        for name, (steps, weights) in curves.items():
            steps, weights = np.asarray(steps), np.asarray(weights)
            if steps.ndim != 1 or steps.shape != weights.shape:
                raise ValueError(
                    f"curves[{name!r}] must be steps and weights of one length; got shapes {steps.shape} and "
                    f"{weights.shape}"
                )
            if not len(steps):
                raise ValueError(f"curves[{name!r}] is empty; groups are shrunk every shrink_every samples")
            if (np.diff(steps) < 0).any():
                raise ValueError(f"the steps of curves[{name!r}] must not decrease")
            self.curves[str(name)] = steps, weights

    @classmethod
    def from_estimator(cls, estimator: Any, *, full: float | None = None, ax: Any = None) -> Self:
        """Draw the memory curve of a fitted estimator, or of several.

        Parameters
        ----------
        estimator : object, or dict of str -> object
            With ``memory_steps_`` and ``memory_curve_``, such as `GroupLassoPerceptron`; or a
            pipeline or a search around one.
        full : int or object, default=None
            As for the class; or the fitted model that selects nothing.
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure.

        Returns
        -------
        display : MemoryCurveDisplay
            With `ax_` and `figure_`.
        """
        curves = {}
        for name, each in (estimator if isinstance(estimator, dict) else {"": estimator}).items():
            _, each = unwrap_fitted(each, "memory_curve_")
            curves[name] = each.memory_steps_, each.memory_curve_
        return cls(curves, full=getattr(full, "n_nonzero_coefs_", full)).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the curves. Of more shrinkages than can be seen, the band between the lowest and the highest numbers.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure.

        Returns
        -------
        display : MemoryCurveDisplay
        """
        ax, self.lines_ = self._start(ax, (7.2, 3.6)), {}
        for place, (name, (steps, weights)) in enumerate(self.curves.items()):
            look = {"color": COLORS[place % len(COLORS)], "linestyle": DASHES[place % len(DASHES)]}
            # All begin with nothing.
            x, y = np.concatenate([[0], steps]), np.concatenate([[0], weights])
            order = {"zorder": 3 - 0.1 * place}
            if len(x) > _MOST_RECORDS:
                x, low, y = _envelope(x, y)
                ax.fill_between(x, low, y, color=look["color"], alpha=0.3, lw=0, **order)
            elif len(self.curves) == 1:
                ax.fill_between(x, y, color=look["color"], alpha=0.12, lw=0, **order)
            (self.lines_[name],) = ax.plot(x, y, lw=1.4, label=name, **look, **order)
        if self.full is not None:
            ax.axhline(self.full, color=MUTED, lw=1.2, linestyle=(0, (4, 3)), zorder=1)
            ax.annotate(
                f"all groups: {int(self.full):,}",
                (1.0, self.full),
                xycoords=("axes fraction", "data"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="right",
                va="bottom",
                fontsize=9,
                color=INK,
            )
        last = max(steps[-1] for steps, _ in self.curves.values())
        top = max([weights.max() for _, weights in self.curves.values()] + [self.full or 0, 1])
        ax.set(xlim=(0, max(last, 1)), ylim=(0, 1.12 * top), xlabel="samples visited", ylabel="weights held")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter("{x:,.0f}")
            axis.get_major_locator().set_params(integer=True)
        lay_bare(ax)
        self.legend_ = None
        if "" not in self.curves:
            self.legend_ = legend_above(ax, list(self.lines_.values()))
        return self


def _envelope(x, y):
    """Return places along a dense curve, and the lowest and highest values near each."""
    starts = np.unique(np.linspace(0, len(x), _MOST_RECORDS // 2, endpoint=False).astype(int))
    middles = np.add.reduceat(x, starts) / np.diff([*starts, len(x)])
    # From the beginning to the end.
    middles[0], middles[-1] = x[0], x[-1]
    return middles, np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
