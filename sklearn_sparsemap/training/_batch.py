"""L-BFGS: the exact objective over all samples, minimised by scipy."""

import numpy as np
from numba import types
from scipy.optimize import minimize

from .._jit import FLOATS, FLOATS_OUT, ORACLE, entry, readonly
from .._threads import over_ranges
from ..losses import MEMORY, loss_of_sample
from ..solvers._protocol import SOLVER
from ._data import TARGETS, LinearModel

# The samples are always cut into this many ranges, so that sums do not depend on the number of threads.
_N_RANGES = 16


@entry(
    types.Tuple((types.float64, types.int64))(
        ORACLE, SOLVER, types.float64, types.float64, FLOATS, FLOATS, TARGETS, MEMORY, types.int64, types.int64,
        types.int64, FLOATS_OUT, FLOATS_OUT
    )
)
def residuals_of_range(
    oracle,
    solver,
    temperature,
    tol,
    scores,
    additional,
    targets,
    memory,
    n_outputs,
    start,
    stop,
    residuals,
    additional_residual,
):
    """Compute the weighted losses of samples start..stop and their gradients with respect to the scores.

    Returns
    -------
    total : float
        Sum of the weighted losses.
    unconverged : int
        Number of samples whose inference did not converge.
    """
    total, unconverged = 0.0, 0
    for i in range(start, stop):
        first, last = targets.row_ptr[i] * n_outputs, targets.row_ptr[i + 1] * n_outputs
        weight, residual = targets.weights[i], residuals[first:last]
        loss, gap = loss_of_sample(
            oracle,
            solver,
            temperature,
            scores[first:last],
            additional,
            targets.dims[i],
            targets.sizes[i],
            targets.gold.slots[targets.gold.slot_ptr[i] : targets.gold.slot_ptr[i + 1]],
            targets.gold.additional[targets.gold.additional_ptr[i] : targets.gold.additional_ptr[i + 1]],
            tol,
            memory,
            i,
            weight,
            residual,
            additional_residual,
        )
        for j in range(residual.shape[0]):
            residual[j] *= weight
        total += weight * loss
        unconverged += gap > 1e3 * tol + 1e-9 * abs(loss)
    return total, unconverged


class BatchObjective:
    """The training objective of a linear model, ``weighted mean loss + alpha/2 |w|^2``, with its gradient.

    Parameters
    ----------
    oracle, solver
        The structure's oracle and a compiled solver.
    X : ndarray or CSR of shape (n_rows, n_features)
        The rows of all samples.
    targets : Targets
    template : LinearModel
        Any model of the right shapes.
    memory : Memory
    alpha, temperature, tol : float
    fit_intercept : bool
    n_jobs : int or None
    """

    def __init__(self, oracle, solver, X, targets, template, memory, *, alpha, temperature, tol, fit_intercept, n_jobs):
        self.oracle, self.solver = oracle, solver
        self.X, self.targets, self.memory = X, targets, memory
        self.alpha, self.temperature, self.tol = alpha, temperature, tol
        self.fit_intercept, self.n_jobs = fit_intercept, n_jobs
        self.shape = template.coef.shape
        self.total_weight = float(targets.weights.sum())
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
        costs = np.diff(self.targets.row_ptr)

        def run(start, stop):
            partial = np.zeros(len(additional))
            result = residuals_of_range(
                self.oracle,
                self.solver,
                self.temperature,
                self.tol,
                flat,
                additional,
                self.targets,
                self.memory,
                self.shape[1],
                start,
                stop,
                residuals.ravel(),
                partial,
            )
            return *result, partial

        losses, unconverged, partials = zip(*over_ranges(run, costs, self.n_jobs, n_ranges=_N_RANGES))
        self.unconverged = sum(unconverged)
        out = self.unpack(gradient)
        out.coef[:] = self.X.T @ residuals
        out.coef /= self.total_weight
        out.coef += self.alpha * model.coef
        out.intercept[:] = residuals.sum(axis=0) / self.total_weight if self.fit_intercept else 0.0
        out.additional[:] = np.sum(partials, axis=0) / self.total_weight + self.alpha * model.additional
        return sum(losses) / self.total_weight + model.penalty(self.alpha), gradient


def minimize_lbfgs(objective, model, *, max_iter, tol, after_iteration):
    """Minimise with L-BFGS.

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
    stopped = False

    def callback(intermediate_result):
        nonlocal stopped
        if after_iteration(objective.unpack(intermediate_result.x.copy()), float(intermediate_result.fun)):
            stopped = True
            raise StopIteration

    result = minimize(
        objective.loss_gradient,
        objective.pack(model),
        jac=True,
        method="L-BFGS-B",
        callback=callback,
        options={"maxiter": max_iter, "maxfun": 20 * max_iter, "gtol": tol, "ftol": 64 * np.finfo(float).eps},
    )
    message = "" if result.success or stopped else str(result.message)
    return objective.unpack(result.x), float(result.fun), message
