"""L-BFGS (Liu and Nocedal 1989), one step at a time.

The method, its constants and its line search are those of L-BFGS-B without bounds, so the steps are the same.

References: Liu and Nocedal, On the limited memory BFGS method for large scale optimization. Mathematical Programming
45, 1989. Zhu, Byrd, Lu and Nocedal, Algorithm 778: L-BFGS-B. ACM Transactions on Mathematical Software 23, 1997.
"""

import numpy as np

from .line_search import LineSearch
from .pairs import Pairs
from .pieces import Pieces, move_range, slope_range


class Descent:
    """An iterate of L-BFGS.

    Parameters
    ----------
    loss_gradient : callable
        Maps a point, and an output array for its gradient, to the function's value and the gradient.
    x : array of shape (n,)
        The start, which is copied.
    n_jobs : int or None
        Number of threads. Results do not depend on it.

    Attributes
    ----------
    x : array of shape (n,)
        The current point. It is overwritten only in the step after the next one.
    value : float
        The function's value at `x`.
    largest : float
        Largest absolute entry of the gradient at `x`.
    """

    def __init__(self, loss_gradient, x, n_jobs):
        self._loss_gradient, self._pieces = loss_gradient, Pieces(len(x), n_jobs)
        self._pairs = Pairs(self._pieces)
        self.x, self._gradient = x.copy(), np.empty_like(x)
        self._new_x, self._new_gradient, self._direction = (np.zeros_like(x) for _ in range(3))
        self.value, _ = loss_gradient(self.x, self._gradient)
        _, self.largest = self._slope(self._gradient)

    def forget(self):
        """Restart from the current point with an empty memory."""
        self._pairs.forget()

    def step(self):
        """Take one step; return whether a lower point was found.

        If the function is not finite at a trial point, `value` becomes that value.
        """
        while True:
            slope, square = self._pairs.combine(self._gradient, self._direction)
            if slope < 0.0 and self._search(float(slope), 1.0 if self._pairs.held else 1.0 / float(np.sqrt(square))):
                return True
            if not self._pairs.held:
                return False
            # Try again along the negative gradient.
            self.forget()

    def _search(self, slope, first):
        """Search along the direction, beginning with the step `first`; return whether a lower point was found."""
        search = LineSearch(self.value, slope, first)
        more = True
        while more:
            value, new_slope, largest = self._try(search.step)
            if not np.isfinite(value + new_slope):
                self.value = value + new_slope
                return True
            more = search.propose(value, new_slope)
        if not search.found and search.best.step > 0.0:
            # The search found a lower point at a kink, where the curvature is meaningless.
            value, _, largest = self._try(search.best.step)
            self.forget()
        elif not search.found or search.step == 0.0:
            return False
        else:
            gain = 1.0 - new_slope / slope
            self._pairs.remember(self._direction, search.step, self._gradient, self._new_gradient, gain)
        self.x, self._new_x = self._new_x, self.x
        self._gradient, self._new_gradient = self._new_gradient, self._gradient
        self.value, self.largest = value, largest
        return True

    def _try(self, step):
        """Return the function's value and slope after a step, and the largest entry of its gradient."""
        self._pieces.over(0, move_range, self.x, self._direction, step, self._new_x)
        value, _ = self._loss_gradient(self._new_x, self._new_gradient)
        return value, *self._slope(self._new_gradient)

    def _slope(self, gradient):
        """Return the product of a gradient with the direction, and its largest absolute entry."""
        table = self._pieces.over(2, slope_range, gradient, self._direction)
        return float(table[:, 0].sum()), float(table[:, 1].max())
