"""Scores by a classifier or regressor of single rows, and the objective of their scale, biases and additional scores.

The scores of a row are ``scale * f(row) + bias``, for the scores f of an estimator that was fitted to single rows; see
`_core/row_scores.py`. Its scores for its own training rows are too certain, so scale, biases and additional scores are
learned on scores of rows that it has not seen.

Used by `estimators`.
"""

from copy import copy

import numpy as np

from .score_models import ScoreModel

# Maximum number of weights for the metric of the bundle method.
_FEW_WEIGHTS = 1000
# Least curvature of a weight, relative to that of a bias.
_FLATTEST = 1e-8


class ClassifierModel(ScoreModel):
    """Scores by fitted estimators of single rows, such as classifiers of scikit-learn.

    Files do not hold it, because its estimators may be of any class. Pickles do.

    Attributes
    ----------
    fitted : RowScores
        The fitted estimators.
    scale : float
        Factor of their scores.
    bias : array of shape (n_outputs,)
    additional : array of shape (n_additional,)
    n_features : int
        Number of columns of the rows.
    """

    def __init__(self, fitted, scale, bias, additional, n_features):
        self.fitted, self.scale, self.bias, self.additional = fitted, scale, bias, additional
        self.n_features = n_features

    @property
    def sizes(self):
        if self.bias.ndim != 1 or self.additional.ndim != 1 or len(self.bias) != len(self.fitted.constants):
            raise ValueError(
                f"the biases have shape {np.shape(self.bias)}, but the classifier scores {len(self.fitted.constants)} "
                "labels"
            )
        return self.n_features, len(self.bias), len(self.additional)

    @property
    def estimators(self):
        """The fitted estimators: one, or one for each output; none if rows do not differ in their labels."""
        return [estimator for estimator, _ in self.fitted.members]

    @property
    def arrays(self):
        return [np.array([self.scale]), self.bias, self.additional]

    @property
    def public(self):
        """The attribute `score_model_` of an estimator: the fitted estimator, or a list of one for each output."""
        found = self.estimators
        return found[0] if len(found) == 1 else found

    def scores(self, X, n_jobs=None):
        """Compute the scores of rows; see `ScoreModel`. The estimators have a number of threads of their own."""
        return self.scaled(self.fitted.scores(X))

    def scaled(self, scores):
        """Return scores of rows, given those of the estimators."""
        return self.scale * scores + self.bias

    def copy(self):
        found = copy(self)
        found.bias = self.bias.copy()
        found.additional = self.additional.copy()
        return found


class ScaleObjective:
    """The objective of scale, biases and additional scores: ``weighted mean loss + alpha/2 |additional|^2``.

    It is a function of a flat vector with these weights in this order, convex if the loss is. `minimize_lbfgs` and
    `minimize_bundle` minimise it.

    Parameters
    ----------
    task : Task
    given : array of shape (n_rows, n_outputs)
        Scores of estimators that have not seen the rows.
    alpha : float
    learns_scale, fit_intercept : bool
        Whether scale and biases are learned; otherwise they keep their values.
    n_jobs : int or None

    Attributes
    ----------
    unconverged : int
        Number of samples whose inference did not converge in the last evaluation.
    """

    def __init__(self, task, given, *, alpha, learns_scale, fit_intercept, n_jobs):
        self.task, self.given, self.alpha, self.n_jobs = task, given, alpha, n_jobs
        self.learns_scale, self.fit_intercept = learns_scale, fit_intercept
        self.total_weight = float(task.weights.sum())
        self.unconverged = 0
        self._template = None

    def pack(self, model):
        """Return the weights of a model as a flat vector. `unpack` takes its estimators."""
        self._template = model
        return np.concatenate([[model.scale], model.bias, model.additional])

    def unpack(self, vector):
        """Return the model of a flat vector."""
        m = self.given.shape[1]
        found = copy(self._template)
        found.scale = float(vector[0])
        found.bias = vector[1 : m + 1]
        found.additional = vector[m + 1 :]
        return found

    @property
    def penalised(self):
        """Mask of the penalised weights in a flat vector: the additional scores."""
        return np.repeat([False, True], [1 + self.given.shape[1], self.task.n_additional])

    @property
    def has_few_weights(self):
        return len(self.penalised) <= _FEW_WEIGHTS

    def curvatures(self):
        """Return bounds of the second derivatives of the loss in each weight, if its scores alone changed.

        Those of additional scores get the bound of the biases.
        """
        task = self.task
        smoothness = task.smoothness()
        rows = np.repeat(task.weights * (1.0 if smoothness is None else smoothness), np.diff(task.row_ptr))
        rows = rows / self.total_weight
        bounds = np.full(len(self.penalised), rows.sum())
        bounds[0] = rows @ np.square(self.given).sum(axis=1)
        return np.maximum(bounds, _FLATTEST * rows.sum())

    def loss_gradient(self, vector, out=None):
        """Return the objective and its gradient at the model in a flat vector; the gradient is written to `out`."""
        model = self.unpack(vector)
        gradient = np.empty_like(vector) if out is None else out
        m = self.given.shape[1]
        scores = model.scaled(self.given)
        loss, residuals, joined, self.unconverged = self.task.loss_gradient(scores, model.additional, self.n_jobs)
        gradient[0] = np.vdot(residuals, self.given) if self.learns_scale else 0.0
        gradient[1 : m + 1] = residuals.sum(axis=0) if self.fit_intercept else 0.0
        gradient[m + 1 :] = joined
        gradient /= self.total_weight
        gradient[m + 1 :] += self.alpha * model.additional
        squares = float(model.additional @ model.additional)
        return loss / self.total_weight + 0.5 * self.alpha * squares, gradient
