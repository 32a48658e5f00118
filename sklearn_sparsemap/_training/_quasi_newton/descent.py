"""L-BFGS (Liu and Nocedal 1989) with a line search for the strong Wolfe conditions, and a bundle method at kinks.

The method, its constants and its line search (Moré and Thuente 1994, as in MINPACK-2) are those of L-BFGS-B without
bounds, so the steps are the same.

References: Liu and Nocedal, On the limited memory BFGS method for large scale optimization. Mathematical Programming
45, 1989. Zhu, Byrd, Lu and Nocedal, Algorithm 778: L-BFGS-B. ACM Transactions on Mathematical Software 23, 1997. Moré
and Thuente, Line search algorithms with guaranteed sufficient decrease. ACM Transactions on Mathematical Software 20,
1994.

Used by `_training/_group_lasso` and `estimators`.
"""

from collections import namedtuple
from functools import lru_cache
from math import sqrt

import numpy as np
from threadpoolctl import ThreadpoolController

from .._bundle import minimize_bundle
from .pieces import LONG, MOVE, CurvaturePairs, over_pieces

# The constants are those of L-BFGS-B.
# Strong Wolfe conditions: minimum decrease, as a fraction of the decrease that the initial slope predicts, and largest
# remaining slope, as a fraction of the initial slope.
DECREASE, CURVATURE = 1e-3, 0.9
# Smallest width of the interval of a minimum, relative to its end.
_NARROW = 0.1
_LONGEST = 1e10  # maximum step
_MAX_CALLS, _MAX_CALLS_AT_KINKS = 20, 8  # maximum number of evaluations
# Smallest and largest extrapolation while no minimum is bracketed, as multiples of the last move.
_LEAST_GROWTH, _MAX_GROWTH = 1.1, 4.0
# Fraction to which the interval must shrink in two rounds; also the largest fraction of the way to its far end that a
# step may go.
_SHRINKING = 0.66

# Gains of an iteration up to this, relative to the loss, are rounding errors.
_NOTHING = 64 * np.finfo(float).eps
# After a failed line search, L-BFGS restarts only if the previous restart gained this much, relative to the loss.
_LEAST_GAIN = 1e-6
# L-BFGS has stalled at a kink if this many iterations gain less than this, relative to the loss.
_STALLED_AFTER, _STALLED_GAIN = 5, 1e-4
# A failed line search is at a kink that matters if the objective fell by less than this since the last one, relative to
# the loss.
_GAIN_BETWEEN_KINKS = 1e-2

# The bundle method stops if its model promises a gain of less than (`_CLOSE` tol)^2, relative to the loss, because near
# a minimum the objective grows with the square of the gradient. At the default tol, the loss is then within about 1e-4
# of the minimum, which no held-out score shows.
_CLOSE = 7.0

# At a smaller tol, L-BFGS continues from the minimum of the bundle method.
_ROUGH = 1e-3

# A step with the function's value and slope.
Point = namedtuple("Point", ["step", "value", "slope"])


@lru_cache(maxsize=1)
def _thread_pools():
    # The search for the libraries takes as long as a small fit.
    return ThreadpoolController()


def minimize_lbfgs(objective, model, *, max_iter, tol, after_iteration, by_bundle=False):
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

    by_bundle : bool, default=False
        Whether to begin with the bundle method, for a start at kinks. L-BFGS goes on if `tol` is small.

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
        start = objective.pack(model)
        # The next vectors use the memory of the model.
        del model
        n_iter, message = 0, ""
        metric = objective.curvatures() if has_kinks and objective.has_few_weights else None
        stops = []

        def after_step(x, value):
            stops.append(bool(after_iteration(objective.unpack(x.copy()), float(value))))
            return stops[-1]

        if by_bundle:
            rough = max(tol, _ROUGH)
            start, value, largest, message = minimize_bundle(
                objective.loss_gradient, start, objective.penalised, alpha=objective.alpha, tol=rough,
                gap=(_CLOSE * rough) ** 2, most_calls=max_iter, after_step=after_step, metric=metric,
            )  # fmt: skip
            if message or tol >= _ROUGH or any(stops):
                return objective.unpack(start), value, _explain(message, largest, rough)
            n_iter = len(stops)
        descent = Descent(objective.loss_gradient, start, objective.n_jobs, has_kinks)
        del start
        values, slopes, started_at, failed_at, at_kink = [], [], np.inf, np.inf, False
        while np.isfinite(descent.value) and descent.largest > tol:
            if n_iter >= max_iter:
                message = "it reached max_iter"
                break
            before = descent.value
            n_failed = descent.n_failed
            moved = descent.step()
            if not np.isfinite(descent.value):
                break
            if moved:
                n_iter += 1
                values.append(descent.value)
                slopes.append(descent.largest)
                if after_iteration(objective.unpack(descent.x), descent.value) or descent.largest <= tol:
                    break
                gains = before - descent.value > _NOTHING * max(1.0, abs(before))
                if has_kinks and descent.n_failed > n_failed:
                    gains = failed_at - descent.value > _GAIN_BETWEEN_KINKS * max(1.0, abs(descent.value))
                    failed_at = descent.value
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
                gap=(_CLOSE * tol) ** 2, most_calls=max_iter - n_iter, after_step=after_step, metric=metric,
            )  # fmt: skip
        return objective.unpack(x), value, _explain(message, largest, tol)


def _explain(message, largest, tol):
    """Return the reason for a failure with figures; empty if there is none."""
    return message and f"{message}; the largest entry of the gradient is {largest:.1e}, tol is {tol:.1e}"


def _has_stalled(values, slopes):
    """Tell whether iterations hardly lower the objective, although the gradient does not become small."""
    n = _STALLED_AFTER
    if len(values) < 2 * n:
        return False
    gain = values[-n] - values[-1]
    scale = max(1.0, abs(values[-1]))
    return gain < _STALLED_GAIN * scale and min(slopes[-n:]) > 0.5 * min(slopes[-2 * n : -n])


class Descent:
    """An iterate of L-BFGS.

    Parameters
    ----------
    loss_gradient : callable
        Maps a point, and an output array for its gradient, to the function's value and the gradient.
    x : array of shape (n,)
        The start, which later steps overwrite.
    n_jobs : int or None
        Number of threads. Results do not depend on it.
    has_kinks : bool, default=False
        See `LineSearch`.

    Attributes
    ----------
    x : array of shape (n,)
        The current point. A step overwrites the point before it. Long vectors move in place, which saves one of them.
    value : float
        The function's value at `x`.
    largest : float
        Largest absolute entry of the gradient at `x`.
    n_failed : int
        Number of line searches that met no conditions.
    """

    def __init__(self, loss_gradient, x, n_jobs, has_kinks=False):
        self._loss_gradient = loss_gradient
        self._n_jobs = n_jobs
        self._pairs = CurvaturePairs(len(x), n_jobs)
        self._has_kinks = has_kinks
        # `_gradient` is that of the last evaluated point, which is `_new_x`: `x` moved by `_moved` times the direction.
        self.x = x
        self._new_x = np.empty_like(x) if len(x) < LONG else x
        self._gradient = np.empty_like(x)
        self._moved, self.n_failed = 0.0, 0
        self.value, _ = loss_gradient(self.x, self._gradient)
        self.largest = max(float(self._gradient.max(initial=0.0)), -float(self._gradient.min(initial=0.0)))

    def forget(self):
        """Restart from the current point with an empty memory."""
        self._pairs.held = []

    def step(self):
        """Take one step; return whether a lower point was found.

        If the function is not finite at a trial point, `value` becomes that value.
        """
        slope, square = (float(product) for product in self._pairs.combine(self._gradient))
        try:
            if slope < 0.0:
                first = 1.0 if self._pairs.held else 1.0 / sqrt(square)
                more = True
                search = LineSearch(self.value, slope, first, self._has_kinks)
                while more:
                    value, new_slope, largest = self._try(search.step)
                    if not np.isfinite(value + new_slope):
                        self.value = value + new_slope
                        return True
                    more = search.propose(value, new_slope)
                self.n_failed += not search.succeeded
                is_at_kink = not search.succeeded and search.best.step > 0.0
                if is_at_kink:
                    # The search found a lower point at a kink, where the curvature is meaningless.
                    value, _, largest = self._try(search.best.step)
                    self.forget()
                if is_at_kink or (search.succeeded and search.step > 0.0):
                    # The point is accepted. The next pair overwrites the direction.
                    self._moved = 0.0
                    if not is_at_kink:
                        self._pairs.remember(search.step, self._gradient, 1.0 - new_slope / slope)
                    self.x, self._new_x = self._new_x, self.x
                    self.value, self.largest = value, largest
                    return True
                self._gradient[:] = self._pairs.before
        finally:
            # If training is interrupted, or there is no lower point, the last point stays.
            if self._moved:
                self._pairs.move(-self._moved, self.x)
                self._moved = 0.0
        if not self._pairs.held:
            return False
        # Try again along the negative gradient.
        self.forget()
        return self.step()

    def _try(self, step):
        """Return the function's value and slope after a step, and the largest entry of its gradient."""
        way = self._pairs.direction
        if self._new_x is not self.x:
            over_pieces(len(way), self._n_jobs, 0, MOVE[way.dtype.name], self.x, way, step, self._new_x)
        elif step != self._moved:
            self._pairs.move(step - self._moved, self.x)
            self._moved = step
        value, _ = self._loss_gradient(self._new_x, self._gradient)
        return value, *self._pairs.slope(self._gradient)


class LineSearch:
    """A search for a step along a direction of descent. `propose` returns whether another evaluation is needed.

    Parameters
    ----------
    value, slope : float
        The function and its derivative, which is negative, at step zero.
    step : float
        The first step to try.
    has_kinks : bool, default=False
        Whether the slope after the step may be positive and steep (the weak Wolfe conditions), because next to a kink
        there may be no flat point (Lewis and Overton 2013).

    Attributes
    ----------
    step : float
        The next step to evaluate; at the end, the last evaluated step.
    succeeded : bool
        Whether the last step satisfies the conditions, or is the best possible one.
    best : Point
        The best point so far, which need not satisfy the conditions.
    """

    def __init__(self, value, slope, step, has_kinks=False):
        self._has_kinks = has_kinks
        self.start = self.best = self._end = Point(0.0, value, slope)
        self.step = min(step, _LONGEST)
        self.succeeded = False
        self._bracketed, self._decreasing, self._n_calls = False, True, 0
        self._width, self._width_before = _LONGEST, 2.0 * _LONGEST
        self._low, self._high = 0.0, (1.0 + _MAX_GROWTH) * self.step

    def propose(self, value, slope):
        """Process the function's value and slope at `step`; return whether to evaluate a new step."""
        self._n_calls += 1
        point = Point(self.step, value, slope)
        promised = DECREASE * self.start.slope
        allowed = self.start.value + self.step * promised
        if self._decreasing and value <= allowed and slope >= 0.0:
            self._decreasing = False
        # The last step is also the best possible one at the maximum, or if rounding ends the search.
        at_maximum = self.step == _LONGEST and value <= allowed and slope <= promised
        steepness = -slope if self._has_kinks else abs(slope)
        meets_conditions = value <= allowed and steepness <= -CURVATURE * self.start.slope
        self.succeeded = meets_conditions or at_maximum or self._is_exhausted()
        if self.succeeded or self._n_calls >= (_MAX_CALLS_AT_KINKS if self._has_kinks else _MAX_CALLS):
            return False
        best, end = self.best, self._end
        is_reduced = self._decreasing and allowed < value <= best.value
        if is_reduced:
            # After subtraction of the required decrease, the new point is lower than the best point.
            best, end, point = (Point(s, f - s * promised, d - promised) for s, f, d in (best, end, point))
        turned = point.slope * best.slope < 0.0
        step = self._interpolate(best, end, point, turned)
        self._bracketed |= point.value > best.value or turned
        if point.value > best.value:
            end = point
        else:
            end = best if turned else end
            best = point
        if is_reduced:
            best, end = (Point(s, f + s * promised, d + promised) for s, f, d in (best, end))
        self.best, self._end = best, end
        if self._bracketed:
            length = abs(self._end.step - self.best.step)
            if length >= _SHRINKING * self._width_before:
                step = self.best.step + 0.5 * (self._end.step - self.best.step)
            self._width_before, self._width = self._width, length
            self._low, self._high = sorted((self.best.step, self._end.step))
        else:
            further = step - self.best.step
            self._low, self._high = step + _LEAST_GROWTH * further, step + _MAX_GROWTH * further
        self.step = min(max(step, 0.0), _LONGEST)
        if self._is_exhausted():
            self.step = self.best.step
        return True

    def _is_exhausted(self):
        """Tell whether the interval of a minimum is so narrow that rounding decides."""
        is_narrow = self._high - self._low <= _NARROW * self._high
        return self._bracketed and (not self._low < self.step < self._high or is_narrow)

    def _interpolate(self, best, end, point, turned):
        """Return a step by cubic, quadratic or linear interpolation between two points."""
        far = point.step - best.step
        if point.value > best.value:
            # A minimum is bracketed: take the cubic step if it is closer to the best point, else the mean of the two.
            cubic = best.step + _cubic(best, point, far)[0] * far
            mean_slope = (best.value - point.value) / far + best.slope
            quadratic = best.step + 0.5 * best.slope / mean_slope * far
            return cubic if abs(cubic - best.step) < abs(quadratic - best.step) else cubic + 0.5 * (quadratic - cubic)
        if not turned and not abs(point.slope) < abs(best.slope):
            # The slope is negative and not flatter.
            if self._bracketed:
                back = end.step - point.step
                return point.step + _cubic(point, end, back)[0] * back
            return self._high if far > 0.0 else self._low
        secant = point.step - point.slope / (point.slope - best.slope) * far
        fraction, has_minimum = _cubic(point, best, -far)
        if turned:
            # The slope changed sign: take the farther of the two steps.
            cubic = point.step - fraction * far
            return cubic if abs(cubic - point.step) > abs(secant - point.step) else secant
        # The slope is flatter: the cubic may have no minimum, or one on the other side.
        beyond = fraction < 0.0 and has_minimum
        cubic = point.step - fraction * far if beyond else self._high if far > 0.0 else self._low
        cubic_is_near = abs(cubic - point.step) < abs(secant - point.step)
        if not self._bracketed:
            return min(max(secant if cubic_is_near else cubic, self._low), self._high)
        step = cubic if cubic_is_near else secant
        limit = point.step + _SHRINKING * (end.step - point.step)
        return min(limit, step) if far > 0.0 else max(limit, step)


def _cubic(near, other, way):
    """Return the minimum of the cubic through two points, and whether there is one.

    The minimum is a fraction of `way`, the signed distance from the first point to the other.
    """
    theta = 3.0 * (near.value - other.value) / way + near.slope + other.slope
    scale = max(abs(theta), abs(near.slope), abs(other.slope))
    root = scale * sqrt(max(0.0, (theta / scale) ** 2 - (near.slope / scale) * (other.slope / scale)))
    root = root if way > 0.0 else -root
    return (root - near.slope + theta) / (2.0 * root - near.slope + other.slope), root != 0.0
