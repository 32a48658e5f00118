"""Curves of numbers of weights: during training, and against the score, by budget (Martins et al. 2011, Fig. 2, 3)."""

from __future__ import annotations

import numpy as np

from ..._core.annotations import Any, Self
from ..._core.validation import check_positive
from .._base import Display, unwrap_fitted
from .._style import (
    COLORS,
    DASHES,
    INK,
    MUTED,
    clean_axes,
    legend_above,
    rim,
    size_in_points,
    text_width,
    tick_whole_numbers,
)

_FIELDS = "budgets", "labels", "n_nonzero_coefs", "scores", "split_scores", "unit"  # of a GroupPath
_MARKERS = "o", "s", "^", "D"
_ROOM = 11.0  # points from a label to the next one above it; closer ones are left out
_MAX_RECORDS = 300  # records of a curve; denser curves are drawn as bands


class MemoryCurveDisplay(Display):
    """The number of weights during training: it grows with updates, and falls when groups are shrunk to zero.

    Parameters
    ----------
    curves : dict of str -> (steps, weights)
        For each model the numbers of samples visited, and the numbers of weights at these times: ``memory_steps_`` and
        ``memory_curve_``. Two entries with the same step are before and after a shrinkage.
    full : int, default=None
        Number of weights of a model with all groups, for comparison.

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
            steps = np.asarray(steps)
            weights = np.asarray(weights)
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
            As for the class; or a fitted model with all groups.
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
        """Draw the curves. A curve with many shrinkages is a band between the lowest and the highest numbers.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure.

        Returns
        -------
        display : MemoryCurveDisplay
        """
        ax = self._start(ax, (7.2, 3.6))
        self.lines_ = {}
        for place, (name, (steps, weights)) in enumerate(self.curves.items()):
            look = {"color": COLORS[place % len(COLORS)], "linestyle": DASHES[place % len(DASHES)]}
            # All curves begin without weights.
            x = np.concatenate([[0], steps])
            y = np.concatenate([[0], weights])
            order = {"zorder": 3 - 0.1 * place}
            if len(x) > _MAX_RECORDS:
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
        clean_axes(ax)
        self.legend_ = None
        if "" not in self.curves:
            self.legend_ = legend_above(ax, list(self.lines_.values()))
        return self


def _envelope(x, y):
    """Return places along a dense curve, and the lowest and highest values near each."""
    starts = np.unique(np.linspace(0, len(x), _MAX_RECORDS // 2, endpoint=False).astype(int))
    middles = np.add.reduceat(x, starts) / np.diff([*starts, len(x)])
    middles[0], middles[-1] = x[0], x[-1]
    return middles, np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)


class GroupPathDisplay(Display):
    """The scores of models against their numbers of weights, by budget or strength; one curve for each path.

    Parameters
    ----------
    paths : GroupPath, or dict of str -> GroupPath
        Results of `perceptron_path`, or attributes `path_` of `StructuredGroupLassoCV`, by the names of the legend.

    Attributes
    ----------
    paths : dict of str -> GroupPath
    ax_, figure_, legend_
        Axes, figure and legend of the plot; no legend for a single path without a name.
    lines_ : dict of str -> Line2D
        The curves.

    Raises
    ------
    ValueError
        If there is nothing to draw, or a path lacks a field.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import GroupLassoPerceptron, perceptron_path
    >>> from sklearn_sparsemap.plotting import GroupPathDisplay
    >>> X = np.random.default_rng(0).normal(size=(300, 12))
    >>> y = X[:, :3].sum(axis=1) > 0
    >>> model = GroupLassoPerceptron(groups=np.repeat(range(4), 3), shrink_every=50, random_state=0)
    >>> path = perceptron_path(model, X[:200], y[:200], [1, 2, 4], X_val=X[200:], y_val=y[200:])
    >>> display = GroupPathDisplay(path)
    >>> display.plot().figure_.savefig("path.png")  # doctest: +SKIP
    """

    def __init__(self, paths: Any) -> None:
        paths = paths if isinstance(paths, dict) else {"": paths}
        if not paths:
            raise ValueError("there are no paths to draw")
        for name, path in paths.items():
            if not all(hasattr(path, field) for field in _FIELDS):
                raise ValueError(
                    f"paths[{name!r}] must be a result of perceptron_path, or path_ of StructuredGroupLassoCV; got "
                    f"{type(path).__name__}"
                )
        self.paths = {str(name): path for name, path in paths.items()}

    @classmethod
    def from_path(cls, paths: Any, *, full: float | None = None, score_name: str = "score", ax: Any = None) -> Self:
        """Draw one path, or several to compare.

        Parameters
        ----------
        paths
            As for the class.
        full, score_name, ax
            As in `plot`.

        Returns
        -------
        display : GroupPathDisplay
        """
        return cls(paths).plot(ax=ax, full=full, score_name=score_name)

    def plot(self, ax: Any = None, *, full: float | None = None, score_name: str = "score") -> Self:
        """Draw the curves. Points are labelled by their budgets, if there is room; the best one has a ring.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure.
        full : (int, float), default=None
            Number of weights and score of a model of all groups, drawn as a cross, with a line at its score.
        score_name : str, default="score"
            Name of the score.

        Returns
        -------
        display : GroupPathDisplay
        """
        ax = self._start(ax, (6.4, 4.2))
        self.lines_, labels = {}, {}
        for place, (name, path) in enumerate(self.paths.items()):
            # A logarithmic axis cannot show models without weights.
            shown = np.flatnonzero(np.asarray(path.n_nonzero_coefs) > 0)
            # By budget; None, all groups, is last.
            shown = sorted(shown.tolist(), key=lambda i: (path.budgets[i] is None, path.budgets[i]))
            x = np.asarray(path.n_nonzero_coefs)[shown]
            y = np.asarray(path.scores)[shown]
            color = COLORS[place % len(COLORS)]
            splits = np.asarray(path.split_scores)[shown]
            if splits.shape[1] > 1:
                error = splits.std(axis=1, ddof=1) / np.sqrt(splits.shape[1])
                ax.errorbar(x, y, error, fmt="none", ecolor=color, elinewidth=1.0, alpha=0.5, zorder=2)
            look = {"linestyle": DASHES[place % len(DASHES)], "marker": _MARKERS[place % len(_MARKERS)], "ms": 5.5}
            (self.lines_[name],) = ax.plot(x, y, color=color, lw=1.8, label=name, zorder=3, **look)
            best = shown.index(path.best_index) if path.best_index in shown else None
            if best is not None:
                ring = {"mfc": "none", "mec": color, "mew": 1.6, "ms": 11.0, "linestyle": "none"}
                ax.plot(x[best], y[best], marker="o", label="_", zorder=3, **ring)
            labels[name] = [path.labels[i] for i in shown], best
        if full is not None:
            n_weights, score = full
            ax.axhline(score, color=MUTED, lw=1.0, linestyle=(0, (4, 3)), zorder=1)
            style = {"color": INK, "marker": "x", "ms": 8, "mew": 1.8, "linestyle": "none", "zorder": 4}
            ax.plot(n_weights, score, label="all groups", **style)
        kinds = {path.unit for path in self.paths.values()}
        units = " or ".join(text for kind, text in (("budget", "the budget"), ("alpha", "alpha")) if kind in kinds)
        ax.set(xscale="log", xlabel=f"nonzero weights; at the points, {units}", ylabel=score_name)
        ax.margins(x=0.08, y=0.1)
        tick_whole_numbers(ax.xaxis)
        clean_axes(ax)
        self.legend_ = None
        if len(self.paths) > 1 or full is not None or "" not in self.paths:
            handles = [each for each in ax.get_legend_handles_labels()[0] if each.get_label()]
            self.legend_ = legend_above(ax, handles)
        # Lays the axes out once for the labels of all curves.
        size_in_points(ax)
        labelled = []
        for place, (name, line) in enumerate(self.lines_.items()):
            self._label_points(ax, line, labels[name][0], place % 2 == 0, labels[name][1], labelled)
        return self

    @staticmethod
    def _label_points(ax, line, labels, above, best, labelled):
        """Write the budgets next to the points: to the upper left or lower right, because curves usually rise.

        The point number `best` is labelled first, in bold. A label that would cover another one is left out: `labelled`
        has the places of all labels so far, also those of other curves.
        """
        points = ax.transData.transform(line.get_xydata()) * 72 / ax.figure.dpi
        for i in sorted(range(len(labels)), key=lambda i: i != best):
            label = f"best: {labels[i]}" if i == best else labels[i]
            # Bold letters are wider.
            width = (1.2 if i == best else 1.0) * text_width(label, 8.5) + 3.0
            # The left end of the text, above or below the point, and at half its height.
            box = points[i] + ((-width - 2.5, 9.0) if above else (2.5, -9.0)), width
            if any(
                abs(corner[1] - box[0][1]) < _ROOM and corner[0] < box[0][0] + width and box[0][0] < corner[0] + other
                for corner, other in labelled
            ):
                continue
            labelled.append(box)
            ax.annotate(
                label,
                line.get_xydata()[i],
                xytext=(-4, 4) if above else (4, -4),
                textcoords="offset points",
                ha="right" if above else "left",
                va="bottom" if above else "top",
                fontsize=8.5,
                fontweight="bold" if i == best else "normal",
                color=line.get_color(),
                path_effects=rim(2.5),
                zorder=5,
            )
