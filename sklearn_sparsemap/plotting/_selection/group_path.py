"""GroupPathDisplay: score against number of weights, by budget
(Martins et al. 2011, Fig. 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import Display
from .._style import COLORS, DASHES, INK, MUTED, halo, lay_bare, legend_above, size_in_points

if TYPE_CHECKING:
    from typing_extensions import Self

_MARKERS = "o", "s", "^", "D"
# Labels of points that are closer, in points, would run into each other.
_ROOM = 11.0


class GroupPathDisplay(Display):
    """The scores of models against their numbers of weights, by budget; one curve for each kind of group weights.

    Parameters
    ----------
    paths : GroupPath, or dict of str -> GroupPath
        Results of `group_path`, by the names that the legend is to show.

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
    >>> from sklearn_sparsemap import GroupLassoPerceptron, group_path
    >>> from sklearn_sparsemap.plotting import GroupPathDisplay
    >>> X = np.random.default_rng(0).normal(size=(300, 12))
    >>> y = X[:, :3].sum(axis=1) > 0
    >>> model = GroupLassoPerceptron(groups=np.repeat(range(4), 3), shrink_every=50, random_state=0)
    >>> path = group_path(model, X[:200], y[:200], [1, 2, 4], X_val=X[200:], y_val=y[200:])
    >>> display = GroupPathDisplay(path)
    >>> display.plot().figure_.savefig("path.png")  # doctest: +SKIP
    """

    def __init__(self, paths: Any) -> None:
        paths = paths if isinstance(paths, dict) else {"": paths}
        if not paths:
            raise ValueError("there are no paths to draw")
        for name, path in paths.items():
            for field in ("budgets", "scores", "n_nonzero_coefs"):
                if not hasattr(path, field):
                    raise ValueError(f"paths[{name!r}] must be a result of group_path; got {type(path).__name__}")
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
        """Draw the curves; points are labelled by their budgets, if there is room.

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
        self.lines_, budgets = {}, {}
        for place, (name, path) in enumerate(self.paths.items()):
            # Models without any weight have no place on a logarithmic axis.
            shown = np.flatnonzero(np.asarray(path.n_nonzero_coefs) > 0)
            # From the smallest budget to the largest, and to that of all.
            shown = sorted(shown.tolist(), key=lambda i: (path.budgets[i] is None, path.budgets[i]))
            x, y = np.asarray(path.n_nonzero_coefs)[shown], np.asarray(path.scores)[shown]
            color = COLORS[place % len(COLORS)]
            splits = np.asarray(getattr(path, "split_scores", np.zeros((len(path.budgets), 1))))[shown]
            if splits.shape[1] > 1:
                error = splits.std(axis=1, ddof=1) / np.sqrt(splits.shape[1])
                ax.errorbar(x, y, error, fmt="none", ecolor=color, elinewidth=1.0, alpha=0.5, zorder=2)
            look = {"linestyle": DASHES[place % len(DASHES)], "marker": _MARKERS[place % len(_MARKERS)], "ms": 5.5}
            (self.lines_[name],) = ax.plot(x, y, color=color, lw=1.8, label=name, zorder=3, **look)
            budgets[name] = [path.budgets[i] for i in shown]
        if full is not None:
            n_weights, score = full
            ax.axhline(score, color=MUTED, lw=1.0, linestyle=(0, (4, 3)), zorder=1)
            style = {"color": INK, "marker": "x", "ms": 8, "mew": 1.8, "linestyle": "none", "zorder": 4}
            ax.plot(n_weights, score, label="all groups", **style)
        ax.set(xscale="log", xlabel="nonzero weights; at the points, the budget", ylabel=score_name)
        ax.margins(x=0.08, y=0.1)
        self._tick(ax)
        lay_bare(ax)
        self.legend_ = None
        if len(self.paths) > 1 or full is not None or "" not in self.paths:
            handles = [each for each in ax.get_legend_handles_labels()[0] if each.get_label()]
            self.legend_ = legend_above(ax, handles)
        for place, (name, line) in enumerate(self.lines_.items()):
            self._label_points(ax, line, budgets[name], above=place % 2 == 0)
        return self

    @staticmethod
    def _tick(ax):
        """Write plain numbers at the powers of ten and, if these are few, between them."""
        from matplotlib.ticker import LogLocator, NullFormatter

        low, high = ax.get_xlim()
        subs = (1.0,) if high / low > 500 else (1.0, 2.0, 5.0)
        ax.xaxis.set_major_locator(LogLocator(subs=subs))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.xaxis.set_minor_formatter(NullFormatter())

    @staticmethod
    def _label_points(ax, line, budgets, above):
        """Write the budgets next to the points, above or below, where rising curves leave room."""
        size_in_points(ax)
        places = ax.transData.transform(line.get_xydata()) * 72 / ax.figure.dpi
        labelled = []
        for budget, data, place in zip(budgets, line.get_xydata(), places):
            if labelled and np.linalg.norm(np.array(labelled) - place, axis=1).min() < _ROOM:
                continue
            labelled.append(place)
            ax.annotate(
                "all" if budget is None else str(budget),
                data,
                xytext=(-4, 4) if above else (4, -4),
                textcoords="offset points",
                ha="right" if above else "left",
                va="bottom" if above else "top",
                fontsize=8.5,
                color=line.get_color(),
                path_effects=halo(),
                zorder=5,
            )
