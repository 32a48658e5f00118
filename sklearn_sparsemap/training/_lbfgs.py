"""L-BFGS: the exact objective over all samples, minimised by scipy; at kinks by a bundle method."""

from functools import lru_cache

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import ThreadpoolController

from ._bundle import minimize_bundle
from ._data import LinearModel

# A new start of L-BFGS after a failed line search must have gained this much, relative to the loss, for another one.
_LEAST_GAIN = 1e-6
# L-BFGS creeps along a kink where so many iterations gain less than this, relative to the loss.
_CREEPS_AFTER, _CREEPING = 10, 1e-4


class BatchObjective:
    """The training objective of a linear model, ``weighted mean loss + alpha/2 |w|^2``, with its gradient.

    Parameters
    ----------
    task : Task
    X : ndarray or CSR of shape (n_rows, n_features)
        The rows of all samples.
    template : LinearModel
        Any model of the right shapes.
    alpha : float
    fit_intercept : bool
    n_jobs : int or None
    """

    def __init__(self, task, X, template, *, alpha, fit_intercept, n_jobs):
        self.task, self.X = task, X
        self.alpha, self.fit_intercept, self.n_jobs = alpha, fit_intercept, n_jobs
        self.shape, self.n_additional = template.coef.shape, len(template.additional)
        self.total_weight = float(task.weights.sum())
        self.unconverged = 0

    @property
    def penalised(self):
        """Which weights of a flat vector are penalised: all but the intercept."""
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

    def loss_gradient(self, vector):
        """Return the objective and its gradient at the model in a flat vector."""
        model, gradient = self.unpack(vector), np.empty_like(vector)
        scores = self.X @ model.coef
        scores += model.intercept
        loss, residuals, joined, self.unconverged = self.task.loss_gradient(scores, model.additional, self.n_jobs)
        out = self.unpack(gradient)
        out.coef[:] = self.X.T @ residuals
        out.coef /= self.total_weight
        out.coef += self.alpha * model.coef
        out.intercept[:] = residuals.sum(axis=0) / self.total_weight if self.fit_intercept else 0.0
        out.additional[:] = joined / self.total_weight + self.alpha * model.additional
        return loss / self.total_weight + model.penalty(self.alpha), gradient


@lru_cache(maxsize=1)
def _thread_pools():
    # Looking for the libraries takes as long as a small fit.
    return ThreadpoolController()


def minimize_lbfgs(objective, model, *, max_iter, tol, after_iteration):
    """Minimise with L-BFGS, and at kinks with a bundle method.

    The loss is smooth in the scores of the unary parts, but can have kinks in the additional scores, which its
    regulariser does not see. At a kink L-BFGS gets stuck, or creeps along it, short of the minimum; a bundle method
    goes on from there. Where there are no kinks, a line search that fails is repeated once without L-BFGS's memory.

    Parameters
    ----------
    objective : BatchObjective
    model : LinearModel
        Where to start.
    max_iter : int
        Most iterations. Each evaluation of the bundle method counts as one.
    tol : float
        Largest entry of the gradient at which to stop; at a kink, of a mean of gradients nearby.
    after_iteration : callable
        Called with the model and the objective's value after each iteration; a true result stops.

    Returns
    -------
    model : LinearModel
    loss : float
        The objective there.
    message : str
        Why it stopped; empty if it converged or was stopped.
    """
    # The vectors are short: threads of BLAS would wait for each other, ten times as long as one of them works.
    with _thread_pools().limit(limits=1, user_api="blas"):
        return _minimize(objective, model, max_iter, tol, after_iteration)


def _minimize(objective, model, max_iter, tol, after_iteration):
    stopped, n_iter = False, 0
    x, loss, largest, values, slopes = objective.pack(model), np.inf, np.inf, [], []

    def loss_gradient(point):
        # After a failed line search, scipy returns neither the best point nor the loss at the one it returns.
        nonlocal x, loss, largest
        value, gradient = objective.loss_gradient(point)
        slope = float(np.abs(gradient).max())
        if value < loss:
            x, loss, largest = point.copy(), value, slope
        slopes[-1:] = [slope]
        return value, gradient

    def after_step(point, value):
        nonlocal stopped, n_iter
        n_iter += 1
        stopped = bool(after_iteration(objective.unpack(point.copy()), float(value)))
        return stopped

    def callback(intermediate_result):
        after_step(intermediate_result.x, intermediate_result.fun)
        values.append(float(intermediate_result.fun))
        creeps = objective.task.has_kinks and _creeps(values, slopes)
        slopes.append(np.inf)
        if stopped or creeps or n_iter >= max_iter:
            raise StopIteration

    while True:
        slopes.append(np.inf)
        before = loss
        result = minimize(
            loss_gradient,
            x,
            jac=True,
            method="L-BFGS-B",
            callback=callback,
            options={"maxiter": max_iter, "maxfun": 20 * max_iter, "gtol": tol, "ftol": 64 * np.finfo(float).eps},
        )
        if not np.isfinite(result.fun):
            return objective.unpack(x), result.fun, ""
        if stopped or largest <= tol:
            return objective.unpack(x), loss, ""
        if n_iter >= max_iter:
            message = "it reached max_iter"
            break
        if objective.task.has_kinks:
            x, loss, largest, message = minimize_bundle(
                loss_gradient,
                x,
                objective.penalised,
                alpha=objective.alpha,
                tol=tol,
                most_calls=max_iter - n_iter,
                after_step=after_step,
            )
            if not message:
                return objective.unpack(x), loss, ""
            break
        if not before - loss > _LEAST_GAIN * max(1.0, abs(loss)):
            message = "the objective no longer moves"
            break
        values.clear()
    return objective.unpack(x), loss, f"{message}; the largest entry of the gradient is {largest:.1e}, tol is {tol:.1e}"


def _creeps(values, slopes):
    """Tell whether iterations gain next to nothing, though the gradient does not get smaller."""
    n = _CREEPS_AFTER
    if len(values) < 2 * n:
        return False
    gain, scale = values[-n] - values[-1], max(1.0, abs(values[-1]))
    return gain < _CREEPING * scale and min(slopes[-n:]) > 0.5 * min(slopes[-2 * n : -n])
