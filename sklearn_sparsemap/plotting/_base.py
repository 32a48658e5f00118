"""Bases of all displays: their axes, and the fitted estimators that they draw.

Used by `plotting/_graphs`, `plotting/_selection`, `plotting/_structures`, `_calibration.py`, `_convergence.py`,
`_coverage.py`, `_inspection.py` and `_loss_curve.py`.
"""

import numpy as np

from .._core.unwrap import unwrap_whole
from ._style import INK, import_library, size_in_points, text_width

# Height, font and margins of the legend that is part of a drawing, in points.
_LEGEND, _LEGEND_FONT, _MARGIN = 24.0, 10.0, 8.0


class Display:
    """Base of the displays.

    Class methods such as ``from_estimator`` and ``from_predictions`` make a display and call `plot`. `plot` sets `ax_`
    and `figure_` by `_start`, draws, and returns the display.
    """

    def _start(self, ax, figsize):
        """Set `ax_` and `figure_`, to a new figure of this size in inches if `ax` is None; return the axes."""
        if ax is None:
            pyplot = import_library("matplotlib.pyplot")
            _, ax = pyplot.subplots(figsize=figsize, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _start_panels(self, ax, figsize, n_panels, n_columns=1, **ratios):
        """Set `ax_` and `figure_` for a display of several panels, in rows of `n_columns`.

        Parameters
        ----------
        ax : None, matplotlib Axes or sequence of `n_panels` Axes
            None: a new figure. One Axes is divided into panels. Several are the panels.
        figsize : (float, float)
            Size of a new figure in inches.
        n_panels, n_columns : int
        **ratios
            ``height_ratios`` or ``width_ratios`` of the rows or columns.

        Returns
        -------
        axes : ndarray of shape (n_panels,) of Axes
        """
        axes = None if ax is None else np.ravel(ax)
        if axes is None or len(axes) == 1 < n_panels:
            shape = -(-n_panels // n_columns), n_columns
            if axes is None:
                self.figure_ = import_library("matplotlib.pyplot").figure(figsize=figsize, layout="constrained")
                grid = self.figure_.add_gridspec(*shape, **ratios)
            else:
                self.figure_ = axes[0].figure
                part = axes[0].get_subplotspec()
                if part is None:
                    raise ValueError(f"ax has no place in a grid that could be divided; give {n_panels} axes")
                axes[0].set_axis_off()
                grid = part.subgridspec(*shape, **ratios)
            axes = np.array([self.figure_.add_subplot(grid[divmod(k, n_columns)]) for k in range(n_panels)])
        if len(axes) != n_panels:
            raise ValueError(f"ax must be {n_panels} axes, or one, which is divided; got {len(axes)} axes")
        self.ax_, self.figure_ = axes, axes[0].figure
        return axes


class Drawing(Display):
    """Base of the displays that draw in points: at full size in a new figure, scaled down to fit given axes."""

    def _start_drawing(self, ax, low, high, entries, *, title=0.0, most=(np.inf, np.inf)):
        """Set `ax_`, `figure_` and `legend_`; show the drawing in the middle of the axes, above its legend.

        Parameters
        ----------
        ax : matplotlib Axes or None
        low, high : ndarray of shape (2,)
            Corners of the drawing without its legend, in points.
        entries : list of (str, dict)
            Labels of the legend, and the styles of their lines, at full size. If there are none, `legend_` is None.
        title : float, default=0.0
            Points of empty space above the drawing in a new figure.
        most : (float, float), optional
            Largest size of a new figure, in inches.

        Returns
        -------
        scale : float
            Scale of the drawing, at most 1.
        """
        if entries:
            legend_width = sum(text_width(label, _LEGEND_FONT) + 5.2 * _LEGEND_FONT for label, _ in entries)
            lacking = max(legend_width + 2 * _MARGIN - (high - low)[0], 0.0) / 2
            low, high = low - (lacking, _LEGEND), high + (lacking, 0.0)
        width, height = high - low
        if ax is None:
            figure = import_library("matplotlib.pyplot").figure(
                figsize=np.minimum((width / 72, (height + title) / 72), most)
            )
            ax = figure.add_axes((0, 0, 1, height / (height + title)))
        self.ax_, self.figure_ = ax, ax.figure
        available = np.array(size_in_points(ax))
        scale = min(1.0, *(available / (width, height)))
        middle, half = (low + high) / 2, available / scale / 2
        ax.set(xlim=(middle[0] - half[0], middle[0] + half[0]), ylim=(middle[1] - half[1], middle[1] + half[1]))
        ax.axis("off")
        self.legend_ = self._add_legend(entries, (middle[0], low[1] + 2.0), scale) if entries else None
        return scale

    def _add_legend(self, entries, corner, scale):
        """Put a legend in one row above a place in the drawing."""
        Line2D = import_library("matplotlib.lines").Line2D

        handles = [Line2D([], [], **{**style, "label": label, "lw": style["lw"] * scale}) for label, style in entries]
        return self.ax_.legend(
            handles=handles,
            loc="lower center",
            bbox_to_anchor=corner,
            bbox_transform=self.ax_.transData,
            ncols=len(handles),
            frameon=False,
            fontsize=_LEGEND_FONT * scale,
            handlelength=2.4,
            columnspacing=1.6,
            borderaxespad=0.1,
            labelcolor=INK,
        )


def unwrap_fitted(estimator, *attributes):
    """Return the steps before the last, and the last step, of a fitted estimator that must have some attributes."""
    steps, last = unwrap_whole(estimator)
    for name in attributes:
        if not hasattr(last, name):
            raise ValueError(f"the estimator must be fitted and have {name}; {type(last).__name__} has no {name}")
    return steps, last


def check_names(what, names, n):
    """Return `n` names as strings: those given, or None if there are none."""
    if names is None:
        return None
    if len(names) != n:
        raise ValueError(f"{what} must be {n} names; got {len(names)}: {names!r}")
    return list(map(str, names))
