"""The scale of the free weights, in which their second derivatives are about those of the weights of features.

Intercepts and transitions of rare labels have second derivatives that are smaller by orders of magnitude than those of
frequent labels, and sums of transitions hardly change the loss. L-BFGS then takes hundreds of iterations.

Reference: Byrd, Chin, Neveitt and Nocedal, On the use of stochastic Hessian information in optimization methods for
machine learning. SIAM Journal on Optimization 21, 2011.

Used by `solver.py`.
"""

import numpy as np

from .._quasi_newton.descent import Descent
from ..score_models import LinearModel

# Time to find the scale, in evaluations of the loss of all samples, about; and the minimum number of samples.
COST, _FEWEST = 50, 100
# Maximum number of free weights, whose scale is a dense matrix.
MAX_WEIGHTS = 1000
# Change of scores for differences of gradients, and the smallest second derivative, as a fraction of the largest one.
_STEP, _FLAT = 1e-3, 1e-6
# Maximum number of steps over the free weights alone.
_MAX_STEPS = 30


def find_scale(problem, point):
    """Return a matrix whose columns are directions with second derivatives of one, from some of the samples.

    Parameters
    ----------
    problem : WorkingProblem
    point : Point

    Returns
    -------
    scale : array of shape (n_free, n_free)
    """
    task = problem.task
    free = problem.free(point.x)
    n_samples = len(task.weights)
    n = len(free)
    n_chosen = min(max(_FEWEST, COST * n_samples // n), n_samples)
    chosen = np.unique(np.linspace(0, n_samples - 1, n_chosen).astype(int))
    rows = np.concatenate([np.arange(task.row_ptr[i], task.row_ptr[i + 1]) for i in chosen])
    scores = problem.features.scores(problem.without_free(point.x))[rows]
    sample = type(problem)(
        task.take(chosen), scores[:, :0], problem.penalty.restrict(np.arange(0)),
        fit_intercept=problem.fit_intercept, n_jobs=problem.n_jobs,
    )  # fmt: skip
    start = sample.free_loss(scores, free)[1]
    steps = _STEP * np.eye(n)
    seconds = np.array([sample.free_loss(scores, free + step)[1] - start for step in steps]) / _STEP
    values, directions = np.linalg.eigh(0.5 * (seconds + seconds.T) + np.diag(problem.ridge))
    return directions / np.sqrt(np.maximum(values, _FLAT * values[-1]))


def curvature_of(problem, point):
    """Return the second derivative along the gradient in the weights of features, per unit of length.

    Parameters
    ----------
    problem : WorkingProblem
    point : Point

    Returns
    -------
    curvature : float
        Positive; 1 if the gradient is zero.
    """
    slope = problem.coef(point.gradient)
    free = problem.free(point.x)
    moved = problem.features.scores(LinearModel(slope, *problem.no_free))
    largest = np.abs(moved).max(initial=0.0)
    if largest == 0.0:
        return 1.0
    step = _STEP / largest
    scores = problem.features.scores(problem.without_free(point.x))
    residuals = problem.free_loss(scores + step * moved, free)[2]
    second = float(np.vdot(residuals - point.residuals, moved)) / (step * problem.total_weight)
    return second / float(np.vdot(slope, slope)) if second > 0.0 else 1.0


def minimize_smooth_unpenalized(problem, point, tol):
    """Minimise over the free weights until their term of the gap is at most `tol`; return the point."""
    scores = problem.features.scores(problem.without_free(point.x))
    free_of = problem.scale
    found = point.loss, point.free_slope, point.residuals

    def value_gradient(scaled, out):
        nonlocal found
        free = free_of @ scaled
        found = problem.free_loss(scores, free)
        out[:] = free_of.T @ (found[1] + problem.ridge * free)
        return found[0] + 0.5 * float(problem.ridge * free @ free), out

    descent = Descent(value_gradient, point.x[problem.n_coefs :].copy(), problem.n_jobs)
    for _ in range(_MAX_STEPS):
        if not descent.step() or not np.isfinite(descent.value):
            return point
        x = point.x.copy()
        x[problem.n_coefs :] = descent.x
        loss, slope, residuals = found
        settled = problem.point(x, loss, residuals, slope)
        if problem.gap_parts(settled, 1.0)[1] <= tol:
            return settled
    return settled
