"""The common part of plots of selected structures: conversion of their various forms.

Used by `matching.py`, `parts.py`, `sequences.py` and `tree.py`.
"""

from __future__ import annotations

from collections.abc import Sized

import numpy as np

from ..._core.annotations import Any, ArrayLike, Self
from ..._core.tables import refuse_names
from ..._core.unwrap import single_sample, transformed_sample
from ..._core.validation import check_positive, quoted
from .._base import Display, unwrap_fitted
from .._style import COLORS, DASHES, MAX_STRUCTURES, MUTED, as_text


class StructuresDisplay(Display):
    """Base of the displays of one sample's selected structures and their probabilities.

    A subclass draws one kind of structure. ``_read(structure, name)`` checks a structure and returns it as an array;
    error messages call it `name`. ``_cells(structure)`` returns the index of its marginals, as arrays of rows
    and columns.
    """

    # The number of items (steps, rows, words) of the first structure, and the number of columns of the marginals, if
    # names or marginals determine it.
    _n_items = _n_columns = None

    def __init__(
        self, structures: Any, weights: ArrayLike | None = None, *, marginals: Any = None, y_true: Any = None
    ) -> None:
        if hasattr(structures, "structures") and hasattr(structures, "weights"):
            if weights is not None:
                raise ValueError("a result brings its own weights; pass the result alone")
            marginals = structures.marginals if marginals is None else marginals
            structures, weights = structures.structures, structures.weights
        elif not isinstance(structures, Sized) or weights is None:
            structures, weights = _split_pairs(structures)
        weights = _check_weights(weights, len(structures))
        if marginals is not None:
            refuse_names(marginals, "marginals")
            marginals = self._read_marginals(np.asarray(marginals, dtype=np.float64))
            if self._n_columns is None:
                self._n_columns = marginals.shape[-1]
        order = np.argsort(-weights, kind="stable")
        order = order[weights[order] > 0]
        self.weights = weights[order]
        self.structures = [self._read(structures[i], "structures") for i in order]
        self.y_true = None if y_true is None else self._read(y_true, "y_true")
        mixture = self._mix()
        if marginals is not None and marginals.shape != mixture.shape:
            raise ValueError(f"marginals have shape {marginals.shape}; these structures need {mixture.shape}")
        self.marginals = mixture if marginals is None else marginals

    @classmethod
    def from_result(
        cls,
        result: Any,
        *,
        y_true: Any = None,
        ax: Any = None,
        max_structures: int = MAX_STRUCTURES,
        **names: Any,
    ) -> Self:
        """Draw the structures of a result of `sparsemap`.

        Parameters
        ----------
        result : SparseMAPResult
        y_true
            As for the class.
        ax, max_structures, **names
            As for `from_predictions`.

        Returns
        -------
        display : the class
            With `ax_` and `figure_`.

        Raises
        ------
        ValueError
            As the class.
        """
        return cls(result, y_true=y_true, **names).plot(ax=ax, max_structures=max_structures)

    @classmethod
    def from_predictions(
        cls,
        structures: Any,
        weights: ArrayLike | None = None,
        *,
        marginals: Any = None,
        y_true: Any = None,
        ax: Any = None,
        max_structures: int = MAX_STRUCTURES,
        **names: Any,
    ) -> Self:
        """Draw structures and their probabilities, such as those of `predict_structures` for a sample.

        Parameters
        ----------
        structures, weights, marginals, y_true
            As for the class.
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size.
        max_structures : int, default=4
            Number of structures drawn separately, the most probable ones; the others are drawn as one group.
        **names
            Other parameters of the class.

        Returns
        -------
        display : the class
            With `ax_` and `figure_`.

        Raises
        ------
        ValueError
            As the class.
        """
        display = cls(structures, weights, marginals=marginals, y_true=y_true, **names)
        return display.plot(ax=ax, max_structures=max_structures)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        x: Any,
        y_true: Any = None,
        *,
        ax: Any = None,
        max_structures: int = MAX_STRUCTURES,
        **names: Any,
    ) -> Self:
        """Draw the structures that a fitted estimator selects for one sample.

        Parameters
        ----------
        estimator : object
            With ``predict_structures`` and ``predict_marginals``, such as `StructuredSparseMAPClassifier`; or a
            pipeline or a search around one.
        x : array-like or CSR
            The features of one sample: an element of the list that ``predict`` takes.
        y_true, **names
            As for the class.
        ax, max_structures
            As for `from_predictions`.

        Returns
        -------
        display : the class
            With `ax_` and `figure_`.

        Raises
        ------
        ValueError
            If the estimator cannot predict several structures, or the sample does not fit it.
        """
        # Only figures of estimators need kernels.
        from ...estimators._face import face_of

        steps, last = unwrap_fitted(estimator, "predict_structures", "predict_marginals")
        face = face_of(last)
        with single_sample(estimator, x):
            X = transformed_sample(steps, last, x, face is not None and face.takes_rows)
            pairs = last.predict_structures(X)[0]
            marginals = last.predict_marginals(X)[0]
        names = {**cls._names_of(last), **names}
        pairs = [(cls._parts_of(last, structure), weight) for structure, weight in pairs]
        y_true = None if y_true is None else cls._parts_of(last, y_true)
        return cls.from_predictions(
            pairs, marginals=marginals, y_true=y_true, ax=ax, max_structures=max_structures, **names
        )

    @classmethod
    def _names_of(cls, estimator):
        """Return the parameters of the class that a fitted estimator determines."""
        return {}

    @classmethod
    def _parts_of(cls, estimator, structure):
        """Return a structure that an estimator predicts in the form that the class takes."""
        return structure

    def _read_marginals(self, marginals):
        """Return marginals in the form in which they are drawn."""
        return marginals

    def _truth(self):
        return [] if self.y_true is None else [self.y_true]

    def _count(self, structure):
        """Return the number of items of the first structure."""
        if self._n_items is None:
            self._n_items = len(structure) if isinstance(structure, Sized) else 1
        return self._n_items

    def _below_columns(self):
        return "" if self._n_columns is None else f" below {self._n_columns}"

    def _shape(self):
        """Return the shape of the marginals."""
        n_columns = self._n_columns
        if n_columns is None:
            columns = np.concatenate([self._cells(structure)[1] for structure in [*self.structures, *self._truth()]])
            n_columns = int(columns.max(initial=-1)) + 1
        return self._n_items, n_columns

    def _mix(self):
        """Return the marginals of the mixture of structures."""
        mixture = np.zeros(self._shape())
        for structure, weight in zip(self.structures, self.weights):
            mixture[self._cells(structure)] += weight
        return mixture

    def _strands(self, max_structures):
        """Split the structures into those drawn separately, and a group of the others.

        Returns
        -------
        strands : list of (list of places in `structures`, probability, style)
            The style is a dict of color, linestyle and label.
        """
        check_positive("max_structures", max_structures, integer=True)
        n = min(max_structures, len(self.weights))
        strands = []
        for k in range(n):
            style = {"color": COLORS[k % len(COLORS)], "linestyle": DASHES[k % len(DASHES)]}
            strands.append(([k], self.weights[k], {**style, "label": f"p = {as_text(self.weights[k])}"}))
        rest = list(range(n, len(self.weights)))
        if rest:
            total = self.weights[rest].sum()
            label = f"p = {as_text(total)}" + (f"  ({len(rest)} others)" if len(rest) > 1 else "")
            strands.append((rest, total, {"color": MUTED, "linestyle": "-", "label": label}))
        return strands


def _split_pairs(structures):
    """Split a list of (structure, probability), as `predict_structures` returns it for a sample."""

    def is_pair(item):
        # Only tuples are pairs, because a list of length two may be a structure.
        return isinstance(item, tuple) and len(item) == 2 and np.ndim(item[1]) == 0

    if not isinstance(structures, Sized) or not all(map(is_pair, structures)):
        raise ValueError(
            "structures must be the result of sparsemap for one sample, such as results[0], a list of tuples "
            "(structure, probability), or a list of structures with their weights; got "
            f"{quoted(structures)} without weights"
        )
    return [structure for structure, _ in structures], [weight for _, weight in structures]


def _check_weights(weights, n_structures):
    weights = np.asarray(weights, dtype=np.float64)
    if n_structures == 0:
        raise ValueError("there are no structures to draw")
    if weights.shape != (n_structures,):
        raise ValueError(f"there are {n_structures} structures, but weights of shape {weights.shape}")
    if not (weights >= 0).all() or not 0 < weights.sum() <= 1 + 1e-6:
        raise ValueError(f"weights are probabilities, not negative and at most 1 in sum; got {weights.tolist()}")
    return weights


def as_ints(structure, n, low, high, what):
    """Return a structure as an array of `n` ints from `low` to `high` - 1; error messages begin with `what`."""
    array = np.asarray(structure)
    is_valid = array.dtype.kind in "iu" and array.shape == (n,) and n > 0 and array.min() >= low
    if not is_valid or (high is not None and array.max() >= high):
        raise ValueError(f"{what}; got {structure!r}")
    return array.astype(np.int64)
