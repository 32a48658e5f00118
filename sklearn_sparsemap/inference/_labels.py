"""Label sets: a variable a label, scores of pairs, and constraints; for many samples that share the graph."""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit, logsumexp, softmax

from .._jit import readonly
from .._threads import over_ranges
from ..factors._graph import FactorGraph
from ..factors._label_constraints import Count
from ..factors._logic import Pair
from ..solvers._graph import batch as _graph_batch
from ..solvers._graph.pairs import (
    GAP,
    OBJECTIVE,
    Neighbours,
    PairScores,
    add_pair_residuals,
    label_map_range,
    label_sparsemap_range,
)
from ._graph.exact import assign_exactly, warn_of_time_limit
from ._graph.map import relax
from ._graph.problems import GraphProblems
from ._graph.solve import check_feasible, solve_graph

# Marginals as close as this to 0 or 1 count as such.
_INTEGRAL = 1e-6
# Samples are solved together as long as their results fit into this many bytes.
_CHUNK_BYTES = 64 * 2**20
_MAX_ITER = 1000


class LabelSolution(NamedTuple):
    """Marginals of the labels of many samples.

    Attributes
    ----------
    marginals : array of shape (n_samples, n_labels)
    joint : array of shape (n_samples, n_edges) or None
        Marginals of the pairs; None where they follow from those of the labels.
    objective, gap : arrays of shape (n_samples,)
    """

    marginals: np.ndarray
    joint: object
    objective: np.ndarray
    gap: np.ndarray


class LabelGraph:
    """Labels, pairs of them that have scores, and constraints.

    Parameters
    ----------
    n_labels : int
    edges : int array of shape (n_edges, 2)
        First label before the second.
    constraints : list of (LabelConstraint, (indices, signs, low, high))
        As `LabelConstraint.resolve` returns.
    """

    def __init__(self, n_labels, edges, constraints=()):
        self.n_labels, self.edges, self.constraints = n_labels, edges, list(constraints)
        n = len(edges)
        ends, others = edges.T.ravel(), edges[:, ::-1].T.ravel()
        order = np.lexsort((others, ends))
        ptr = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n_labels))])
        slots = np.tile(np.arange(n), 2)[order]
        self._neighbours = Neighbours(*(readonly(array, np.int64) for array in (ptr, others[order], slots)))
        self._owners = ends[order]
        self._factor_graphs = {}

    def __reduce__(self):
        return LabelGraph, (self.n_labels, self.edges, self.constraints)

    # -- Without constraints, kernels of their own ---------------------------------------------------------------

    def _pair_scores(self, edge_scores):
        by_slot = edge_scores[self._neighbours.pairs]
        attraction = np.bincount(self._owners, np.maximum(by_slot, 0.0), self.n_labels)
        repulsion = np.bincount(self._owners, np.minimum(by_slot, 0.0), self.n_labels)
        return PairScores(readonly(by_slot), readonly(attraction), readonly(repulsion))

    def _run(self, kernel, scores, edge_scores, tol, n_jobs):
        out, statistics = np.zeros(scores.shape), np.zeros((len(scores), 3))
        parts = readonly(scores), self._neighbours, self._pair_scores(edge_scores), tol, _MAX_ITER
        over_ranges(
            lambda start, stop: kernel(*parts, start, stop, out, statistics),
            np.full(len(scores), self.n_labels + len(self.edges) // 10),
            n_jobs,
        )
        return LabelSolution(out, None, statistics[:, OBJECTIVE], statistics[:, GAP])

    # -- With constraints, factor graphs -------------------------------------------------------------------------

    def _factor_graph(self, with_pairs):
        """Return the layout of the factor graph."""
        if with_pairs not in self._factor_graphs:
            graph = FactorGraph()
            u = graph.variables(self.n_labels, name="labels")
            for _, (indices, signs, low, high) in self.constraints:
                literals = [u[i] if sign > 0 else ~u[i] for i, sign in zip(indices, signs)]
                graph.add(Count(literals, low, high))
            shapes = {}
            if with_pairs and len(self.edges):
                graph.add(Pair(u[self.edges[:, 0]], u[self.edges[:, 1]], name="edges"))
                shapes = {"edges": (len(self.edges),)}
            self._factor_graphs[with_pairs] = graph.layout(shapes)
        return self._factor_graphs[with_pairs]

    def _solve_constrained(self, scores, edge_scores, tol, n_jobs, sharp):
        with_pairs = edge_scores is not None
        layout = self._factor_graph(with_pairs)
        additional = (edge_scores if with_pairs else np.zeros(0))[None]
        chunk = max(1, _CHUNK_BYTES // (64 * (additional.size + self.n_labels)))
        found = []
        for start in range(0, len(scores), chunk):
            problems = GraphProblems(layout, scores[start : start + chunk], additional)
            if sharp:
                marginals, joint, values, gaps = relax(problems, n_jobs=n_jobs)
            else:
                solutions = solve_graph(problems, tol, _MAX_ITER, solver="newton", n_jobs=n_jobs)
                check_feasible(layout, solutions)
                marginals, joint = solutions.marginals, solutions.joint
                values, gap, residual = solutions.statistics[:, : _graph_batch.N_ITER].T
                gaps = np.maximum(np.abs(gap), residual)
            found.append((marginals, joint, values, gaps))
        return LabelSolution(*map(np.concatenate, zip(*found)))

    # -- What both do ----------------------------------------------------------------------------------------------

    def solve(self, scores, edge_scores, *, tol=1e-9, n_jobs=None):
        """Solve LP-SparseMAP: array of scores of shape (n_samples, n_labels) to `LabelSolution`."""
        if self.constraints:
            return self._solve_constrained(scores, edge_scores, tol, n_jobs, sharp=False)
        return self._run(label_sparsemap_range, scores, edge_scores, tol, n_jobs)

    def relax(self, scores, edge_scores, *, tol=1e-9, n_jobs=None):
        """Solve the linear relaxation of MAP, likewise."""
        if self.constraints:
            return self._solve_constrained(scores, edge_scores, tol, n_jobs, sharp=True)
        return self._run(label_map_range, scores, edge_scores, tol, n_jobs)

    def gibbs(self, scores):
        """Return log-partition functions and marginals of labels that are independent of each other."""
        return np.logaddexp(0.0, scores).sum(axis=1), expit(scores)

    def pair_residuals(self, solution, gold, weights, edge_scores):
        """Compare the pairs of marginals with those of gold labels.

        Returns
        -------
        residuals : array of shape (n_edges,)
            Summed over the samples with their weights.
        gold_scores : array of shape (n_samples,)
            What the pairs of the gold labels score.
        """
        residuals, gold_scores = np.zeros(len(self.edges)), np.zeros(len(gold))
        marginals = solution.marginals if solution.joint is None else np.zeros_like(gold)
        add_pair_residuals(
            readonly(marginals), readonly(gold), readonly(weights), self._neighbours, self._pair_scores(edge_scores),
            residuals, gold_scores,
        )  # fmt: skip
        if solution.joint is not None:
            residuals += weights @ solution.joint
        return residuals, gold_scores

    def violated(self, labels):
        """Tell which rows of an indicator matrix violate a constraint: bool array of shape (n_samples,)."""
        wrong = np.zeros(labels.shape[0], bool)
        for _, (indices, signs, low, high) in self.constraints:
            columns = labels[:, indices]
            columns = columns.toarray() if sparse.issparse(columns) else np.asarray(columns, dtype=np.float64)
            counts = np.where(signs > 0, columns, 1.0 - columns).sum(axis=1)
            wrong |= (counts < low) | (counts > high)
        return wrong

    def assign(self, scores, edge_scores=None, *, n_jobs=None, time_limit=None):
        """Find the best label sets that satisfy all constraints: bool array of shape (n_samples, n_labels).

        The linear relaxation finds nearly all; where it is fractional a mixed-integer programme is solved, for at most
        `time_limit` seconds a sample.
        """
        n_edges = len(self.edges)
        if self.constraints:
            pairs = edge_scores if edge_scores is not None and n_edges and edge_scores.any() else None
            found = self._solve_constrained(scores, pairs, 1e-9, n_jobs, sharp=True)
        else:
            pairs = np.zeros(n_edges) if edge_scores is None else edge_scores
            found = self.relax(scores, pairs, n_jobs=n_jobs)
        u = found.marginals
        labels = u > 0.5
        open_ = np.minimum(np.abs(u), np.abs(1.0 - u)) > _INTEGRAL
        certain = self._settled(scores, pairs)
        # A gap that matters to none of the labels that are not certain from the start.
        least = np.where(certain, np.inf, np.abs(scores)).min(axis=1)
        solved = found.gap <= _INTEGRAL * np.where(np.isfinite(least), least, np.inf)
        late = {}
        for row in np.flatnonzero(open_.any(axis=1) | self.violated(labels) | ~solved):
            # Without constraints, what the relaxation decides is right in an optimal set, too (roof duality).
            settled = certain[row] | ~open_[row] if not self.constraints and solved[row] else certain[row]
            fixed = np.where(certain[row], scores[row] > 0.0, labels[row])
            u, _, value, bound = self._assign_exactly(scores[row], pairs, fixed, settled, time_limit)
            labels[row] = u > 0.5
            bound = np.fmin(bound, found.objective[row] + found.gap[row])
            if value < bound and bound - value > _INTEGRAL * np.abs(scores[row]).max():
                late[int(row)] = bound - value
        if late:
            warn_of_time_limit(list(late), max(late.values()), time_limit, "map_time_limit")
        return labels

    def _settled(self, scores, edge_scores):
        """Tell which labels are decided by their own scores, whatever others do: in no constraint, above all pairs."""
        total = np.zeros(self.n_labels)
        if edge_scores is not None:
            for ends in self.edges.T:
                np.add.at(total, ends, np.abs(edge_scores))
        free = np.ones(self.n_labels, bool)
        for _, (indices, _, _, _) in self.constraints:
            free[indices] = False
        return free & (np.abs(scores) > total)

    def _assign_exactly(self, scores, edge_scores, labels, certain, time_limit=None):
        """Find the best labels of one sample, with those that are `certain` fixed; see `assign_exactly`."""
        layout = self._factor_graph(edge_scores is not None)
        additional = np.zeros(layout.n_additional) if edge_scores is None else edge_scores
        problem = GraphProblems(layout, scores[None], additional[None])
        return assign_exactly(problem, labels.astype(np.float64), certain, time_limit)

    def check_feasible(self):
        """Raise ValueError, naming constraints that contradict each other, if no set of labels satisfies all."""
        if self._is_feasible(self.constraints):
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
        nothing = np.zeros(self.n_labels, bool)
        return alone._assign_exactly(np.zeros(self.n_labels), None, nothing, nothing)[-1] > -np.inf


class OneLabel:
    """Exactly one of the labels is on: multiclass. The methods are those of `LabelGraph`, in closed form.

    Parameters
    ----------
    n_labels : int
    """

    constraints = ()

    def __init__(self, n_labels):
        self.n_labels = n_labels
        self.edges = np.zeros((0, 2), np.int64)

    def solve(self, scores, edge_scores=None, *, tol=None, n_jobs=None):
        """Project onto the simplex (sparsemax)."""
        ordered = -np.sort(-scores, axis=1)
        sizes = np.arange(1, self.n_labels + 1)
        thresholds = (np.cumsum(ordered, axis=1) - 1.0) / sizes
        size = (ordered > thresholds).sum(axis=1)
        u = np.maximum(scores - thresholds[np.arange(len(scores)), size - 1][:, None], 0.0)
        return LabelSolution(u, None, (scores * u - 0.5 * u * u).sum(axis=1), np.zeros(len(u)))

    def relax(self, scores, edge_scores=None, *, tol=None, n_jobs=None):
        """Find the label of the highest score."""
        u = self.assign(scores).astype(np.float64)
        return LabelSolution(u, None, scores.max(axis=1), np.zeros(len(u)))

    def gibbs(self, scores):
        """Return the log-partition functions and the softmax."""
        return logsumexp(scores, axis=1), softmax(scores, axis=1)

    def pair_residuals(self, solution, gold, weights, edge_scores):
        return np.zeros(0), np.zeros(len(gold))

    def violated(self, labels):
        return np.asarray(labels.sum(axis=1)).ravel() != 1

    def assign(self, scores, edge_scores=None, *, n_jobs=None, time_limit=None):
        labels = np.zeros(scores.shape, bool)
        labels[np.arange(len(scores)), scores.argmax(axis=1)] = True
        return labels
