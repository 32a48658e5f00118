"""The problem of batch group lasso on a working set of columns.

The objective is ``mean loss + penalty(coef)``. Intercepts and additional scores, which are not penalised, are called
free.
"""

from collections import namedtuple

import numpy as np
from scipy import sparse

from .._data import LinearModel
from .._products import DenseFeatures, SparseFeatures

# A model as a flat vector, with the mean loss there, its gradient (without the penalty), the objective, and the
# gradient with respect to the scores of all rows.
Point = namedtuple("Point", ["x", "loss", "gradient", "value", "residuals"])


def features_of(X, n_outputs, n_jobs):
    """Return rows of features in the form that computes products."""
    return (SparseFeatures if sparse.issparse(X) else DenseFeatures)(X, n_outputs, n_jobs)


class WorkingProblem:
    """The objective of the weights of some columns; all others are zero.

    Parameters
    ----------
    task : Task
    X : ndarray or CSR of shape (n_rows, n_columns)
        The rows of all samples.
    penalty : GroupPenalty
        The penalty of these columns.
    fit_intercept : bool
    n_jobs : int or None

    Attributes
    ----------
    n_coefs : int
        Number of penalised weights, the first entries of a flat vector.
    unconverged : int
        Number of samples whose inference did not converge in the last evaluation.
    """

    def __init__(self, task, X, penalty, *, fit_intercept, n_jobs):
        self.task, self.penalty, self.fit_intercept, self.n_jobs = task, penalty, fit_intercept, n_jobs
        self.features = features_of(X, task.n_outputs, n_jobs)
        self.shape = X.shape[1], task.n_outputs
        self.n_coefs = X.shape[1] * task.n_outputs
        self.total_weight = float(task.weights.sum())
        self.unconverged = 0

    def unpack(self, x):
        """View a flat vector as a model."""
        n, m = self.n_coefs, self.shape[1]
        return LinearModel(x[:n].reshape(self.shape), x[n : n + m], x[n + m :])

    @staticmethod
    def pack(model):
        return np.concatenate([model.coef.ravel(), model.intercept, model.additional])

    def coef(self, x):
        """View the penalised weights of a flat vector."""
        return x[: self.n_coefs].reshape(self.shape)

    def evaluate(self, x):
        """Return the `Point` at a flat vector."""
        model, gradient = self.unpack(x), np.empty_like(x)
        scores = self.features.scores(model)
        loss, residuals, joined, self.unconverged = self.task.loss_gradient(scores, model.additional, self.n_jobs)
        out, share = self.unpack(gradient), 1.0 / self.total_weight
        self.features.gradient(residuals, share, 0.0, model.coef, out.coef)
        out.intercept[:] = residuals.sum(axis=0) * share if self.fit_intercept else 0.0
        out.additional[:] = joined * share
        loss = float(loss) * share
        return Point(x, loss, gradient, loss + self.penalty.value(model.coef), residuals)

    def gap(self, point, factor=None):
        """Return an upper bound of the distance of a point's objective from the minimum.

        By Fenchel duality, for any gradient g of the loss and any factor c in [0, 1] for which c times its part in
        `coef` is in the dual ball of the penalty::

            minimum >= min_free c g_free.free - conjugate(c g),   conjugate(c g) <= c conjugate(g) = c (g.x - loss)

        because the conjugate of a Fenchel-Young loss is convex, and 0 at 0. Free weights have no penalty that bounds
        them, so the minimum is over those whose distance from the point's is at most 1 plus their norm. The bound is
        computed as a sum of nonnegative terms, so that it is accurate even if tiny.

        Parameters
        ----------
        point : Point
        factor : float, default=None
            By default, the largest one for the columns of the working set.
        """
        n = self.n_coefs
        coef, slope, free = self.coef(point.x), self.coef(point.gradient), point.x[n:]
        if factor is None:
            factor = self.penalty.scale_into_ball(slope)
        linear = self.penalty.value(coef) + factor * float(np.vdot(slope, coef))
        reach = (1.0 + np.linalg.norm(free)) * np.linalg.norm(point.gradient[n:])
        return (1.0 - factor) * point.loss + max(linear, 0.0) + factor * float(reach)
