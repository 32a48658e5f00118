"""Learning the scores of factor graphs: the batch objective, and AdaGrad on mini-batches."""

import numpy as np

from ..inference._graph.problems import GraphProblems
from ..losses._graphs import graph_losses
from ._data import LinearModel
from ._lbfgs import BatchObjective

# Keeps the first steps of AdaGrad finite.
_FIRST_SQUARE = 1e-6
BATCH_SIZE = 16


class GraphTask:
    """Training samples in factor graphs.

    Parameters
    ----------
    X : RaggedArray
        One row of features for each variable.
    graphs : list of FactorGraph
        One for each sample; samples may share them.
    layouts : list of Layout
    gold : list of (u, joint)
    weights : array of shape (n_samples,)
    """

    def __init__(self, X, graphs, layouts, gold, weights):
        self.X, self.graphs, self.layouts, self.gold, self.weights = X, graphs, layouts, gold, weights

    def groups(self, chosen):
        """Cut samples into groups that share a layout, which are solved together."""
        groups = {}
        for i in chosen:
            groups.setdefault(id(self.layouts[i]), []).append(i)
        return groups.values()

    def loss_gradient(self, name, temperature, model, chosen, n_jobs):
        """Return the weighted losses of some samples, their gradient as a `LinearModel`, and how many are inexact."""
        rows = np.concatenate([np.arange(self.X.indptr[i], self.X.indptr[i + 1]) for i in chosen])
        features = self.X.values[rows]
        scores = (features @ model.coef)[:, 0] + model.intercept[0]
        cuts = np.concatenate([[0], np.cumsum(self.X.lengths[chosen])])
        place = {i: k for k, i in enumerate(chosen)}
        residuals, joined = np.empty(len(scores)), np.zeros(len(model.additional))
        total, inexact = 0.0, 0
        for group in self.groups(chosen):
            layout, weights = self.layouts[group[0]], self.weights[group]
            own = cuts[[place[i] for i in group]][:, None] + np.arange(layout.n_variables)
            problems = GraphProblems(layout, scores[own], layout.expanded(model.additional)[None])
            losses, du, dv, off = graph_losses(name, temperature, problems, [self.gold[i] for i in group], n_jobs)
            total += weights @ losses
            inexact += int(off.sum())
            residuals[own] = weights[:, None] * du
            dv = weights @ dv
            joined += dv if layout.expand is None else np.bincount(layout.expand, dv, minlength=len(joined))
        gradient = LinearModel(
            np.asarray(features.T @ residuals)[:, None], np.array([residuals.sum()]), joined
        )
        return total, gradient, inexact


class GraphObjective(BatchObjective):
    """The objective over all samples, ``weighted mean loss + alpha/2 |w|^2``, for `minimize_lbfgs`."""

    def __init__(self, task, name, temperature, template, *, alpha, fit_intercept, n_jobs):
        self.task, self.name, self.temperature = task, name, temperature
        self.alpha, self.fit_intercept, self.n_jobs = alpha, fit_intercept, n_jobs
        self.shape, self.n_additional = template.coef.shape, len(template.additional)
        self.total_weight = float(task.weights.sum())
        self.unconverged = 0

    @property
    def has_kinks(self):
        return self.n_additional > 0

    def loss_gradient(self, vector):
        """Return the objective and its gradient at the model in a flat vector."""
        model, gradient = self.unpack(vector), np.empty_like(vector)
        everything = list(range(len(self.task.weights)))
        total, found, self.unconverged = self.task.loss_gradient(
            self.name, self.temperature, model, everything, self.n_jobs
        )
        out = self.unpack(gradient)
        out.coef[:] = found.coef / self.total_weight + self.alpha * model.coef
        out.intercept[:] = found.intercept / self.total_weight if self.fit_intercept else 0.0
        out.additional[:] = found.additional / self.total_weight + self.alpha * model.additional
        return total / self.total_weight + model.penalty(self.alpha), gradient


class GraphOptimizer:
    """AdaGrad on mini-batches, with averaged weights and a proximal step of the penalty.

    Parameters
    ----------
    model : LinearModel
        Where to start.
    average : bool
    """

    def __init__(self, model, *, average):
        self.average = average
        self.shape, self.n_outputs = model.coef.shape, len(model.intercept)
        n = model.coef.size + len(model.intercept) + len(model.additional)
        self.unconverged = 0
        # Weights, sums of squared gradients, sums of weights, and the number of steps: replaced as one, so that Ctrl-C
        # finds them before a step or after it.
        self.state = BatchObjective.pack(model), np.full(n, _FIRST_SQUARE), np.zeros(n), 0

    def configure(self, *, alpha, eta0, fit_intercept):
        """Take over the parameters that may change between epochs."""
        self.alpha, self.eta0, self.fit_intercept = alpha, eta0, fit_intercept

    def _view(self, vector):
        n = self.shape[0]
        return LinearModel(vector[:n].reshape(self.shape), vector[n : n + 1], vector[n + 1 :])

    def model(self):
        """Return the present model, averaged if that was asked for."""
        weights, _, sums, n_steps = self.state
        return self._view(sums / n_steps if self.average and n_steps else weights.copy())

    def penalty(self):
        """Return the penalty of the present weights."""
        return self._view(self.state[0]).penalty(self.alpha)

    @property
    def n_steps(self):
        """How many mini-batches were visited."""
        return self.state[3]

    def epoch(self, task, name, temperature, order, n_jobs):
        """Visit the samples once, in this order; return the sum of their weighted losses."""
        total, n_features = 0.0, self.shape[0]
        for first in range(0, len(order), BATCH_SIZE):
            chosen = [int(i) for i in order[first : first + BATCH_SIZE]]
            weight = task.weights[chosen].sum()
            if not weight > 0.0:
                continue
            weights, squares, sums, n_steps = self.state
            loss, found, inexact = task.loss_gradient(name, temperature, self._view(weights), chosen, n_jobs)
            total += loss
            self.unconverged += inexact
            gradient = BatchObjective.pack(found) / weight
            if not self.fit_intercept:
                gradient[n_features] = 0.0
            squares = squares + gradient * gradient
            rates = self.eta0 / np.sqrt(squares)
            # The proximal step of the penalty; the intercept has none.
            shrinkage = 1.0 + rates * self.alpha
            shrinkage[n_features] = 1.0
            weights = (weights - rates * gradient) / shrinkage
            self.state = weights, squares, sums + weights if self.average else sums, n_steps + 1
        return total
