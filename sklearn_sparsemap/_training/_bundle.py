"""A proximal bundle method, for convex objectives with kinks (Kiwiel 1990).

At a kink, a single gradient does not describe the objective. So the gradient of each evaluation is stored: it defines a
cutting plane, which is a lower bound of the loss. The next point minimises the maximum of the planes, plus the penalty,
plus a quadratic term that keeps it near the best point so far. A convex combination of the gradients replaces the
gradient at the best point. It is small only near the optimum.

Reference: Kiwiel, Proximity control in bundle methods for convex nondifferentiable minimization. Mathematical
Programming 46, 1990.

Used by `_training/_group_lasso`, `_training/_quasi_newton` and `estimators`.
"""

import numpy as np

# Fractions of the gain predicted by the planes, from Kiwiel: a step that gains at least the first fraction is taken;
# after one that gains the second, steps may become longer.
_SERIOUS, _VERY_GOOD = 0.1, 0.5
# Memory limit of the planes in bytes, and their minimum and maximum number.
_PLANE_BYTES = 64 * 2**20
_MIN_PLANES, _MAX_PLANES = 20, 200
# Weight of the quadratic term, relative to the metric, at which a step must promise no gain before the method stops.
_WEAK = 0.01
# Objective below which the promised gain is compared with this, not with the objective.
_SMALL = 0.01
# Smallest weight of the quadratic term, which keeps the division by it finite.
_SMALLEST_PROXIMITY = 1e-10
# Predicted gains up to this, relative to the loss, are rounding errors.
_ROUNDING = 16 * np.finfo(float).eps
# Largest possible gain, relative to the loss, at which to stop: the accuracy of losses.
_NOTHING = 1e-12
# The method fails if `_MAX_IDLE` calls together gain less than the fraction `_IDLE_GAIN` of tol, relative to the loss.
_MAX_IDLE, _IDLE_GAIN = 100, 1e-3
# Relative rounding error of the optimality conditions of the multipliers, and ridge of their equations.
_SLACK, _RIDGE = 1e-15, 1e-13


def simplex_qp(hessian, linear, start):
    """Minimise ``x @ hessian @ x / 2 + linear @ x`` over the probability simplex by an active set.

    Parameters
    ----------
    hessian : positive semidefinite array of shape (n, n)
    linear : array of shape (n,)
    start : array of shape (n,)
        A point of the simplex, ideally near the solution.

    Returns
    -------
    x : array of shape (n,)
    """
    n = len(linear)
    x = start
    free = start > 0.0
    entered = -1
    scale = max(np.trace(hessian) / n, np.finfo(float).tiny)
    for _ in range(20 * n + 50):
        while True:
            places = np.flatnonzero(free)
            m = len(places)
            system = np.zeros((m + 1, m + 1))
            system[:m, :m] = hessian[np.ix_(places, places)] / scale
            system[np.arange(m), np.arange(m)] += _RIDGE
            system[:m, m] = system[m, :m] = 1.0
            wanted = np.linalg.solve(system, np.append(-linear[places] / scale, 1.0))[:m]
            old = x[places]
            out = wanted <= 0.0
            x = np.zeros(n)
            if not out.any():
                x[places] = wanted / wanted.sum()
                break
            # Move until the first variable reaches zero, and fix it there.
            steps = np.where(out, old / np.where(out, old - wanted, 1.0), np.inf)
            moved = np.maximum(old + steps.min() * (wanted - old), 0.0)
            moved[steps.argmin()] = 0.0
            x[places] = moved / moved.sum()
            free = x > 0.0
        if entered >= 0 and not free[entered]:
            # The variable left the free set at once, so its reduced cost was rounding error.
            break
        slope = hessian @ x + linear
        entered = int(slope.argmin())
        if free[entered] or slope[entered] >= x @ slope - _SLACK * np.abs(linear[free]).max():
            break
        free[entered] = True
    return x


class _Planes:
    """Cutting planes: gradients of the loss, and the gaps between the loss and the planes at the best point."""

    def __init__(self, gradient):
        self.most = int(np.clip(_PLANE_BYTES // gradient.nbytes, _MIN_PLANES, _MAX_PLANES))
        self.gradients = np.empty((self.most, len(gradient)))
        self.gradients[0] = gradient
        self.n = 1
        self.errors = np.zeros(1)
        self.multipliers = np.ones(1)
        # Products of the gradients, each entry divided by the curvature; those of the last gradients may be missing.
        self._curvature = None
        self._products = np.zeros((0, 0))

    @property
    def held(self):
        return self.gradients[: self.n]

    def products(self, curvature):
        """Return the products of the gradients, each entry divided by a positive curvature."""
        if self._curvature is None or not np.array_equal(curvature, self._curvature):
            self._curvature = curvature
            self._products = np.zeros((0, 0))
        k = len(self._products)
        if k < self.n:
            columns = self.held @ (self.held[k:] / self._curvature).T
            self._products = np.block([[self._products, columns[:k]], [columns.T]])
        return self._products

    def add(self, gradient, error):
        if self.n == self.most:
            self._forget()
        self.gradients[self.n] = gradient
        self.n += 1
        self.errors = np.append(self.errors, error)
        self.multipliers = np.append(self.multipliers, 0.0)

    def _forget(self):
        """Drop a quarter of the planes: those with the smallest multipliers, the oldest first."""
        order = np.lexsort((-np.arange(self.n), -self.multipliers))[: self.n - self.n // 4]
        kept = np.sort(order)
        self.gradients[: len(kept)] = self.gradients[kept]
        self.n = len(kept)
        self.errors = self.errors[kept]
        self.multipliers = self.multipliers[kept] / self.multipliers[kept].sum()
        self._curvature = None


def minimize_bundle(loss_gradient, x, penalised, *, alpha, tol, most_calls, after_step, gap=_NOTHING, metric=None):
    """Minimise ``loss(x) + alpha/2 |x[penalised]|^2`` for a convex loss.

    Parameters
    ----------
    loss_gradient : callable
        Maps a point to the objective and a subgradient of it, both with the penalty.
    x : array of shape (n,)
        The start.
    penalised : bool array of shape (n,)
    alpha : float
    tol : float
        Largest entry of the averaged gradient at the end. The planes must also be at most tol / 100 below the objective
        at the best point, relative to the maximum of 1 and the objective.
    most_calls : int
        Maximum number of calls of `loss_gradient`.
    after_step : callable
        Called with the point and its objective after each step; True stops.
    gap : float, default=1e-12
        The method also stops if the planes promise, or prove, that no more than this can be gained, relative to the
        maximum of 1 and the objective.
    metric : array of shape (n,), default=None
        About the curvature of the loss in each weight, positive. By default, 1 times the norm of the first gradient.

    Returns
    -------
    x : array of shape (n,)
    value : float
        The objective at x.
    largest : float
        Largest entry of the averaged gradient.
    message : str
        The reason for a failure; empty if it converged, or was stopped.
    """

    def without_penalty(point):
        value, slope = loss_gradient(point)
        own = alpha * np.where(penalised, point, 0.0)
        return value, value - 0.5 * (own @ point), slope - own, slope

    value, loss, gradient, _ = without_penalty(x)
    if not np.isfinite(value):
        return x, value, np.inf, ""
    planes = _Planes(gradient)
    proximity = 1.0
    has_metric = metric is not None
    if not has_metric:
        metric = np.ones(len(x))
        proximity = max(float(np.linalg.norm(gradient)), _SMALLEST_PROXIMITY)
    strengths = alpha * penalised
    run, largest_error, n_calls, noted, noted_at = 0, np.inf, 1, value, 1
    was_short = True
    while True:
        # The step to the minimum of the model is computed from the dual problem, whose variables are the multipliers.
        curvature = proximity * metric + strengths
        own = alpha * np.where(penalised, x, 0.0)
        linear = planes.errors + planes.held @ (own / curvature)
        planes.multipliers = simplex_qp(planes.products(curvature), linear, planes.multipliers)
        mean, error = planes.multipliers @ planes.held, planes.multipliers @ planes.errors
        slope = mean + own
        step = -slope / curvature
        promised = error - slope @ step - 0.5 * alpha * (step[penalised] @ step[penalised])
        largest = float(np.abs(slope).max())
        scale = max(1.0, abs(value))
        if largest <= tol and error <= 0.01 * tol * scale:
            return x, value, largest, ""
        # If the slope in the unpenalised weights is zero, planes and penalty bound the objective from below.
        known = alpha > 0.0 and np.abs(slope[~penalised]).max(initial=0.0) <= tol
        if known and error + slope[penalised] @ slope[penalised] / (2.0 * alpha) <= gap * scale:
            return x, value, largest, ""
        if gap > _NOTHING and promised <= gap * max(_SMALL, abs(value)):
            if not has_metric or not was_short or proximity <= _WEAK:
                return x, value, largest, ""
            # The last step gained all that the model promised, so a longer one may gain more.
            proximity = max(0.3 * proximity, _WEAK)
            continue
        if noted - value > _IDLE_GAIN * tol * scale:
            noted, noted_at = value, n_calls
        if not promised > _ROUNDING * scale or n_calls - noted_at >= _MAX_IDLE:
            return x, value, largest, "the objective no longer moves"
        if n_calls >= most_calls:
            return x, value, largest, "it reached max_iter"
        point = x + step
        new_value, new_loss, gradient, new_slope = without_penalty(point)
        n_calls += 1
        if not np.isfinite(new_value):
            return point, new_value, largest, ""
        # By convexity, the slope at the new point bounds the gain from below. It is more accurate than the difference
        # of values.
        gain = max(value - new_value, -(new_slope @ step))
        before = proximity
        wanted = 2.0 * proximity * (1.0 - gain / promised)
        was_short = gain >= _VERY_GOOD * promised
        if gain >= _SERIOUS * promised:
            planes.errors = np.maximum(planes.errors + new_loss - loss - planes.held @ step, 0.0)
            x, value, loss = point, new_value, new_loss
            planes.add(gradient, 0.0)
            if run > 0 and gain >= _VERY_GOOD * promised:
                proximity = min(wanted, proximity)
            elif run > 3:
                proximity *= 0.5
            proximity = max(proximity, 0.1 * before, _SMALLEST_PROXIMITY)
            largest_error = max(largest_error, 2.0 * promised)
            run = max(run + 1, 1) if proximity == before else 1
            if after_step(x, value):
                return x, value, largest, ""
        else:
            below = max(loss - new_loss + gradient @ step, 0.0)
            planes.add(gradient, below)
            largest_error = min(largest_error, float(np.abs(slope).sum()) + error)
            if below > max(largest_error, 10.0 * promised) and run < -3:
                proximity = max(wanted, proximity)
            proximity = min(proximity, 10.0 * before)
            run = min(run - 1, -1) if proximity == before else -1
