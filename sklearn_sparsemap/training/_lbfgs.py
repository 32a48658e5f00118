"""L-BFGS on the objective over all samples, with a bundle method at kinks."""

from functools import lru_cache

import numpy as np
from threadpoolctl import ThreadpoolController

from ._bundle import minimize_bundle
from ._quasi_newton.descent import Descent

# Gains of an iteration up to this, relative to the loss, are rounding errors.
_NOTHING = 64 * np.finfo(float).eps
# After a failed line search, L-BFGS restarts only if the previous restart gained this much, relative to the loss.
_LEAST_GAIN = 1e-6
# L-BFGS has stalled at a kink if this many iterations gain less than this, relative to the loss.
_STALLED_AFTER, _STALLED_GAIN = 10, 1e-4


@lru_cache(maxsize=1)
def _thread_pools():
    # The search for the libraries takes as long as a small fit.
    return ThreadpoolController()


def minimize_lbfgs(objective, model, *, max_iter, tol, after_iteration):
    """Minimise by L-BFGS, and at kinks by a bundle method.

    SparseMAP losses are smooth in the scores, but not in the additional scores. When L-BFGS stalls at a kink, a bundle
    method takes over. Without kinks, L-BFGS restarts after a failed line search, with an empty memory.

    Parameters
    ----------
    objective : BatchObjective
    model : LinearModel
        The start.
    max_iter : int
        Maximum number of iterations. Each evaluation of the bundle method counts as one.
    tol : float
        Largest entry of the gradient at the end or, at a kink, of the averaged subgradient.
    after_iteration : callable
        Called with the model and the objective's value after each iteration; True stops.

    Returns
    -------
    model : LinearModel
    loss : float
        The objective at the model.
    message : str
        The reason for a failure; empty if it converged or was stopped.
    """
    # The vectors are short: BLAS threads would wait ten times as long as they compute.
    with _thread_pools().limit(limits=1, user_api="blas"):
        has_kinks = objective.task.has_kinks
        descent = Descent(objective.loss_gradient, objective.pack(model), objective.n_jobs)
        n_iter, values, slopes, started_at, message, at_kink = 0, [], [], np.inf, "", False
        while np.isfinite(descent.value) and descent.largest > tol:
            if n_iter >= max_iter:
                message = "it reached max_iter"
                break
            before, moved = descent.value, descent.step()
            if not np.isfinite(descent.value):
                break
            if moved:
                n_iter += 1
                values.append(descent.value)
                slopes.append(descent.largest)
                if after_iteration(objective.unpack(descent.x), descent.value) or descent.largest <= tol:
                    break
                gains = before - descent.value > _NOTHING * max(1.0, abs(before))
                if n_iter >= max_iter or (gains and not (has_kinks and _has_stalled(values, slopes))):
                    continue
            if has_kinks:
                at_kink = True
                break
            if not started_at - descent.value > _LEAST_GAIN * max(1.0, abs(descent.value)):
                message = "the objective no longer moves"
                break
            started_at = descent.value
            descent.forget()
        x, value, largest = descent.x, descent.value, descent.largest
        if at_kink:
            x, value, largest, message = minimize_bundle(
                objective.loss_gradient, x, objective.penalised, alpha=objective.alpha, tol=tol,
                most_calls=max_iter - n_iter,
                after_step=lambda x, value: bool(after_iteration(objective.unpack(x.copy()), float(value))),
            )  # fmt: skip
        if message:
            message = f"{message}; the largest entry of the gradient is {largest:.1e}, tol is {tol:.1e}"
        return objective.unpack(x), value, message


def _has_stalled(values, slopes):
    """Tell whether iterations hardly lower the objective, although the gradient does not become small."""
    n = _STALLED_AFTER
    if len(values) < 2 * n:
        return False
    gain, scale = values[-n] - values[-1], max(1.0, abs(values[-1]))
    return gain < _STALLED_GAIN * scale and min(slopes[-n:]) > 0.5 * min(slopes[-2 * n : -n])
