"""Samples of factor graphs as a task."""

import numpy as np

from .._jit import readonly
from ..inference._graph.map import map_samples
from ..inference._graph.solve import check_feasible, choose_solver, solve_graph
from ..losses._graphs import gold_parts, graph_losses, sample_of
from ..solvers._graph.batch import GAP, OBJECTIVE
from ._task import Task, accuracy_of, f1_of

# The residual of inference at prediction, and most iterations.
_TOL, _MAX_ITER = 1e-8, 5000


class GraphTask(Task):
    """Samples of factor graphs, with one row of features for each variable.

    Parameters
    ----------
    row_ptr : int array of shape (n_samples + 1,)
    graphs : list of FactorGraph
        One for each sample; samples may share them.
    layouts : list of Layout
        Samples with the same one are solved together.
    additional_shapes : dict
    """

    def __init__(self, row_ptr, graphs, layouts, additional_shapes):
        self.row_ptr, self.graphs, self.layouts, self.additional_shapes = row_ptr, graphs, layouts, additional_shapes

    @property
    def varies(self):
        return np.repeat([not layout.fixed_size for layout in self.layouts], np.diff(self.row_ptr))[:, None]

    def learn(self, gold, weights, loss, temperature, cost):
        """Take over what is right, an assignment of the variables of each sample, and the loss; return the task."""
        if cost is not None:
            raise ValueError("cost is for structures made of labels; leave it at None")
        self.gold, self.weights, self.loss, self.temperature = self._parts(gold), weights, loss, temperature
        return self

    def _parts(self, assignments):
        """Write the assignments of all samples as marginals; see `gold_parts`."""
        found = []
        for i, parts in enumerate(zip(self.graphs, self.layouts, assignments)):
            try:
                found.append(gold_parts(*parts))
            except ValueError as error:
                raise ValueError(f"y[{i}]: {error}") from error
        return found

    def take(self, places):
        found = super().take(places)
        for name in ("graphs", "layouts", "gold"):
            setattr(found, name, [getattr(self, name)[i] for i in places])
        return found

    def _groups(self, scores, additional):
        """Yield what shares a layout and is solved together: places, rows of scores, graph, layout, samples."""
        groups, additional = {}, readonly(additional)
        for i, layout in enumerate(self.layouts):
            groups.setdefault(id(layout), []).append(i)
        for places in groups.values():
            graph, layout = self.graphs[places[0]], self.layouts[places[0]]
            rows = [slice(*self.row_ptr[i : i + 2]) for i in places]
            samples = [sample_of(self.graphs[i], layout, scores[own, 0], additional) for i, own in zip(places, rows)]
            yield places, rows, graph, layout, samples

    def loss_gradient(self, scores, additional, n_jobs, mean=False):
        residuals, joined = np.empty_like(scores), np.zeros(len(additional))
        shares = self.weights / self.weights.sum() if mean else self.weights
        total, n_inexact = 0.0, 0
        for places, rows, _, layout, samples in self._groups(scores, additional):
            gold = [self.gold[i] for i in places]
            losses, du, dv, inexact = graph_losses(self.loss, self.temperature, layout, samples, gold, n_jobs)
            total += self.weights[places] @ losses
            n_inexact += int(inexact.sum())
            for own, share, residual in zip(rows, shares[places], du):
                residuals[own, 0] = share * residual
            dv = shares[places] @ dv
            joined += dv if layout.expand is None else np.bincount(layout.expand, dv, minlength=len(joined))
        return total, residuals, joined, n_inexact

    def predict(self, scores, additional, n_jobs):
        found = np.empty(len(self.graphs), dtype=object)
        for places, _, graph, layout, samples in self._groups(scores, additional):
            for i, result in zip(places, map_samples(graph, layout, samples, n_jobs)):
                found[i] = result.structure
        return found

    def marginals(self, scores, additional, n_jobs):
        u = np.empty_like(scores)
        gaps, objectives = np.empty((2, len(self.graphs)))
        for places, rows, graph, layout, samples in self._groups(scores, additional):
            method = choose_solver(layout, "auto")
            arrays, statistics = solve_graph(layout, method, samples, _TOL, _MAX_ITER, n_jobs)
            check_feasible(graph, layout, arrays, statistics, True)
            gaps[places], objectives[places] = np.abs(statistics[:, GAP]), statistics[:, OBJECTIVE]
            for own, found in zip(rows, arrays[0]):
                u[own, 0] = found
        return self.in_shapes(u), gaps, objectives

    def in_shapes(self, scores):
        """Cut what goes with the scores of all samples into arrays in the shapes of the variables."""
        found = np.empty(len(self.graphs), dtype=object)
        for places, rows, _, _, samples in self._groups(scores, np.zeros(self.n_additional)):
            for i, own, sample in zip(places, rows, samples):
                found[i] = sample.shape_variables(scores[own, 0])
        return found

    def agreement(self, gold, predicted, weights):
        pairs = list(zip(*([u > 0.0 for u, _ in self._parts(y)] for y in (gold, predicted))))
        if all(layout.fixed_size for layout in self.layouts):
            return accuracy_of([right == found for right, found in pairs], weights)
        return f1_of([tuple(np.where(u, np.arange(len(u)), -1) for u in pair) for pair in pairs], weights)
