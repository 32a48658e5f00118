"""Where the variables and factors of a graph go in its picture: on a grid, or apart from each other by their distance.

All lengths are in points, y upwards.
"""

from itertools import pairwise

import numpy as np
from scipy.sparse.csgraph import connected_components, shortest_path
from scipy.spatial.distance import cdist

from .._style import text_width

FONT, SMALL = 9.0, 7.5
_PAD = 3.5
_STUB = 9.0
_LANE = 5.0
_SAME = 1e-6


class Place:
    """A factor in the picture.

    Attributes
    ----------
    center, size : arrays of shape (2,)
        Of its box.
    routes : list of array of shape (n_points, 2)
        For each of its variables the line from the box, or from the lane of another line, to the rim of the circle;
        empty if it has a frame.
    frame : array of shape (2, 2) or None
        Lower left and upper right corner of the frame around all its variables.
    """

    def __init__(self, center, size):
        self.center, self.size = np.asarray(center, dtype=float), np.asarray(size, dtype=float)
        self.routes, self.frame = [], None

    @property
    def corners(self):
        return np.array([self.center - self.size / 2, self.center + self.size / 2])


class GraphLayout:
    """Places of the circles, boxes and lines of a factor graph.

    Parameters
    ----------
    arrays : list of int arrays
        Numbers of the variables in each array, in its shape.
    factors : list of (int array, str, bool)
        For each factor but pairs: its variables, its label, and whether it may be drawn as a frame.
    pairs : list of (int, int)
    names : list of str
        Of the variables.
    grid : bool
        Whether arrays keep their shape. Else only distances in the graph count.

    Attributes
    ----------
    centers : array of shape (n_variables, 2)
    radius : float
        Of all circles.
    places : list of Place
    pair_routes : list of array of shape (n_points, 2)
    low, high : arrays of shape (2,)
        Corners of the picture.
    """

    def __init__(self, arrays, factors, pairs, names, *, grid):
        self.factors, self.pairs = factors, pairs
        widest = max(text_width(name, FONT) for name in names)
        n_lines = 1 + max(name.count("\n") for name in names)
        # Room for the name, and the marginal below it.
        self.radius = float(np.clip(0.5 * np.hypot(widest, (n_lines + 0.6) * FONT) + 2.5, 15.0, 34.0))
        height = SMALL + 2 * _PAD
        self.places = [Place((0, 0), (text_width(label, SMALL) + 2 * _PAD, height)) for _, label, _ in factors]
        if not (grid and self._on_grid(arrays)):
            self._by_distance(sum(array.size for array in arrays))
        self._route()
        self._bound()

    # -- On a grid ----------------------------------------------------------------------------------------------------

    def _on_grid(self, arrays):
        """Place everything on a grid; return False if there is not room for all factors between the circles."""
        cells = _arrange(arrays, [variables for variables, _, _ in self.factors])
        rails, between, framed = {}, [], []
        for k, (variables, _, may_frame) in enumerate(self.factors):
            own = cells[variables]
            spread = np.ptp(own, axis=0) > _SAME
            if may_frame and spread.all() and _fills_its_box(cells, variables):
                framed.append(k)
            elif len(variables) > 2 and not spread.all():
                axis = int(spread[1])
                rails.setdefault((axis, float(own[0, axis - 1])), []).append(k)
            else:
                between.append(k)
        # A row (axis 0 runs along it) has its first lane above it, with the box on the left; the next one below it,
        # with the box on the right; and so on. Columns likewise, on the left and the top first.
        lanes = {k: n for ks in rails.values() for n, k in enumerate(ks)}
        sizes = np.array([place.size for place in self.places]).reshape(-1, 2)
        extent = np.zeros((2, 2))
        for (axis, _), ks in rails.items():
            for k in ks:
                side, level = lanes[k] % 2, lanes[k] // 2
                across = 1 - axis
                extent[across, side] = max(extent[across, side], _STUB + level * self._spacing(across, sizes, ks))
        free = np.array([12.0, 8.0])
        if between:
            free = np.maximum(free, sizes[between].max(axis=0) + 6.0)
        gap = extent.sum(axis=1) + free + 2 * _LANE
        # Boxes of neighbouring columns stand side by side.
        columns = [k for (axis, _), ks in rails.items() if axis == 1 for k in ks]
        step = 2 * self.radius + gap
        if columns:
            step[0] = max(step[0], sizes[columns, 0].max() + 8.0)
        self.centers = cells * step * (1.0, -1.0)
        low, high = self.centers.min(axis=0), self.centers.max(axis=0)
        # Sides in the order left, right and top, bottom; y is upwards.
        low = low - self.radius - [extent[0, 0], extent[1, 1]] - free - _LANE
        high = high + self.radius + [extent[0, 1], extent[1, 0]] + free + _LANE
        if not self._between(between, cells, step, extent):
            return False
        for n, k in enumerate(framed):
            grown = 7.0 * n
            own = self.centers[self.factors[k][0]]
            inner = own.min(axis=0) - self.radius, own.max(axis=0) + self.radius
            pad = np.array([[extent[0, 0], extent[1, 1]], [extent[0, 1], extent[1, 0]]]) + free + _LANE + grown
            frame = np.array([inner[0] - pad[0], inner[1] + pad[1]])
            self.places[k].frame = frame
            size = self.places[k].size
            self.places[k].center = np.array([frame[1, 0] - size[0] / 2 - 10.0 - 14.0 * n, frame[0, 1]])
            low, high = np.minimum(low, frame[0]), np.maximum(high, frame[1])
        for (axis, _), ks in rails.items():
            across = 1 - axis
            spacing = self._spacing(across, sizes, ks)
            for k in ks:
                side, level = lanes[k] % 2, lanes[k] // 2
                # Towards the left, and upwards, on the first side.
                sign = (-1.0 if side == 0 else 1.0) * (1.0 if across == 0 else -1.0)
                own = self.centers[self.factors[k][0]]
                rail = own[0, across] + sign * (self.radius + _STUB + level * spacing)
                center = np.empty(2)
                center[across] = rail
                if axis == 0:
                    center[0] = low[0] - 8.0 - sizes[k, 0] / 2 if side == 0 else high[0] + 8.0 + sizes[k, 0] / 2
                else:
                    center[1] = high[1] + 6.0 + sizes[k, 1] / 2 if side == 0 else low[1] - 6.0 - sizes[k, 1] / 2
                self.places[k].center = center
                farthest = np.argmax(np.abs(own - center)[:, axis])
                # The lines of several lanes reach a circle side by side.
                n_levels = (len(ks) + 1 - side) // 2
                aside = np.clip(8.0 * (level - (n_levels - 1) / 2), -0.7 * self.radius, 0.7 * self.radius)
                for i, variable in enumerate(own):
                    bend, rim = variable.copy(), variable.copy()
                    bend[axis] = rim[axis] = variable[axis] + aside
                    bend[across] = rail
                    rim[across] += sign * np.sqrt(self.radius**2 - aside**2)
                    # Lines on top of each other would look thicker.
                    self.places[k].routes.append(np.array([center, bend, rim] if i == farthest else [bend, rim]))
        return True

    def _spacing(self, across, sizes, ks):
        """Return the distance of lanes on one side, so that their boxes stand beside each other."""
        return sizes[ks, across].max() + 4.0

    def _between(self, factors, cells, step, extent):
        """Put boxes in the middle of four circles, each as near to its variables as there is a place left."""
        xs, ys = (_with_edges(np.unique(cells[:, axis].round(6))) for axis in (0, 1))
        spots = np.array([(x, y) for x in xs for y in ys]) * step * (1.0, -1.0)
        # Lanes may be on one side only.
        spots += 0.5 * np.array([extent[0, 1] - extent[0, 0], extent[1, 0] - extent[1, 1]]) * (1.0, -1.0)
        if len(factors) > len(spots):
            return False
        for k in factors:
            own = self.centers[self.factors[k][0]]
            best = np.argmin(np.linalg.norm(spots - own.mean(axis=0), axis=1).round(3))
            self.places[k].center = spots[best]
            spots = np.delete(spots, best, axis=0)
        return True

    # -- By distance --------------------------------------------------------------------------------------------------

    def _by_distance(self, n_variables):
        """Place variables and factors such that their distances in the picture are those in the graph."""
        n = n_variables + len(self.factors)
        reach = np.concatenate(
            [np.full(n_variables, self.radius), [0.5 * np.hypot(*place.size) for place in self.places]]
        )
        lengths = np.full((n, n), np.inf)
        for k, (variables, _, _) in enumerate(self.factors):
            lengths[variables, n_variables + k] = reach[variables] + reach[n_variables + k] + 22.0
        for i, j in self.pairs:
            lengths[i, j] = 2 * self.radius + 36.0
        nodes = _spread(np.minimum(lengths, lengths.T), reach)
        self.centers = nodes[:n_variables]
        for k, place in enumerate(self.places):
            place.center, place.frame, place.routes = nodes[n_variables + k], None, []

    # -- Lines --------------------------------------------------------------------------------------------------------

    def _route(self):
        """Draw the lines that do not run along a lane, around the circles that they would hit."""
        for (variables, _, _), place in zip(self.factors, self.places):
            if place.frame is None and not place.routes:
                for v in variables.tolist():
                    line = self._around(place.center, self.centers[v], [v])
                    place.routes.append(_until(line, self.centers[v], self.radius))
        self.pair_routes = []
        for i, j in self.pairs:
            line = self._around(self.centers[i], self.centers[j], [i, j])
            line = _until(line, self.centers[j], self.radius)
            self.pair_routes.append(_until(line[::-1], self.centers[i], self.radius)[::-1])

    def _around(self, start, end, own):
        """Return a line from start to end: straight, or bent as little as keeps it off other circles."""
        others = np.delete(self.centers, own, axis=0)
        along = np.linspace(0.0, 1.0, 41)[:, None]
        normal = np.array([start[1] - end[1], end[0] - start[0]])
        best = None
        for bend in (0.0, 0.12, -0.12, 0.25, -0.25, 0.4, -0.4):
            line = start + along * (end - start) + 4 * along * (1 - along) * bend * normal
            apart = cdist(line, others) if len(others) else np.full((1, 1), np.inf)
            hits = (apart < self.radius + 3.0).sum()
            if best is None or hits < best[0]:
                best = hits, line if bend else line[[0, -1]]
            if hits == 0:
                break
        return best[1]

    def _bound(self):
        corners = [self.centers - self.radius, self.centers + self.radius]
        corners += [place.corners for place in self.places]
        corners += [place.frame for place in self.places if place.frame is not None]
        corners += [route for place in self.places for route in place.routes] + self.pair_routes
        corners = np.concatenate(corners)
        self.low, self.high = corners.min(axis=0), corners.max(axis=0)


def _arrange(arrays, factors):
    """Return the cell (column, row) of each variable, arrays side by side or below each other.

    Arrays with one axis are a row or a column, beside those with two: where more factors then lie on one line.
    """
    blocks = []
    for array in arrays:
        # Of more than two axes: the last two are those of the blocks.
        blocks += [array[None]] if array.ndim == 1 else list(array.reshape(-1, *array.shape[-2:]))
    # Those with rows and columns come first, whatever their place in the graph.
    blocks.sort(key=lambda block: min(block.shape) == 1)
    cells = np.full((sum(array.size for array in arrays), 2), np.nan)
    for either in blocks:
        options = []
        for block in [either, either.T] if len(either) == 1 else [either]:
            rows, columns = np.indices(block.shape)
            placed = cells[~np.isnan(cells[:, 0])]
            beyond = placed.max(axis=0) + 1.25 if len(placed) else np.zeros(2)
            for x, y in dict.fromkeys([(beyond[0], 0.0), (0.0, beyond[1])]):
                trial = cells.copy()
                trial[block.ravel()] = np.stack([columns.ravel() + x, rows.ravel() + y], axis=1)
                options.append((_n_straight(trial, factors), trial))
        cells = max(options, key=lambda option: option[0])[1]
    return cells


def _n_straight(cells, factors):
    spreads = [np.ptp(cells[variables], axis=0) for variables in factors if len(variables) > 1]
    return sum(not np.isnan(spread).any() and spread.min() < _SAME for spread in spreads)


def _fills_its_box(cells, variables):
    """Tell whether there are no other variables in the rectangle around some."""
    own = cells[variables]
    inside = ((cells >= own.min(axis=0) - _SAME) & (cells <= own.max(axis=0) + _SAME)).all(axis=1)
    return inside.sum() == len(variables)


def _with_edges(places):
    """Return the middles between neighbouring places, and a place beyond each end."""
    ends = [places[0] - 1.0, *places, places[-1] + 1.0]
    return [(a + b) / 2 for a, b in pairwise(ends)]


def _until(line, center, radius):
    """Cut a line where it enters a circle that it ends in."""
    apart = np.linalg.norm(line - center, axis=1)
    last = np.flatnonzero(apart >= radius)[-1] if (apart >= radius).any() else 0
    inner = line[min(last + 1, len(line) - 1)]
    direction = line[last] - inner
    # Where |inner + t direction - center| is the radius.
    a, b, c = direction @ direction, 2 * direction @ (inner - center), (inner - center) @ (inner - center) - radius**2
    t = (-b + np.sqrt(max(b * b - 4 * a * c, 0.0))) / (2 * a) if a > 0 else 0.0
    return np.concatenate([line[: last + 1], (inner + t * direction)[None]])


def _spread(lengths, reach):
    """Place nodes by the lengths of the shortest paths between them (stress majorisation), and then apart."""
    n = len(lengths)
    joined = np.isfinite(lengths)
    n_components, component = connected_components(joined, directed=False)
    distances = shortest_path(np.where(joined, lengths, 0.0), directed=False)
    groups = [np.flatnonzero(component == c) for c in range(n_components)]
    drawn = []
    for group in groups:
        places = _push_apart(_by_stress(distances[np.ix_(group, group)]), reach[group])
        drawn.append((places, reach[group]))
    # Components in rows, the largest first.
    boxes = [np.array([(p - r[:, None]).min(axis=0), (p + r[:, None]).max(axis=0)]) for p, r in drawn]
    sizes = np.array([box[1] - box[0] + 16.0 for box in boxes])
    width = max(sizes[:, 0].max(), 1.6 * np.sqrt(sizes.prod(axis=1).sum()))
    nodes, x, y, height = np.empty((n, 2)), 0.0, 0.0, 0.0
    for i in sorted(range(n_components), key=lambda i: (-len(groups[i]), groups[i][0])):
        if x > 0 and x + sizes[i, 0] > width:
            x, y, height = 0.0, y - height, 0.0
        nodes[groups[i]] = drawn[i][0] - (boxes[i][0, 0], boxes[i][1, 1]) + (x, y)
        x, height = x + sizes[i, 0], max(height, sizes[i, 1])
    return nodes


def _by_stress(distances, n_iter=300):
    """Minimise the sum of ((distance in the picture - distance) / distance)^2; the result is the same at each call."""
    n = len(distances)
    angle = 2 * np.pi * np.arange(n) / n
    circle = np.stack([-np.cos(angle), np.sin(angle)], axis=1)
    if n == 1 or np.ptp(distances[~np.eye(n, dtype=bool)]) < _SAME:
        # All are joined with all: the lines are told apart best from a circle.
        return circle * distances.max() / (2 * np.sin(np.pi / max(n, 2)))
    centring = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centring @ distances**2 @ centring)
    places = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    # So that no two nodes start at the same place.
    places += 0.05 * distances.max() * circle
    weights = (distances + np.eye(n)) ** -2.0 - np.eye(n)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    for _ in range(n_iter):
        apart = cdist(places, places)
        ratio = weights * np.divide(distances, apart, out=np.zeros((n, n)), where=apart > 1e-9)
        new = inverse @ ((np.diag(ratio.sum(axis=1)) - ratio) @ places)
        still = np.abs(new - places).max() < 1e-4 * distances.max()
        places = new
        if still:
            break
    # The longest extent across, and the first node on the left and on top.
    axes = np.linalg.svd(places - places.mean(axis=0), full_matrices=False)[2]
    places = (places - places.mean(axis=0)) @ axes.T
    return places * np.where(places[0] * (1.0, -1.0) > 0, -1.0, 1.0)


def _push_apart(places, reach, margin=8.0, n_iter=200):
    """Move nodes until none is on top of another."""
    wanted = reach[:, None] + reach + margin
    np.fill_diagonal(wanted, 0.0)
    if len(places) > 1:
        # First all alike, so that crowded parts keep their shape.
        worst = (wanted / np.maximum(cdist(places, places), 1e-9)).max(axis=1)
        places = places * np.clip(np.quantile(worst, 0.75), 1.0, 3.0)
    for _ in range(n_iter):
        apart = cdist(places, places)
        lacking = np.maximum(wanted - apart, 0.0)
        if lacking.max() < 0.1:
            break
        share = 0.25 * lacking / np.maximum(apart, 1e-9)
        places = places + share.sum(axis=1)[:, None] * places - share @ places
    return places
