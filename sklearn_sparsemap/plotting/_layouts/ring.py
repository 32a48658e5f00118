"""Where labels stand around a ring, such that strong partners are near, and how edges run inside it."""

from itertools import pairwise

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

_SWEEPS = 10
# Rows of text: the least height of a ring, and its largest width.
_FEWEST_ROWS, _MOST_ROWS_ACROSS = 12.0, 34.0
_POINTS_OF_A_PATH = 40


class Ring:
    """An order of labels around a ring.

    Half of the labels stand on the right, half on the left, each in a row of its own. So names that are written
    outwards never overlap, and edges inside never cross a name.

    Parameters
    ----------
    n : int
        Number of labels.
    edges : int array of shape (n_edges, 2)
    strengths : array of shape (n_edges,)
        Positive.
    arrange : bool, default=True
        Whether to look for an order; else labels stand as they are counted.

    Attributes
    ----------
    order : int array of shape (n,)
        The labels, clockwise from the top.
    on_the_right : bool array of shape (n,)
        For each place of the order.
    """

    def __init__(self, n, edges, strengths, arrange=True):
        self.order = order_by_strength(n, edges, strengths) if arrange else np.arange(n)
        self.place_of = np.argsort(self.order)
        self.edges = edges
        self.on_the_right = np.arange(n) < (n + 1) // 2

    def places(self, row):
        """Return where the labels of the order stand: array of shape (n, 2).

        Parameters
        ----------
        row : float
            Least distance of names on one side.
        """
        n_right = int(self.on_the_right.sum())
        n_left = len(self.order) - n_right
        height = max(n_right, _FEWEST_ROWS) * row
        # A circle; of very many labels an oval, no wider than a page.
        width = min(height, _MOST_ROWS_ACROSS * row)
        down = [(np.arange(n_side) + 0.5) / max(n_side, 1) for n_side in (n_right, n_left)]
        y = np.concatenate([1.0 - 2.0 * down[0], 2.0 * down[1] - 1.0])
        x = np.sqrt(1.0 - y**2) * np.where(self.on_the_right, 1.0, -1.0)
        return np.stack([0.5 * width * x, 0.5 * height * y], axis=1)

    def paths(self, places):
        """Return the curve of each edge, bent towards the middle: list of arrays of shape (n_points, 2)."""
        t = np.linspace(0.0, 1.0, _POINTS_OF_A_PATH)[:, None]
        found = []
        for first, second in self.place_of[self.edges]:
            a, b = places[first], places[second]
            middle, length = (a + b) / 2, np.linalg.norm(a - b)
            # An edge between neighbours is a small arc of its own, and does not reach into the crowd in the middle.
            apart = max(np.linalg.norm(middle), 1e-9)
            control = middle * (1.0 - min(0.6, 0.9 * length / apart))
            found.append((1 - t) ** 2 * a + 2 * t * (1 - t) * control + t**2 * b)
        return found


def order_by_strength(n, edges, strengths):
    """Order labels around a ring such that strong partners are near; the same at each call.

    Labels that are joined, through others too, stand together. Within such a group the sum of strength times distance
    is lowered by moving single labels until none can be moved for the better.
    """
    links = coo_array((strengths / strengths.max(), edges.T), shape=(n, n))
    n_groups, group_of = connected_components(links, directed=False)
    groups = [np.flatnonzero(group_of == group) for group in range(n_groups)]
    groups.sort(key=lambda group: (-len(group), group[0]))
    ordered = []
    for group in groups:
        inside = group_of[edges[:, 0]] == group_of[group[0]]
        own = np.searchsorted(group, edges[inside])
        # A group that fills the ring is arranged in a circle, others along a line.
        ordered.append(group[_arrange(len(group), own, strengths[inside], closed=n_groups == 1)])
    return np.concatenate(ordered)


def _arrange(n, edges, strengths, closed):
    """Return an order of one group of labels in which the sum of strength times distance is low."""
    if n < 3:
        return np.arange(n)
    links = np.zeros((n, n))
    np.add.at(links, tuple(edges.T), strengths / strengths.max())
    links += links.T
    # The second eigenvector of the Laplacian is the best order if places could be any numbers.
    vector = np.linalg.eigh(np.diag(links.sum(axis=1)) - links)[1][:, 1]
    vector = vector * np.sign(vector[np.abs(vector).argmax()])
    order = np.argsort(vector.round(9), kind="stable")
    steps = np.arange(n)
    # A root of the distance does not trade one edge right across for many that are a bit longer.
    distance = np.sqrt(np.minimum(steps, n - steps) if closed else steps)

    def costs(places):
        """Return the cost of each row of places, the place of each label."""
        first, second = edges.T
        return distance[np.abs(places[:, first] - places[:, second])] @ strengths

    places = np.argsort(order)
    best = costs(places[None])[0]
    for _ in range(_SWEEPS):
        before = best
        for label in range(n):
            # Take the label out, and put it back at each place.
            without = places - (places > places[label])
            trials = without + (without >= steps[:, None])
            trials[:, label] = steps
            found = costs(trials)
            if found.min() < best - 1e-9 * strengths.sum():
                places, best = trials[found.argmin()], found.min()
        if best >= before:
            break
    order = np.argsort(places)
    if not closed:
        return order
    # The top is between the two neighbours that have least to do with each other.
    ties = [links[a, b] for a, b in pairwise([*order, order[0]])]
    return np.roll(order, -1 - int(np.argmin(ties)))
