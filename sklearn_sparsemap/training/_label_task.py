"""Learning a network and the scores of label pairs together: mini-batches of Adam."""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse

from .._threads import interruptible
from ..losses._labels import label_losses
from ._adam import Adam


class LabelSettings(NamedTuple):
    """What may change between epochs.

    Attributes
    ----------
    loss : str
    temperature : float
    alpha, edge_alpha : float
        Strengths of the penalties of the network's weights and of the edge scores.
    rate, edge_rate : float
        Learning rates of these.
    dropout : float
    batch_size : int
    n_jobs : int or None
    """

    loss: str
    temperature: float
    alpha: float
    edge_alpha: float
    rate: float
    edge_rate: float
    dropout: float
    batch_size: int
    n_jobs: object


class LabelTask:
    """Samples with gold labels, and the loss by which a `LabelModel` learns from them.

    Parameters
    ----------
    graph : LabelGraph or OneLabel
    X : array or CSR of shape (n_samples, n_features)
    gold : float array or CSR of shape (n_samples, n_labels)
    weights : array of shape (n_samples,)
    """

    def __init__(self, graph, X, gold, weights):
        self.graph, self.X, self.gold, self.weights = graph, X, gold, weights

    def loss_gradients(self, name, temperature, model, chosen, dropout=0.0, rng=None, n_jobs=None):
        """Return the weighted losses of some samples and the gradients of their weighted mean.

        Returns
        -------
        total : float
        gradients : list
            As `LabelModel.backward` returns, and that of the edge scores last.
        inexact : int
            Number of samples whose inference did not converge.
        """
        layers, masks = model.forward(self.X[chosen], dropout, rng)
        gold, weights = dense(self.gold[chosen]), self.weights[chosen]
        losses, residuals, joint, inexact = label_losses(
            name, temperature, self.graph, layers[-1], model.edge_scores, gold, weights / weights.sum(), n_jobs
        )
        return float(weights @ losses), [*model.backward(layers, masks, residuals), joint], inexact


def dense(gold):
    """Return gold labels as a dense float64 array."""
    return np.asarray(gold.toarray() if sparse.issparse(gold) else gold, dtype=np.float64)


class LabelOptimizer:
    """Adam on mini-batches, with a pace and a penalty of their own for the edge scores.

    Parameters
    ----------
    model : LabelModel
        Where to start; changed in place.
    rng : RandomState
        For dropout.
    """

    def __init__(self, model, rng):
        self.model, self.rng = model, rng
        self.adam = Adam(model.arrays)
        self.unconverged = 0

    def epoch(self, task, order, settings):
        """Visit samples once, in this order; return the sum of their weighted losses."""
        total, n = 0.0, len(order)
        n_layers = len(self.model.coefs)
        rates = [settings.rate] * (2 * n_layers) + [settings.edge_rate]
        # Intercepts are not penalised.
        alphas = [settings.alpha] * n_layers + [0.0] * n_layers + [settings.edge_alpha]
        for start in range(0, n, settings.batch_size):
            chosen = order[start : start + settings.batch_size]
            if not task.weights[chosen].any():
                continue
            loss, gradients, inexact = task.loss_gradients(
                settings.loss, settings.temperature, self.model, chosen, settings.dropout, self.rng, settings.n_jobs
            )
            self.unconverged += inexact
            total += loss
            # A step that has begun is completed before Ctrl-C takes effect.
            interruptible(
                partial(self.adam.step, self.model.arrays, gradients, rates, alphas, settings.n_jobs), lambda: None
            )
        return total
