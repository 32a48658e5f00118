"""The exact objective of a linear model over all samples, with its gradient."""

import numpy as np

from ._data import LinearModel
from ._products import features_of


class Objective:
    """An objective of a linear model, as a function of a flat vector: coef, intercept, additional scores.

    Parameters
    ----------
    task : Task
    X : ndarray or CSR of shape (n_rows, n_features)
        The rows of all samples.
    fit_intercept : bool
    n_jobs : int or None

    Attributes
    ----------
    shape : (int, int)
        Numbers of features and of outputs.
    n_coefs : int
        Number of weights of features, which are the first entries of a flat vector.
    unconverged : int
        Number of samples whose inference did not converge in the last evaluation.
    """

    def __init__(self, task, X, *, fit_intercept, n_jobs):
        self.task, self.fit_intercept, self.n_jobs = task, fit_intercept, n_jobs
        self.features = features_of(X, task.n_outputs, n_jobs)
        self.shape, self.n_coefs = (X.shape[1], task.n_outputs), X.shape[1] * task.n_outputs
        self.total_weight = float(task.weights.sum())
        self.unconverged = 0

    def coef(self, vector):
        """View the weights of features of a flat vector."""
        return vector[: self.n_coefs].reshape(self.shape)

    def free(self, vector):
        """View the intercept and the additional scores of a flat vector."""
        return vector[self.n_coefs :]

    def unpack(self, vector):
        """Return the model of a flat vector."""
        n, m = self.n_coefs, self.shape[1]
        return LinearModel(vector[:n].reshape(self.shape), vector[n : n + m], vector[n + m :])

    @staticmethod
    def pack(model):
        """Return the weights of a model as a flat vector."""
        return np.concatenate([model.coef.ravel(), model.intercept, model.additional])


class BatchObjective(Objective):
    """The training objective of a linear model, ``weighted mean loss + alpha/2 |w|^2``, with its gradient.

    Parameters
    ----------
    task : Task
    X : ndarray or CSR of shape (n_rows, n_features)
        The rows of all samples.
    template : LinearModel
        A model with the shapes of the result.
    alpha : float
    fit_intercept : bool
    n_jobs : int or None
    """

    def __init__(self, task, X, template, *, alpha, fit_intercept, n_jobs):
        super().__init__(task, X, fit_intercept=fit_intercept, n_jobs=n_jobs)
        self.alpha, self.n_additional = alpha, len(template.additional)

    @property
    def penalised(self):
        """Mask of the penalised weights in a flat vector: all except the intercept."""
        m = self.shape[1]
        return np.repeat([True, False, True], [self.n_coefs, m, self.n_additional])

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
