"""Kinks of SparseMAP losses in the additional scores, where a single gradient proves nothing.

The marginals of the parts with features are unique at any scores, those of the additional parts need not be. So the
loss is smooth in the weights of features and in the intercepts; its kinks are in the additional scores. By the same
reason the subdifferential is a product, and a point is a minimum if it is one over the additional scores and one over
all other weights. A bundle method finds the minimum over the intercepts and the additional scores, and an average of
gradients that is zero in them; smooth steps find the one over the weights of features and the intercepts.

Used by `solver.py`.
"""

import numpy as np

from .._bundle import minimize_bundle, simplex_qp
from .problem import ADDITIONAL_RIDGE

# Maximum number of evaluations of the bundle method, and of gradients that are averaged; and their memory limit.
_MAX_CALLS, _MAX_GRADIENTS, _BYTES = 300, 100, 256 * 2**20
# Accuracy of the minimum over the free weights.
_SETTLED = 1e-8
# Rounds that gain at most this fraction of the objective, and their maximum number in sequence.
_IDLE_GAIN, _MAX_IDLE = 1e-14, 20
# Maximum number of rounds.
_MAX_ROUNDS = 50


def minimize_unpenalized(problem, point, tol):
    """Minimise over the free weights, and average gradients at the minimum.

    Parameters
    ----------
    problem : WorkingProblem
    point : Point
    tol : float
        Largest contribution of the free weights to the gap, about.

    Returns
    -------
    point : Point
        At the minimum, with averages of gradients and residuals.
    """
    n, ridge, found = problem.n_coefs, problem.ridge, []
    scores = problem.features.scores(problem.without_free(point.x))
    most = int(np.clip(_BYTES // scores.nbytes, 2, _MAX_GRADIENTS))

    def distances():
        """Return the distance of each tangent plane from the loss at the lowest point."""
        _, lowest, _, free, _ = min(found, key=lambda each: each[0])
        return np.array([lowest - loss - slope @ (free - place) for _, loss, slope, place, _ in found])

    def value_gradient(free):
        loss, slope, residuals = problem.free_loss(scores, free)
        value = loss + 0.5 * float(ridge * free @ free)
        found.append((value, loss, slope, free.copy(), residuals))
        if len(found) > most:
            del found[int(distances().argmax())]
        return value, slope + ridge * free

    start = point.x[n:].copy()
    is_additional = np.arange(len(start)) >= problem.shape[1]
    # Entries of this size in the averaged gradient contribute a tenth of `tol` to the gap.
    accuracy = np.sqrt(0.2 * tol / np.sum(1.0 / ridge))
    minimize_bundle(
        value_gradient, start, is_additional, alpha=ADDITIONAL_RIDGE, tol=accuracy, most_calls=_MAX_CALLS,
        after_step=lambda x, value: False,
    )  # fmt: skip
    _, loss, _, free, _ = min(found, key=lambda each: each[0])
    slopes = np.array([slope for _, _, slope, _, _ in found])
    errors = np.maximum(distances(), 0.0)
    start = np.zeros(len(found))
    start[errors.argmin()] = 1.0
    # The shares minimise the contribution of the free weights and of the errors to the gap.
    scaled = (slopes + ridge * free) / np.sqrt(ridge)
    shares = simplex_qp(scaled @ scaled.T, errors, start)
    x = np.concatenate([point.x[:n], free])
    residuals = sum(share * each[4] for share, each in zip(shares, found) if share > 0.0)
    return problem.point(x, loss, residuals, shares @ slopes, float(shares @ errors))


def descend_by_turns(problem, descent, tol, is_done):
    """Alternate between the minimum over the free weights, and over all weights except the additional scores.

    Parameters
    ----------
    problem : WorkingProblem
    descent : SupportDescent
        Its point becomes one with averaged gradients.
    tol : float
        The gap at which to stop.
    is_done : callable
        As in `SupportDescent.run`.

    Returns
    -------
    moved : bool
        Whether the gap was reached, or the objective decreased.
    """
    first = descent.point.value
    n_idle = 0
    accuracy = min(0.3 * tol, _SETTLED)
    for _ in range(_MAX_ROUNDS):
        before = descent.point.value
        descent.move_to(minimize_unpenalized(problem, descent.point, accuracy))
        if is_done(descent.point):
            return True
        # The objective hardly changes near the minimum, but the bound still may.
        n_idle = 0 if before - descent.point.value > _IDLE_GAIN * abs(before) else n_idle + 1
        if n_idle > _MAX_IDLE:
            break
        problem.fixes_additional = True
        descent.run(is_done)
        problem.fixes_additional = False
        if is_done(descent.point):
            return True
    else:
        descent.move_to(minimize_unpenalized(problem, descent.point, accuracy))
    return descent.point.value < first
