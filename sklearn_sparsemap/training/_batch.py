"""L-BFGS: the exact objective over all samples, minimised by scipy."""

import numpy as np
from numba import types
from scipy.optimize import minimize

from .._jit import FLOATS, FLOATS_2D_OUT, FLOATS_OUT, INTS, ORACLE, entry, readonly
from .._threads import cut_evenly, over_ranges
from ..losses._kernel import LOSS_FORM, MEMORY
from ..solvers._protocol import SOLVER
from ._data import TARGETS, LinearModel, loss_of_target

# The samples are always cut into at most this many ranges, so that sums do not depend on the number of threads.
_N_RANGES = 64
# Near zero scores, where all structures all but tie, so many parts can take a second: Ctrl-C should not wait for more.
_COST_PER_CALL = 2_000
# scipy's status of an L-BFGS run whose line search found no better point.
_LINE_SEARCH_FAILED = 2
# A new start after such an end must have gained this much, relative to the loss, for another one to be made.
_LEAST_GAIN = 1e-6


@entry(
    types.void(
        ORACLE,
        SOLVER,
        LOSS_FORM,
        types.float64,
        FLOATS,
        FLOATS,
        TARGETS,
        MEMORY,
        types.int64,
        INTS,
        types.int64,
        types.int64,
        FLOATS_OUT,
        FLOATS_2D_OUT,
        FLOATS_2D_OUT,
    )
)
def residuals_of_ranges(
    oracle,
    solver,
    form,
    tol,
    scores,
    additional,
    targets,
    memory,
    n_outputs,
    cuts,
    first_range,
    last_range,
    residuals,
    additional_residuals,
    sums,
):
    """Compute the weighted losses of the samples of some ranges, and their gradients with respect to the scores.

    Range r has the samples cuts[r]..cuts[r + 1]. It sums into its own row of `additional_residuals` (zeros at first)
    and `sums` (weighted loss, number of samples whose inference did not converge).
    """
    for r in range(first_range, last_range):
        total, unconverged = 0.0, 0
        for i in range(cuts[r], cuts[r + 1]):
            first, last = targets.row_ptr[i] * n_outputs, targets.row_ptr[i + 1] * n_outputs
            weight, residual = targets.weights[i], residuals[first:last]
            loss, inexact = loss_of_target(
                oracle,
                solver,
                form,
                scores[first:last],
                additional,
                targets,
                i,
                tol,
                memory,
                residual,
                additional_residuals[r],
            )
            for j in range(residual.shape[0]):
                residual[j] *= weight
            total += weight * loss
            unconverged += inexact
        sums[r, 0] = total
        sums[r, 1] = unconverged


class BatchObjective:
    """The training objective of a linear model, ``weighted mean loss + alpha/2 |w|^2``, with its gradient.

    Parameters
    ----------
    inference : tuple
        What `losses.inference_of` returns.
    form : LossForm
    X : ndarray or CSR of shape (n_rows, n_features)
        The rows of all samples.
    targets : Targets
    template : LinearModel
        Any model of the right shapes.
    memory : Memory
    alpha, tol : float
    fit_intercept : bool
    n_jobs : int or None
    """

    def __init__(self, inference, form, X, targets, template, memory, *, alpha, tol, fit_intercept, n_jobs):
        self.oracle, self.solver = inference
        self.form = form
        self.X, self.targets, self.memory = X, targets, memory
        self.alpha, self.tol = alpha, tol
        self.fit_intercept, self.n_jobs = fit_intercept, n_jobs
        self.shape = template.coef.shape
        self.total_weight = float(targets.weights.sum())
        self.cuts = readonly(cut_evenly(np.diff(targets.row_ptr), _N_RANGES), np.int64)
        self.unconverged = 0

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
        residuals = np.empty_like(scores, order="C")
        flat, additional = readonly(scores.ravel()), readonly(model.additional)
        n_ranges = len(self.cuts) - 1
        partials, sums = np.zeros((n_ranges, len(additional))), np.empty((n_ranges, 2))
        over_ranges(
            lambda start, stop: residuals_of_ranges(
                self.oracle,
                self.solver,
                self.form,
                self.tol,
                flat,
                additional,
                self.targets,
                self.memory,
                self.shape[1],
                self.cuts,
                start,
                stop,
                residuals.ravel(),
                partials,
                sums,
            ),
            self.shape[1] * np.diff(self.targets.row_ptr[self.cuts]),
            self.n_jobs,
            _COST_PER_CALL,
        )
        self.unconverged = int(sums[:, 1].sum())
        out = self.unpack(gradient)
        out.coef[:] = self.X.T @ residuals
        out.coef /= self.total_weight
        out.coef += self.alpha * model.coef
        out.intercept[:] = residuals.sum(axis=0) / self.total_weight if self.fit_intercept else 0.0
        out.additional[:] = partials.sum(axis=0) / self.total_weight + self.alpha * model.additional
        return sums[:, 0].sum() / self.total_weight + model.penalty(self.alpha), gradient


def minimize_lbfgs(objective, model, *, max_iter, tol, after_iteration):
    """Minimise with L-BFGS.

    The loss is smooth in the scores of the unary parts, but has kinks in the additional scores, which the regulariser
    does not see. At a kink the line search can fail short of the minimum; L-BFGS is then started anew from there, until
    a start gains next to nothing.

    Parameters
    ----------
    objective : BatchObjective
    model : LinearModel
        Where to start.
    max_iter : int
    tol : float
        Largest entry of the gradient at which to stop.
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
    stopped, n_iter = False, 0

    def callback(intermediate_result):
        nonlocal stopped, n_iter
        n_iter += 1
        if after_iteration(objective.unpack(intermediate_result.x.copy()), float(intermediate_result.fun)):
            stopped = True
        if stopped or n_iter >= max_iter:
            raise StopIteration

    x, loss = objective.pack(model), np.inf

    def loss_gradient(point):
        # After a failed line search, scipy returns neither the best point nor the loss at the one it returns.
        nonlocal x, loss
        value, gradient = objective.loss_gradient(point)
        if value < loss:
            x, loss = point.copy(), value
        return value, gradient

    while True:
        before = loss
        result = minimize(
            loss_gradient,
            x,
            jac=True,
            method="L-BFGS-B",
            callback=callback,
            options={"maxiter": max_iter, "maxfun": 20 * max_iter, "gtol": tol, "ftol": 64 * np.finfo(float).eps},
        )
        if stopped or result.success or np.abs(result.jac).max() <= tol or not np.isfinite(result.fun):
            message = ""
        elif n_iter >= max_iter:
            message = f"it reached max_iter={max_iter}"
        elif result.status == _LINE_SEARCH_FAILED and before - loss > _LEAST_GAIN * max(1.0, abs(loss)):
            continue
        else:
            at_a_kink = result.status == _LINE_SEARCH_FAILED and n_iter > 1
            message = "" if at_a_kink else str(result.message)
        return objective.unpack(x), loss if np.isfinite(result.fun) else result.fun, message
