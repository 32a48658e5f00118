"""CoefficientPathDisplay: norms of groups of weights by strength or budget."""

from __future__ import annotations

import numpy as np

from ..._core.annotations import Any, ArrayLike, Self, Sequence
from ..._core.unwrap import unwrap
from ..._core.validation import check_choice, check_positive
from .._base import Display, check_names
from .._style import COLORS, DASHES, INK, MUTED, clean_axes

_UNITS = {"alpha": "strength of the penalty, alpha", "budget": "budget"}


class CoefficientPathDisplay(Display):
    """The norms of groups of weights, or of the weights of single features, by strength or budget.

    There is one curve for each group. From the left to the right the models become larger: strengths fall, and budgets
    rise. The groups with the largest norms are named in the legend, and the others are grey.

    Parameters
    ----------
    strengths : array-like of shape (n_models,)
        Positive strengths or budgets.
    norms : array-like of shape (n_models, n_groups)
        Euclidean norm of the weights of each group, over all outputs.
    names : sequence of length n_groups, default=None
        Names of the groups. By default, numbers from 0.
    unit : {"alpha", "budget"}, default="alpha"
        The unit of `strengths`.

    Attributes
    ----------
    strengths, norms : ndarray
        As above, the smallest model first.
    names, unit
    ax_, figure_, legend_
        Axes, figure and legend of the plot; no legend if all norms are zero.
    lines_ : list of Line2D
        After `plot`: the curve of each group.

    Raises
    ------
    ValueError
        If the shapes do not match, or strengths are not positive.

    See Also
    --------
    GroupPathDisplay : The scores of the models of a path.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import structured_group_lasso_path
    >>> from sklearn_sparsemap.plotting import CoefficientPathDisplay
    >>> X = np.random.default_rng(0).normal(size=(200, 6))
    >>> path = structured_group_lasso_path(X, X[:, 2] > 0, n_alphas=4, eps=0.1)
    >>> CoefficientPathDisplay.from_path(path).figure_.savefig("path.png")  # doctest: +SKIP
    """

    def __init__(
        self, strengths: ArrayLike, norms: ArrayLike, names: Sequence[Any] | None = None, unit: str = "alpha"
    ) -> None:
        check_choice("unit", unit, _UNITS)
        strengths = np.asarray(strengths, dtype=np.float64)
        norms = np.asarray(norms, dtype=np.float64)
        if norms.ndim != 2 or not norms.size or strengths.shape != norms.shape[:1]:
            raise ValueError(
                "norms must have a row for each of the strengths and a column for each group; got shapes "
                f"{norms.shape} and {strengths.shape}"
            )
        if not (strengths > 0).all():
            raise ValueError(f"strengths must be positive; got {strengths.tolist()}")
        order = np.argsort(-strengths if unit == "alpha" else strengths, kind="stable")
        self.strengths, self.norms, self.unit = strengths[order], norms[order], unit
        self.names = check_names("names", names, norms.shape[1]) or list(map(str, range(norms.shape[1])))

    @classmethod
    def from_path(
        cls, path: Any, *, groups: Any = None, names: Sequence[Any] | None = None, n_names: int = 8, ax: Any = None
    ) -> Self:
        """Draw the norms along a path.

        Parameters
        ----------
        path : (alphas, coefs, gaps), or GroupPath
            Result of `structured_group_lasso_path`; or of `perceptron_path` with ``return_estimators=True``. The
            attribute ``path_`` of `StructuredGroupLassoCV` has no weights: call `structured_group_lasso_path` with its
            ``alphas_``.
        groups : default=None
            Groups of features in any form of `as_groups`, such as those of the estimator. By default, each feature has
            a curve. A GroupPath has its own groups.
        names : sequence of length n_groups, default=None
            Names of the groups or features. By default, those of `groups` or of the path.
        n_names, ax
            As for `plot`.

        Returns
        -------
        display : CoefficientPathDisplay

        Raises
        ------
        ValueError
            If `path` is neither, or has no weights, or names or groups do not match it.
        """
        read = _read_budgets if hasattr(path, "budgets") else _read_strengths
        strengths, norms, default_names, unit = read(path, groups)
        return cls(strengths, norms, default_names if names is None else names, unit).plot(ax=ax, n_names=n_names)

    def plot(self, ax: Any = None, *, n_names: int = 8) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure. In your own figure, ``layout="constrained"`` leaves room for the
            legend.
        n_names : int, default=8
            Number of groups that are named, those with the largest norms in any model.

        Returns
        -------
        display : CoefficientPathDisplay
        """
        check_positive("n_names", n_names, integer=True)
        ax = self._start(ax, (7.2, 4.0))
        largest = self.norms.max(axis=0)
        named = [i for i in np.argsort(-largest, kind="stable")[:n_names].tolist() if largest[i] > 0.0]
        styles = {}
        for k, i in enumerate(named):
            dashes = DASHES[k // len(COLORS) % len(DASHES)]
            styles[i] = {"color": COLORS[k % len(COLORS)], "linestyle": dashes, "lw": 1.8, "zorder": 4}
        grey = {"color": MUTED, "lw": 0.8, "alpha": 0.6, "zorder": 2}
        self.lines_ = []
        for i, name in enumerate(self.names):
            mark = {"marker": "o", "ms": 3.0} if len(self.strengths) < 20 else {}
            self.lines_ += ax.plot(self.strengths, self.norms[:, i], label=name, **mark, **styles.get(i, grey))
        ax.set(xscale="log", xlabel=_UNITS[self.unit], ylabel="norm of the weights", ylim=(0, None))
        if self.unit == "alpha":
            ax.xaxis.set_inverted(True)
        else:
            ax.xaxis.set_major_formatter("{x:,.0f}")
        clean_axes(ax)
        self._add_legend(named)
        return self

    def _add_legend(self, named):
        """Name some groups to the right of the axes, and count those that have weights."""
        self.legend_ = None
        handles = [self.lines_[i] for i in named]
        if not handles:
            return
        n_used = int((self.norms.max(axis=0) > 0.0).sum())
        title = f"largest {len(named)} of {n_used}" if n_used > len(named) else None
        place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        self.legend_ = self.ax_.legend(
            handles=handles, title=title, frameon=False, fontsize=9, title_fontsize=9, labelcolor=INK, **place
        )


def _read_strengths(path, groups):
    """Return alphas, norms, names and unit of a result of `structured_group_lasso_path`."""
    # Imported here, because it imports Numba, which most displays do not need.
    from ...penalties import as_groups

    if not isinstance(path, tuple) or len(path) != 3:
        raise ValueError(
            f"path must be a result of structured_group_lasso_path or perceptron_path; got {type(path).__name__}"
        )
    alphas, coefs, _ = path
    groups = as_groups(groups, coefs[0].shape[1])
    return alphas, [groups.norms(coef.T) for coef in coefs], groups.names, "alpha"


def _read_budgets(path, groups):
    """Return budgets, norms, names and unit of a GroupPath; without a limit, the budget is the model's size."""
    if groups is not None:
        raise ValueError("a GroupPath has its own groups; leave groups at None")
    if path.estimators is None:
        remedy = (
            "call structured_group_lasso_path(X, y, alphas=model.alphas_)"
            if path.unit == "alpha"
            else "call perceptron_path with return_estimators=True"
        )
        raise ValueError(f"the path has no weights; {remedy}")
    norms = np.array([unwrap(each)[1].group_norms_ for each in path.estimators])
    in_weights = any(getattr(unwrap(each)[1], "budget_unit", "groups") == "weights" for each in path.estimators)
    sizes = path.n_nonzero_coefs if in_weights else [norms.shape[1]] * len(norms)
    largest = max((budget for budget in path.budgets if budget is not None), default=0)
    budgets = [max(size, largest) if budget is None else budget for budget, size in zip(path.budgets, sizes)]
    return budgets, norms, path.names, path.unit
