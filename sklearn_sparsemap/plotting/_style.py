"""Colours, legends and axes of all displays. matplotlib and networkx are imported at the first plot only.

Used by `plotting/_graphs`, `plotting/_selection`, `plotting/_structures`, `_base.py`, `_calibration.py`,
`_convergence.py`, `_coverage.py`, `_inspection.py` and `_loss_curve.py`.
"""

import numpy as np

from .._core.extras import import_extra

INK, MUTED, FAINT = "#222222", "#8c8c8c", "#dddddd"
# Distinct for all kinds of colour vision, and in greyscale by lightness and dashes.
COLORS = ("#d55e00", "#00594c", "#a676d6", "#0a6fb8")
DASHES = ("-", (0, (4.0, 1.4)), (0, (1.2, 1.0)), (0, (5.0, 1.2, 1.2, 1.2)))
# The signs of scores of pairs.
ATTRACTS, REPELS = {"color": COLORS[3], "linestyle": "-"}, {"color": COLORS[0], "linestyle": (0, (3.0, 1.4))}
HATCHES = ("", "////", "....", "xxxx")
MAX_STRUCTURES = len(COLORS)
_SMALLEST = 5.0  # points; smaller texts of cells are left out
_READABLE = 8.0  # points; names of ticks are rotated rather than smaller
SHADES = {"cmap": "Blues", "vmin": -0.1, "vmax": 1.9}  # of probabilities, light enough for texts and lines on top


def import_library(name):
    """Import a module of matplotlib or networkx, or raise ImportError with the command that installs it."""
    return import_extra(name, "plot", "this plot")


def as_text(probability):
    """Write a probability with two digits, such that only 0 and 1 look like them."""
    if 0.0 < probability < 0.005:
        return "<0.01"
    if 0.995 <= probability < 1.0 - 1e-9:
        return ">0.99"
    return f"{probability:.2f}"


def size_in_points(ax):
    """Return width and height of axes, in points."""
    # The whole figure, if the axes are in a subfigure.
    figure = ax.figure.figure
    engine = figure.get_layout_engine()
    if engine is not None:
        # The layout engine moves the axes before it draws them.
        engine.execute(figure)
    box = ax.get_window_extent()
    return box.width * 72 / ax.figure.dpi, box.height * 72 / ax.figure.dpi


def text_width(text, size):
    """Return the width of a text (that of its longest line), in points."""
    # A pair of dollar signs would be a formula. Blanks have no extent, so they are measured as letters.
    lines = str(text).replace("$", "S").replace(" ", "n").split("\n")
    return max((_line_width(line, size) for line in lines if line), default=0.0)


def _line_width(line, size):
    TextPath = import_library("matplotlib.textpath").TextPath

    path = TextPath((0, 0), line, size=size)
    # The control points of letters are within their extents, which take ten times as long to compute.
    xs = path.vertices[path.codes != path.CLOSEPOLY, 0]
    return np.ptp(xs) if len(xs) else 0.0


def ink_on(color):
    """Return the colour of a text that can be read on a colour, (r, g, b, a): dark or white."""
    return INK if np.dot(color[:3], (0.299, 0.587, 0.114)) > 0.5 else "white"


def rim(width):
    """Return the path effects that keep a text readable on top of lines."""
    withStroke = import_library("matplotlib.patheffects").withStroke

    return [withStroke(linewidth=width, foreground="white", alpha=0.9)]


def write(ax, position, text, size, *, halo=0.0, color=INK, **style):
    """Write a text at a place of axes, by default in the middle of it, and never as a formula.

    Parameters
    ----------
    ax : matplotlib Axes
    position : (float, float)
    text : str
    size : float
        Font size in points.
    halo : float, default=0.0
        Width in points of a white rim that keeps the text readable on top of lines.
    color : str, default=INK
    **style
        Other parameters of `Axes.text`.

    Returns
    -------
    text : Text
    """
    style = {"ha": "center", "va": "center", **style}
    # Otherwise a word such as "$" would be read as the beginning of a formula.
    written = ax.text(*position, text, fontsize=size, color=color, parse_math=False, **style)
    if halo:
        written.set_path_effects(rim(halo))
    return written


def name_axis(axis, names, *, across=None, size=10.0):
    """Put a name at each of the places 0, 1, ... of an axis.

    Parameters
    ----------
    axis : matplotlib Axis
    names : sequence of str
    across : float, default=None
        Points for each name; wider names are smaller, or rotated. Names may have several lines.
    size : float, default=10.0
        Font size in points.
    """
    labels = axis.set_ticks(range(len(names)), list(map(str, names)))
    for label in axis.get_ticklabels():
        label.set(fontsize=size, color=INK, parse_math=False)
    lines = [line for name in names for line in str(name).split("\n")]
    widest = max(text_width(line, size) for line in lines) if across is not None else 0.0
    if widest and widest > 0.92 * across:
        fitting = size * 0.92 * across / widest
        if fitting >= min(size, _READABLE):
            for label in axis.get_ticklabels():
                label.set_fontsize(fitting)
        else:
            rotate(axis.get_ticklabels(), above=axis.get_ticks_position() == "top")
    return labels


def rotate(labels, *, above=False):
    """Set the labels of an axis aslant, so that they are apart; `above` if they are above the axes."""
    for label in labels:
        label.set(rotation=45, ha="left" if above else "right", rotation_mode="anchor")


def round_ticks(low, high, n=4):
    """Return at least `n` round numbers in an interval of a logarithmic axis, as few as possible."""
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    for digits in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)):
        ticks = np.outer(powers, digits).ravel()
        ticks = ticks[(ticks >= low) & (ticks <= high)]
        if len(ticks) >= n:
            return ticks
    # The interval is narrow: a constant step, of which about n fit in.
    unit = 10.0 ** np.floor(np.log10(high - low))
    for step in unit * np.array([5.0, 2.0, 1.0, 0.5, 0.2, 0.1]):
        ticks = step * np.arange(np.ceil(low / step), np.floor(high / step) + 1)
        if len(ticks) >= n:
            break
    return ticks


def font_of_cells(texts, across, height):
    """Return one font size, of at most 9 points, at which all texts fit into cells; None if they cannot be read.

    Parameters
    ----------
    texts : iterable of str
    across, height : float
        Width of a cell and largest height of its text, in points.
    """
    widest = max((text_width(text, 9.0) for text in set(texts)), default=0.0)
    size = min(9.0, height, 0.9 * 9.0 * across / max(widest, 1.0))
    return size if size >= _SMALLEST else None


def tick_whole_numbers(axis):
    """Put plain whole numbers at round places of a logarithmic axis of counts."""
    ticks = np.unique(round_ticks(*axis.get_view_interval()).round())
    # Long numbers need room.
    axis.set_ticks(ticks[:: 1 + len(ticks) // 7])
    axis.set_major_formatter("{x:,.0f}")
    axis.set_minor_locator(import_library("matplotlib.ticker").NullLocator())


def draw_grid(ax, cells, row_names, col_names, *, top=False, colors=SHADES, room=None, size=None):
    """Draw a grid of cells shaded by their values, with faint lines between them and the first row on top.

    Parameters
    ----------
    ax : matplotlib Axes
    cells : array of shape (n_rows, n_cols)
        Cells with infinity are empty. So are those with zero, if the values are probabilities.
    row_names, col_names : sequence of str
    top : bool, default=False
        Whether the names of columns are above the grid.
    colors : dict, default=SHADES
        Parameters of `imshow`. By default, those of probabilities.
    room : int, default=None
        Number of columns for which the axes have room. By default, those of `cells`.
    size : ndarray of shape (2,), default=None
        Width and height of a cell, in points, if the axes are like others that were measured. Measuring draws the
        figure.

    Returns
    -------
    image : AxesImage
    size : ndarray of shape (2,)
        Width and height of a cell, in points.
    """
    n_rows, n_cols = cells.shape
    shown = np.ma.masked_less_equal(cells, 0.0) if colors is SHADES else np.ma.masked_invalid(cells)
    image = ax.imshow(shown, aspect="auto", interpolation="none", zorder=0, **colors)
    room = n_cols if room is None else room
    ax.set(xlim=(-0.5, room - 0.5), ylim=(n_rows - 0.5, -0.5))
    right, bottom = n_cols - 0.5, n_rows - 0.5
    for edge in np.arange(n_rows + 1) - 0.5:
        ax.plot([-0.5, right], [edge, edge], color=FAINT, lw=0.8, zorder=1)
    for edge in np.arange(n_cols + 1) - 0.5:
        ax.plot([edge, edge], [-0.5, bottom], color=FAINT, lw=0.8, zorder=1)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    if top:
        ax.xaxis.tick_top()
    if size is None:
        size = np.array(size_in_points(ax)) / (room, n_rows)
    font = float(np.clip(0.7 * size[1], 6.0, 10.0))
    name_axis(ax.xaxis, col_names, across=size[0], size=font)
    name_axis(ax.yaxis, row_names, size=font)
    return image, size


def legend_above(ax, handles):
    """Put a legend above axes, from the left."""
    return ax.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=4,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )


def clean_axes(ax, grid="both"):
    """Remove the frame of a chart except its left and lower edge, and draw its grid below its contents."""
    ax.grid(axis=grid, color=FAINT, lw=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelcolor=INK)


def legend_below(ax, handles):
    """Put a legend below axes and their labels."""
    ScaledTranslation = import_library("matplotlib.transforms").ScaledTranslation

    box = ax.get_window_extent()
    labels = ax.xaxis.get_tightbbox()
    size = 10.0
    below = 6.0
    if labels is not None:
        below += max(0.0, box.y0 - labels.y0) * 72 / ax.figure.dpi
    widths = [text_width(handle.get_label(), size) + 5.2 * size for handle in handles]
    n_columns = _fitting_columns(widths, max(size_in_points(ax)[0], 240.0))
    return ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=ax.transAxes + ScaledTranslation(0, -below / 72, ax.figure.dpi_scale_trans),
        borderaxespad=0.0,
        ncols=n_columns,
        frameon=False,
        fontsize=size,
        handlelength=2.6,
        columnspacing=1.5,
        labelcolor=INK,
    )


def _fitting_columns(widths, available):
    """Return the largest number of columns of a legend that fit; entries fill one column after the other."""
    for n_columns in range(len(widths), 1, -1):
        # matplotlib splits the entries in this way, too.
        if sum(column.max() for column in np.array_split(widths, n_columns)) <= available:
            return n_columns
    return 1
