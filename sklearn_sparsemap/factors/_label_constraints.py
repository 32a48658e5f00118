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

    def resolve_all(self, names: Sequence[Any]) -> list[Any]:
        """Return the bounds that the constraint is made of, each as `resolve` returns."""
        return [self.resolve(names)]

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
    """

    def _bounds(self):
        return float(self.k), float(self.k)


class Exclusive(LabelConstraint):
    """No two of the labels are on together.

    Parameters
    ----------
    labels : list of label names or indices
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


class Hierarchy(LabelConstraint):
    """Where a label is on, its parents are on.

    Where no label has more than one parent, inference is isotonic regression on trees: exact in one pass, for thousands
    of labels. Else it is that of a factor graph.

    Parameters
    ----------
    parents : sequence, or dict
        For each label, in their order, its parent: a label by index, None (or -1) at the top, or a list of several, by
        name or index. A sequence of str is one of paths such as ``"a/b/c"``, one for each label: what is above a path
        is its parent, if it is a label. A dict has the parents of the labels that have any.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import MultilabelLPSparseMAP
    >>> from sklearn_sparsemap.factors import Hierarchy
    >>> Hierarchy(["music", "music/jazz"]) == Hierarchy([None, 0])
    False
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> Y = np.stack([X[:, 0] > 0, (X > 0).all(axis=1)], axis=1).astype(int)
    >>> model = MultilabelLPSparseMAP(constraints=Hierarchy(["music", "music/jazz"])).fit(X, Y)
    >>> model.predict([[2.0, 2.0], [2.0, -2.0], [-2.0, 2.0]])
    array([[1, 1],
           [1, 0],
           [0, 0]])
    """

    def __init__(self, parents: Any) -> None:
        if isinstance(parents, str) or not hasattr(parents, "__len__"):
            raise ValueError(f"Hierarchy takes the parents of all labels, or paths such as 'a/b'; got {parents!r}")
        self._is_dict = isinstance(parents, dict)
        entries = list(parents.items()) if self._is_dict else list(enumerate(parents))
        self.paths = bool(entries) and not self._is_dict and all(isinstance(above, str) for _, above in entries)
        self.entries = tuple((label, above if self.paths else _listed_parents(above)) for label, above in entries)

    def resolve_all(self, names: Sequence[Any]) -> list[Any]:
        """Return one implication for each pair of a label and a parent; see `LabelConstraint.resolve`."""
        return [(np.array(pair), np.array([-1.0, 1.0]), 1.0, np.inf) for pair in self.pairs(names)]

    def pairs(self, names: Sequence[Any]) -> list[tuple[int, int]]:
        """Return the indices of each label and its parents, where the labels have these names."""
        if not self._is_dict and len(self.entries) != len(names):
            raise ValueError(f"{self!r} has {len(self.entries)} entries for {len(names)} labels; give one for each")
        if self.paths:
            index = {path: i for i, path in self.entries}
            if len(index) < len(names):
                raise ValueError(f"{self!r} has a path twice")
            found = [(i, index.get(path.rpartition("/")[0])) for path, i in index.items()]
            return [(i, parent) for i, parent in found if parent is not None]
        known = {name: i for i, name in enumerate(names)}

        def index_of(label):
            return known[label] if isinstance(label, str) and label in known else _index_of(label, names, self)

        found = []
        for label, above in self.entries:
            child = index_of(label) if self._is_dict else label
            found += [(child, index_of(parent)) for parent in above]
        for child, parent in found:
            if child == parent:
                raise ValueError(f"{self!r} puts the label {names[child]!r} above itself")
        return list(dict.fromkeys(found))

    def __eq__(self, other):
        return type(self) is type(other) and (self.paths, self.entries) == (other.paths, other.entries)

    def __hash__(self):
        return hash((self.paths, self.entries))

    def __repr__(self):
        return f"Hierarchy(<{len(self.entries)} labels>)"


def _listed_parents(above):
    if above is None or (isinstance(above, numbers.Integral) and above == -1):
        return ()
    if isinstance(above, str | numbers.Integral):
        return (above,)
    return tuple(label.item() if isinstance(label, np.generic) else label for label in above)
