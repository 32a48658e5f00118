"""Optimal decisions under values of the parts, as arrays in the shape of the values.

Used by `estimators`, `losses` and `metrics`.
"""

import numpy as np

from .._core.errors import naming
from .._core.jit import readonly
from .._core.validation import check_numbers, check_scores
from .._graphs.arrays import FORBIDDEN
from .._numerics.loops import OBJECTIVE, Problems
from ..factors import FactorGraph
from ..structures import Structure
from ..structures._base import check_structure
from ._batch import argmax_problems
from ._graph.exact import warn_of_time_limit
from ._graph.map import MAP_TIME_LIMIT, relax
from ._graph.problems import GraphBatch, as_graph_problems
from ._graph.solve import check_feasible, solve_graph

# Tolerance of the residual of LP-SparseMAP, and maximum number of iterations.
_TOL, _MAX_ITER = 1e-8, 5000


class StructureDecisions:
    """The decisions of samples whose possible decisions are one structure.

    Parameters
    ----------
    structure : Structure
    shape : tuple of int
        Shape of the values of a sample.

    Attributes
    ----------
    trains_on_pool : bool
        See `InEstimators`; False for graphs.
    """

    def __init__(self, structure, shape):
        self.structure = structure
        self._dims, self._sizes = structure.layout(shape, {})
        self.trains_on_pool = structure.in_estimators.trains_on_pool

    def take(self, rows):
        """Return the decisions of some of the samples."""
        return self

    def _problems(self, scores):
        n, n_parts = scores.shape
        # Facet solvers need a row of dims for each sample. Others get a single row, because `Pool` has long ones.
        n_dims = 1 if self.structure.polytope_solver is None else n
        dims, sizes = (np.array([own], np.int64) for own in (self._dims, self._sizes))
        none = readonly(np.zeros(n), np.int64)
        return Problems(
            readonly(scores.ravel()),
            readonly(np.arange(n + 1) * n_parts, np.int64),
            readonly(np.zeros(0)),
            none,
            none,
            readonly(np.repeat(dims, n_dims, axis=0), np.int64),
            readonly(np.repeat(sizes, n, axis=0), np.int64),
        )

    def argmax(self, name, scores, n_jobs=None):
        """Return the regularised argmax of each sample, and its value.

        Parameters
        ----------
        name : {"map", "sparsemap"}
        scores : array of shape (n_samples, n_parts)
        n_jobs : int or None

        Returns
        -------
        marginals : array of shape (n_samples, n_parts)
        values : array of shape (n_samples,)
        """
        marginals, statistics, _ = argmax_problems(self.structure, self._problems(scores), name, n_jobs=n_jobs)
        return marginals.reshape(scores.shape), statistics[:, OBJECTIVE]

    def best(self, scores, n_jobs=None):
        """Return the best decision of each sample: 0 and 1, or the number of occurrences of each part."""
        return self.argmax("map", scores, n_jobs)[0]


class GraphDecisions:
    """The decisions of samples for one factor graph; see `StructureDecisions`. `argmax` solves the relaxation."""

    trains_on_pool = False

    def __init__(self, graph, shape):
        blank, _ = as_graph_problems(graph, np.zeros((1, *shape)), None)
        self._layout, self._additional = blank.layout, blank.additional

    def take(self, rows):
        return self

    def _problems(self, scores):
        return GraphBatch(self._layout, np.maximum(scores, FORBIDDEN), self._additional)

    def argmax(self, name, scores, n_jobs=None):
        problems = self._problems(scores)
        if name == "map":
            solutions = relax(problems, n_jobs=n_jobs)
        else:
            solutions = solve_graph(problems, _TOL, _MAX_ITER, n_jobs=n_jobs)
        check_feasible(problems, solutions)
        return solutions.marginals, solutions.objective

    def best(self, scores, n_jobs=None):
        problems = self._problems(scores)
        best = problems.map(n_jobs, map_time_limit=MAP_TIME_LIMIT)
        warn_of_time_limit(problems.late_of(best), MAP_TIME_LIMIT)
        return best.structure.astype(np.float64)


class MixedDecisions:
    """The decisions of samples, each with its own structure or graph; see `StructureDecisions`."""

    trains_on_pool = False

    def __init__(self, structures, shape):
        self._structures, self._shape, places = structures, shape, {}
        for i, structure in enumerate(structures):
            places.setdefault(structure, []).append(i)
        self._groups = [(np.array(rows), decisions_of(own, shape)) for own, rows in places.items()]

    def take(self, rows):
        return MixedDecisions([self._structures[i] for i in rows], self._shape)

    def argmax(self, name, scores, n_jobs=None):
        marginals = np.empty_like(scores)
        values = np.empty(len(scores))
        for rows, own in self._groups:
            with naming(rows):
                marginals[rows], values[rows] = own.argmax(name, scores[rows], n_jobs)
        return marginals, values

    def best(self, scores, n_jobs=None):
        decisions = np.empty_like(scores)
        for rows, own in self._groups:
            with naming(rows):
                decisions[rows] = own.best(scores[rows], n_jobs)
        return decisions


def decisions_of(structure, shape):
    """Return the decisions of samples.

    Parameters
    ----------
    structure : Structure, FactorGraph, or list of these
        The structure of all samples, or a list with that of each sample.
    shape : tuple of int
        Shape of the values of a sample.

    Raises
    ------
    ValueError
        If the shape is invalid for a structure.
    """
    if isinstance(structure, list):
        return MixedDecisions(structure, shape)
    return (GraphDecisions if isinstance(structure, FactorGraph) else StructureDecisions)(structure, shape)


def has_decisions(value):
    """Return whether a user's value is a set of possible decisions: a structure or a graph."""
    return isinstance(value, Structure | FactorGraph)


def check_values(structure, values, name):
    """Return values of the parts of many samples as a float64 array; -inf forbids a part.

    Raises
    ------
    ValueError
        If `structure` is not a structure or graph, or the values do not have the shape of its scores.
    """
    kinds = structure if isinstance(structure, list) else [structure]
    for own in kinds:
        if not isinstance(own, FactorGraph):
            check_structure(own)
        elif len(own.shapes) != 1:
            raise ValueError(f"decisions need a graph with one array of variables; this one has {list(own.shapes)}")
    first = kinds[0] if kinds else Structure()
    n_axes = len(next(iter(first.shapes.values()))) if isinstance(first, FactorGraph) else first.score_ndim
    values = check_scores(values, 1 + n_axes, name)
    if isinstance(structure, list) and len(structure) != len(values):
        raise ValueError(f"there are {len(structure)} structures for {len(values)} samples; pass one for each")
    return values


def check_decisions(decisions, values):
    """Return decisions as a float64 array; raise ValueError unless they are counts in the shape of the values."""
    found = check_numbers(decisions, "decisions", named=True)
    if found.shape != values.shape:
        raise ValueError(f"decisions has shape {found.shape}, but the values have {values.shape}")
    wrong = ~((found >= 0.0) & (found == np.round(found)))
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"decisions{list(where)} is {found[where]}; decisions are 0 and 1")
    taken = (found > 0.0) & (values == -np.inf)
    if taken.any():
        where = tuple(int(i) for i in np.argwhere(taken)[0])
        raise ValueError(
            f"decisions{list(where)} is {found[where]}, but the value of that part is -inf, which forbids it"
        )
    return found
