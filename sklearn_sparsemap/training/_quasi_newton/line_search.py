"""A line search for the strong Wolfe conditions (Moré and Thuente 1994), as in MINPACK-2 and L-BFGS-B.

Reference: Moré and Thuente, Line search algorithms with guaranteed sufficient decrease. ACM Transactions on
Mathematical Software 20, 1994.
"""

from collections import namedtuple
from math import sqrt

# The constants are those of L-BFGS-B.
# Strong Wolfe conditions: minimum decrease, as a fraction of the decrease that the initial slope predicts, and largest
# remaining slope, as a fraction of the initial slope.
DECREASE, CURVATURE = 1e-3, 0.9
# Smallest width of the interval of a minimum, relative to its end.
_NARROW = 0.1
_LONGEST = 1e10  # maximum step
_MOST_CALLS = 20  # maximum number of evaluations
# Smallest and largest extrapolation while no minimum is bracketed, as multiples of the last move.
_LEAST_GROWTH, _MOST_GROWTH = 1.1, 4.0
# Fraction to which the interval must shrink in two rounds; also the largest fraction of the way to its far end that a
# step may go.
_SHRINKING = 0.66

# A step with the function's value and slope.
Point = namedtuple("Point", ["step", "value", "slope"])


class LineSearch:
    """A search for a step along a direction of descent. `propose` returns whether another evaluation is needed.

    Parameters
    ----------
    value, slope : float
        The function and its derivative, which is negative, at step zero.
    step : float
        The first step to try.

    Attributes
    ----------
    step : float
        The next step to evaluate; at the end, the last evaluated step.
    found : bool
        Whether the last step satisfies the conditions, or is the best possible one.
    best : Point
        The best point so far, which need not satisfy the conditions.
    """

    def __init__(self, value, slope, step):
        self.start = self.best = self._end = Point(0.0, value, slope)
        self.step, self.found = min(step, _LONGEST), False
        self._bracketed, self._decreasing, self._n_calls = False, True, 0
        self._width, self._width_before = _LONGEST, 2.0 * _LONGEST
        self._low, self._high = 0.0, (1.0 + _MOST_GROWTH) * self.step

    def propose(self, value, slope):
        """Process the function's value and slope at `step`; return whether to evaluate a new step."""
        self._n_calls += 1
        point, promised = Point(self.step, value, slope), DECREASE * self.start.slope
        allowed = self.start.value + self.step * promised
        if self._decreasing and value <= allowed and slope >= 0.0:
            self._decreasing = False
        self.found = (value <= allowed and abs(slope) <= -CURVATURE * self.start.slope) or self._exhausted(
            value <= allowed and slope <= promised
        )
        if self.found or self._n_calls >= _MOST_CALLS:
            return False
        if self._decreasing and allowed < value <= self.best.value:
            # After subtraction of the required decrease, the new point is lower than the best point.
            tilted = [Point(s, f - s * promised, d - promised) for s, f, d in (self.best, self._end, point)]
            *ends, step = self._trial(*tilted)
            self.best, self._end = (Point(s, f + s * promised, d + promised) for s, f, d in ends)
        else:
            self.best, self._end, step = self._trial(self.best, self._end, point)
        self._advance(step)
        return True

    def _exhausted(self, long_enough):
        """Tell whether the last step is the best possible one, because of rounding or the maximum step."""
        return (self._bracketed and (not self._low < self.step < self._high or self._is_narrow())) or (
            self.step == _LONGEST and long_enough
        )

    def _is_narrow(self):
        return self._high - self._low <= _NARROW * self._high

    def _advance(self, step):
        """Set the next step, and the interval that contains it."""
        if self._bracketed:
            length = abs(self._end.step - self.best.step)
            if length >= _SHRINKING * self._width_before:
                step = self.best.step + 0.5 * (self._end.step - self.best.step)
            self._width_before, self._width = self._width, length
            self._low, self._high = sorted((self.best.step, self._end.step))
        else:
            further = step - self.best.step
            self._low, self._high = step + _LEAST_GROWTH * further, step + _MOST_GROWTH * further
        self.step = min(max(step, 0.0), _LONGEST)
        if self._bracketed and (not self._low < self.step < self._high or self._is_narrow()):
            self.step = self.best.step

    def _trial(self, best, end, point):
        """Return the new ends of the interval, the best first, and a step in it."""
        turned = point.slope * best.slope < 0.0
        step = self._interpolate(best, end, point, turned)
        self._bracketed |= point.value > best.value or turned
        if point.value > best.value:
            return best, point, step
        return point, best if turned else end, step

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
        step, limit = cubic if cubic_is_near else secant, point.step + _SHRINKING * (end.step - point.step)
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
