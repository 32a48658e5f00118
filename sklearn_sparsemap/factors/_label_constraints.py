"""Rules on the labels of a multilabel problem, by names or indices, and on the variables of a factor graph."""

from __future__ import annotations

import numbers

import numpy as np

from .._core.annotations import Any, Iterable, NDArray, Sequence
from ._logic import Factor, check_name, shown
from ._variables import Variables, as_literals


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
        self.name, self.negated = name, bool(negated)

    def __invert__(self) -> Label:
        return Label(self.name, not self.negated)

    def __eq__(self, other):
        return isinstance(other, Label) and (self.name, self.negated) == (other.name, other.negated)

    def __hash__(self):
        return hash((self.name, self.negated))

    def __repr__(self):
        return f"{'~' if self.negated else ''}{self.name!r}"


class LabelConstraint(Factor):
    """Base of the rules: bounds on the number of labels of a set, or of variables of a factor graph, that are on.

    A rule about variables is a factor of their graph. A rule about labels is written before these are known; `resolve`
    returns their indices.

    Attributes
    ----------
    labels : Variables, tuple, or None
        As they were given; None for all labels.
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
        found = [(i, False) if self.labels is None else _literal_of(i, names, self) for i in labels]
        indices = np.array([index for index, _ in found], dtype=np.int64)
        negated = np.array([is_negated for _, is_negated in found], dtype=bool)
        values, counts = np.unique(indices, return_counts=True)
        if counts.max() > 1:
            twice = names[values[counts.argmax()]]
            raise ValueError(f"{self!r} names {twice!r} twice; a constraint joins different labels")
        self._check_count(len(indices), "labels")
        return indices, np.where(negated, -1.0, 1.0) * self._polarities(len(indices)), *self.bounds()

    def resolve_all(self, names: Sequence[Any]) -> list[Any]:
        """Return the bounds of which the constraint consists, each in the form of `resolve`."""
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
    """Return the index of a label given by its name or, if no label has this name, by its index."""
    for index, name in enumerate(names):
        if name == label and isinstance(name, str) == isinstance(label, str):
            return index
    if isinstance(label, numbers.Integral) and not isinstance(label, bool):
        if 0 <= label < len(names):
            return int(label)
        raise ValueError(f"{constraint} names label {label}, but there are {len(names)} labels, from 0")
    shown = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
    hint = "; name them by `classes` of fit, or use a DataFrame"
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


def _documented(summary, examples):
    """Return the docstring of a bound: a summary, what all of them share, and examples."""
    shared = (_Counted.__doc__ or "").partition("\n")[2].rstrip()
    return f"{summary}\n{shared}\n\n    Examples\n    --------{examples}"


class _Counted(LabelConstraint):
    """A bound on the number of labels, or of variables of a factor graph, that are on.

    Parameters
    ----------
    variables : Variables, or list of variables, label names or indices
        Negated ones count if they are off: ``~u[0]``, ``~Label(name)``, ``~index``. If only a number is given, all
        labels.
    k : int
        Not negative.
    labels : list of label names or indices, default=None
        Another way to write labels: ``AtMost(2, labels=["jazz", "rock"])``.
    name : str, default=None
        Name in error messages; several rules may share one.

    Raises
    ------
    ValueError
        If `k` is not an int or negative, or a variable occurs twice; at `fit`, if a label is unknown, or no set of
        labels satisfies it.
    """

    def __init__(
        self,
        variables: Iterable[Any] | Variables | int,
        k: int | None = None,
        *,
        labels: Iterable[Any] | None = None,
        name: str | None = None,
    ) -> None:
        what = type(self).__name__
        if k is None:
            variables, k = labels, variables
        elif labels is not None:
            raise ValueError(f"{what} got both variables and labels; give one of them")
        if isinstance(k, bool) or not isinstance(k, numbers.Integral) or k < 0:
            raise ValueError(
                f"{what} takes variables or labels and then a number, an int that is not negative, such as {what}(u, "
                f"2); got {k!r} as the number"
            )
        self.k = int(k)
        super().__init__(variables, name=name)

    @property
    def title(self) -> str:
        return f"{type(self).__name__}({self.k})"

    def _arguments(self):
        return f", {self.k}"


class AtMost(_Counted):
    __doc__ = _documented(
        "At most `k` of the labels are on; or of the variables of a factor graph.",
        """
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import AtMost, FactorGraph
    >>> AtMost(["jazz", "rock", "pop"], 2)
    AtMost(['jazz', 'rock', 'pop'], 2)
    >>> graph = FactorGraph()
    >>> u = graph.variables(3)
    >>> graph.add(AtMost(u, 2))
    >>> lp_sparsemap(graph, [1.0, 1.0, 0.75]).marginals.round(3).tolist()
    [0.75, 0.75, 0.5]
    """,
    )

    def bounds(self) -> tuple[float, float]:
        return -np.inf, float(self.k if self.literals is None else min(self.k, self.literals.size))


class AtLeast(_Counted):
    __doc__ = _documented(
        "At least `k` of the labels are on; or of the variables of a factor graph.",
        """
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import AtLeast, FactorGraph
    >>> AtLeast(["jazz", "rock"], 1)
    AtLeast(['jazz', 'rock'], 1)
    >>> graph = FactorGraph()
    >>> u = graph.variables(3)
    >>> graph.add(AtLeast(u, 1))
    >>> lp_sparsemap(graph, [0.25, 0.0, -1.0]).marginals.round(3).tolist()
    [0.625, 0.375, 0.0]
    """,
    )

    def bounds(self) -> tuple[float, float]:
        return float(self.k), np.inf


class Exactly(_Counted):
    __doc__ = _documented(
        "Exactly `k` of the labels are on; or of the variables of a factor graph.",
        """
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import Exactly, FactorGraph
    >>> Exactly(["a", "b", "c"], 2, name="two of three")
    Exactly(['a', 'b', 'c'], 2, name='two of three')
    >>> graph = FactorGraph()
    >>> u = graph.variables(3)
    >>> graph.add(Exactly(u, 1))
    >>> lp_sparsemap(graph, [1.0, 1.0, 0.0]).marginals
    array([0.5, 0.5, 0. ])
    """,
    )

    def bounds(self) -> tuple[float, float]:
        return float(self.k), float(self.k)


class Exclusive(LabelConstraint):
    """At most one of the labels is on; or of the variables of a factor graph.

    Parameters
    ----------
    labels : list of label names or indices, or Variables
    name : str, default=None
        Name in error messages; several rules may share one.

    Raises
    ------
    ValueError
        If the labels are not a list; at `fit`, if a label is named twice or unknown.

    Examples
    --------
    >>> from sklearn_sparsemap.factors import Exclusive
    >>> Exclusive(["quiet", "loud"])
    Exclusive(['quiet', 'loud'])
    """

    def __init__(self, labels: Iterable[Any] | Variables, *, name: str | None = None) -> None:
        if labels is None:
            raise ValueError("Exclusive needs its labels: a list of names or indices")
        super().__init__(labels, name=name)

    def bounds(self) -> tuple[float, float]:
        return -np.inf, 1.0


class Implies(LabelConstraint):
    """If label `a` is on, or all of several are, label `b` is on; or for variables of a factor graph.

    Parameters
    ----------
    a : label name or index, Variables, or a list of these
        Negated ones hold if they are off: ``~Label(name)``, ``~index``, ``~u[0]``.
    b : label name or index, or a variable
    name : str, default=None
        Name in error messages; several rules may share one.

    Raises
    ------
    ValueError
        At `fit`, if a label is unknown, or both are the same.

    Examples
    --------
    >>> from sklearn_sparsemap.factors import Implies, Label
    >>> Implies(["rain", ~Label("umbrella")], "wet")
    Implies(['rain', ~'umbrella'], 'wet')
    """

    def __init__(self, a: Any, b: Any, *, name: str | None = None) -> None:
        self.a, self.b = a, b
        several = isinstance(a, list) or (isinstance(a, Variables) and a.ndim > 0)
        if several and not len(a):
            raise ValueError("Implies needs at least 2 variables or labels: one that implies, and one that is implied")
        super().__init__([*(a if several else [a]), b], name=name)

    def _polarities(self, n):
        return np.append(-np.ones(n - 1), 1.0)

    def bounds(self) -> tuple[float, float]:
        return 1.0, np.inf

    def __repr__(self):
        name = "" if self.name is None else f", name={self.name!r}"
        if self.literals is None:
            return f"Implies({self.a!r}, {self.b!r}{name})"
        return f"Implies([{shown(self.literals[:-1])}], {self.literals[-1]!r}{name})"


# The names of the papers.
Budget, AtMostOne = AtMost, Exclusive


def Xor(variables: Variables | Iterable[Variables], *, name: str | None = None) -> Exactly:
    """Exactly one of the variables is on: ``Exactly(variables, 1)``."""
    return Exactly(variables, 1, name=name)


def Or(variables: Variables | Iterable[Variables], *, name: str | None = None) -> AtLeast:
    """At least one of the variables is on: ``AtLeast(variables, 1)``."""
    return AtLeast(variables, 1, name=name)


def Imply(variables: Variables | Iterable[Variables], *, name: str | None = None) -> Implies:
    """All variables except the last imply the last: ``Implies(variables[:-1], variables[-1])``."""
    literals = as_literals(variables, "Imply")
    return Implies(literals[:-1], literals[-1], name=name)
