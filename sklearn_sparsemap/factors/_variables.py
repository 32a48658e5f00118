"""Variables of a factor graph: arrays of literals that are sliced and negated like bool arrays, and combined into
conditions and weighted sums.

Used by `_graph.py`, `_label_constraints.py`, `_layout.py`, `_logic.py`, `_rules.py` and `_tables.py`.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from .._core.annotations import Any, ArrayLike, Iterator
from .._core.keys import HasContent, as_key
from .._core.validation import check_numbers
from .._core.whole_rows import MAX_WHOLE

_MAX_CLAUSES = 4096  # clauses of a condition; negations can have exponentially many
_LARGEST_WEIGHT = 1e250  # of a sum; the smallest one is the inverse, beyond which sums and quotients overflow
_MAX_RATIO = 1e9  # largest ratio of two weights, if they are not whole; beyond it, rounding loses the smaller terms


class Variables(HasContent):
    """An array of binary variables of a graph, or of their negations.

    Made by `FactorGraph.variables`. Index it like a NumPy array, and negate with ``~``. ``a | b``, ``a & b`` and
    ``a >> b`` (if a, then b) are conditions, entry by entry, which `FactorGraph.add` takes. ``costs @ u`` is a weighted
    sum, for `AtMost`, `AtLeast` and `Exactly`.

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

    def __or__(self, other: Variables | Condition) -> Condition:
        return as_condition(self) | other

    def __and__(self, other: Variables | Condition) -> Condition:
        return as_condition(self) & other

    def __rshift__(self, other: Variables | Condition) -> Condition:
        return as_condition(self) >> other

    def __rmatmul__(self, weights: ArrayLike) -> WeightedSum:
        return WeightedSum(weights, self)

    __matmul__ = __rmatmul__

    def content(self) -> Any:
        return as_key((self.indices, self.negated))

    def ravel(self) -> Variables:
        """Return the same literals in one axis."""
        return Variables(self._graph, self.indices.ravel(), self.negated.ravel())

    @property
    def T(self) -> Variables:
        return Variables(self._graph, self.indices.T, self.negated.T)

    def __bool__(self):
        raise TypeError("variables have no truth value before inference; write |, &, >> and ~ for logic, or factors")

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


class Condition:
    """A condition on the variables of a graph: all of its clauses hold. A clause holds if one of its literals does.

    Made from variables by ``|`` (or), ``&`` (and), ``>>`` (if, then) and ``~`` (not). Arrays are combined entry by
    entry, in shapes that broadcast; the condition must hold for each entry. `FactorGraph.add` takes it. In Python
    ``>>`` comes before ``&``, and ``&`` before ``|``: write ``(a & b) >> c``.

    Parameters
    ----------
    clauses : list of tuples of Variables

    Examples
    --------
    >>> from sklearn_sparsemap import map_inference
    >>> from sklearn_sparsemap.factors import FactorGraph
    >>> graph = FactorGraph()
    >>> u = graph.variables(4)
    >>> graph.add((u[0] & u[1]) >> ~u[2], u[:-1] | u[1:])
    >>> map_inference(graph, [1.0, 0.5, 1.0, -1.0]).structure.tolist()
    [True, False, True, False]
    """

    def __init__(self, clauses: list[tuple[Variables, ...]]) -> None:
        if len(clauses) > _MAX_CLAUSES:
            raise ValueError(
                f"the condition has {len(clauses)} clauses, more than {_MAX_CLAUSES}; give a variable to a part of "
                "it, by OrOut or AndOut"
            )
        self._clauses = clauses
        for clause in clauses:
            if any(literal._graph is not clause[0]._graph for literal in clause):
                raise ValueError("a condition mixes the variables of two graphs; it must be about those of one graph")

    def __or__(self, other: Variables | Condition) -> Condition:
        return Condition([one + two for one in self._clauses for two in as_condition(other)._clauses])

    def __and__(self, other: Variables | Condition) -> Condition:
        return Condition([*self._clauses, *as_condition(other)._clauses])

    def __rshift__(self, other: Variables | Condition) -> Condition:
        return ~self | other

    def __invert__(self) -> Condition:
        # By de Morgan's laws and distributivity: for each choice of a literal from each clause, one of them is false.
        if prod(map(len, self._clauses)) > _MAX_CLAUSES:
            raise ValueError(
                f"the negation of the condition has more than {_MAX_CLAUSES} clauses; give a variable to a part of "
                "it, by OrOut or AndOut"
            )
        negated = [tuple(~literal for literal in clause) for clause in self._clauses]
        return Condition([tuple(chosen) for chosen in product(*negated)])

    def clauses(self) -> Iterator[Variables]:
        """Yield the literals of each clause and each entry of the arrays, without repeated ones.

        Clauses with a variable and its negation always hold, and are left out.
        """
        for clause in self._clauses:
            try:
                indices, negated = (
                    np.stack(np.broadcast_arrays(*arrays), axis=-1).reshape(-1, len(clause))
                    for arrays in zip(*[(literal.indices, literal.negated) for literal in clause])
                )
            except ValueError as error:
                shapes = ", ".join(str(literal.shape) for literal in clause)
                raise ValueError(f"a condition joins arrays of shapes {shapes}, which do not broadcast") from error
            for row in zip(indices.tolist(), negated.tolist()):
                literals = list(dict.fromkeys(zip(*row)))
                if not any((i, not is_negated) in literals for i, is_negated in literals):
                    yield Variables(clause[0]._graph, *map(np.array, zip(*literals)))

    def __bool__(self):
        raise TypeError("a condition has no truth value before inference; write |, & and ~ in place of or, and, not")

    def __repr__(self):
        clauses = [" | ".join(map(repr, clause)) for clause in self._clauses[:4]]
        return f"Condition({' & '.join(f'({clause})' for clause in clauses)}{', ...' * (len(self._clauses) > 4)})"


def as_condition(value):
    """Return variables or a condition as a condition; raise ValueError for anything else."""
    if isinstance(value, Variables):
        return Condition([(value,)])
    if not isinstance(value, Condition):
        raise ValueError(f"|, & and >> join variables of a graph and conditions on them; got {value!r}")
    return value


class WeightedSum:
    """A weighted sum of variables, ``weights @ variables``: for `AtMost`, `AtLeast` and `Exactly`.

    Parameters
    ----------
    weights : array-like in the shape of the variables
        Finite numbers; they may be negative.
    variables : Variables or list of Variables

    Attributes
    ----------
    literals : Variables
        The variables, flat; those with a negative weight are negated.
    weights : array of shape (n_variables,)
        Weights of the literals, not negative.
    flipped : bool array of shape (n_variables,)
        Mask of the variables with a negative weight.
    offset : float
        The sum of the literals minus the sum of the variables.
    """

    def __init__(self, weights: ArrayLike, variables: Any) -> None:
        literals = as_literals(variables, "a weighted sum")
        weights = check_numbers(weights, "the weights of a sum").copy()
        shape = variables.shape if isinstance(variables, Variables) else (literals.size,)
        if weights.shape != shape:
            raise ValueError(f"the weights of a sum have shape {weights.shape} for variables of shape {shape}")
        if not np.isfinite(weights).all():
            raise ValueError(f"the weights of a sum must be finite; got {weights.tolist()}")
        weights = weights.ravel()
        nonzero = np.abs(weights[weights != 0.0])
        is_whole = (weights == np.rint(weights)).all()
        is_exact = is_whole and np.abs(weights).max(initial=0.0) <= MAX_WHOLE
        if nonzero.size and nonzero.max() / _MAX_RATIO > nonzero.min() and not is_exact:
            raise ValueError(
                f"the weights of a sum differ by more than {_MAX_RATIO:g} times ({nonzero.min():g} to "
                f"{nonzero.max():g}); set those that do not matter to 0, or use whole numbers up to 2**53"
            )
        least = 1.0 / _LARGEST_WEIGHT
        if nonzero.size and (nonzero.min() < least or nonzero.max() > _LARGEST_WEIGHT):
            raise ValueError(
                f"the weights of a sum must be 0, or between {least:g} and {_LARGEST_WEIGHT:g} in size; got "
                f"{nonzero.min():g} to {nonzero.max():g}. Multiply weights and bound by a number"
            )
        flipped = weights < 0.0
        self.literals = Variables(literals._graph, literals.indices, literals.negated ^ flipped)
        self.weights = np.abs(weights)
        self.flipped = flipped
        self.offset = float(self.weights[flipped].sum())

    def __repr__(self):
        return f"WeightedSum({self.weights.tolist()}, {list(self.literals)!r})"

    def __add__(self, other: WeightedSum) -> WeightedSum:
        if not isinstance(other, WeightedSum):
            return NotImplemented
        total = WeightedSum(np.append(self.weights, other.weights), [self.literals, other.literals])
        total.flipped = np.append(self.flipped, other.flipped)
        total.offset = self.offset + other.offset
        return total
