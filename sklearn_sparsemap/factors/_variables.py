"""Variables of a factor graph: arrays of literals that are sliced and negated like bool arrays."""

from __future__ import annotations

import numpy as np

from .._core.annotations import Any, Iterator


class Variables:
    """An array of binary variables of a graph, or of their negations.

    Made by `FactorGraph.variables`. Index it like a NumPy array, and negate with ``~``.

    Attributes
    ----------
    indices : int array
        Number of each variable within its graph.
    negated : bool array of the same shape
        Whether the literal is the variable's negation.
    """

    # Keeps NumPy from treating it as a sequence in arithmetic.
    __array_ufunc__ = None

    def __init__(self, graph, indices, negated):
        self._graph = graph
        self.indices = indices
        self.negated = negated

    @property
    def shape(self) -> tuple[int, ...]:
        return self.indices.shape

    @property
    def ndim(self) -> int:
        return self.indices.ndim

    @property
    def size(self) -> int:
        return self.indices.size

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a single variable has no length")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Variables:
        return Variables(self._graph, np.asarray(self.indices[key]), np.asarray(self.negated[key]))

    def __iter__(self) -> Iterator[Variables]:
        return (self[i] for i in range(len(self)))

    def __invert__(self) -> Variables:
        return Variables(self._graph, self.indices, ~self.negated)

    def ravel(self) -> Variables:
        """Return the same literals in one axis."""
        return Variables(self._graph, self.indices.ravel(), self.negated.ravel())

    @property
    def T(self) -> Variables:
        return Variables(self._graph, self.indices.T, self.negated.T)

    def __bool__(self):
        raise TypeError("variables have no truth value before inference; write factors for logic, ~ for not")

    def __repr__(self):
        if self.size == 1:
            return self._graph.describe(self.indices.ravel()[0], self.negated.ravel()[0])
        return f"Variables(shape={self.shape})"


def as_literals(variables, what, may_be_empty=False):
    """Return the user's variables (an array, or a list of arrays) as flat `Variables`.

    With `may_be_empty` an array may have no entries. A list needs at least one, because an empty list has no graph.

    Raises
    ------
    ValueError
        If the input is something else, is empty, or mixes graphs.
    """
    if isinstance(variables, Variables):
        literals = variables.ravel()
    else:
        remedy = f"{what} takes variables of a graph: a slice of them, or a list such as [u[0], ~u[1]]"
        if isinstance(variables, str | bytes | dict) or not hasattr(variables, "__iter__"):
            raise ValueError(f"{remedy}; got {variables!r}")
        parts = list(variables)
        for part in parts:
            if not isinstance(part, Variables):
                raise ValueError(f"{remedy}; got {part!r} in it")
            if part._graph is not parts[0]._graph:
                raise ValueError(f"{what} mixes the variables of two graphs; a factor joins variables of one graph")
        if not parts:
            raise ValueError(f"{what} has no variables; it needs at least one")
        literals = Variables(
            parts[0]._graph,
            np.concatenate([part.indices.ravel() for part in parts]),
            np.concatenate([part.negated.ravel() for part in parts]),
        )
    if literals.size == 0 and not may_be_empty:
        raise ValueError(f"{what} has no variables; it needs at least one")
    return literals
