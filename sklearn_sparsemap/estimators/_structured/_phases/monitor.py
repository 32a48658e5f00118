"""Monitors both phases, and keeps their results."""

import numpy as np
from scipy import sparse

from ....training._curve import Course, mean_of
from ....training._data import LinearModel
from ..._fitting import Monitor


class PairMonitor(Monitor):
    """Monitors the epochs of both phases."""

    def __init__(self, estimator, first, progress):
        super().__init__(estimator, None, None, progress, watch_loss=False)
        self.first, self.optimizer, self.loss = first, first, None
        self.stopped = self.is_complete = False
        self.course = Course(mean_of)

    def follow(self, optimizer, loss):
        """Monitor another optimiser, which minimises this loss."""
        self.optimizer, self.loss = optimizer, loss
        self.latest = lambda: wide_model(optimizer, self.estimator.n_features_in_, self.estimator.budget_weights)

    def iteration(self, loss):
        self.course.note(float(loss))
        self.stopped = bool(super().iteration(loss))
        return self.stopped

    def attributes(self, model):
        return super().attributes(model) | {"_final": final_state(self.first, self.optimizer, self.loss)}


def final_state(first, last, loss):
    """Return the final state of the selecting optimiser and of the last one, with its loss."""
    curve = first.joined_curve()
    if last is not first:
        curve = np.concatenate([curve, last.joined_curve() + [first.n_steps, 0]])
    return {
        "selected": first.selected_groups(),
        "shrunk": first.has_shrunk,
        "norms": first.group_norms(),
        "sigma": float(first.sigma[0]),
        "curve": curve,
        "loss": loss,
    }


def wide_model(optimizer, n_features, most=None):
    """Return an optimiser's model over all features, even if it learns only some of them.

    Parameters
    ----------
    optimizer : GroupOptimizer
    n_features : int
    most : int, default=None
        Maximum number of weights of the features; if an optimiser of some features has more, the smallest are dropped.
    """
    model = optimizer.model()
    columns = optimizer.columns
    if columns is None:
        return model
    if most is not None and model.coef.nnz > most:
        model.coef.data[np.argsort(-np.abs(model.coef.data), kind="stable")[most:]] = 0.0
        model.coef.eliminate_zeros()
    lengths = np.zeros(n_features, np.int64)
    lengths[columns] = np.diff(model.coef.indptr)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    coef = sparse.csr_array((model.coef.data, model.coef.indices, indptr), shape=(n_features, model.coef.shape[1]))
    return LinearModel(coef, model.intercept, model.additional)
