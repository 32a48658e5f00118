"""Places of the circles, boxes and lines of a factor graph: on a grid, or by distance.

All lengths are in points, y upwards.

Used by `factor_graph.py`.
"""

import numpy as np
from scipy.spatial.distance import cdist

from .._style import import_library, text_width

FONT, SMALL = 11.0, 9.5
_PAD = 3.5  # points between the label of a box and its edge
_STUB = 9.0  # points from a circle to the nearest lane
_LANE = 8.0  # points between the lanes of a column, and around lanes
_STACK = 4.0  # points between boxes on top of each other
_GAP = 22.0  # points between the circle and the box at the ends of a line, by distance
_BETWEEN = 1.25  # cells from one array of variables to the next
_BENDS = (0.0, 0.12, -0.12, 0.25, -0.25, 0.4, -0.4)  # fractions of a line's length, tried in this order
_SAME = 1e-6  # cells; smaller differences are rounding


class Box:
    """A factor in the picture.

    Parameters
    ----------
    variables : int array
        Numbers of the circles that it joins.
    label : str
    factor : Factor
        A structure over variables that are not negated may be drawn as a frame.

    Attributes
    ----------
    center, size : arrays of shape (2,)
        Centre and size of the box.
    routes : list of array of shape (n_points, 2)
        For each of its variables the line from the box, or from its lane, to the rim of the circle; empty if it has a
        frame.
    frame : array of shape (2, 2) or None
        Lower left and upper right corner of the frame around all its variables.
    """

    def __init__(self, variables, label, factor):
        self.variables, self.label, self.factor = variables, label, factor
        self.size = np.array((text_width(label, SMALL) + 2 * _PAD, SMALL + 2 * _PAD))
        self.center = np.zeros(2)
        self.routes = []
        self.frame = None

    @property
    def corners(self):
        return np.array([self.center - self.size / 2, self.center + self.size / 2])


class GraphLayout:
    """Places of the circles, boxes and lines of a factor graph.

    Parameters
    ----------
    arrays : list of int arrays
        Numbers of the variables in each array, in its shape.
    boxes : list of Box
        One for each factor except pairs; they get their places.
    pairs : list of (int, int)
    names : list of str
        Names of the variables.
    grid : bool
        Whether arrays keep their shape. Otherwise, networkx places all nodes by their distance in the graph.

    Attributes
    ----------
    centers : array of shape (n_variables, 2)
    radius : float
        Radius of all circles.
    pair_routes : list of array of shape (n_points, 2)
    low, high : arrays of shape (2,)
        Corners of the picture.
    """

    def __init__(self, arrays, boxes, pairs, names, *, grid):
        self.boxes, self.pairs = boxes, pairs
        widest = max(text_width(name, FONT) for name in names)
        n_lines = 1 + max(name.count("\n") for name in names)
        # Room for the name, and the marginal below it.
        self.radius = float(np.clip(0.5 * np.hypot(widest, (n_lines + 0.6) * FONT) + 2.5, 15.0, 34.0))
        if not (grid and self._on_grid(arrays)):
            self._by_distance(len(names))
        self._route()
        corners = [self.centers - self.radius, self.centers + self.radius, *self.pair_routes]
        for box in self.boxes:
            corners += [box.corners, *box.routes, *([] if box.frame is None else [box.frame])]
        corners = np.concatenate(corners)
        self.low = corners.min(axis=0)
        self.high = corners.max(axis=0)

    # -- On a grid ----------------------------------------------------------------------------------------------------

    def _on_grid(self, arrays):
        """Place everything on a grid; return False if there are more factors than places between the circles."""
        cells = _arrange(arrays, [box.variables for box in self.boxes])
        lanes, between, framed = self._sort(cells)
        # The lanes of columns are on their left, with boxes above; those of rows are above, with boxes on the left.
        apart = np.array([_LANE, SMALL + 2 * _PAD + _STACK])
        n_lanes = np.zeros(2)
        for (axis, _), lane in lanes.items():
            n_lanes[1 - axis] = max(n_lanes[1 - axis], len(lane))
        room = np.where(n_lanes > 0, _STUB + (n_lanes - 0.5) * apart, 0.0)
        free = np.max([np.array([12.0, 8.0]), *(box.size + 6.0 for box in between)], axis=0)
        step = 2 * self.radius + room + free + 2 * _LANE
        heads = [box.size[0] + 8.0 for (axis, _), boxes in lanes.items() if axis == 1 for box in boxes]
        step[0] = max(step[0], *heads, 0.0)
        self.centers = cells * step * (1.0, -1.0)
        border = self.radius + free + _LANE
        before = border + [room[0], 0.0]
        after = border + [0.0, room[1]]
        if not self._between(between, cells, step, room):
            return False
        self._frame(framed, before, after)
        low = np.min([self.centers.min(axis=0) - before, *(box.frame[0] for box in framed)], axis=0)
        high = np.max([self.centers.max(axis=0) + after, *(box.frame[1] for box in framed)], axis=0)
        for (axis, _), boxes in lanes.items():
            for level, box in enumerate(boxes):
                lane = (self.radius + _STUB + level * apart[1 - axis]) * (1 if axis == 0 else -1)
                # Lines of several lanes reach a circle at adjacent points.
                aside = np.clip(8.0 * (level - (len(boxes) - 1) / 2), -0.7 * self.radius, 0.7 * self.radius)
                lane += self.centers[box.variables[0], 1 - axis]
                width, height = box.size
                if axis == 0:
                    box.center = np.array([low[0] - 8.0 - width / 2, lane])
                else:
                    # Boxes are shifted to the right of their lanes, so that they cover no other lane.
                    x = lane if level == len(boxes) - 1 else lane + width / 2 - 4.0
                    box.center = np.array([x, high[1] + 6.0 + height / 2 + level * apart[1]])
                self._run_along(box, axis, lane, aside)
        return True

    def _sort(self, cells):
        """Return the boxes with a lane (by axis and place of their row, 0, or column), a place between, and a frame."""
        lanes, between, framed = {}, [], []
        for box in self.boxes:
            spread = np.ptp(cells[box.variables], axis=0) > _SAME
            is_structure = hasattr(box.factor, "structure") and not box.factor.literals.negated.any()
            if spread.all() and is_structure and _fills_its_box(cells, box.variables):
                framed.append(box)
            elif len(box.variables) > 2 and not spread.all():
                axis = int(spread[1])
                lanes.setdefault((axis, float(cells[box.variables[0], 1 - axis])), []).append(box)
            else:
                between.append(box)
        return lanes, between, framed

    def _run_along(self, box, axis, lane, aside):
        """Draw the lines of a factor from its box along a lane, and from there to the rims of its circles."""
        across, own = 1 - axis, self.centers[box.variables]
        start = box.center.copy()
        start[across] = lane
        farthest = np.argmax(np.abs(own - box.center)[:, axis])
        for i, variable in enumerate(own):
            bend = variable.copy()
            rim = variable.copy()
            bend[axis] = rim[axis] = variable[axis] + aside
            bend[across] = lane
            rim[across] += np.sign(lane - variable[across]) * np.sqrt(self.radius**2 - aside**2)
            # Only the longest line runs along the lane, because overlapping lines look thicker.
            box.routes.append(np.array([start, bend, rim] if i == farthest else [bend, rim]))

    def _frame(self, framed, before, after):
        """Draw frames around all variables of a factor, its box on the lower edge."""
        for n, box in enumerate(framed):
            own = self.centers[box.variables]
            box.frame = np.array([own.min(axis=0) - before - 7.0 * n, own.max(axis=0) + after + 7.0 * n])
            right, bottom = box.frame[1, 0], box.frame[0, 1]
            box.center = np.array([right - box.size[0] / 2 - 10.0 - 14.0 * n, bottom])

    def _between(self, boxes, cells, step, room):
        """Put each box in the middle of four circles, at the free place nearest to its variables."""
        # The middles between neighbouring columns and rows, and a place beyond each end.
        ends = [np.unique(cells[:, axis].round(6)) for axis in (0, 1)]
        xs, ys = (np.convolve([places[0] - 1.0, *places, places[-1] + 1.0], [0.5, 0.5], "valid") for places in ends)
        spots = np.array([(x, y) for x in xs for y in ys]) * step * (1.0, -1.0) + room * (-0.5, 0.5)
        if len(boxes) > len(spots):
            return False
        for box in boxes:
            middle = self.centers[box.variables].mean(axis=0)
            best = np.argmin(np.linalg.norm(spots - middle, axis=1).round(3))
            box.center = spots[best]
            spots = np.delete(spots, best, axis=0)
        return True

    # -- By distance --------------------------------------------------------------------------------------------------

    def _by_distance(self, n_variables):
        """Place variables and factors so that their distances in the picture are those in the graph."""
        networkx = import_library("networkx")
        reach = np.array([self.radius] * n_variables + [0.5 * np.hypot(*box.size) for box in self.boxes])
        graph = networkx.Graph()
        graph.add_nodes_from(range(len(reach)))
        for k, box in enumerate(self.boxes, n_variables):
            graph.add_weighted_edges_from((v, k, reach[v] + reach[k] + _GAP) for v in box.variables.tolist())
        graph.add_weighted_edges_from((i, j, 2 * self.radius + 36.0) for i, j in self.pairs)
        distances = networkx.floyd_warshall_numpy(graph)
        # Connected components are as far apart as the ends of the largest one.
        distances[np.isinf(distances)] = distances[np.isfinite(distances)].max() + 2 * self.radius
        found = networkx.kamada_kawai_layout(graph, dist={i: dict(enumerate(row)) for i, row in enumerate(distances)})
        nodes = np.array([found[i] for i in range(len(reach))])
        # Scale to the lengths of the lines, or larger if nodes would overlap.
        wanted = reach[:, None] + reach + 8.0
        np.fill_diagonal(wanted, 0.0)
        apart = np.maximum(cdist(nodes, nodes), 1e-9)
        nodes *= max(np.quantile(distances / apart, 0.75), (wanted / apart).max())
        self.centers = nodes[:n_variables]
        for box, center in zip(self.boxes, nodes[n_variables:]):
            box.center = center

    # -- Lines --------------------------------------------------------------------------------------------------------

    def _route(self):
        """Draw the lines that do not run along a lane; they bend around circles."""
        for box in self.boxes:
            if box.frame is None and not box.routes:
                box.routes = [self._around(box.center, self.centers[v], [v]) for v in box.variables.tolist()]
        self.pair_routes = []
        for i, j in self.pairs:
            line = self._around(self.centers[i], self.centers[j], [i, j])
            self.pair_routes.append(_until_rim(line[::-1], self.radius)[::-1])

    def _around(self, start, end, circles):
        """Return a line to the rim of a circle: straight, or with the least bend that avoids other circles."""
        others = np.delete(self.centers, circles, axis=0)
        along = np.linspace(0.0, 1.0, 41)[:, None]
        normal = np.array([start[1] - end[1], end[0] - start[0]])
        lines = [start + along * (end - start) + 4 * along * (1 - along) * bend * normal for bend in _BENDS]
        best = min(lines, key=lambda line: (cdist(line, others) < self.radius + 3.0).sum())
        return _until_rim(best if best is not lines[0] else best[[0, -1]], self.radius)


def _arrange(arrays, factors):
    """Return the cell (column, row) of each variable, arrays below each other.

    An array is transposed and placed next to the previous ones if more factors are then on one line.
    """
    # Arrays with more than two axes are split into blocks of their last two axes.
    blocks = [block for array in arrays for block in np.atleast_2d(array).reshape(-1, *np.atleast_2d(array).shape[-2:])]
    # Blocks with several rows and columns come first.
    blocks.sort(key=lambda block: min(block.shape) == 1)
    cells = np.full((sum(array.size for array in arrays), 2), np.nan)
    beyond = np.zeros(2)
    for block in blocks:
        rows, columns = np.indices(block.shape).reshape(2, -1)
        trials = []
        for places in ([columns, rows + beyond[1]], [rows + beyond[0], columns]):
            trials.append(cells.copy())
            trials[-1][block.ravel()] = np.transpose(places)
        cells = max(trials, key=lambda trial: _n_straight(trial, factors))
        beyond = np.fmax.reduce(cells) + _BETWEEN
    return cells


def _n_straight(cells, factors):
    spreads = [np.ptp(cells[variables], axis=0) for variables in factors if len(variables) > 1]
    return sum(not np.isnan(spread).any() and spread.min() < _SAME for spread in spreads)


def _fills_its_box(cells, variables):
    """Return whether the bounding rectangle of some variables contains no other variables."""
    own = cells[variables]
    inside = ((cells >= own.min(axis=0) - _SAME) & (cells <= own.max(axis=0) + _SAME)).all(axis=1)
    return inside.sum() == len(variables)


def _until_rim(line, radius):
    """Cut a line where it enters the circle around its end."""
    apart = np.linalg.norm(line - line[-1], axis=1)
    inner = int(np.argmax(apart < radius))
    # Linear interpolation of the distance, which is exact for straight lines.
    fraction = (apart[inner - 1] - radius) / (apart[inner - 1] - apart[inner])
    return np.concatenate([line[:inner], [line[inner - 1] + fraction * (line[inner] - line[inner - 1])]])
