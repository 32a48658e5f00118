"""Minimisation on a working set: proximal gradient steps find the nonzero groups, L-BFGS the weights in them.

References: Wright, Nowak and Figueiredo, Sparse reconstruction by separable approximation. IEEE Transactions on Signal
Processing 57, 2009 (SpaRSA). Barzilai and Borwein, Two-point step size gradient methods. IMA Journal of Numerical
Analysis 8, 1988.

Used by `solver.py`.
"""

import numpy as np

from .._quasi_newton.descent import Descent
from .orthants import OrthantDescent

# A step is accepted if the objective falls below the largest of the last `_MEMORY` values, by the fraction
# `_SUFFICIENT` of the decrease predicted by a quadratic model of curvature 1 / step.
_MEMORY, _SUFFICIENT = 5, 1e-2
# Range of step sizes, in units of the squared scale of the features, and their factor after a rejected step.
_SMALLEST, _LARGEST, _SHORTER = 1e-30, 1e12, 0.4
_AFTER_KINK = 1e-2
# Differences of objectives up to this fraction are rounding errors.
_ROUNDING = 8 * np.finfo(float).eps
# The descent is too slow if `_CREEPS_AFTER` steps together gain at most the fraction `_CREEPING` of the objective.
_CREEPS_AFTER, _CREEPING = 40, 1e-6
# L-BFGS takes over after `_STABLE` steps without a change of the support, and takes at most `_MAX_SMOOTH` steps.
_STABLE, _MAX_SMOOTH = 4, 200


class SupportDescent:
    """Minimises the objective of a working set.

    Parameters
    ----------
    problem : WorkingProblem
    x : array
        The start.
    step : float
        The size of the first proximal gradient step.

    Attributes
    ----------
    point : Point
        The current point.
    step : float
        The size of the next proximal gradient step.
    """

    def __init__(self, problem, x, step):
        self.problem, self.step = problem, step
        self.move_to(problem.evaluate(x))

    def run(self, is_done):
        """Take steps until a function of the current point is true, or no step lowers the objective.

        Returns
        -------
        moved : bool
            False if no step lowers the objective.
        """
        while not is_done(self.point):
            if self._stable >= _STABLE:
                self._stable = 0
                if self._follow_support(is_done):
                    return True
            if not self._proximal_step():
                return False
        return True

    def move_to(self, point):
        """Continue from another point, which may be higher than the last ones."""
        self.point, self._values, self._stable = point, [point.value], 0
        # At a kink, steps have become tiny.
        self.step = max(self.step, _AFTER_KINK)

    def _proximal_step(self):
        """Take a proximal gradient step; return whether one was found."""
        problem, point, n = self.problem, self.point, self.problem.n_coefs
        worst = max(self._values[-_MEMORY:])
        step = self.step
        while step > _SMALLEST:
            x = point.x - step * point.gradient
            x[:n] = problem.penalty.prox(problem.coef(x), step).ravel()
            moved = x - point.x
            square = float(moved @ moved)
            if square == 0.0:
                return False
            found = problem.evaluate(x)
            if found.value <= worst + _ROUNDING * abs(worst) - 0.5 * _SUFFICIENT / step * square:
                break
            step *= _SHORTER
        else:
            return False
        curvature = float((found.gradient - point.gradient) @ moved)
        before, after = (problem.penalty.smooth_entries(problem.coef(each)) for each in (point.x, x))
        self._stable = self._stable + 1 if np.array_equal(before, after) else 0
        self.step = min(square / curvature, _LARGEST) if curvature > 0.0 else 2.0 * step
        self._take(found)
        return True

    def _take(self, point):
        self.point = point
        self._values.append(point.value)

    @property
    def creeps(self):
        """Whether the last steps hardly lowered the objective."""
        return len(self._values) > _CREEPS_AFTER and (
            self._values[-_CREEPS_AFTER] - self.point.value <= _CREEPING * abs(self.point.value)
        )

    def _follow_support(self, is_done):
        """Take steps of L-BFGS in the weights in which the norms of groups are smooth; return whether it is done."""
        problem, penalty, n, last = self.problem, self.problem.penalty, self.problem.n_coefs, self.point
        moves = np.ones(len(last.x), bool)
        moves[:n] = penalty.smooth_entries(problem.coef(last.x)).ravel()

        def value_gradient(x, out=None):
            nonlocal last
            last = problem.evaluate(x.copy())
            out = np.empty_like(x) if out is None else out
            out[:] = last.gradient
            out[:n] += penalty.slope(problem.coef(x)).ravel()
            out *= moves
            return last.value, out

        if penalty.l1_ratio == 0.0:
            descent = Descent(value_gradient, last.x.copy(), problem.n_jobs)
        else:
            strengths = np.zeros(len(last.x))
            strengths[:n] = penalty.l1_ratio * penalty.alpha
            descent = OrthantDescent(value_gradient, last.x, strengths, moves, self.step)
        for _ in range(_MAX_SMOOTH):
            before = descent.value
            if not descent.step() or not np.isfinite(descent.value):
                return False
            self._take(last)
            if is_done(last):
                return True
            if before - descent.value <= _ROUNDING * abs(before):
                # Line searches compare values, so rounding stops them. Proximal gradient steps can continue.
                return False
        return False
