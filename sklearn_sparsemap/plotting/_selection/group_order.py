"""GroupOrderDisplay: the Hasse diagram of nested or coarse-to-fine groups, with selected groups filled
(Martins et al. 2011, Fig. 1)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..._core.annotations import Any, Self, Sequence
from .._base import Drawing, check_names, unwrap_fitted
from .._style import COLORS, INK, MUTED, import_library, text_width, write

_MAX_GROUPS = 200
# In points, at full size.
_FONT, _ROW, _BOX, _PAD, _HEAD, _MARGIN = 9.0, 19.0, 14.5, 9.0, 22.0, 12.0
_PALE = "#c4c4c4"
_SWEEPS = 12  # passes over the columns, forth and back; more change nothing in orders of 200 groups


class GroupOrderDisplay(Drawing):
    """Hasse diagram of a partial order of groups: from the coarsest on the left to the finest on the right.

    An edge leads from a coarser group on the left to a finer group on the right. Edges that follow from others by
    transitivity are not drawn. If a group is discarded, all groups that can be reached from it are discarded, too.

    Parameters
    ----------
    order : GroupOrder or GroupTree
        At most 200 groups.
    selected : int array-like, default=None
        Numbers of the selected groups, which are filled.
    names : sequence, default=None
        Texts of the boxes. Default: the names of the groups.

    Attributes
    ----------
    order : GroupOrder
    selected : int ndarray or None
    ax_, figure_, legend_
        Axes, figure and legend of the plot; no legend without `selected`.
    boxes_ : list of Patch
        One for each group.
    lines_ : list of Patch
        One for each of ``order.covers``.

    Raises
    ------
    ValueError
        If `order` is not an order or has too many groups to be readable, or a number or the names do not match it.

    Examples
    --------
    >>> from sklearn_sparsemap.penalties import GroupOrder
    >>> from sklearn_sparsemap.plotting import GroupOrderDisplay
    >>> order = GroupOrder.from_templates(["pos[0]", "word[0]", "pos[-1]|pos[0]", "pos[-1]|word[0]"])
    >>> display = GroupOrderDisplay(order, selected=[0, 1])
    >>> display.plot().figure_.savefig("order.png")  # doctest: +SKIP
    """

    def __init__(self, order: Any, selected: Any = None, *, names: Sequence[Any] | None = None) -> None:
        # Imported here, because it imports Numba, which most displays do not need.
        from ...penalties import GroupOrder

        if not isinstance(order, GroupOrder):
            raise ValueError(f"order must be a GroupOrder or GroupTree; got {type(order).__name__}")
        if order.n_groups > _MAX_GROUPS:
            raise ValueError(
                f"the order has {order.n_groups} groups; a picture of more than {_MAX_GROUPS} cannot be read"
            )
        self.order = order
        self.names = check_names("names", order.names if names is None else names, order.n_groups)
        self.selected = None
        if selected is not None:
            numbers = np.unique(np.asarray(selected))
            last = order.n_groups - 1
            if len(numbers) and (numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() > last):
                raise ValueError(f"selected must be numbers of groups, from 0 to {last}; got {selected!r}")
            self.selected = numbers.astype(np.int64)

    @classmethod
    def from_estimator(cls, estimator: Any, order: Any = None, *, names: Any = None, ax: Any = None) -> Self:
        """Draw the order of a fitted estimator's groups, with the selected groups filled.

        Parameters
        ----------
        estimator : object
            With ``selected_groups_``, such as `GroupLassoPerceptron`; or a pipeline or a search around one.
        order : GroupOrder, default=None
            Default: the parameter `groups` of the estimator.
        names : sequence, default=None
            As for the class.
        ax : matplotlib Axes, default=None
            As in `plot`.

        Returns
        -------
        display : GroupOrderDisplay
            With `ax_` and `figure_`.
        """
        _, estimator = unwrap_fitted(estimator, "selected_groups_")
        order = getattr(estimator, "groups", None) if order is None else order
        return cls(order, estimator.selected_groups_, names=names).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the diagram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size. In smaller axes everything is scaled down.

        Returns
        -------
        display : GroupOrderDisplay
        """
        levels = self.order.levels
        heights, bends, extent = arrange_by_level(levels, self.order.covers)
        lefts, rights = self._columns(levels, extent)
        low = np.array([lefts[0] - _MARGIN, -extent * _ROW])
        high = np.array([rights[-1] + _MARGIN, _HEAD])
        scale = self._start_drawing(ax, low, high, self._entries())
        # From the top.
        heights = -(heights + 0.5) * _ROW
        bends = [[(level, -(at + 0.5) * _ROW) for level, at in way] for way in bends]
        self._draw_edges(levels, heights, bends, lefts, rights, scale)
        self._draw_boxes(levels, heights, lefts, rights, scale)
        if levels.any():
            for x, side, text in ((lefts[0], "left", "coarse"), (rights[-1], "right", "fine")):
                place = x, _HEAD / 2 + 2
                write(self.ax_, place, text, _FONT * scale, ha=side, color=MUTED, style="italic")
        return self

    def _entries(self):
        """Return the entries of the legend: list of (label, style of a line)."""
        if self.selected is None:
            return []
        n_selected = len(self.selected)
        n_groups = self.order.n_groups
        square = {"marker": "s", "markersize": 8.0, "linestyle": "", "lw": 1.0}
        entries = [(f"selected: {n_selected} of {n_groups}", {**square, "mfc": COLORS[1], "mec": COLORS[1]})]
        if n_selected < n_groups:
            entries.append(("discarded", {**square, "mfc": "white", "mec": _PALE}))
        return entries

    def _columns(self, levels, extent):
        """Return the left and right ends of each column of boxes."""
        n_levels = int(levels.max()) + 1
        widths = [
            max(text_width(self.names[i], _FONT) for i in np.flatnonzero(levels == level)) + 2 * _PAD
            for level in range(n_levels)
        ]
        # Tall diagrams have wide gaps, so that edges are not too steep.
        gap = float(np.clip(2.2 * extent, 34.0, 110.0))
        lefts = np.concatenate([[0.0], np.cumsum(np.array(widths[:-1]) + gap)])
        return lefts, lefts + widths

    def _draw_edges(self, levels, heights, bends, lefts, rights, scale):
        """Draw the edges.

        Parameters
        ----------
        levels, heights : arrays of shape (n_groups,)
            Column of each group, and its place there in points.
        bends : list of lists of (level, height)
            Points at which each edge passes the columns between its ends.
        lefts, rights : arrays of shape (n_levels,)
            Ends of the columns, in points.
        scale : float
            Scale of line widths.
        """
        PathPatch = import_library("matplotlib.patches").PathPatch
        Path = import_library("matplotlib.path").Path

        self.lines_ = []
        selected = set([] if self.selected is None else self.selected)
        for (coarse, fine), way in zip(self.order.covers, bends):
            stops = [(levels[coarse], heights[coarse]), *way, (levels[fine], heights[fine])]
            vertices, codes = [(rights[levels[coarse]], heights[coarse])], [Path.MOVETO]
            for (here, y), (there, next_y) in pairwise(stops):
                start, end = rights[here], lefts[there]
                middle = (start + end) / 2
                vertices += [(middle, y), (middle, next_y), (end, next_y)]
                codes += [Path.CURVE4] * 3
                if there != levels[fine]:
                    # Straight through the column.
                    vertices.append((rights[there], next_y))
                    codes.append(Path.LINETO)
            look = {"edgecolor": _PALE, "lw": 0.8 * scale, "zorder": 1}
            if {coarse, fine} <= selected:
                look = {"edgecolor": COLORS[1], "lw": 1.5 * scale, "zorder": 2}
            patch = PathPatch(Path(vertices, codes), facecolor="none", capstyle="butt", **look)
            self.lines_.append(self.ax_.add_patch(patch))

    def _draw_boxes(self, levels, heights, lefts, rights, scale):
        """Draw the boxes of all groups; for the parameters see `_draw_edges`."""
        FancyBboxPatch = import_library("matplotlib.patches").FancyBboxPatch

        self.boxes_ = []
        for i, name in enumerate(self.names):
            is_filled = self.selected is not None and i in self.selected
            left, right = lefts[levels[i]], rights[levels[i]]
            box = FancyBboxPatch(
                (left, heights[i] - _BOX / 2),
                right - left,
                _BOX,
                boxstyle="round,pad=0,rounding_size=3.5",
                facecolor=COLORS[1] if is_filled else "white",
                edgecolor=COLORS[1] if is_filled else _PALE,
                lw=0.9 * scale,
                # Half of an outermost line is outside the axes.
                clip_on=False,
                zorder=3,
            )
            self.boxes_.append(self.ax_.add_patch(box))
            color = "white" if is_filled else INK if self.selected is None else "#6b6b6b"
            write(self.ax_, ((left + right) / 2, heights[i]), name, _FONT * scale, color=color, zorder=4)


def arrange_by_level(levels, covers):
    """Place groups in columns by level so that few edges cross.

    An edge that skips levels gets a bend in each of them. A bend has a separate place, like a group, so no edge runs
    through a group.

    Returns
    -------
    heights : ndarray of shape (n_groups,)
        The place of each group in its column, from 0; neighbours are 1 apart.
    bends : list of list of (int, float)
        For each edge the levels that it passes, from the coarse end to the fine one, and its places there.
    extent : float
        The number of places from the first to the last.
    """
    networkx = import_library("networkx")
    n = len(levels)
    graph = networkx.Graph()
    graph.add_nodes_from((group, {"level": level}) for group, level in enumerate(levels.tolist()))
    ways = []
    for edge, (coarse, fine) in enumerate(covers):
        way = [(edge, level) for level in range(levels[coarse] + 1, levels[fine])]
        graph.add_nodes_from((node, {"level": node[1]}) for node in way)
        networkx.add_path(graph, [int(coarse), *way, int(fine)])
        ways.append(way)
    columns = [[] for _ in range(max(levels) + 1)]
    for node in networkx.spectral_ordering(graph, seed=0):
        columns[graph.nodes[node]["level"]].append(node)
    height = {node: place - len(column) / 2 for column in columns for place, node in enumerate(column)}
    for _ in range(_SWEEPS):
        for column in (*columns, *columns[::-1]):
            # A node goes towards the mean of its neighbours.
            column.sort(key=lambda node: np.mean([height[other] for other in graph[node] or [node]]))
            height.update((node, place - len(column) / 2) for place, node in enumerate(column))
    least = min(height.values())
    extent = 1.0 + np.ptp(list(height.values()))
    bends = [[(level, height[edge, level] - least) for edge, level in way] for way in ways]
    return np.array([height[i] - least for i in range(n)]), bends, extent
