"""Inference of label sets: one variable for each label, scores of pairs, and constraints, for many samples.

Used by `estimators`.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit, logsumexp, softmax

from .._core.indices import are_indices
from .._core.jit import readonly
from .._graphs.pairs import add_pair_residuals
from .._graphs.samples import RESIDUAL, GraphSolutions
from ..factors._graph import FactorGraph
from ..factors._label_constraints import Count
from ..factors._logic import Pair
from ._forests import Forest, forest_of, n_best_in_forest
from ._graph.exact import assign_exactly, warn_of_time_limit
from ._graph.map import relax
from ._graph.problems import GraphBatch, n_best_of_graph

_CHUNK_BYTES = 64 * 2**20  # maximum size of the results of samples that are solved together
_MAX_ITER = 1000


class LabelSolution(NamedTuple):
    """Marginals of the labels of many samples.

    Attributes
    ----------
    marginals : array of shape (n_samples, n_labels)
    joint : array of shape (n_samples, n_edges) or None
        Marginals of the pairs; None if they are functions of the marginals of the labels.
    objective, gap : arrays of shape (n_samples,)
    """

    marginals: np.ndarray
    joint: object
    objective: np.ndarray
    gap: np.ndarray


def _violates(labels, resolved):
    """Tell which rows of an indicator matrix violate a constraint, as `LabelConstraint.resolve` returns it."""
    indices, signs, low, high = resolved
    columns = labels[:, indices]
    columns = columns.toarray() if sparse.issparse(columns) else np.asarray(columns, dtype=np.float64)
    counts = np.where(signs > 0, columns, 1.0 - columns).sum(axis=1)
    return (counts < low) | (counts > high)


class LabelGraph:
    """Labels, scored pairs of labels, and constraints: the factor graph of all samples.

    `losses/_labels.py`, `_training/_label_task.py` and estimators of label sets call the methods, also those of
    `OneLabel`. Files hold both by their parameters; see `estimators/_state/plain.py`.

    Parameters
    ----------
    n_labels : int
    edges : int array of shape (n_edges, 2)
        Pairs of labels, the smaller index first.
    constraints : list of (LabelConstraint, (indices, signs, low, high))
        As `LabelConstraint.resolve` returns.
    """

    # Whether label sets differ in their number of labels.
    varies = True

    def __init__(self, n_labels, edges, constraints=()):
        # The edges are read-only, because the layout is made from them later.
        self.n_labels = n_labels
        self.edges = readonly(edges, np.int64)
        self.constraints = list(constraints)
        # Whether labels are independent, so that all inference has a closed form.
        self.is_plain = not self.constraints and not len(self.edges)
        if self.edges.shape != (len(self.edges), 2) or not are_indices(self.edges.ravel(), n_labels):
            raise ValueError(f"edges must be pairs of labels from 0 to {n_labels - 1}")

    def __reduce__(self):
        return LabelGraph, (self.n_labels, self.edges, self.constraints)

    def grown(self, n_labels, positions, constraints):
        """Return the graph of more labels, with other constraints; `positions` are the new indices of the labels."""
        return LabelGraph(n_labels, positions[self.edges], constraints)

    @cached_property
    def forest(self):
        """The `Forest` of the constraints, if each label implies at most one other label and there are no edges."""
        return forest_of(self.n_labels, self.constraints) if self.constraints and not len(self.edges) else None

    @cached_property
    def graph(self):
        """The factor graph."""
        graph = FactorGraph()
        u = graph.variables(self.n_labels, name="labels")
        for _, (indices, signs, low, high) in self.constraints:
            graph.add(Count([u[i] if sign > 0 else ~u[i] for i, sign in zip(indices, signs)], low, high))
        graph.add(Pair(u[self.edges[:, 0]], u[self.edges[:, 1]], name="edges"))
        return graph

    @cached_property
    def _layout(self):
        return self.graph.layout({"edges": (len(self.edges),)})

    def _chunks(self, scores, edge_scores, n_long):
        """Lay out samples for the kernels, and yield chunks that fit into memory. A sample has `n_long` numbers."""
        additional = (np.zeros(len(self.edges)) if edge_scores is None else edge_scores)[None]
        size = max(1, _CHUNK_BYTES // (64 * n_long))
        for start in range(0, len(scores), size):
            rows = scores[start : start + size]
            yield GraphBatch(self._layout, rows, additional, numbers=start + np.arange(len(rows)))

    def solve(self, scores, edge_scores, *, tol=1e-9, n_jobs=None):
        """Solve LP-SparseMAP for scores of shape (n_samples, n_labels); return a `LabelSolution`."""
        if self.is_plain or self.forest is not None:
            if self.is_plain:
                return _solution(scores, np.clip(scores, 0.0, 1.0))
            return _solution(scores, self.forest.project(scores, None, n_jobs, keep_blocks=False)[0])
        keep = "all" if self.constraints else "marginals"
        parts = []
        for problems in self._chunks(scores, edge_scores, self.n_labels + (keep == "all") * len(self.edges)):
            parts.append(problems.sparsemap(tol, _MAX_ITER, n_jobs=n_jobs, keep=keep))
        return self._joined(parts)

    def solve_known(self, scores, gold, known, *, n_jobs=None):
        """Solve SparseMAP with the known labels fixed: gold 1.0 and 0.0 where `known`."""
        if self.is_plain:
            return _solution(scores, np.where(known, gold, np.clip(scores, 0.0, 1.0)))
        if self.forest is None:
            raise ValueError(
                "labels that are NaN need a model without edges, and without constraints except those by which each "
                "label implies at most one other label; fill them in, or drop edges and constraints"
            )
        fixed = np.where(known, gold, -1.0)
        return _solution(scores, self.forest.project(scores, fixed, n_jobs, keep_blocks=False)[0])

    def relax(self, scores, edge_scores, *, tol=1e-9, n_jobs=None):
        """Solve the linear relaxation of MAP; return a `LabelSolution`."""
        if self.is_plain or self.forest is not None:
            y = self.assign(scores, n_jobs=n_jobs) * 1.0
            return LabelSolution(y, None, (scores * y).sum(axis=1), np.zeros(len(y)))
        keep = "all" if self.constraints else "marginals"
        chunks = self._chunks(scores, edge_scores, self.n_labels + len(self.edges))
        return self._joined([relax(problems, tol, n_jobs, keep=keep) for problems in chunks])

    def _joined(self, parts):
        out = GraphSolutions(*map(np.concatenate, zip(*parts)))
        gaps = np.maximum(np.abs(out.gap), out.statistics[:, RESIDUAL])
        return LabelSolution(out.marginals, out.joint if self.constraints else None, out.objective, gaps)

    def gibbs(self, scores):
        """Return log-partition functions and marginals of independent labels."""
        return np.logaddexp(0.0, scores).sum(axis=1), expit(scores)

    def pair_residuals(self, solution, gold, weights, edge_scores):
        """Return the residuals of pairs, marginals minus gold, and the scores of gold pairs.

        Returns
        -------
        residuals : array of shape (n_edges,)
            Weighted sums over the samples.
        gold_scores : array of shape (n_samples,)
            The total score of the gold pairs of each sample.
        """
        if not len(self.edges):
            return np.zeros(0), np.zeros(len(gold))
        residuals = np.zeros(len(self.edges))
        gold_scores = np.zeros(len(gold))
        arrays = self._layout.arrays
        marginals = solution.marginals if solution.joint is None else np.zeros_like(gold)
        add_pair_residuals(
            *map(readonly, (marginals, gold, weights)), arrays.slot_ptr, arrays.slots, arrays.pair_ends,
            readonly(edge_scores), residuals, gold_scores,
        )  # fmt: skip
        if solution.joint is not None:
            residuals += weights @ solution.joint
        return residuals, gold_scores

    def broken(self, labels):
        """Return the constraints that a label set, a bool array of shape (n_labels,), violates, each once."""
        found = {}
        for rule, resolved in self.constraints:
            if _violates(labels[None], resolved)[0]:
                found[id(rule)] = rule
        return list(found.values())

    def violated(self, labels):
        """Tell which rows of an indicator matrix violate a constraint: bool array of shape (n_samples,)."""
        wrong = np.zeros(labels.shape[0], bool)
        if self.forest is not None:
            size = max(1, _CHUNK_BYTES // (8 * self.n_labels))
            for start in range(0, len(wrong), size):
                rows = labels[start : start + size]
                rows = rows.toarray() if sparse.issparse(rows) else rows * 1.0
                wrong[start : start + size] = self.forest.violated(rows)
            return wrong
        for _, resolved in self.constraints:
            wrong |= _violates(labels, resolved)
        return wrong

    def assign(self, scores, edge_scores=None, *, n_jobs=None, map_time_limit=None):
        """Find the best label sets that satisfy all constraints: bool array of shape (n_samples, n_labels)."""
        if self.is_plain or self.forest is not None:
            return (scores if self.is_plain else self.forest.best(scores, n_jobs)) > 0.0
        parts, late = [], {}
        for problems in self._chunks(scores, edge_scores, self.n_labels + len(self.edges)):
            best = problems.map(n_jobs, map_time_limit=map_time_limit)
            late |= problems.late_of(best)
            parts.append(best.structure)
        warn_of_time_limit(late, map_time_limit)
        return np.concatenate(parts)

    @property
    def _recursive(self):
        """The `Forest` for recursions, also if there are no constraints; None if there is none."""
        return Forest(np.full(self.n_labels, -1)) if self.is_plain else self.forest

    def log_partitions(self, scores):
        """Return the logarithms of the sums of ``exp(score)`` over all sets of each sample: array, or None.

        None is returned if there is no recursion: with edges, or if a label implies several others.
        """
        return None if self._recursive is None else self._recursive.log_partitions(scores)

    def n_best(self, scores, edge_scores, k):
        """Find the `k` best label sets of one sample that satisfy all constraints, the best first: list of bool arrays.

        They are found by a recursion if there are no edges and each label implies at most one other label, else by one
        search for each set.
        """
        if self._recursive is not None:
            return list(n_best_in_forest(scores, self._recursive, k))
        (best,), _ = n_best_of_graph(self.graph, scores, k, additional={"edges": edge_scores}, map_time_limit=None)
        return [labels for labels, _ in best]

    def check_feasible(self):
        """Raise ValueError if no label set satisfies all constraints; the message names contradictory ones."""
        if not self.constraints or self.forest is not None or self._is_feasible(self.constraints):
            return
        needed = list(self.constraints)
        for constraint in self.constraints:
            without = [c for c in needed if c is not constraint]
            if not self._is_feasible(without):
                needed = without
        shown = ", ".join(repr(constraint) for constraint, _ in needed)
        raise ValueError(f"no set of labels satisfies the constraints; these contradict each other: {shown}")

    def _is_feasible(self, constraints):
        if not constraints:
            return True
        alone = LabelGraph(self.n_labels, self.edges[:0], constraints)
        nothing = np.zeros((1, self.n_labels))
        (problem,) = alone._chunks(nothing, None, self.n_labels)
        return assign_exactly(problem, nothing[0], nothing[0] > 0.0).value > -np.inf


def _solution(scores, u):
    return LabelSolution(u, None, ((scores - 0.5 * u) * u).sum(axis=1), np.zeros(len(u)))


class OneLabel:
    """Inference for one label in each sample (multiclass). The methods are those of `LabelGraph`, in closed form.

    Parameters
    ----------
    n_labels : int
    """

    constraints = ()
    is_plain = True
    varies = False

    def __init__(self, n_labels):
        self.n_labels = n_labels
        self.edges = np.zeros((0, 2), np.int64)

    def grown(self, n_labels, positions, constraints):
        return OneLabel(n_labels)

    def solve(self, scores, edge_scores=None, *, tol=None, n_jobs=None):
        """Project onto the simplex (sparsemax)."""
        ordered = -np.sort(-scores, axis=1)
        sizes = np.arange(1, self.n_labels + 1)
        thresholds = (np.cumsum(ordered, axis=1) - 1.0) / sizes
        size = (ordered > thresholds).sum(axis=1)
        u = np.maximum(scores - thresholds[np.arange(len(scores)), size - 1][:, None], 0.0)
        return LabelSolution(u, None, (scores * u - 0.5 * u * u).sum(axis=1), np.zeros(len(u)))

    def relax(self, scores, edge_scores=None, *, tol=None, n_jobs=None):
        """Return the label with the highest score."""
        u = self.assign(scores).astype(np.float64)
        return LabelSolution(u, None, scores.max(axis=1), np.zeros(len(u)))

    def gibbs(self, scores):
        """Return the log-partition functions and the softmax."""
        return logsumexp(scores, axis=1), softmax(scores, axis=1)

    def pair_residuals(self, solution, gold, weights, edge_scores):
        return np.zeros(0), np.zeros(len(gold))

    def violated(self, labels):
        return np.asarray(labels.sum(axis=1)).ravel() != 1

    def assign(self, scores, edge_scores=None, *, n_jobs=None, map_time_limit=None):
        labels = np.zeros(scores.shape, bool)
        labels[np.arange(len(scores)), scores.argmax(axis=1)] = True
        return labels

    def log_partitions(self, scores):
        return logsumexp(scores, axis=1)

    def n_best(self, scores, edge_scores, k):
        """Return the `k` best labels of one sample, as indicators: list of bool arrays."""
        return list(np.eye(self.n_labels, dtype=bool)[np.argsort(-scores, kind="stable")[:k]])
