"""The task of samples with factor graphs.

Used by `estimators`.
"""

from functools import cached_property, partial
from math import prod

import numpy as np

from .._core.errors import SampleError
from .._core.offsets import size_of
from .._core.threads import over_groups
from .._graphs.arrays import FORBIDDEN
from ..factors._assignments import gold_parts, parts_and_violations, read_assignment
from ..inference import sparsemap
from ..inference._graph.exact import warn_of_time_limit
from ..inference._graph.map import MAP_TIME_LIMIT
from ..inference._graph.n_best import best_of_groups
from ..inference._graph.problems import GraphBatch
from ..losses._graphs import EXACT, ROUGH, graph_losses
from ._task import Task, agreement_of

_WARM_START_BYTES = 512 * 2**20  # memory limit of warm starts; without one, inference starts from zero
# Tolerance of the residual in prediction, and maximum number of iterations.
_TOL, _MAX_ITER = 1e-8, 5000
# Tolerance of the linear relaxation, relative to the scores, if its marginals are rounded to a structure.
_ROUNDING_TOL = 1e-4


class SolutionMemory:
    """Solutions of samples as warm starts, up to a memory limit; further solutions are not stored."""

    def __init__(self, n_bytes):
        self._left, self._rows = n_bytes, {}

    def recall(self, numbers):
        """Return the argument `memory` of `graph_losses` for some samples of one layout."""
        rows = [self._rows.get(i) for i in numbers.tolist()]
        known = [row for row in rows if row is not None]
        if not known:
            return {}
        none = np.full_like(known[0], np.nan)
        return {"warm": np.array([none if row is None else row for row in rows], np.float64)}

    def keep(self, numbers, memory):
        """Store the solutions of some samples that `graph_losses` wrote to `memory`, in single precision."""
        for i, row in zip(numbers.tolist(), memory.get("warm", ())):
            row = row.astype(np.float32)
            if i not in self._rows and self._left >= row.nbytes:
                self._left -= row.nbytes
                self._rows[i] = row
            elif i in self._rows:
                self._rows[i] = row


class GraphTask(Task):
    """Samples of factor graphs, with one row of features for each variable.

    Parameters
    ----------
    row_ptr : int array of shape (n_samples + 1,)
    graphs : list of FactorGraph
        The graph of each sample; samples may have the same one.
    layouts : list of Layout
        Samples with the same layout are solved together.
    additional_shapes : dict
    n_outputs : int, default=1
        Number of scores of a row; if rows are variables with several values, one for each value.

    Attributes
    ----------
    map_time_limit : float or None
        Maximum number of seconds for the best assignment of a sample.
    memory : SolutionMemory or None
        Warm starts. Tasks of subsets of the samples have the same memory.
    numbers : int array of shape (n_samples,)
        Indices of the samples in `memory`.

    `estimators/_structured/targets.py` also calls `restrict`. `plotting/_graphs/factor_graph.py` reads `graphs`.
    """

    map_time_limit = MAP_TIME_LIMIT
    memory = violated = None
    per_sample = "graphs", "layouts", "gold", "numbers", "violated"

    def __init__(self, row_ptr, graphs, layouts, additional_shapes, n_outputs=1):
        self.row_ptr, self.graphs, self.layouts, self.additional_shapes = row_ptr, graphs, layouts, additional_shapes
        self.n_outputs = n_outputs
        self.n_additional = size_of(additional_shapes)
        self.numbers = np.arange(len(graphs))

    @property
    def varies(self):
        return np.repeat([not layout.fixed_size for layout in self.layouts], np.diff(self.row_ptr))[:, None]

    def learn(self, gold, weights, loss, temperature, cost=None):
        """Set the loss, and gold: an assignment of the variables of each sample. Return the task."""
        if cost is not None:
            raise ValueError("cost is for structures made of labels; leave it at None")
        parts = self._marginals_of(gold)
        self.gold = [(u, joint) for u, joint, _ in parts]
        self.violated = [
            layout.factors_of(wrong) if len(wrong) else [] for layout, (*_, wrong) in zip(self.layouts, parts)
        ]
        self.weights, self.loss, self.temperature = weights, loss, temperature
        return self

    def gold_rows(self):
        gold = np.concatenate([u for u, _ in self.gold]).reshape(-1, self.n_outputs)
        # Several outputs are the values of a variable.
        return gold, self.n_outputs > 1

    def _marginals_of(self, assignments):
        """Return the assignments of all samples as marginals, with the factors that they violate.

        See `parts_and_violations`.
        """
        found = []
        for i, parts in enumerate(zip(self.graphs, self.layouts, assignments)):
            try:
                found.append(parts_and_violations(*parts))
            except ValueError as error:
                raise SampleError("y", i, f": {error}") from error
        return found

    def epochs(self, optimizer, X, remember=True):
        task = self.copy()
        if remember:
            task.memory = SolutionMemory(_WARM_START_BYTES)
        return partial(optimizer.epoch, task, X)

    @cached_property
    def _groups(self):
        """Samples of one layout, which are solved together: list of (indices, rows of their variables, layout)."""
        groups = {}
        for i, layout in enumerate(self.layouts):
            # Layouts of one graph with different features have the same arrays.
            groups.setdefault(id(layout.arrays), []).append(i)
        n_rows = {key: self.layouts[p[0]].n_variables // self.n_outputs for key, p in groups.items()}
        rows = [self.row_ptr[p][:, None] + np.arange(n_rows[key]) for key, p in groups.items()]
        return [(samples, own, self.layouts[samples[0]]) for samples, own in zip(groups.values(), rows)]

    @cached_property
    def _gold(self):
        """Gold of each group: list of (marginals of the variables, marginals of the additional scores)."""
        return [tuple(map(np.array, zip(*(self.gold[i] for i in samples)))) for samples, _, _ in self._groups]

    @cached_property
    def _gradient_memory(self):
        """Warm starts of `loss_gradient` between calls."""
        return SolutionMemory(_WARM_START_BYTES)

    def _distinct(self, samples):
        """Return the layouts of samples of a group: one for each sample, or a single one if all are the same."""
        layouts = [self.layouts[i] for i in samples]
        return layouts[:1] if all(layout is layouts[0] for layout in layouts) else layouts

    def _problems(self, scores, additional):
        """Yield the samples of each group: indices, rows, and the problems for the kernels."""
        for samples, rows, layout in self._groups:
            own = scores[rows].reshape(len(samples), -1)
            expanded = [one.expanded(additional) for one in self._distinct(samples)]
            yield samples, rows, GraphBatch(layout, own, np.array(expanded), numbers=np.array(samples))

    def loss_gradient(self, scores, additional, n_jobs, mean=False):
        residuals = np.empty_like(scores)
        joined = np.zeros(len(additional))
        weights = self.weights / self.weights.sum() if mean else self.weights
        total, n_inexact = 0.0, 0
        # Full-batch training solves the same samples again at the next call, so their solutions are stored.
        known = self._gradient_memory if self.memory is None and not mean else self.memory
        accuracy = ROUGH if mean else EXACT

        def solve(group, n_jobs):
            gold, (samples, _, problems) = group
            memory = None if known is None else known.recall(self.numbers[samples])
            found = graph_losses(self.loss, self.temperature, problems, gold, n_jobs, memory, accuracy, relaxed=False)
            return found, memory

        groups = list(zip(self._gold, self._problems(scores, additional)))
        for (_, (samples, rows, _)), (found, memory) in zip(groups, over_groups(solve, groups, n_jobs)):
            losses, du, dv, inexact = found
            if memory is not None:
                known.keep(self.numbers[samples], memory)
            total += self.weights[samples] @ losses
            n_inexact += int(inexact.sum())
            residuals[rows] = (weights[samples, None] * du).reshape(*rows.shape, -1)
            changes = weights[samples, None] * dv
            layouts = self._distinct(samples)
            for own, change in zip(layouts, changes if len(layouts) > 1 else [changes.sum(axis=0)]):
                joined += own.summed(change)
        return total, residuals, joined, n_inexact

    def predict(self, scores, additional, n_jobs):
        found = np.empty(len(self.graphs), dtype=object)
        late = {}

        def solve(group, n_jobs):
            samples, _, problems = group
            rounded = self._round(samples, problems, n_jobs)
            left = [k for k, assignment in enumerate(rounded) if assignment is None]
            if left:
                own = problems.take(left)
                best = own.map(n_jobs, map_time_limit=self.map_time_limit)
                late.update(own.late_of(best))
                for k, structure in zip(left, best.structure):
                    rounded[k] = problems.layout.shape_assignment(structure)
            return rounded

        groups = list(self._problems(scores, additional))
        for (samples, _, _), assignments in zip(groups, over_groups(solve, groups, n_jobs)):
            for i, assignment in zip(samples, assignments):
                found[i] = assignment
        warn_of_time_limit(late, self.map_time_limit)
        return found

    def without_rules(self, scores, additional):
        if self.n_additional or self.n_outputs > 1:
            # Scores of pairs and values of variables are factors, too.
            return None
        (graph,), (layout,) = self.graphs, self.layouts
        best = layout.shape_assignment(scores.ravel() > 0.0)
        return best, [factor.name or repr(factor) for factor in graph.violations(best)]

    def maxima(self, scores, additional, n_jobs):
        found = np.empty(len(self.graphs))
        for samples, _, problems in self._problems(scores, additional):
            found[samples] = problems.map(n_jobs, map_time_limit=self.map_time_limit).value
        return found

    def n_best(self, scores, additional, k, n_jobs, chosen=None):
        chosen = range(len(self.graphs)) if chosen is None else chosen
        left = set(chosen)
        found = {}
        groups = []
        for samples, _, problems in self._problems(scores, additional):
            rows = [row for row, i in enumerate(samples) if i in left]
            groups.append(([samples[row] for row in rows], problems.take(rows)))
        for i, layout, best in best_of_groups(groups, k, n_jobs, self.map_time_limit):
            found[i] = [(layout.shape_assignment(u), value) for u, value in best]
        return [found[i] for i in chosen]

    def parts(self, gold):
        return [None if len(wrong) else _as_parts(u, joint) for u, joint, wrong in self._marginals_of(gold)]

    def encode(self, i, structures):
        return [_as_parts(*gold_parts(self.graphs[i], self.layouts[i], own)) for own in structures]

    def value(self, i, scores, additional, parts):
        return super().value(i, scores, self.layouts[i].expanded(additional), parts)

    def restrict(self, scores, known):
        """Fix variables that are known; return a copy of the scores that forbids those known to be off.

        Each binary variable known to be on gets a factor, in new layouts of this task. Copies of the task keep theirs.

        Parameters
        ----------
        scores : array of shape (n_rows, n_outputs)
        known : sequence
            For each sample, an assignment with None for unknown variables, or None if nothing is known.

        Returns
        -------
        scores : array of shape (n_rows, n_outputs)
        """
        scores = scores.copy()
        layouts = list(self.layouts)
        for i, own in enumerate(known):
            if own is None:
                continue
            graph = self.graphs[i]
            layout = layouts[i]
            try:
                u = read_assignment(graph, layout, own, partly=True)
            except ValueError as error:
                raise SampleError("known", i, f": {error}") from None
            scores[self.row_ptr[i] : self.row_ptr[i + 1]].reshape(-1)[u == 0.0] = FORBIDDEN
            sizes = [prod(shape) for shape in graph.shapes.values()]
            is_binary = np.repeat([name not in graph.n_states for name in graph.shapes], sizes)
            for j in np.flatnonzero(is_binary & (u == 1.0)):
                layout = layout.with_clause([j], [False])
            layouts[i] = layout
        self.layouts = layouts
        # Groups of samples and their gold follow the layouts.
        for name in ("_groups", "_gold"):
            vars(self).pop(name, None)
        return scores

    def difference(self, first, second):
        (graph,), (layout,) = self.graphs, self.layouts
        (u, joint), (v, other) = (gold_parts(graph, layout, assignment) for assignment in (first, second))
        return u - v, layout.summed(joint - other)

    def describe(self, part, labels):
        return self.graphs[0].describe(part)

    def names_of_pairs(self):
        pairs = [factor for factor in self.graphs[0].scored if hasattr(factor, "n_pairs")]
        return {own.name: [f"{own.name}[{a!r}, {b!r}]" for a, b in zip(own.first, own.second)] for own in pairs}

    def _round(self, samples, problems, n_jobs):
        """Return assignments of samples by rounding the linear relaxation, or None for samples where this fails.

        If all variables are the parts of one structure, the best structure under the marginals is an assignment,
        provided that it satisfies all other factors.
        """
        layout = problems.layout
        if not (layout.structured and layout.single):
            return [None] * len(samples)
        (whole,) = layout.structured.values()
        solutions = problems.relaxed_map(_ROUNDING_TOL, n_jobs)
        assignments = []
        for i, u in zip(samples, solutions.marginals):
            assignment = whole.best_structure(u)
            try:
                gold_parts(self.graphs[i], layout, assignment)
                assignments.append(assignment)
            except ValueError:
                assignments.append(None)
        return assignments

    def marginals(self, scores, additional, n_jobs):
        u = np.empty_like(scores)
        gaps, objectives = np.empty((2, len(self.graphs)))
        for samples, rows, problems in self._problems(scores, additional):
            solutions = problems.sparsemap(_TOL, _MAX_ITER, n_jobs=n_jobs)
            gaps[samples] = np.abs(solutions.gap)
            objectives[samples] = solutions.objective
            u[rows] = solutions.marginals.reshape(*rows.shape, -1)
        return u, gaps, objectives

    def distributions(self, scores, additional, n_jobs):
        found = [None] * len(self.graphs)
        gaps, objectives = np.empty((2, len(found)))
        for samples, _, problems in self._problems(scores, additional):
            layout, whole = problems.layout, problems.layout.whole
            if whole is None:
                raise SampleError(
                    "X",
                    samples[0],
                    "predict_structures is for structures, but the factor graph of ",
                    " is not a single structure over all variables, so LP-SparseMAP has no distribution; use "
                    "predict_n_best or predict_marginals",
                )
            given = [layout.shape_additional(row).get(whole.name, {}) for row in problems.additional]
            given = {name: [own[name] for own in given] for name in given[0]} if len(given) > 1 else given[0]
            own = [row.reshape(whole.shape) for row in problems.scores]
            results = sparsemap(whole.structure, own, n_jobs=n_jobs, **given)
            gaps[samples], objectives[samples] = results.gap, results.objective
            for i, result in zip(samples, results):
                assignments = [layout.shape_assignment(whole.parts_of(s).ravel()) for s in result.structures]
                found[i] = list(zip(assignments, result.weights.tolist()))
        return found, gaps, objectives

    def in_shapes(self, scores):
        """Split values for the scores of all samples into arrays in the shapes of the variables."""
        found = np.empty(len(self.graphs), dtype=object)
        for samples, rows, layout in self._groups:
            for i, own in zip(samples, scores[rows].reshape(len(samples), -1)):
                found[i] = layout.shape_variables(own)
        return found

    def agreement(self, gold, predicted, weights):
        # Gold that violates factors is compared as it is.
        pairs = zip(*([u > 0.0 for u, *_ in self._marginals_of(y)] for y in (gold, predicted)))
        return agreement_of([((own & found).sum(), own.sum(), found.sum()) for own, found in pairs], weights)


def _as_parts(u, joint):
    """Return an assignment, given as marginals, as the indices of its parts; a part that is there twice is repeated."""
    return np.flatnonzero(u), np.repeat(np.arange(len(joint)), np.rint(joint).astype(np.int64))
