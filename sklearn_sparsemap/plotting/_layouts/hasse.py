"""Where the groups of a Hasse diagram go: in columns by level, such that few edges cross."""

import numpy as np
from sklearn.isotonic import isotonic_regression

_SWEEPS = 24


class HasseLayout:
    """Places of the nodes of a layered graph, and the ways of its edges.

    An edge that skips layers gets a bend in each of them, which takes part in the layout like a small node; so no edge
    runs through a node.

    Parameters
    ----------
    levels : int ndarray of shape (n_nodes,)
        The layer of each node.
    edges : int ndarray of shape (n_edges, 2)
        From lower to higher layers.
    bend_height : float, default=0.45
        Room that a bend takes; a node takes 1.

    Attributes
    ----------
    heights : ndarray of shape (n_nodes,)
        Where each node is within its layer, from 0.
    bends : list of list of (int, float)
        For each edge the layers that it passes and where, from the coarse end to the fine one.
    extent : float
        The largest height.
    """

    def __init__(self, levels, edges, bend_height=0.45):
        n_nodes = len(levels)
        layer, room, links, chains = list(levels), [1.0] * n_nodes, [], []
        for coarse, fine in edges:
            chain, last = [], int(coarse)
            for between in range(levels[coarse] + 1, levels[fine]):
                layer.append(between)
                room.append(bend_height)
                chain.append(len(layer) - 1)
                links.append((last, chain[-1]))
                last = chain[-1]
            links.append((last, int(fine)))
            chains.append(chain)
        self._room, self._links = np.array(room), np.array(links, dtype=np.int64).reshape(-1, 2)
        self._layers = [np.flatnonzero(np.array(layer) == at) for at in range(max(layer) + 1)]
        self._neighbours = self._find_neighbours(len(layer))
        heights = self._spread(self._order())
        heights -= (heights - self._room / 2).min()
        self.heights = heights[:n_nodes]
        self.bends = [[(layer[node], float(heights[node])) for node in chain] for chain in chains]
        self.extent = float((heights + self._room / 2).max())

    def _find_neighbours(self, n):
        """Return for each node its neighbours in the layer before and in the layer after."""
        before, after = [[] for _ in range(n)], [[] for _ in range(n)]
        for coarse, fine in self._links.tolist():
            before[fine].append(coarse)
            after[coarse].append(fine)
        return before, after

    def _order(self):
        """Sort layers by the mean place of the neighbours, forth and back; return those with the fewest crossings."""
        layers = [layer.copy() for layer in self._layers]
        best, fewest = [layer.copy() for layer in layers], self._count_crossings(layers)
        place = np.zeros(len(self._room))
        for sweep in range(_SWEEPS):
            forth = sweep % 2 == 0
            for layer in layers:
                place[layer] = np.arange(len(layer)) / max(1, len(layer) - 1)
            towards = self._neighbours[0] if forth else self._neighbours[1]
            for at in range(len(layers)) if forth else reversed(range(len(layers))):
                layer = layers[at]
                wanted = [np.mean(place[towards[node]]) if towards[node] else place[node] for node in layer]
                layers[at] = layer = layer[np.argsort(wanted, kind="stable")]
                place[layer] = np.arange(len(layer)) / max(1, len(layer) - 1)
            crossings = self._count_crossings(layers)
            if crossings < fewest:
                best, fewest = [layer.copy() for layer in layers], crossings
        return best

    def _count_crossings(self, layers):
        place = np.zeros(len(self._room))
        total = 0
        for layer in layers:
            place[layer] = np.arange(len(layer))
        for at in range(len(layers) - 1):
            inside = np.isin(self._links[:, 0], layers[at])
            a, b = place[self._links[inside, 0]], place[self._links[inside, 1]]
            total += int(((a[:, None] < a) & (b[:, None] > b)).sum())
        return total

    def _spread(self, layers):
        """Move each node towards the mean of its neighbours, in its order and at its distance."""
        heights = np.zeros(len(self._room))
        offsets = []
        for layer in layers:
            room = self._room[layer]
            offset = np.cumsum(room) - room / 2
            offsets.append(offset)
            heights[layer] = offset - offset.mean() if len(layer) else 0.0
        for sweep in range(_SWEEPS):
            for at in range(len(layers)) if sweep % 2 == 0 else reversed(range(len(layers))):
                layer, offset = layers[at], offsets[at]
                wanted = [self._mean_height(node, heights) for node in layer]
                # The closest heights that keep order and distance: without the distances they must not decrease.
                heights[layer] = isotonic_regression(np.array(wanted) - offset) + offset
        return heights

    def _mean_height(self, node, heights):
        around = self._neighbours[0][node] + self._neighbours[1][node]
        return heights[around].mean() if around else heights[node]
