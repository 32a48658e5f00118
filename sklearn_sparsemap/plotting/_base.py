"""Base of all displays: their axes, and the fitted estimators that they draw."""

import numpy as np

from .._core.unwrap import unwrap
from ._style import centre_drawing, import_pyplot, size_in_points


class Display:
    """Base of the displays.

    ``from_estimator``, ``from_predictions`` and their like make a display and call `plot`. `plot` sets `ax_` and
    `figure_` by one of the two methods below, draws, and returns the display.
    """

    def _start(self, ax, figsize):
        """Set `ax_` and `figure_`, to a new figure of this size in inches if `ax` is None; return the axes."""
        if ax is None:
            _, ax = import_pyplot().subplots(figsize=figsize, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _start_drawing(self, ax, size, *, most=None):
        """Set `ax_` and `figure_`, to a new figure that a drawing in points fills if `ax` is None.

        Parameters
        ----------
        ax : matplotlib Axes or None
        size : (float, float)
            Size of the drawing.
        most : (float, float), default=None
            Largest size of the figure, in inches.

        Returns
        -------
        ax : matplotlib Axes
        available : ndarray of shape (2,)
            The size of the axes, in points.
        """
        if ax is None:
            inches = np.asarray(size) / 72
            figure = import_pyplot().figure(figsize=inches if most is None else np.minimum(inches, most))
            ax = figure.add_axes((0, 0, 1, 1))
        self.ax_, self.figure_ = ax, ax.figure
        return ax, np.array(size_in_points(ax))

    def _centre(self, low, high, available):
        """Show a drawing between two corners in the middle of the axes; return its scale and its middle."""
        scale = min(1.0, *(available / (high - low)))
        middle = (low + high) / 2
        centre_drawing(self.ax_, middle, available / scale)
        return scale, middle


def unwrap_fitted(estimator, attribute):
    """Return the steps before the last, and the last step, of a fitted estimator that must have an attribute."""
    steps, last = unwrap(estimator)
    if not hasattr(last, attribute):
        raise ValueError(f"the estimator must be fitted and have {attribute}; {type(last).__name__} has it not")
    return steps, last
