"""The marginals of arrays of variables as heat maps.

Used by `factor_graph.py`.
"""

from itertools import product
from math import log, prod

import numpy as np

from .._base import check_names
from .._style import INK, as_text, draw_grid, font_of_cells, text_width, write

CELL = 0.5, 0.32  # inches; width and height of a cell; larger: larger pictures
RATIO = 2.0  # width over height of the cells that is aimed at; larger: fewer axes are down


def axes_down(shape):
    """Return the number of axes that are down, so that the cells are nearest to `RATIO`; the others are across.

    At least one is down, and the last one is across.
    """

    def distance(n_down):
        width = CELL[0] * prod(shape[n_down:])
        height = CELL[1] * prod(shape[:n_down])
        return abs(log(width / height / RATIO))

    return min(range(max(len(shape) - 1, 0), 0, -1), key=distance, default=0)


class HeatMap:
    """The heat map of an array of variables. The first axes are down, the others across; see `axes_down`.

    Parameters
    ----------
    name : str
    marginals : ndarray
    axis_names : sequence of sequences of str, default=None
        The names along each axis. By default, numbers from 0.

    Attributes
    ----------
    cells : ndarray of shape (n_rows, n_columns)
    row_names, col_names : list of str
    row_block, col_block : int
        Number of rows, or columns, for each place of the first axis that is down, or across; 0 if there is no other.
    size : (float, float)
        Width and height in inches.
    """

    def __init__(self, name, marginals, axis_names=None):
        shape = marginals.shape or (1,)
        if axis_names is None:
            axis_names = [None] * len(shape)
        if len(axis_names) != len(shape):
            raise ValueError(
                f"axis_names of {name!r} must be {len(shape)} lists, one for each axis; got {axis_names!r}"
            )
        axes = [
            check_names(f"axis_names of {name!r} for axis {axis}", names, n) or list(map(str, range(n)))
            for axis, (names, n) in enumerate(zip(axis_names, shape))
        ]
        n_down = axes_down(shape)
        down, across = axes[:n_down], axes[n_down:]
        self.name = name
        self.cells = marginals.reshape(prod(shape[:n_down]), -1)
        apart = ", " if all(names is None for names in axis_names) else " "
        self.row_names = [apart.join(names) for names in product(*down)] if down else [name]
        self.col_names = ["\n".join(names) for names in product(*across)]
        self.row_block = prod(shape[1:n_down]) if len(down) > 1 else 0
        self.col_block = prod(shape[n_down + 1 :]) if len(across) > 1 else 0
        names = max(text_width(row, 10.0) for row in self.row_names) / 72
        n_rows, n_columns = self.cells.shape
        self.size = CELL[0] * n_columns + names + 0.5, CELL[1] * n_rows + 0.6 + 0.2 * len(across)

    def draw(self, ax, is_named):
        """Draw the cells, and the name of the array if `is_named`; return the image."""
        image, (across, down) = draw_grid(ax, self.cells, self.row_names, self.col_names, top=True)
        n_rows, n_columns = self.cells.shape
        for edge in np.arange(self.row_block, n_rows, self.row_block) - 0.5 if self.row_block else ():
            ax.plot([-0.5, n_columns - 0.5], [edge, edge], color=INK, lw=1.0, zorder=2)
        for edge in np.arange(self.col_block, n_columns, self.col_block) - 0.5 if self.col_block else ():
            ax.plot([edge, edge], [-0.5, n_rows - 0.5], color=INK, lw=1.0, zorder=2)
        if is_named and self.row_names != [self.name]:
            ax.set_ylabel(self.name, color=INK, parse_math=False)
        texts = {place: as_text(value) for place, value in np.ndenumerate(self.cells) if value}
        size = font_of_cells(texts.values(), across, 0.5 * down)
        if size:
            for (row, column), text in texts.items():
                write(ax, (column, row), text, size, va="center_baseline", zorder=5)
        return image
