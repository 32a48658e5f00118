"""The problem of batch group lasso on a working set of columns.

The objective is ``mean loss + penalty(coef)``. Intercepts and additional scores, which are not penalised, are called
free.
"""

from collections import namedtuple

import numpy as np

from .._data import LinearModel
from .._objective import Objective

# A model as a flat vector, with the mean loss there, its gradient (without the penalty), the objective, and the
# gradient with respect to the scores of all rows. If the gradient is an average of those at other points, `error` is
# the average distance of their tangent planes from the loss.
Point = namedtuple("Point", ["x", "loss", "gradient", "value", "residuals", "error"], defaults=(0.0,))


class WorkingProblem(Objective):
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
    fixes_additional : bool
        Whether gradients are zero in the additional scores.
    """

    def __init__(self, task, X, penalty, *, fit_intercept, n_jobs):
        super().__init__(task, X, fit_intercept=fit_intercept, n_jobs=n_jobs)
        self.penalty, self.fixes_additional = penalty, False

    def coef(self, x):
        """View the penalised weights of a flat vector."""
        return x[: self.n_coefs].reshape(self.shape)

    def evaluate(self, x):
        """Return the `Point` at a flat vector."""
        model = self.unpack(x)
        loss, free, residuals = self.free_loss(self.features.scores(self.without_free(x)), x[self.n_coefs :])
        if self.fixes_additional:
            free[self.shape[1] :] = 0.0
        return self._point(x, model, loss, residuals, free)

    def averaged(self, x, loss, residuals, free, error):
        """Return the `Point` with averages of residuals and of gradients in the free weights."""
        return self._point(x, self.unpack(x), loss, residuals, free)._replace(error=error)

    def _point(self, x, model, loss, residuals, free):
        gradient = np.empty_like(x)
        self.features.gradient(residuals, 1.0 / self.total_weight, 0.0, model.coef, self.coef(gradient))
        gradient[self.n_coefs :] = free
        return Point(x, loss, gradient, loss + self.penalty.value(model.coef), residuals)

    def without_free(self, x):
        """Return the model with intercepts of zero."""
        model = self.unpack(x)
        return LinearModel(model.coef, np.zeros_like(model.intercept), model.additional)

    def free_loss(self, scores, free):
        """Return the mean loss, its gradient in the free weights, and the residuals.

        Parameters
        ----------
        scores : array of shape (n_rows, n_outputs)
            Without the intercepts.
        free : array of shape (n_free,)
        """
        m, share = self.shape[1], 1.0 / self.total_weight
        loss, residuals, joined, self.unconverged = self.task.loss_gradient(scores + free[:m], free[m:], self.n_jobs)
        slope = np.concatenate([residuals.sum(axis=0) if self.fit_intercept else np.zeros(m), joined])
        return float(loss) * share, slope * share, residuals

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
        return (1.0 - factor) * point.loss + max(linear, 0.0) + factor * (float(reach) + point.error)
