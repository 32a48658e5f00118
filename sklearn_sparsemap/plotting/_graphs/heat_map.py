"""The marginals of arrays of variables as heat maps.

Used by `factor_graph.py`.
"""

from itertools import product

import numpy as np

from .._base import check_names
from .._style import INK, as_text, draw_grid, font_of_cells, text_width, write


class HeatMap:
    """The heat map of an array of variables: the last axis is across, and all others are down.

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
    block : int
        Number of rows for each place of the first axis, if there are more than two axes; else 0.
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
        *above, self.col_names = axes
        self.name = name
        self.cells = marginals.reshape(-1, shape[-1])
        apart = ", " if all(names is None for names in axis_names) else " "
        self.row_names = [apart.join(names) for names in product(*above)] if above else [name]
        self.block = int(np.prod(shape[1:-1])) if len(shape) > 2 else 0
        names = max(text_width(row, 10.0) for row in self.row_names) / 72
        self.size = 0.5 * shape[-1] + names + 0.5, 0.32 * len(self.cells) + 0.8

    def draw(self, ax, is_named):
        """Draw the cells, and the name of the array if `is_named`; return the image."""
        image, (across, down) = draw_grid(ax, self.cells, self.row_names, self.col_names, top=True)
        if self.block:
            for edge in np.arange(self.block, len(self.cells), self.block) - 0.5:
                ax.plot([-0.5, self.cells.shape[1] - 0.5], [edge, edge], color=INK, lw=1.0, zorder=2)
        if is_named and self.row_names != [self.name]:
            ax.set_ylabel(self.name, color=INK, parse_math=False)
        texts = {place: as_text(value) for place, value in np.ndenumerate(self.cells) if value}
        size = font_of_cells(texts.values(), across, 0.5 * down)
        if size:
            for (row, column), text in texts.items():
                write(ax, (column, row), text, size, va="center_baseline", zorder=5)
        return image
