"""Rules on the labels of a multilabel problem, by names or indices, and on the variables of a factor graph.

Used by `estimators`, `inference`, `_hierarchy.py` and `_rules.py`.
"""

from __future__ import annotations

import numbers

import numpy as np

from .._core.annotations import Any, Iterable, NDArray, Sequence
from ._logic import Factor, check_name
from ._variables import Variables


class Count(Factor):
    """The number of literals that hold lies between `low` and `high`."""

    def __init__(self, variables, low, high):
        super().__init__(variables)
        self.low, self.high = low, high

    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    def _arguments(self):
        return f", {self.low:g} to {self.high:g}"


class Label:
    """A label by its name or index. ``~`` negates it: in rules it then counts if it is off.

    Parameters
    ----------
    name : label name or index

    Examples
    --------
    >>> from sklearn_sparsemap.factors import AtMost, Implies, Label
    >>> Implies(["jazz", "live"], ~Label("disco"))
    Implies(['jazz', 'live'], ~'disco')
    """

    def __init__(self, name: Any, negated: bool = False) -> None:
        self.name = name.item() if isinstance(name, np.generic) else name
        self.negated = bool(negated)

    def __invert__(self) -> Label:
        return Label(self.name, not self.negated)

    def __eq__(self, other):
        return isinstance(other, Label) and (self.name, self.negated) == (other.name, other.negated)

    def __hash__(self):
        return hash((self.name, self.negated))

    def __repr__(self):
        return f"{'~' if self.negated else ''}{self.name!r}"


class LabelConstraint(Factor):
    """Base of the rules: bounds on the number of labels, or of variables of a factor graph, that are on.

    A rule about variables is a factor of their graph. A rule about labels is written before the labels are known;
    `resolve` returns their indices.

    Attributes
    ----------
    labels : Variables, tuple, or None
        As given; None for all labels.
    literals : Variables or None
        None for labels.
    """

    literals = None

    def __init__(self, labels: Iterable[Any] | Variables | None, *, name: str | None = None) -> None:
        what = type(self).__name__
        self.labels = _check_labels(labels, what)
        if labels is not None and not (isinstance(self.labels, Variables) or self.labels):
            raise ValueError(f"{what} has no variables or labels; it needs at least one")
        if labels is not None and _are_variables(self.labels):
            super().__init__(self.labels, name=name)
            self._check_count(self.literals.size, "variables")
        elif name is not None:
            self.name = check_name(name, what)

    def resolve(self, names: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.float64], float, float]:
        """Resolve the constraint for labels with these names.

        Parameters
        ----------
        names : list of hashable
            Names of all labels.

        Returns
        -------
        indices : int array
        signs : float array
            -1.0 for a label that counts if it is off.
        low, high : float
            Bounds of the count.

        Raises
        ------
        ValueError
            If a label is unknown or named twice, or no set of labels can satisfy the constraint.
        """
        if self.literals is not None:
            raise ValueError(f"{self!r} is about variables of a factor graph; name labels by name or index")
        labels = range(len(names)) if self.labels is None else self.labels
        literals = [(i, False) if self.labels is None else _literal_of(i, names, self) for i in labels]
        indices = np.array([index for index, _ in literals], dtype=np.int64)
        negated = np.array([is_negated for _, is_negated in literals], dtype=bool)
        values, counts = np.unique(indices, return_counts=True)
        if counts.max() > 1:
            twice = names[values[counts.argmax()]]
            raise ValueError(f"{self!r} names {twice!r} twice; a constraint joins different labels")
        self._check_count(len(indices), "labels")
        return indices, np.where(negated, -1.0, 1.0) * self._polarities(len(indices)), *self.bounds()

    # Estimators of label sets call it. Label graphs (`inference/_labels.py`) hold the tuples, in this order.
    def resolve_all(self, names: Sequence[Any]) -> list[Any]:
        """Return the bounds that the constraint consists of, each as from `resolve`."""
        return [self.resolve(names)]

    def _check_count(self, n, what):
        low, _ = self.bounds()
        if low > n:
            raise ValueError(f"{self!r} asks for {low:g} of {n} {what}; no set of {what} satisfies that")

    def __repr__(self):
        if self.literals is not None:
            return super().__repr__()
        labels = "" if self.labels is None else f"{list(self.labels)!r}"
        name = "" if self.name is None else f", name={self.name!r}"
        return f"{type(self).__name__}({(labels + self._arguments()).removeprefix(', ')}{name})"

    def _key(self):
        return (type(self), repr(self)) if self.literals is None else id(self)

    def __eq__(self, other):
        return isinstance(other, LabelConstraint) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())


def implication_of(resolved):
    """Return the labels (a, b) if a rule says that a implies b, else None.

    `resolved` is the result of `LabelConstraint.resolve`.
    """
    indices, signs, low, high = resolved
    if len(indices) != 2 or low != 1.0 or high < 2.0 or signs[0] == signs[1]:
        return None
    child, parent = indices if signs[0] < 0.0 else indices[::-1]
    return int(child), int(parent)


def _literal_of(label, names, constraint):
    """Return the index of a label in a rule, and whether it is negated: as ``~Label(name)``, or ``~index``."""
    if isinstance(label, Label):
        index, negated = _literal_of(label.name, names, constraint)
        return index, negated ^ label.negated
    is_index = isinstance(label, numbers.Integral) and not isinstance(label, bool)
    if is_index and 0 <= ~label < len(names) and label not in names:
        return int(~label), True
    return _index_of(label, names, constraint), False


def _index_of(label, names, constraint):
    """Return the index of a label given by its name or, if no label has this name, by its index.

    Hierarchies and `estimators/_multilabel/data.py` call it, too.
    """
    for index, name in enumerate(names):
        if name == label and isinstance(name, str) == isinstance(label, str):
            return index
    if isinstance(label, numbers.Integral) and not isinstance(label, bool):
        if 0 <= label < len(names):
            return int(label)
        raise ValueError(f"{constraint} names label {label}, but there are {len(names)} labels, from 0")
    shown = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
    hint = (
        "; name them by `classes` of fit, or use a DataFrame. Tools that pass y on as an array, such as "
        "cross_val_predict(method='predict_proba'), take the names as params={'classes': names}"
    )
    hint = hint if isinstance(label, str) and not isinstance(names[0], str) else ""
    raise ValueError(f"{constraint} names the label {label!r}, which does not exist; the labels are {shown}{hint}")


def _check_labels(labels, what):
    if labels is None or isinstance(labels, Variables):
        return labels
    if isinstance(labels, str | bytes) or not hasattr(labels, "__iter__"):
        raise ValueError(f"{what} takes variables, or a list of labels by names or indices; got {labels!r}")
    return tuple(label.item() if isinstance(label, np.generic) else label for label in labels)


def _are_variables(labels):
    return isinstance(labels, Variables) or any(isinstance(label, Variables) for label in labels)
