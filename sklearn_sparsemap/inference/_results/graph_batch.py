"""Results of inference in graphs for many samples: arrays, and a sequence of results that are made on demand.

Used by `_layers` and `inference/_graph`.
"""

from functools import cached_property
from typing import Any

import numpy as np

from ..._core.errors import Place
from ..._core.offsets import offsets
from ..._core.ragged import RaggedArray
from ..._core.threads import over_groups
from ..._graphs.jacobian import GraphJacobian, has_converged
from .graph import LPSparseMAPResult
from .lazy import LazyResults


class LPSparseMAPBatch(LazyResults[LPSparseMAPResult]):
    """The solutions of LP-SparseMAP for many samples: a sequence of `LPSparseMAPResult`, made on demand.

    Attributes
    ----------
    marginals : RaggedArray, or dict of str -> RaggedArray
        Marginals of all samples, flat in `values`. A dict by name if a graph has several arrays of variables.
    objective, gap, residual : ndarray of shape (n_samples,)
        See `LPSparseMAPResult`.
    n_iter : int ndarray of shape (n_samples,)
    converged : bool ndarray of shape (n_samples,)

    Examples
    --------
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import FactorGraph, Xor
    >>> graph = FactorGraph()
    >>> u = graph.variables(3)
    >>> graph.add(Xor(u))
    >>> batch = lp_sparsemap(graph, [[0.5, 1.0, -1.0], [3.0, 0.0, 0.0]])
    >>> batch[1].marginals.tolist(), batch.converged.tolist()
    ([1.0, 0.0, 0.0], [True, True])
    """

    _columns = ("objective", "gap", "residual", "n_iter", "converged")

    # `groups` is a list of (places, problems, solutions) of samples with one layout; `n` is the number of all samples.
    # `distinct_additional` says whether each sample has its own additional scores, and `again` solves problems again
    # for their derivatives. `_layers/graphs.py` calls the constructor, too.
    def __init__(self, groups, n, distinct_additional, again, tol, n_jobs):
        self._groups, self._distinct_additional, self._again, self._tol = groups, distinct_additional, again, tol
        self._n_jobs = n_jobs
        statistics = np.empty((n, 5))
        for places, _, solutions in groups:
            statistics[places] = solutions.statistics
        self.objective, self.gap, self.residual, n_iter, _ = statistics.T
        self.n_iter = n_iter.astype(np.int64)
        self.converged = has_converged(self.objective, self.gap, self.residual, tol)

    def __len__(self):
        return len(self.converged)

    @cached_property
    def _group_of(self):
        return {i: (g, row) for g, (places, *_) in enumerate(self._groups) for row, i in enumerate(places)}

    def _make(self, i):
        g, row = self._group_of[i]
        _, problems, solutions = self._groups[g]
        return LPSparseMAPResult(problems.take([row]), solutions.take([row]), self._tol, self._again)

    @cached_property
    def _jacobians(self):
        def jacobian_of(group, n_jobs):
            _, problems, solutions = group
            return GraphJacobian(problems, solutions, self._again, n_jobs)

        return over_groups(jacobian_of, self._groups, self._n_jobs)

    @property
    def structures(self) -> list[dict[str, Any]]:
        """The `LPSparseMAPResult.structures` of each sample."""
        return [result.structures for result in self]

    @cached_property
    def marginals(self) -> RaggedArray | dict[str, RaggedArray]:
        return self._like_scores([solutions.marginals for _, _, solutions in self._groups])

    def vjp(self, vs: Any) -> dict[str, Any]:
        """Multiply vectors with the Jacobians of the marginals (reverse mode), in one compiled call for each graph.

        Parameters
        ----------
        vs : list of array-like or dict, or RaggedArray
            For each sample, the gradient of some loss with respect to its marginals.

        Returns
        -------
        gradients : dict
            ``"scores"`` has the form of `marginals`. ``"additional"`` has the form of the additional scores: summed
            over the samples if one dict was given for all samples, else a list with one for each sample.
        """
        found, joint = zip(*self.products(self._join(vs, "vs"), [None] * len(self._groups)))
        if self._distinct_additional:
            additional = [None] * len(self)
            for (places, problems, _), changes in zip(self._groups, joint):
                for i, own in zip(places, changes):
                    additional[i] = problems.layout.sum_additional(own)
        else:
            layouts = [problems.layout for _, problems, _ in self._groups]
            additional = _sum_nested([own.sum_additional(changes.sum(axis=0)) for own, changes in zip(layouts, joint)])
        return {"scores": self._like_scores(found), "additional": additional}

    def products(self, directions: list[Any], changes: list[Any]) -> list[Any]:
        """Multiply directions with the Jacobians. All lists have an array for each graph, with one row for each sample.

        Parameters
        ----------
        directions, changes
            As in `GraphJacobian.products`, which returns the entries of the result.
        """

        def multiply(group, _):
            jacobian, *own = group
            return jacobian.products(*own)

        return over_groups(multiply, list(zip(self._jacobians, directions, changes)), self._n_jobs)

    def jvp(self, scores: Any = None, additional: Any = None) -> RaggedArray | dict[str, RaggedArray]:
        """Compute directional derivatives of the marginals (forward mode), in one compiled call for each graph.

        Parameters
        ----------
        scores : list of array-like or dict, or RaggedArray, default=None
            For each sample, the direction of its scores. Default: zero.
        additional : dict, or list of dict, default=None
            Directions of the additional scores: one dict if one dict was given for all samples, else a list. Default:
            zero.

        Returns
        -------
        derivatives : like `marginals`
        """
        own = isinstance(additional, list | tuple)
        if own and len(additional) != len(self):
            raise ValueError(f"additional holds {len(additional)} directions for {len(self)} samples")
        zero = [np.zeros_like(problems.scores) for _, problems, _ in self._groups]
        directions = zero if scores is None else self._join(scores, "scores")
        changes = []
        for places, problems, _ in self._groups:
            each = [additional[i] for i in places] if own else [additional]
            changes.append(np.array([problems.layout.join_additional(one or {}) for one in each]))
        return self._like_scores([w for w, _ in self.products(directions, changes)])

    def _join(self, values, name):
        """Check arrays in the shapes of the scores; return an array for each graph, with one row for each sample."""
        if len(values) != len(self):
            raise ValueError(f"{name} holds {len(values)} arrays for {len(self)} samples; pass one for each")
        found = []
        for places, problems, _ in self._groups:
            layout = problems.layout
            rows = np.empty(problems.scores.shape)
            shape = next(iter(layout.variable_shapes.values()))
            for row, i in zip(rows, places):
                value = np.reshape(values[i], shape) if isinstance(values, RaggedArray) else values[i]
                row[:] = layout.join_variables(value, Place(name, i))
            found.append(rows)
        return found

    def _like_scores(self, arrays):
        """Convert arrays, one for each graph with one row for each sample, to the form of `marginals`."""
        shaped = [None] * len(self)
        for (places, problems, _), rows in zip(self._groups, arrays):
            for i, row in zip(places, rows):
                shaped[i] = problems.layout.shape_variables(row)
        return _stack_shaped(shaped)


def _stack_shaped(arrays):
    """Return arrays of samples as one RaggedArray, or dicts of arrays as a dict of RaggedArray."""
    kinds = {tuple(array) if isinstance(array, dict) else None for array in arrays}
    if len(kinds) > 1:
        raise ValueError(
            "the graphs differ in their arrays of variables, so there is no common form for all samples; use the "
            "results one by one"
        )
    if isinstance(arrays[0], dict):
        return {name: _stack_shaped([array[name] for array in arrays]) for name in arrays[0]}
    indptr = offsets([array.size for array in arrays])
    shapes = [array.shape for array in arrays] if len({array.ndim for array in arrays}) == 1 else None
    return RaggedArray(np.concatenate([a.ravel() for a in arrays]), indptr, shapes=shapes)


def _sum_nested(dicts):
    """Return the sum of dicts of arrays, or of nested dicts of arrays."""
    first = dicts[0]
    return {
        name: _sum_nested([d[name] for d in dicts]) if isinstance(first[name], dict) else sum(d[name] for d in dicts)
        for name in first
    }
