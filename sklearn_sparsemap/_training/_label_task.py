"""The task of label sets.

Used by `estimators`.
"""

import numpy as np

from .._core.blocks import blocks, dense
from ..losses._labels import label_losses, partly_known_losses
from ._task import Task

# Number of scores in a block of samples. Losses in closed form have small blocks, whose temporary arrays stay in the
# processor's cache: with 2,000 samples of 1,000 labels this takes half the time of a single block, and 2^15 or 2^17
# make little difference. A solver has larger blocks, because it lays out the graph for each block.
_CELLS, _SOLVER_CELLS = 2**16, 2**20


class LabelTask(Task):
    """Samples of label sets, with one row of features each.

    Parameters
    ----------
    graph : LabelGraph or OneLabel
    loss : str
    temperature : float, default=1.0
    gold : array or CSR of shape (n_samples, n_labels), default=None
        Gold labels.
    weights : array of shape (n_samples,), default=None
    map_time_limit : float, default=None
        Maximum number of seconds for the best labels of a sample.
    known : bool array of shape (n_samples, n_labels), default=None
        Mask of the gold labels that are known. By default, all are known.

    `estimators/_multilabel` reads `gold`, `known` and `label_weights`, too.
    """

    per_sample = "gold", "known"

    def __init__(self, graph, loss, temperature=1.0, gold=None, weights=None, map_time_limit=None, known=None):
        self.known, self.map_time_limit = known, map_time_limit
        self.graph, self.loss, self.temperature, self.gold, self.weights = graph, loss, temperature, gold, weights
        self.varies = graph.varies
        self.row_ptr = np.arange(1 if gold is None else gold.shape[0] + 1)
        self.n_outputs = graph.n_labels
        self.n_additional = len(graph.edges)
        self.additional_shapes = {"edges": (self.n_additional,)}

    @property
    def label_weights(self):
        """Weights that broadcast to the gold labels: those of the samples, and 0 for unknown labels."""
        weights = self.weights[:, None]
        return weights if self.known is None else weights * self.known

    @property
    def has_kinks(self):
        # Hinge has kinks everywhere. SparseMAP has a kink at an edge score of zero, where the marginal of the pair
        # jumps.
        return self.loss == "hinge" or (self.loss == "sparsemap" and len(self.graph.edges) > 0)

    def gold_rows(self):
        gold = dense(self.gold).astype(np.float64)
        # If label sets do not differ in their number of labels, they have one each.
        return gold if self.known is None else np.where(self.known, gold, np.nan), not self.varies

    @property
    def is_gibbs(self):
        return self.loss == "logistic"

    def loss_gradient(self, scores, additional, n_jobs, mean=False):
        weights = self.weights / self.weights.sum() if mean else self.weights
        losses = np.empty(len(scores))
        residuals = np.empty_like(scores)
        joined = np.zeros(len(additional))
        n_inexact = 0
        for rows in blocks(*scores.shape, _CELLS if self.graph.is_plain else _SOLVER_CELLS):
            part = scores[rows]
            gold = dense(self.gold[rows])
            if self.known is None:
                losses[rows], residuals[rows], pairs, inexact = label_losses(
                    self.loss, self.temperature, self.graph, part, additional, gold, weights[rows], n_jobs
                )
                joined += pairs
                n_inexact += inexact
            else:
                # Graphs with edges take no unknown labels, and these losses are exact.
                losses[rows], residuals[rows] = partly_known_losses(
                    self.loss, self.temperature, self.graph, part, gold, self.known[rows], weights[rows], n_jobs
                )
        return float(self.weights @ losses), residuals, joined, n_inexact

    def predict(self, scores, additional, n_jobs):
        return self.graph.assign(scores, additional, n_jobs=n_jobs, map_time_limit=self.map_time_limit)

    def marginals(self, scores, additional, n_jobs):
        if self.loss == "logistic":
            return self.graph.gibbs(scores)[1], None, None
        if self.loss == "hinge":
            # With the margin of the hinge, a label is uncertain at scores from -1 to 1.
            scores, additional = 0.5 * (scores + 1.0), 0.5 * additional
        solution = self.graph.solve(scores, additional, n_jobs=n_jobs)
        return solution.marginals, solution.gap, solution.objective

    def log_partitions(self, scores, additional, n_jobs):
        found = self.graph.log_partitions(scores)
        if found is None:
            raise ValueError(
                "score='log_loss' needs constraints by which each label implies at most one other label; use "
                "score='reduced_cost'"
            )
        return found

    def maxima(self, scores, additional, n_jobs):
        best = self.predict(scores, additional, n_jobs)
        parts = self.encode(None, best)
        return np.array([self.value(i, scores[i], additional, own) for i, own in enumerate(parts)])

    def n_best(self, scores, additional, k, n_jobs, chosen=None):
        found = []
        for i in range(len(scores)) if chosen is None else chosen:
            best = self.graph.n_best(scores[i], additional, k)
            found.append(list(zip(best, self.values(i, scores[i], additional, best))))
        return found

    def in_shapes(self, values):
        return values.reshape(-1, self.n_outputs)

    def parts(self, gold):
        pairs = zip(self.encode(None, gold), self.graph.violated(gold))
        return [None if is_wrong else parts for parts, is_wrong in pairs]

    def encode(self, i, structures):
        edges = self.graph.edges
        return [(np.flatnonzero(own), np.flatnonzero(own[edges].all(axis=1))) for own in structures]

    def agreement(self, gold, predicted, weights):
        """Compare label sets by their mean F1, so each set counts as one part."""
        both = (gold & predicted).sum(axis=1)
        total = gold.sum(axis=1) + predicted.sum(axis=1)
        return weights @ np.where(total > 0, 2.0 * both / np.maximum(total, 1), 1.0), weights.sum()
