"""HierarchyDisplay: the labels of a sample as a tree, with their probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..._core.annotations import Any, ArrayLike, Self, Sequence
from ..._core.tables import aligned
from ..._core.unwrap import transformed_sample
from ..._core.validation import check_positive
from .._base import Display, unwrap_fitted
from .._style import FAINT, INK, MUTED, SHADES, as_text, write

if TYPE_CHECKING:
    from ...factors import Hierarchy

_ROW, _COLUMN = 0.28, 1.1  # inches, for a label and for a level
_LEAST_SIZE = (3.2, 1.6)  # inches
_GAP = 0.18  # levels between a dot and its text


class HierarchyDisplay(Display):
    """The labels of a sample as a tree, from roots on the left to leaves on the right, with their probabilities.

    Darker dots are more probable. Predicted labels have a dark outline and text. Improbable labels are not drawn,
    except ancestors of drawn ones.

    Parameters
    ----------
    hierarchy : Hierarchy
        From `sklearn_sparsemap.factors`.
    probabilities : array-like of shape (n_labels,)
    predicted : array-like of bool of shape (n_labels,), default=None
        Whether each label is predicted. By default, if its probability is above 1/2.
    labels : sequence of length n_labels, default=None
        Names of the labels. By default, those of the hierarchy.

    Attributes
    ----------
    labels : list of str
    probabilities : ndarray of shape (n_labels,)
    predicted : bool ndarray of shape (n_labels,)
    shown_labels_ : int ndarray of shape (n_shown,)
        After `plot`: the labels that are drawn, from top to bottom.
    texts_ : list of Text
        Their names and probabilities.
    lines_ : list of Line2D
        One for each pair of a drawn label and a parent.
    ax_, figure_
        Axes and figure of the plot.

    Raises
    ------
    ValueError
        If the numbers of labels differ, or probabilities are not from 0 to 1.

    Examples
    --------
    >>> from sklearn_sparsemap.factors import Hierarchy
    >>> from sklearn_sparsemap.plotting import HierarchyDisplay
    >>> hierarchy = Hierarchy.from_edges([("dog", "animal"), ("cat", "animal")])
    >>> display = HierarchyDisplay(hierarchy, [0.9, 0.7, 0.1])
    >>> display.predicted.tolist()
    [True, True, False]
    >>> display.plot().figure_.savefig("labels.png")  # doctest: +SKIP
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        probabilities: ArrayLike,
        predicted: ArrayLike | None = None,
        labels: Sequence[Any] | None = None,
    ) -> None:
        names = hierarchy.labels if labels is None else list(labels)
        if names is None:
            raise ValueError("the hierarchy is a dict, whose labels have no order; name them by labels")
        whose = "the labels of the hierarchy"
        probabilities = aligned(probabilities, names, name="probabilities", whose=whose)
        predicted = aligned(predicted, names, name="predicted", whose=whose)
        self.probabilities = np.asarray(probabilities, dtype=np.float64)
        if self.probabilities.shape != (len(names),):
            raise ValueError(f"probabilities have shape {self.probabilities.shape}; there are {len(names)} labels")
        if not ((self.probabilities >= 0.0) & (self.probabilities <= 1.0)).all():
            raise ValueError("probabilities must be from 0 to 1; pass those of predict_proba")
        self.predicted = self.probabilities > 0.5 if predicted is None else np.asarray(predicted) > 0
        if self.predicted.shape != (len(names),):
            raise ValueError(f"predicted has shape {self.predicted.shape}; there are {len(names)} labels")
        self.labels = [str(name) for name in names]
        self._pairs = hierarchy.pairs(names)

    @classmethod
    def from_estimator(
        cls, estimator: Any, x: Any, *, min_probability: float = 0.05, max_labels: int = 40, ax: Any = None
    ) -> Self:
        """Draw the labels of a sample.

        Parameters
        ----------
        estimator : MultilabelLPSparseMAP
            Fitted, with a `Hierarchy` among its constraints; or a pipeline or a search around it.
        x : array-like or CSR of shape (1, n_features), or array-like of shape (n_features,)
            One sample.
        min_probability, max_labels, ax
            As for `plot`.

        Returns
        -------
        display : HierarchyDisplay
            With `ax_` and `figure_`.

        Raises
        ------
        ValueError
            If the estimator has no hierarchy, or `x` is not one sample.
        """
        # Imported here, because it loads Numba.
        from ...factors import Hierarchy

        steps, last = unwrap_fitted(estimator, "constraints", "classes_")
        given = last.constraints if isinstance(last.constraints, list | tuple) else [last.constraints]
        found = [constraint for constraint in given if isinstance(constraint, Hierarchy)]
        if not found:
            raise ValueError("the estimator has no Hierarchy among its constraints; fit it with one")
        X = transformed_sample(steps, last, x, is_row=True)
        display = cls(found[0], last.predict_proba(X)[0], last.predict(X, names=False)[0], last.classes_.tolist())
        return display.plot(ax=ax, min_probability=min_probability, max_labels=max_labels)

    def plot(self, ax: Any = None, *, min_probability: float = 0.05, max_labels: int = 40) -> Self:
        """Draw the tree.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            By default, a new figure.
        min_probability : float, default=0.05
            Less probable labels are left out, except ancestors of drawn ones.
        max_labels : int, default=40
            Maximum number of labels; the most probable ones are drawn.

        Returns
        -------
        self : HierarchyDisplay
        """
        check_positive("max_labels", max_labels, integer=True)
        order, depths = self._rows(min_probability, max_labels)
        deepest = max(depths.values(), default=0)
        size = (_COLUMN * (deepest + 2.5), _ROW * (len(order) + 1))
        ax = self._start(ax, np.maximum(size, _LEAST_SIZE))
        rows = {label: -i for i, label in enumerate(order)}
        self.lines_ = []
        self.texts_ = []
        for child, parent in self._pairs:
            if child in rows and parent in rows:
                (x, y), (left, top) = (depths[child], rows[child]), (depths[parent], rows[parent])
                self.lines_ += ax.plot([left, left, x], [top, y, y], color=FAINT, lw=1.2, zorder=1)
        for label in order:
            x, y, is_on = depths[label], rows[label], self.predicted[label]
            ax.scatter(
                [x], [y], c=[self.probabilities[label]], s=70, edgecolors=INK if is_on else MUTED, zorder=2, **SHADES
            )
            text = f"{self.labels[label]}  {as_text(self.probabilities[label])}"
            self.texts_.append(write(ax, (x + _GAP, y), text, 10.0, ha="left", color=INK if is_on else MUTED))
        ax.set(xlim=(-0.5, deepest + 2.0), ylim=(0.7 - max(len(order), 1), 0.7))
        ax.axis("off")
        self.shown_labels_ = np.array(order, dtype=np.int64)
        return self

    def _rows(self, min_probability, max_labels):
        """Return the labels that are drawn from top to bottom, and their depths."""
        likely = np.argsort(-self.probabilities, kind="stable")[:max_labels]
        shown = set()
        parents = {}
        children = {}
        for child, parent in self._pairs:
            parents.setdefault(child, []).append(parent)
        stack = likely[self.probabilities[likely] >= min_probability].tolist()
        while stack:
            label = stack.pop()
            if label not in shown:
                shown.add(label)
                stack += parents.get(label, [])
        for label in sorted(shown, key=lambda j: (self.probabilities[j], -j)):
            # A label with several parents has its row below the first one.
            children.setdefault(parents.get(label, [None])[0], []).append(label)
        order = []
        depths = {}
        stack = [(label, 0) for label in children.get(None, [])]
        while stack:
            label, depth = stack.pop()
            order.append(label)
            depths[label] = depth
            stack += [(below, depth + 1) for below in children.get(label, [])]
        return order, depths
