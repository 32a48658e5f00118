"""L-BFGS for a smooth function plus absolute values (OWL-QN), one step at a time.

Reference: Andrew and Gao, Scalable training of L1-regularized log-linear models. ICML 2007.

Used by `descent.py`.
"""

import numpy as np

# Number of pairs (step, change of the gradient) that are kept.
_N_PAIRS = 10
# A step is accepted if the objective falls by this fraction of the decrease that the slope predicts; else it is halved.
_SUFFICIENT, _MAX_HALVINGS = 1e-4, 30


class OrthantDescent:
    """An iterate that stays in one orthant during each step: a weight that would change its sign becomes zero.

    Parameters
    ----------
    value_gradient : callable
        Maps a point to the objective, and the gradient of its smooth part.
    x : array of shape (n,)
        The start.
    strengths : array of shape (n,)
        Strengths of the absolute values; zero for entries without one.
    moves : bool array of shape (n,)
        Entries that may change.
    scale : float
        Step size of the first step, which is along the steepest descent: the inverse of the curvature, about.

    Attributes
    ----------
    x : array of shape (n,)
        The current point.
    value : float
        The objective at `x`.
    """

    def __init__(self, value_gradient, x, strengths, moves, scale):
        self._value_gradient, self._strengths, self._moves = value_gradient, strengths, moves
        self._scale = scale
        self.x = x
        self.value, self._gradient = value_gradient(x)
        self._pairs = []

    def step(self):
        """Take one step; return whether a lower point was found."""
        while True:
            slope = self._subgradient()
            direction = self._direction(slope)
            if slope @ direction < 0.0 and self._search(slope, direction):
                return True
            if not self._pairs:
                return False
            # Try again along the steepest descent.
            self._pairs = []

    def _subgradient(self):
        """Return the subgradient of the objective with the smallest norm."""
        gradient, strengths = self._gradient, self._strengths
        at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - strengths, 0.0)
        return np.where(self.x != 0.0, gradient + strengths * np.sign(self.x), at_zero) * self._moves

    def _direction(self, slope):
        """Return minus the subgradient, multiplied by the approximate inverse of the Hessian."""
        direction, shares = -slope, []
        for step, change, product in reversed(self._pairs):
            shares.append(step @ direction / product)
            direction -= shares[-1] * change
        direction *= self._scale
        for (step, change, product), share in zip(self._pairs, reversed(shares)):
            direction += (share - change @ direction / product) * step
        # Entries at zero may only move downhill.
        uphill = (self.x == 0.0) & (self._strengths > 0.0) & (direction * slope >= 0.0)
        direction[uphill | ~self._moves] = 0.0
        return direction

    def _search(self, slope, direction):
        """Take a step along a direction, halved until it is accepted; return whether there is one."""
        signs = np.where(self.x != 0.0, np.sign(self.x), -np.sign(slope))
        length = 1.0
        for _ in range(_MAX_HALVINGS):
            x = self.x + length * direction
            x[(x * signs < 0.0) & (self._strengths > 0.0)] = 0.0
            step = x - self.x
            value, gradient = self._value_gradient(x)
            if not np.isfinite(value) or value <= self.value + _SUFFICIENT * float(slope @ step):
                break
            length *= 0.5
        else:
            return False
        change = (gradient - self._gradient) * self._moves
        product = float(step @ change)
        if product > np.finfo(float).eps * float(change @ change):
            self._pairs = [*self._pairs[1 - _N_PAIRS :], (step, change, product)]
            self._scale = product / float(change @ change)
        self.x, self.value, self._gradient = x, value, gradient
        return True
