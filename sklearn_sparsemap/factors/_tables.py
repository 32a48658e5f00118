"""Scores for pairs of categorical variables, and grids of such variables.

Used by `_graph.py`.
"""

from __future__ import annotations

from math import prod
from operator import index
from typing import TYPE_CHECKING

import numpy as np

from .._core.annotations import Any, ArrayLike, Iterable, Mapping, Sequence
from .._core.validation import check_numbers
from .._graphs.arrays import TABLE
from ..structures import LinearChain
from ._logic import Factor, check_name
from ._variables import Variables, as_literals

if TYPE_CHECKING:
    from ._graph import FactorGraph


class ExactlyOne(Factor):
    """Each variable of an array has one of its values. `FactorGraph.categorical` adds it.

    Parameters
    ----------
    variables : Variables of shape (..., n_states)
    name : str
        Name of the array.
    """

    def __init__(self, variables: Variables, name: str) -> None:
        self.literals = variables.ravel()
        self.name = None
        self.n_states, self._array = variables.shape[-1], name

    @property
    def count(self) -> int:
        return self.literals.size // self.n_states

    def bounds(self) -> tuple[float, float]:
        return 1.0, 1.0

    def __repr__(self):
        return f"ExactlyOne({self._array!r}, {self.count} variables of {self.n_states} values)"


class PairTable(Factor):
    """Scores for the values of pairs of categorical variables: tables of shape ``(n_states, n_states)``.

    The tables are passed to inference, and learned, by the factor's name.

    Parameters
    ----------
    first, second : Variables of shape (..., n_states), or list of Variables
        The two variables of each pair, entry by entry: categorical variables as from `FactorGraph.categorical`, with
        all of their values in the last axis.
    name : str
        Name of the tables. Factors of a graph with the same name share their scores.
    tied : bool, default=False
        Whether all pairs have the same table. Otherwise there is one for each pair.
    features : array-like of shape (..., n_features), default=None
        Features of each pair, in the shape of the pairs. The table of a pair is then the sum of `n_features` tables
        weighted by the features. All pairs have the same `n_features` tables.

    Attributes
    ----------
    shape : tuple of int
        Shape of the scores: ``(n_states, n_states)`` if `tied`, ``(n_features, n_states, n_states)`` with features,
        else one table for each pair, in the shape of the pairs.

    Raises
    ------
    ValueError
        If the two sides differ in graph, shape or number of values, or are not whole variables, a variable is paired
        with itself, or the features do not match the pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import FactorGraph, PairTable
    >>> graph = FactorGraph()
    >>> u = graph.categorical(3, n_states=2)
    >>> graph.add(PairTable(u[:-1], u[1:], name="neighbours", tied=True))
    >>> scores = [[0.5, 0.0], [0.0, 0.1], [0.5, 0.0]]
    >>> lp_sparsemap(graph, scores, additional={"neighbours": 0.2 * np.eye(2)}).marginals.round(3)
    array([[0.65, 0.35],
           [0.65, 0.35],
           [0.65, 0.35]])
    """

    type = TABLE
    # Solvers without tables treat each table as a chain of two steps.
    structure = LinearChain()

    def __init__(
        self,
        first: Variables | Iterable[Variables],
        second: Variables | Iterable[Variables],
        *,
        name: str,
        tied: bool = False,
        features: ArrayLike | None = None,
    ) -> None:
        self.name = check_name(name, "PairTable")
        self.tied = bool(tied)
        first = _whole_variables(first)
        second = _whole_variables(second)
        if first._graph is not second._graph:
            raise ValueError("PairTable mixes the variables of two graphs; a factor joins variables of one graph")
        if first.shape != second.shape:
            raise ValueError(
                f"PairTable joins variables entry by entry; got shapes {first.shape} and {second.shape}, of which the "
                "last axis are the values"
            )
        # `plotting` tells a table by `pairs_shape`, and leaves out factors with `n_states`.
        self.pairs_shape, self.n_states = first.shape[:-1], first.shape[-1]
        self.first, self.second = first, second
        heads = first.indices[..., 0].ravel(), second.indices[..., 0].ravel()
        same = np.flatnonzero(heads[0] == heads[1])
        if len(same):
            raise ValueError(f"PairTable joins the variable of {first._graph.describe(heads[0][same[0]])} with itself")
        self.features = None
        if features is not None:
            features = check_numbers(features, "features")
            if self.tied:
                raise ValueError("tied=True is one table for all pairs; leave it at False where tables have features")
            if features.ndim != len(self.pairs_shape) + 1 or features.shape[:-1] != self.pairs_shape:
                raise ValueError(
                    f"features have shape {features.shape}; there must be one row for each pair, "
                    f"{(*self.pairs_shape, 'n_features')}"
                )
            if not np.isfinite(features).all():
                raise ValueError("features contain NaN or infinity")
            self.features = np.ascontiguousarray(features.reshape(self.count, -1), np.float64)
        table = self.n_states, self.n_states
        if self.features is not None:
            self.shape = self.features.shape[1], *table
        else:
            self.shape = table if self.tied else (*self.pairs_shape, *table)

    @property
    def count(self) -> int:
        return prod(self.pairs_shape)

    @property
    def literals(self) -> Variables:
        """The values of the first and of the second variable of each pair, interleaved."""
        sides = [side.indices.reshape(self.count, self.n_states) for side in (self.first, self.second)]
        indices = np.stack(sides, axis=1).ravel()
        return Variables(self.first._graph, indices, np.zeros(indices.shape, bool))

    @property
    def is_equality(self) -> bool:
        # The equality of the values of a variable belongs to the factor ExactlyOne.
        return False

    @property
    def accepted_shapes(self) -> dict[None, tuple[tuple[int, ...], ...]]:
        """Accepted shapes of its scores, the learned shape first: `shape`, or one table for all pairs."""
        table = self.n_states, self.n_states
        return {None: (self.shape,) if self.features is not None else tuple(dict.fromkeys((self.shape, table)))}

    @property
    def kernel_shape(self) -> tuple[int, int]:
        """Shape of the scores of a pair, a chain of two steps."""
        return 2, self.n_states

    def kernel_shapes(self, given: Mapping[None, tuple[int, ...]], featured: Sequence[str]) -> dict[str, Any]:
        """Return the shapes of the additional scores of a pair."""
        return {"transitions": (self.n_states, self.n_states)}

    def __repr__(self):
        how = ", tied" if self.tied else "" if self.features is None else f", {self.features.shape[1]} features"
        return f"PairTable({self.count} pairs of variables of {self.n_states} values, name={self.name!r}{how})"


def _whole_variables(variables):
    """Return one side of pairs as `Variables` of shape (..., n_states); see `PairTable`."""
    if not isinstance(variables, Variables):
        parts = list(variables) if hasattr(variables, "__iter__") else [variables]
        literals = as_literals(parts, "PairTable")
        if len({part.shape for part in parts}) > 1:
            raise ValueError("PairTable takes variables with as many values each; got a list of different shapes")
        shape = len(parts), *parts[0].shape
        variables = Variables(literals._graph, literals.indices.reshape(shape), literals.negated.reshape(shape))
    if variables.ndim == 0 or variables.shape[-1] < 2 or not variables._graph.are_whole(variables):
        raise ValueError(
            "PairTable takes variables of several values, as graph.categorical(shape, n_states) makes them, with all "
            f"of their values in the last axis; got {variables!r}"
        )
    return variables


def grid_graph(
    height: int, width: int, n_states: int, neighbours: int = 4, *, directed: bool = True, name: str = "labels"
) -> FactorGraph:
    """Make the graph of a grid of categorical variables, such as the labels of the pixels of an image.

    Neighbours have tables of scores for their values. All pairs in a direction have the same table, which is learned.

    Parameters
    ----------
    height, width : int
    n_states : int
        Number of values of each variable.
    neighbours : {4, 8}, default=4
        4 for adjacent cells in rows and columns; 8 for diagonal neighbours, too.
    directed : bool, default=True
        Whether each direction has its own table: ``"horizontal"`` (from left to right), ``"vertical"`` (downwards), and
        with 8 neighbours ``"diagonal"`` (down and to the right) and ``"antidiagonal"`` (down and to the left).
        Otherwise there is one table for all pairs, ``"neighbours"``.
    name : str, default="labels"
        Name of the array of variables, of shape ``(height, width, n_states)``.

    Returns
    -------
    graph : FactorGraph
        A new graph. Keep it for all grids of this shape, so that they are solved together.

    Raises
    ------
    ValueError
        If the grid has no cells, or there are fewer than two values.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import map_inference
    >>> from sklearn_sparsemap.factors import grid_graph
    >>> graph = grid_graph(3, 3, n_states=2, directed=False)
    >>> scores = np.zeros((3, 3, 2))
    >>> scores[..., 1] = [[1, 1, -1], [1, -1, -1], [1, 1, 1]]
    >>> best = map_inference(graph, scores, additional={"neighbours": 0.6 * np.eye(2)})
    >>> best.structure.argmax(axis=-1)
    array([[1, 1, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    from ._graph import FactorGraph

    if isinstance(neighbours, bool) or neighbours not in (4, 8):
        raise ValueError(f"neighbours must be 4 or 8; got {neighbours!r}")
    graph = FactorGraph()
    try:
        shape = index(height), index(width)
    except TypeError as error:
        raise ValueError(f"height and width must be ints; got {height!r} and {width!r}") from error
    u = graph.categorical(shape, n_states, name=name)
    sides = {"horizontal": (u[:, :-1], u[:, 1:]), "vertical": (u[:-1], u[1:])}
    if neighbours == 8:
        sides |= {"diagonal": (u[:-1, :-1], u[1:, 1:]), "antidiagonal": (u[:-1, 1:], u[1:, :-1])}
    tables = [
        PairTable(*pair, name=direction if directed else "neighbours", tied=True) for direction, pair in sides.items()
    ]
    graph.add(*tables)
    return graph
