"""The factors of a graph.

Used by `inference`, `_graph.py`, `_label_constraints.py`, `_rules.py`, `_tables.py` and `_trees.py`.
"""

from __future__ import annotations

import numpy as np

from .._core.annotations import Any, Iterable, Mapping, NDArray, Sequence
from .._core.jit import readonly
from .._core.keys import HasContent, as_key
from .._core.validation import first_of
from .._graphs.arrays import COUNT, OR_OUT, PAIR, STRUCTURE
from ..structures import Structure
from ._variables import Variables, as_literals


class Factor(HasContent):
    """Base class of factors.

    Attributes
    ----------
    literals : Variables
        The literals that the factor joins, flat.
    name : str or None
        Name of its additional scores and of its marginals. Rules (all factors except `Pair`, `PairTable` and
        `StructureFactor`) have no scores. Several rules may have the same name, such as "every job has a worker", which
        error messages use. `FactorGraph.add` can give a name to factors without one.

    `plotting` and `inspection` tell factors by their attributes `n_pairs` (`Pair`), `pairs_shape` and `n_states`
    (tables), `structure`, `k` and `budget`; `plotting` tells those with an output by the names of their classes.
    """

    type = COUNT
    name = None
    at_least = 1
    # Number of factors of the graph, in the solvers' count.
    count = 1
    # For a weighted sum of literals: the weights as whole numbers, the bounds of their sum, and its tolerance.
    whole: Any = None

    def __init__(self, variables: Variables | Iterable[Variables], *, name: str | None = None) -> None:
        if name is not None:
            self.name = check_name(name, type(self).__name__)
        self.literals = as_literals(variables, type(self).__name__)
        n = self.literals.size
        if n < self.at_least:
            raise ValueError(f"{type(self).__name__} needs at least {self.at_least} variables; got {n}")
        # A set is several times as fast as `np.unique`; graphs can have a hundred thousand factors.
        if len(set(self.literals.indices.tolist())) < n:
            values, counts = np.unique(self.literals.indices, return_counts=True)
            twice = self.literals._graph.describe(values[counts.argmax()])
            raise ValueError(f"{type(self).__name__} has {twice} more than once; a factor joins distinct variables")

    def __setattr__(self, name, value):
        is_edit = name in vars(self)
        super().__setattr__(name, value)
        # Literals are those of labels, not of a graph, if they are None.
        if is_edit and self.literals is not None:
            self.literals._graph.note_change()

    def content(self) -> Any:
        return as_key(vars(self))

    @property
    def signs(self) -> NDArray[np.float64]:
        """1.0 for each literal that counts if its variable is on, -1.0 if it counts if the variable is off."""
        return np.where(self.literals.negated, -1.0, 1.0) * self._polarities(self.literals.size)

    def _polarities(self, n):
        """Return -1.0 for those of `n` literals that the rule negates, else 1.0."""
        return np.ones(n)

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """The coefficients of the literals in the sum that ``bounds()`` bounds."""
        return np.ones(self.literals.size)

    def bounds(self) -> tuple[float, float]:
        """Return the interval in which ``coefficients @ literals`` must lie."""
        return -np.inf, np.inf

    def rows(self) -> list[tuple]:
        """Return the inequalities that the factor consists of, unless it has scores.

        Returns
        -------
        rows : list of (positions, coefficients, bound, low, high)
            The sum of the literals at these positions, times the coefficients, is at most the bound (low is 0 and high
            infinite), at least the bound (low is infinite and high 0), or equal to it.
        """
        low, high = self.bounds()
        coefs = self.coefficients
        rows = []
        positions = np.arange(len(coefs))
        if low == high:
            return [(part, coefs[part], low, -np.inf, np.inf) for part in np.split(positions, self.count)]
        if high < np.inf:
            rows.append((positions, coefs, high, 0.0, np.inf))
        if low > -np.inf:
            rows.append((positions, coefs, low, -np.inf, 0.0))
        return rows

    @property
    def is_equality(self) -> bool:
        """Whether ``coefficients @ literals`` has a fixed value."""
        if self.type != COUNT:
            return False
        low, high = self.bounds()
        return low == high

    def _arguments(self):
        return ""

    @property
    def title(self) -> str:
        """The name of the class, with the number that sets its bounds."""
        return type(self).__name__

    def __repr__(self):
        name = "" if self.name is None else f", name={self.name!r}"
        return f"{type(self).__name__}({self._sum()}{self._arguments()}{name})"

    def _sum(self):
        return f"[{shown(self.literals)}]"


def shown(literals):
    """Return the first literals, and their number if there are more."""
    return first_of([repr(literal) for literal in literals[:4]], literals.size)


class XorOut(Factor):
    """The last variable is on exactly if one of the others is, and at most one of them is: ``sum(u[:-1]) == u[-1]``.

    Parameters
    ----------
    variables : Variables or list of Variables
        At least two.
    name : str, default=None
        Name in error messages; several rules may share one.

    Raises
    ------
    ValueError
        If a variable occurs twice, or there are fewer than the factor needs.

    Examples
    --------
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import XorOut, FactorGraph
    >>> graph = FactorGraph()
    >>> u = graph.variables(3)
    >>> graph.add(XorOut(u))
    >>> lp_sparsemap(graph, [0.75, 0.25, 0.25]).marginals.round(3).tolist()
    [0.5, 0.0, 0.5]
    """

    at_least = 2

    def _polarities(self, n):
        return np.append(np.ones(n - 1), -1.0)

    def bounds(self) -> tuple[float, float]:
        return 1.0, 1.0


class OrOut(Factor):
    """The last variable is on exactly if any of the others is.

    Parameters
    ----------
    variables : Variables or list of Variables
        At least two.
    name : str, default=None
        Name in error messages; several rules may share one.

    Raises
    ------
    ValueError
        If a variable occurs twice, or there are fewer than the factor needs.

    Examples
    --------
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import OrOut, FactorGraph
    >>> graph = FactorGraph()
    >>> u = graph.variables(3)
    >>> graph.add(OrOut(u))
    >>> lp_sparsemap(graph, [1.0, 0.25, 0.5]).marginals.round(3).tolist()
    [0.75, 0.25, 0.75]
    """

    type = OR_OUT
    at_least = 2

    @property
    def coefficients(self) -> NDArray[np.float64]:
        # The sum of the inputs minus the output is not negative.
        return np.append(np.ones(self.literals.size - 1), -1.0)

    def rows(self) -> list[tuple]:
        coefs = self.coefficients
        n = len(coefs) - 1
        one_input = np.array([1.0, -1.0])
        rows = [(np.array([i, n]), one_input, 0.0, 0.0, np.inf) for i in range(n)]
        return [*rows, (np.arange(n + 1), coefs, 0.0, -np.inf, 0.0)]


class AndOut(OrOut):
    """The last variable is on exactly if all others are.

    Parameters
    ----------
    variables : Variables or list of Variables
        At least two.
    name : str, default=None
        Name in error messages; several rules may share one.

    Raises
    ------
    ValueError
        If a variable occurs twice, or there are fewer than the factor needs.

    Examples
    --------
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import AndOut, FactorGraph
    >>> graph = FactorGraph()
    >>> u = graph.variables(3)
    >>> graph.add(AndOut(u))
    >>> lp_sparsemap(graph, [1.0, 0.5, 1.0]).marginals.round(3).tolist()
    [1.0, 0.75, 0.75]
    """

    def _polarities(self, n):
        # By de Morgan's law: the negated output is on exactly if any negated input is.
        return -np.ones(n)


class Pair(Factor):
    """Scores of pairs of variables that are both on: ``score * u_1 * u_2``; one factor for many pairs.

    A positive score attracts, a negative score repels. The scores are passed to inference by the factor's name.

    If several pairs join the same two choices, such as any two shifts of two days, SparseMAP losses learn too weak
    scores. "Preferences that are learned too weak" in the guide of factor graphs has remedies.

    Parameters
    ----------
    first, second : Variables or list of Variables
        The two variables of each pair, entry by entry, in equal shapes.
    name : str
        Name of the pair scores.
    tied : bool, default=False
        Whether all pairs share one score. Otherwise there is one score for each pair, in the shape of `first`.

    Raises
    ------
    ValueError
        If the two sides differ in graph or shape, a variable is paired with itself, or the name is not a str.

    Examples
    --------
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import FactorGraph, Pair
    >>> graph = FactorGraph()
    >>> u = graph.variables(3)
    >>> graph.add(Pair(u[:-1], u[1:], name="neighbours"))
    >>> lp_sparsemap(graph, [0.75, 0.0, 0.0], additional={"neighbours": [0.5, -1.0]}).marginals
    array([0.75, 0.5 , 0.  ])
    """

    type = PAIR

    def __init__(
        self,
        first: Variables | Iterable[Variables],
        second: Variables | Iterable[Variables],
        *,
        name: str,
        tied: bool = False,
    ) -> None:
        # There may be no pairs: a chain of one step has no neighbours.
        self.first = as_literals(first, "Pair", True)
        self.second = as_literals(second, "Pair", True)
        if self.first._graph is not self.second._graph:
            raise ValueError("Pair mixes the variables of two graphs; a factor joins variables of one graph")
        self.shape = first.shape if isinstance(first, Variables) else (self.first.size,)
        other = second.shape if isinstance(second, Variables) else (self.second.size,)
        if self.shape != other:
            raise ValueError(f"Pair joins variables entry by entry; got shapes {self.shape} and {other}")
        same = np.flatnonzero(self.first.indices == self.second.indices)
        if len(same):
            raise ValueError(f"Pair joins {self.first[same[0]]!r} with itself, at position {same[0]}")
        self.name = check_name(name, "Pair")
        self.tied = bool(tied)

    @property
    def literals(self) -> Variables:
        """The first and second literal of each pair, interleaved."""
        first, second = self.first, self.second
        shape = 2, first.size
        # For small arrays this takes a quarter of the time of `np.stack`; there can be a graph for each sample.
        return Variables(
            first._graph,
            np.concatenate([first.indices, second.indices]).reshape(shape).T.ravel(),
            np.concatenate([first.negated, second.negated]).reshape(shape).T.ravel(),
        )

    @property
    def n_pairs(self) -> int:
        return self.first.size

    @property
    def count(self) -> int:
        return self.n_pairs

    @property
    def accepted_shapes(self) -> dict[None, tuple[tuple[int, ...], ...]]:
        """Accepted shapes of its scores, the learned shape first: one score for each pair, or one for all."""
        return {None: ((),) if self.tied else (self.shape, ())}

    def __repr__(self):
        pairs = [f"{self.first[i]!r} - {self.second[i]!r}" for i in range(min(2, self.n_pairs))]
        tied = ", tied" if self.tied else ""
        return f"Pair({first_of(pairs, self.n_pairs)}, name={self.name!r}{tied})"


class StructureFactor(Factor):
    """The variables are the parts of a structure: a tree, a sequence, a matching and so on.

    Parameters
    ----------
    structure : Structure
        For example ``LinearChain()``.
    variables : Variables or list of Variables
        In the shape of the structure's scores (a list counts as flat).
    name : str, default=None
        Name of its additional scores, and of its selected structures in the result.
    shapes : dict of str -> tuple of int, default=None
        Shapes of additional scores of which `structure` accepts several shapes, by the names of the scores. Scores that
        come from features (`FactorGraph.with_features`) otherwise have the first shape that it accepts.

    Raises
    ------
    ValueError
        If `structure` is not an instance of a structure, has scores but no name, or does not accept one of `shapes`.

    Examples
    --------
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import AtMost, FactorGraph, StructureFactor
    >>> from sklearn_sparsemap.structures import LinearChain
    >>> graph = FactorGraph()
    >>> u = graph.variables((3, 2))
    >>> graph.add(StructureFactor(LinearChain(), u, name="chain"), AtMost(u[:, 1], 1))
    >>> result = lp_sparsemap(graph, [[0.0, 2.0], [0.0, 2.0], [1.0, 0.0]])
    >>> result.marginals
    array([[0.5, 0.5],
           [0.5, 0.5],
           [1. , 0. ]])
    """

    type = STRUCTURE

    def __init__(
        self,
        structure: Structure,
        variables: Variables | Iterable[Variables],
        *,
        name: str | None = None,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        if not isinstance(structure, Structure):
            raise ValueError(f"structure must be an instance such as LinearChain(); got {structure!r}")
        if structure.repeats:
            raise ValueError(f"variables are 0 or 1, but a structure of {structure!r} may have a part several times")
        super().__init__(variables)
        self.structure = structure
        self.shape = variables.shape if isinstance(variables, Variables) else (self.literals.size,)
        if len(self.shape) != structure.score_ndim:
            raise ValueError(
                f"{structure!r} has scores with {structure.score_ndim} axes; got variables of shape {self.shape}"
            )
        accepted = structure.additional_shapes(self.shape)
        for score, shape in (shapes or {}).items():
            if shape not in accepted.get(score, ()):
                raise ValueError(f"{structure!r} over {self.shape} accepts shapes {accepted}; got {score!r}: {shape!r}")
        # Accepted shapes of its additional scores, by their names.
        chosen = {score: (shape,) for score, shape in (shapes or {}).items()}
        self.accepted_shapes = {score: accepted[score] for score in structure.additional_names} | chosen
        structure.dims(self.shape, {score: shapes[0] for score, shapes in self.accepted_shapes.items()})
        self.name = None if name is None else check_name(name, "StructureFactor")

    @property
    def is_equality(self) -> bool:
        return self.structure.fixed_size

    @property
    def kernel_shape(self) -> tuple[int, ...]:
        """Shape of the structure's scores."""
        return self.shape

    def kernel_shapes(
        self, given: Mapping[str, tuple[int, ...]], featured: Sequence[str]
    ) -> dict[str, tuple[int, ...]]:
        """Return the shapes of its additional scores in kernels, including scores that come from features."""
        accepted = self.accepted_shapes
        return {name: accepted[name][0] if name in featured else shape for name, shape in given.items()}

    def best_structure(self, scores: NDArray[np.float64]) -> Any:
        """Return the best structure without additional scores, in its own form."""
        dims = readonly(self.structure.dims(self.shape, {}), np.int64)
        n_slots, n_additional_slots, n_work = self.structure.sizes(dims)
        slots = np.empty(n_slots, np.int32)
        none = np.empty(n_additional_slots, np.int32)
        self.structure.oracle(readonly(scores.ravel()), readonly(np.zeros(0)), dims, np.zeros(n_work), slots, none)
        return self.structure.decode(slots, dims)

    def parts_of(self, structure: Any) -> NDArray[np.bool_]:
        """Return a mask of the variables that a structure, given in its own form, switches on.

        Raises
        ------
        ValueError
            If it is not such a structure.
        """
        slots = self.structure.encode(structure, readonly(self.structure.dims(self.shape, {}), np.int64))[0]
        mask = np.zeros(self.literals.size, bool)
        mask[slots[slots >= 0]] = True
        return mask.reshape(self.shape)

    def known_parts_of(self, known: Any) -> NDArray[np.float64]:
        """Return 0.0 for the variables that a partially known structure rules out, and NaN for the others."""
        forbidden = self.structure.forbidden_by(list(known), self.shape)
        if forbidden is None:
            raise ValueError(f"structures of {self.structure!r} cannot be known in part; give their variables")
        return np.where(forbidden, 0.0, np.nan)

    def __repr__(self):
        name = "" if self.name is None else f", name={self.name!r}"
        return f"StructureFactor({self.structure!r}, variables of shape {self.shape}{name})"


def check_name(name, what):
    if not isinstance(name, str) or not name:
        raise ValueError(f"{what} needs a name, a str that is not empty; got {name!r}")
    return name
