"""Samples of label sets as a task."""

import numpy as np
from scipy import sparse

from ..losses._labels import label_losses, partly_known_losses
from ._task import Task


class LabelTask(Task):
    """Samples of label sets, with one row of features each.

    Parameters
    ----------
    graph : LabelGraph or OneLabel
    loss : str
    temperature : float
    gold : float array or CSR of shape (n_samples, n_labels), default=None
        Gold labels.
    weights : array of shape (n_samples,), default=None
    map_time_limit : float, default=None
        Maximum number of seconds for the best labels of a sample.
    known : bool array of shape (n_samples, n_labels), default=None
        Mask of the gold labels that are known. By default, all.
    """

    def __init__(self, graph, loss, temperature, gold=None, weights=None, map_time_limit=None, known=None):
        self.known = known
        self.map_time_limit = map_time_limit
        self.graph, self.loss, self.temperature, self.gold, self.weights = graph, loss, temperature, gold, weights
        self.row_ptr = np.arange(1 if gold is None else gold.shape[0] + 1)
        self.n_outputs, self.additional_shapes = graph.n_labels, {"edges": (len(graph.edges),)}

    @property
    def has_kinks(self):
        # Hinge has kinks everywhere. SparseMAP has one where the score of an edge is zero: the optimal marginals of the
        # pair jump there.
        return self.loss == "hinge" or (self.loss == "sparsemap" and len(self.graph.edges) > 0)

    def take(self, places):
        found = super().take(places)
        found.gold = self.gold[places]
        if self.known is not None:
            found.known = self.known[places]
        return found

    def loss_gradient(self, scores, additional, n_jobs, mean=False):
        shares = self.weights / self.weights.sum() if mean else self.weights
        if self.known is None:
            losses, residuals, joined, n_inexact = label_losses(
                self.loss, self.temperature, self.graph, scores, additional, dense(self.gold), shares, n_jobs
            )
        else:
            losses, residuals, joined, n_inexact = partly_known_losses(
                self.loss, self.temperature, self.graph, scores, dense(self.gold), self.known, shares, n_jobs
            )
        return float(self.weights @ losses), residuals, joined, n_inexact

    def predict(self, scores, additional, n_jobs):
        return self.graph.assign(scores, additional, n_jobs=n_jobs, map_time_limit=self.map_time_limit)

    def marginals(self, scores, additional, n_jobs):
        if self.loss == "logistic":
            return self.graph.gibbs(scores)[1], None, None
        if self.loss == "hinge":
            # With the margin, scores for which a label is uncertain range from -1 to 1.
            scores, additional = 0.5 * (scores + 1.0), 0.5 * additional
        solution = self.graph.solve(scores, additional, n_jobs=n_jobs)
        return solution.marginals, solution.gap, solution.objective

    def agreement(self, gold, predicted, weights):
        """Return the mean F1 of the label sets."""
        both, total = (gold & predicted).sum(axis=1), gold.sum(axis=1) + predicted.sum(axis=1)
        return float(np.average(np.where(total > 0, 2.0 * both / np.maximum(total, 1), 1.0), weights=weights))


def dense(gold):
    """Return gold labels as a dense float64 array."""
    return np.asarray(gold.toarray() if sparse.issparse(gold) else gold, dtype=np.float64)
