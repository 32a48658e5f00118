"""Constraints between the labels of a multilabel problem, labels by name or by index."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any

import numpy as np

from ._logic import Factor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


class Count(Factor):
    """The number of variables that are on lies between `low` and `high`."""

    def __init__(self, variables, low, high):
        super().__init__(variables)
        self.low, self.high = low, high

    def bounds(self):
        return self.low, self.high

    def _arguments(self):
        return f", {self.low:g} to {self.high:g}"


class LabelConstraint:
    """Base of the constraints: bounds on how many labels of a set are on.

    A constraint is written before the labels are known; `resolve` finds their indices.
    """

    labels = None

    def resolve(self, names: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.float64], float, float]:
        """Return what the constraint means where the labels have these names.

        Parameters
        ----------
        names : list of hashable
            Names of all labels.

        Returns
        -------
        indices : int array
        signs : float array
            -1.0 for a label whose absence counts.
        low, high : float
            Bounds of how many count.

        Raises
        ------
        ValueError
            If a label is unknown or named twice, or no set of labels can satisfy the constraint.
        """
        if self.labels is None:
            indices = np.arange(len(names))
        else:
            indices = np.array([_index_of(label, names, self) for label in self.labels], dtype=np.int64)
        values, counts = np.unique(indices, return_counts=True)
        if len(indices) == 0 or counts.max() > 1:
            what = "names no labels" if len(indices) == 0 else f"names {names[values[counts.argmax()]]!r} twice"
            raise ValueError(f"{self!r} {what}; a constraint joins different labels")
        low, high = self._bounds()
        if low > len(indices):
            raise ValueError(f"{self!r} asks for {low:g} of {len(indices)} labels; no set of labels satisfies that")
        return indices, self._signs(len(indices)), low, high

    def _signs(self, n):
        return np.ones(n)

    def _bounds(self):
        raise NotImplementedError

    def __eq__(self, other):
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self):
        return hash(repr(self))


def _index_of(label, names, constraint):
    """Return the index of a label that is given by its name, or by its index where no label has that name."""
    for index, name in enumerate(names):
        if name == label and isinstance(name, str) == isinstance(label, str):
            return index
    if isinstance(label, numbers.Integral) and not isinstance(label, bool):
        if 0 <= label < len(names):
            return int(label)
        raise ValueError(f"{constraint} names label {label}, but there are {len(names)} labels, from 0")
    shown = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
    hint = "; name them by label_names" if isinstance(label, str) and not isinstance(names[0], str) else ""
    raise ValueError(f"{constraint} names the label {label!r}, which does not exist; the labels are {shown}{hint}")


def _check_labels(labels, what):
    if labels is None:
        return None
    if isinstance(labels, str | bytes) or not hasattr(labels, "__iter__"):
        raise ValueError(f"the labels of {what} must be a list of names or indices; got {labels!r}")
    return tuple(label.item() if isinstance(label, np.generic) else label for label in labels)


class _Counted(LabelConstraint):
    """A constraint on how many of some labels are on."""

    def __init__(self, k: int, labels: Iterable[Any] | None = None) -> None:
        name = type(self).__name__
        if isinstance(k, bool) or not isinstance(k, numbers.Integral) or k < 0:
            raise ValueError(f"{name} takes a number of labels, an int that is not negative; got {k!r}")
        self.k = int(k)
        self.labels = _check_labels(labels, name)

    def __repr__(self):
        labels = "" if self.labels is None else f", labels={list(self.labels)!r}"
        return f"{type(self).__name__}({self.k}{labels})"


class AtMost(_Counted):
    """At most `k` of the labels are on.

    Parameters
    ----------
    k : int
    labels : list of label names or indices, default=None
        All labels if None.

    Raises
    ------
    ValueError
        If `k` is no int or negative; at `fit`, if a label is unknown, or no set of labels satisfies it.

    Examples
    --------
    >>> from sklearn_sparsemap.factors import AtMost
    >>> AtMost(2, labels=["jazz", "rock", "pop"])
    AtMost(2, labels=['jazz', 'rock', 'pop'])
    """

    def _bounds(self):
        return -np.inf, float(self.k)


class AtLeast(_Counted):
    """At least `k` of the labels are on.

    Parameters
    ----------
    k : int
    labels : list of label names or indices, default=None
        All labels if None.

    Raises
    ------
    ValueError
        If `k` is no int or negative; at `fit`, if a label is unknown, or no set of labels satisfies it.

    Examples
    --------
    >>> from sklearn_sparsemap import MultilabelLPSparseMAP
    >>> from sklearn_sparsemap.factors import AtLeast
    >>> MultilabelLPSparseMAP(constraints=[AtLeast(1)]).constraints
    [AtLeast(1)]
    """

    def _bounds(self):
        return float(self.k), np.inf


class Exactly(_Counted):
    """Exactly `k` of the labels are on.

    Parameters
    ----------
    k : int
    labels : list of label names or indices, default=None
        All labels if None.

    Raises
    ------
    ValueError
        If `k` is no int or negative; at `fit`, if a label is unknown, or no set of labels satisfies it.

    Examples
    --------
    >>> from sklearn_sparsemap import MultilabelLPSparseMAP
    >>> from sklearn_sparsemap.factors import Exactly
    >>> MultilabelLPSparseMAP(constraints=[Exactly(1, ['live', 'studio'])]).constraints
    [Exactly(1, labels=['live', 'studio'])]
    """

    def _bounds(self):
        return float(self.k), float(self.k)


class Exclusive(LabelConstraint):
    """No two of the labels are on together.

    Parameters
    ----------
    labels : list of label names or indices

    Raises
    ------
    ValueError
        If the labels are no list, a label is named twice or unknown, which is known at `fit`.

    Examples
    --------
    >>> from sklearn_sparsemap import MultilabelLPSparseMAP
    >>> from sklearn_sparsemap.factors import Exclusive
    >>> MultilabelLPSparseMAP(constraints=[Exclusive(['jazz', 'rock'])]).constraints
    [Exclusive(['jazz', 'rock'])]
    """

    def __init__(self, labels: Iterable[Any]) -> None:
        if labels is None:
            raise ValueError("Exclusive needs its labels: a list of names or indices")
        self.labels = _check_labels(labels, "Exclusive")

    def _bounds(self):
        return -np.inf, 1.0

    def __repr__(self):
        return f"Exclusive({list(self.labels)!r})"


class Implies(LabelConstraint):
    """Where label `a` is on, label `b` is on.

    Parameters
    ----------
    a, b : label names or indices

    Raises
    ------
    ValueError
        At `fit`, if a label is unknown, or both are the same.

    Examples
    --------
    >>> from sklearn_sparsemap import MultilabelLPSparseMAP
    >>> from sklearn_sparsemap.factors import Implies
    >>> MultilabelLPSparseMAP(constraints=[Implies('jazz', 'music')]).constraints
    [Implies('jazz', 'music')]
    """

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b
        self.labels = _check_labels((a, b), "Implies")

    def _signs(self, n):
        return np.array([-1.0, 1.0])

    def _bounds(self):
        return 1.0, np.inf

    def __repr__(self):
        return f"Implies({self.a!r}, {self.b!r})"
