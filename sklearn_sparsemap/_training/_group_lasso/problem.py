"""The problem of batch group lasso on a working set of columns.

The objective is ``mean loss + penalty(coef) + ridge(free)``. The free weights are intercepts and additional scores. No
norm penalises them, but a small ridge does. Without it, a lower bound of the minimum would need a dual point whose
gradient is exactly zero in the free weights. There may be none: the score of a transition that never occurs tends to
minus infinity. With the ridge, each gradient of the loss gives a lower bound that holds for all models.

Used by `kinks.py` and `solver.py`.
"""

from collections import namedtuple

import numpy as np

from .._objective import Objective
from ..score_models import LinearModel
from .penalty import FREE_RIDGE

# Strengths r of the ridge r/2 |free|^2. Larger values give close bounds after fewer iterations, but change the minimum.
# That of intercepts changes predicted probabilities by about 1e-8. That of additional scores must be larger, because
# their scores may tend to infinity without it.
INTERCEPT_RIDGE, ADDITIONAL_RIDGE = 1e-8, 1e-4

# A model as a flat vector, with the mean loss there, the gradient of loss and ridge, the gradient of the loss in the
# free weights, the objective, and the gradient of the loss with respect to the scores of all rows. If the gradient of
# the loss is an average of those at other points, `error` is the average distance of their tangent planes from the
# loss.
Point = namedtuple("Point", ["x", "loss", "gradient", "free_slope", "value", "residuals", "error"], defaults=(0.0,))


class WorkingProblem(Objective):
    """The objective of the weights of some columns; all others are zero.

    The last entries of a flat vector are the free weights or, with a `scale`, their coordinates in its columns.

    Parameters
    ----------
    task : Task
    X : ndarray or CSR of shape (n_rows, n_columns)
        The rows of all samples.
    penalty : GroupPenalty
        The penalty of these columns.
    fit_intercept : bool
    n_jobs : int or None
    scale : array of shape (n_free, n_free), default=None

    Attributes
    ----------
    n_evaluations : int
        Number of calls of `evaluate`; `solver.py` resets it.
    fixes_additional : bool
        Whether gradients are zero in the additional scores; `kinks.py` sets it.
    ridge : array of shape (n_free,)
        Strengths of the ridge of the free weights.
    """

    def __init__(self, task, X, penalty, *, fit_intercept, n_jobs, scale=None):
        super().__init__(task, X, fit_intercept=fit_intercept, n_jobs=n_jobs)
        self.penalty, self.fixes_additional, self.scale, self.n_evaluations = penalty, False, scale, 0
        self.ridge = np.repeat([INTERCEPT_RIDGE, ADDITIONAL_RIDGE], [task.n_outputs, task.n_additional])

    def coef(self, vector):
        """View the weights of features of a flat vector."""
        return vector[: self.n_coefs].reshape(self.shape)

    def free(self, vector):
        """Return the free weights of a flat vector."""
        free = vector[self.n_coefs :]
        return free if self.scale is None else self.scale @ free

    def unpack(self, vector):
        """Return the model of a flat vector."""
        free = self.free(vector)
        m = self.shape[1]
        return LinearModel(self.coef(vector), free[:m], free[m:])

    def pack(self, model):
        """Return the flat vector of a model."""
        x = super().pack(model)
        if self.scale is not None:
            x[self.n_coefs :] = np.linalg.solve(self.scale, x[self.n_coefs :])
        return x

    def in_scale(self, point, scale):
        """Set the scale; return a point in the new coordinates."""
        n = self.n_coefs
        free = self.free(point.x)
        x = point.x.copy()
        gradient = point.gradient.copy()
        self.scale = scale
        x[n:] = np.linalg.solve(scale, free)
        gradient[n:] = scale.T @ (point.free_slope + self.ridge * free)
        return point._replace(x=x, gradient=gradient)

    def evaluate(self, x):
        """Return the `Point` at a flat vector."""
        self.n_evaluations += 1
        free = self.free(x)
        loss, slope, residuals = self.free_loss(self.features.scores(self.without_free(x)), free)
        if self.fixes_additional:
            slope[self.shape[1] :] = -ADDITIONAL_RIDGE * free[self.shape[1] :]
        return self.point(x, loss, residuals, slope)

    def point(self, x, loss, residuals, slope, error=0.0):
        """Return the `Point` with a loss, its residuals, and its gradient in the free weights."""
        coef = self.coef(x)
        free = self.free(x)
        gradient = np.empty_like(x)
        self.features.gradient(residuals, 1.0 / self.total_weight, 0.0, coef, self.coef(gradient))
        free_gradient = slope + self.ridge * free
        gradient[self.n_coefs :] = free_gradient if self.scale is None else self.scale.T @ free_gradient
        value = loss + self.penalty.value(coef) + 0.5 * float(self.ridge * free @ free)
        return Point(x, loss, gradient, slope, value, residuals, error)

    def without_free(self, x):
        """Return the model with intercepts and additional scores of zero."""
        return LinearModel(self.coef(x), *self.no_free)

    @property
    def no_free(self):
        """Intercepts and additional scores of zero."""
        return np.zeros(self.shape[1]), np.zeros(len(self.ridge) - self.shape[1])

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

    def gap(self, point, largest=None):
        """Return an upper bound of the distance of a point's objective from the minimum.

        By Fenchel duality, for any gradient g of the loss and any factor c in [0, 1] for which c times its part in
        `coef` is in the dual ball of the penalty::

            minimum >= -conjugate(c g) - |c g_free|^2 / (2 ridge),   conjugate(c g) <= c conjugate(g) = c (g.x - loss)

        because the conjugate of a Fenchel-Young loss is convex, and 0 at 0. Features that no norm penalises have the
        same term as free weights, with a ridge of `FREE_RIDGE`. The factor is the best one in the dual
        ball. The bound is computed as a sum of nonnegative terms, so that it is accurate even if tiny.

        Parameters
        ----------
        point : Point
        largest : float, default=None
            The largest factor in the dual ball; by default, that for the columns of the working set.
        """
        return sum(self.gap_parts(point, largest))

    def dual_factor(self, point, largest=None):
        """Return the factor of the gradient that gives the best lower bound; see `gap`."""
        coef = self.coef(point.x)
        slope = self.coef(point.gradient)
        free = self.free(point.x)
        free_slope = point.free_slope
        if largest is None:
            largest = self.penalty.scale_into_ball(slope)
        height = point.loss - float(np.vdot(slope, coef)) - float(free_slope @ free) - point.error
        square = float(free_slope @ (free_slope / self.ridge))
        if self.penalty.has_free:
            square += float((slope[self.penalty.is_free] ** 2).sum()) / FREE_RIDGE
        # The lower bound is height c - square c^2 / 2.
        return max(height, 0.0) / square if height < largest * square else largest

    def gap_parts(self, point, largest=None):
        """Return the terms of the gap that do not depend on the free weights' gradient, and the term that does."""
        factor = self.dual_factor(point, largest)
        of_ridge = 0.0
        coef = self.coef(point.x)
        slope = self.coef(point.gradient)
        linear = self.penalty.value_of_norms(coef) + factor * float(np.vdot(slope, coef))
        if self.penalty.has_free:
            own, own_slope = coef[self.penalty.is_free], factor * slope[self.penalty.is_free]
            linear -= float(np.vdot(own_slope, own))
            of_ridge = 0.5 * float(((own_slope + FREE_RIDGE * own) ** 2).sum()) / FREE_RIDGE
        rest = factor * point.free_slope + self.ridge * self.free(point.x)
        free_part = 0.5 * float(rest @ (rest / self.ridge))
        return (1.0 - factor) * point.loss + max(linear, 0.0) + of_ridge + factor * point.error, free_part
