"""The exact objective of a linear model over all samples, with its gradient."""

import numpy as np
from scipy import sparse

from ._data import LinearModel
from ._products import DenseFeatures, SparseFeatures


class BatchObjective:
    """The training objective of a linear model, ``weighted mean loss + alpha/2 |w|^2``, with its gradient.

    Parameters
    ----------
    task : Task
    X : ndarray or CSR of shape (n_rows, n_features)
        The rows of all samples.
    template : LinearModel
        A model with the right shapes.
    alpha : float
    fit_intercept : bool
    n_jobs : int or None
    """

    def __init__(self, task, X, template, *, alpha, fit_intercept, n_jobs):
        self.task = task
        self.features = (SparseFeatures if sparse.issparse(X) else DenseFeatures)(X, template.coef.shape[1], n_jobs)
        self.alpha, self.fit_intercept, self.n_jobs = alpha, fit_intercept, n_jobs
        self.shape, self.n_additional = template.coef.shape, len(template.additional)
        self.total_weight = float(task.weights.sum())
        self.unconverged = 0

    @property
    def penalised(self):
        """Mask of the penalised weights in a flat vector: all except the intercept."""
        n, (_, m) = int(np.prod(self.shape)), self.shape
        mask = np.ones(n + m + self.n_additional, bool)
        mask[n : n + m] = False
        return mask

    def unpack(self, vector):
        """View a flat vector as a model."""
        n, (_, m) = int(np.prod(self.shape)), self.shape
        return LinearModel(vector[:n].reshape(self.shape), vector[n : n + m], vector[n + m :])

    @staticmethod
    def pack(model):
        return np.concatenate([model.coef.ravel(), model.intercept, model.additional])

    def loss_gradient(self, vector, out=None):
        """Return the objective and its gradient at the model in a flat vector; the gradient is written to `out`."""
        model, gradient = self.unpack(vector), np.empty_like(vector) if out is None else out
        scores = self.features.scores(model)
        loss, residuals, joined, self.unconverged = self.task.loss_gradient(scores, model.additional, self.n_jobs)
        out = self.unpack(gradient)
        squares = self.features.gradient(residuals, 1.0 / self.total_weight, self.alpha, model.coef, out.coef)
        out.intercept[:] = residuals.sum(axis=0) / self.total_weight if self.fit_intercept else 0.0
        out.additional[:] = joined / self.total_weight + self.alpha * model.additional
        squares += float(model.additional @ model.additional)
        return loss / self.total_weight + 0.5 * self.alpha * squares, gradient
