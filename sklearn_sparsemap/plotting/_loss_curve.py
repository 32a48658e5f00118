"""LossCurveDisplay: the training loss, and the score on validation samples, by iteration."""

from __future__ import annotations

import numpy as np

from .._core.annotations import Any, Self
from ._base import Display, unwrap_fitted
from ._style import COLORS, DASHES, clean_axes, legend_above


class LossCurveDisplay(Display):
    """The training loss by iteration and, with early stopping, the score on validation samples.

    Parameters
    ----------
    losses : array-like of shape (n_iter,), or dict of str -> array-like
        The loss of each iteration or epoch, ``loss_curve_``; of several models by their names in the legend.
    validation_scores : array-like of shape (n_iter,), or dict of str -> array-like, default=None
        The score after each, ``validation_scores_``; in a dict, of those models that have scores.

    Attributes
    ----------
    losses, validation_scores : dict of str -> ndarray
        As above; a single model has the name ``""``.
    ax_ : ndarray of Axes
        After `plot`: the axes of the loss and, if there are scores, of these.
    figure_, legend_
        Figure and legend of the plot; no legend for a single model.
    lines_ : dict of str -> list of Line2D
        The curves of each model.

    Raises
    ------
    ValueError
        If there are no losses, or scores of a model without losses.

    See Also
    --------
    MemoryCurveDisplay : The number of weights during training.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.plotting import LossCurveDisplay
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> model = StructuredSparseMAPClassifier(solver="adagrad", random_state=0).fit(X, X[:, 0] > 0)
    >>> LossCurveDisplay.from_estimator(model).figure_.savefig("loss.png")  # doctest: +SKIP
    """

    def __init__(self, losses: Any, validation_scores: Any = None) -> None:
        self.losses = _by_name(losses)
        self.validation_scores = {} if validation_scores is None else _by_name(validation_scores)
        if not self.losses or not all(map(len, self.losses.values())):
            raise ValueError("there are no losses to draw; loss_curve_ has one for each iteration")
        unknown = [name for name in self.validation_scores if name not in self.losses]
        if unknown:
            raise ValueError(f"there are scores of {unknown[0]!r}, but no losses")

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the curves of a fitted estimator, or of several.

        Parameters
        ----------
        estimator : object, or dict of str -> object
            With ``loss_curve_``, such as `StructuredSparseMAPClassifier`; or a pipeline or a search around one. Scores
            are drawn if ``validation_scores_`` exists and is not empty.
        ax
            As for `plot`.

        Returns
        -------
        display : LossCurveDisplay

        Raises
        ------
        ValueError
            If an estimator has no ``loss_curve_``.
        """
        losses, scores = {}, {}
        for name, each in (estimator if isinstance(estimator, dict) else {"": estimator}).items():
            _, each = unwrap_fitted(each, "loss_curve_")
            losses[name] = each.loss_curve_
            if len(getattr(each, "validation_scores_", None) or []):
                scores[name] = each.validation_scores_
        return cls(losses, scores).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the losses and, if there are scores, these in a second panel, with a dot at the highest.

        Parameters
        ----------
        ax : matplotlib Axes, or sequence of two Axes, default=None
            Axes for losses and scores, or one, which is divided if there are scores. By default, a new figure.

        Returns
        -------
        display : LossCurveDisplay

        Raises
        ------
        ValueError
            If `ax` has another number of axes.
        """
        curves = [(self.losses, "training loss")]
        if self.validation_scores:
            curves.append((self.validation_scores, "validation score"))
        axes = self._start_panels(ax, (4.6 * len(curves), 3.4), len(curves), len(curves))
        self.lines_ = {name: [] for name in self.losses}
        for ax, (of_models, what) in zip(axes, curves):
            for k, name in enumerate(self.losses):
                if name not in of_models:
                    continue
                values = of_models[name]
                look = {"color": COLORS[k % len(COLORS)], "linestyle": DASHES[k % len(DASHES)]}
                mark = {"marker": "o", "ms": 4.0} if len(values) < 3 else {}
                iterations = np.arange(1, len(values) + 1)
                self.lines_[name] += ax.plot(iterations, values, lw=1.6, label=name, **look, **mark)
                if of_models is self.validation_scores:
                    best = int(np.nanargmax(values))
                    ax.plot(best + 1, values[best], "o", color=look["color"], ms=6.0, zorder=4)
            ax.set(xlabel="iteration or epoch", ylabel=what)
            ax.xaxis.get_major_locator().set_params(integer=True)
            clean_axes(ax)
        self.legend_ = None
        if "" not in self.losses:
            self.legend_ = legend_above(axes[0], [lines[0] for lines in self.lines_.values()])
        return self


def _by_name(values):
    """Return a dict of arrays by name; a single array has the name ``""``."""
    values = values if isinstance(values, dict) else {"": values}
    return {str(name): np.asarray(each, dtype=np.float64) for name, each in values.items()}
