"""Separation: sets of words whose inflow is too small, so that the arc weights are not in the polytope of trees.

Conventions: node 0 is the root, node m is word m, and u[m - 1, h] is the weight of the arc from h to m. Each row of u
sums to 1. A row of `sets` (n_nodes, n_nodes) marks the nodes of a set whose entering arcs have a total weight below 1.

Used by `cuts.py`.
"""

import numpy as np

from ..._core.jit import copy_into, kernel

# An inflow below 1 by more than this violates a cut.
_BELOW = 1e-10
# A cut is tight if its inflow exceeds 1 by at most this.
_ABOVE = 1e-9
# Largest residual capacity or excess that counts as rounding error.
_NOTHING = 1e-14
_AWAKE = -1


@kernel
def _neighbours(u, near, degree):
    """List for each word the words to which an arc with weight connects it, in either direction."""
    degree[:] = 0
    for m in range(1, u.shape[1]):
        for h in range(1, u.shape[1]):
            if u[m - 1, h] > 0.0 and h != m and (m > h or u[h - 1, m] == 0.0):
                near[h, degree[h]], near[m, degree[m]] = m, h
                degree[h] += 1
                degree[m] += 1


@kernel
def _take_highest(active, n_active, label, layer):
    """Remove the node with the highest label from the active and awake nodes.

    Returns the node, or -1 if there is none, and the number of remaining active nodes.
    """
    best = np.int64(-1)
    a = np.int64(0)
    while a < n_active:
        if layer[active[a]] != _AWAKE:
            n_active -= 1
            active[a] = active[n_active]
            continue
        if best < 0 or label[active[a]] > label[active[best]]:
            best = a
        a += 1
    if best < 0:
        return best, n_active
    node = active[best]
    active[best] = active[n_active - 1]
    return node, n_active - 1


@kernel
def _lowest_awake(label, layer):
    """Return the awake node with the lowest label, or -1."""
    best = np.int64(-1)
    for v in range(1, label.shape[0]):
        if layer[v] == _AWAKE and (best < 0 or label[v] < label[best]):
            best = v
    return best


@kernel
def _put_to_sleep(gap, label, layer, n_layers):
    """Put nodes with labels at or above a gap, which cannot reach the sink, to sleep; return the number of layers."""
    n_layers += 1
    for v in range(1, label.shape[0]):
        if layer[v] == _AWAKE and label[v] >= gap:
            layer[v] = n_layers
    return n_layers


@kernel
def _is_missing(level, label, layer, i):
    """Return whether no awake node except `i` has this label."""
    v = 1
    while v < label.shape[0] and (label[v] != level or v == i or layer[v] != _AWAKE):
        v += 1
    return v == label.shape[0]


@kernel
def _discharge(i, near, residual, excess, label, layer, n_layers, active, n_active):
    """Push the excess of node `i`, or put it to sleep; return the numbers of layers and of active nodes.

    Parameters
    ----------
    i : int
    near : int array
        The neighbours of the node.
    residual : array of shape (n_nodes, n_nodes)
        ``residual[j, i]`` is the residual capacity from node i to node j.
    excess, label, layer : arrays of shape (n_nodes,)
        Excess, distance label and state of each node; see `minimum_cuts`.
    n_layers : int
        Number of sleeping layers.
    active : int array of shape (n_nodes,)
        The active nodes, of which there are `n_active`; gets the nodes that become active.
    n_active : int
    """
    unreachable = 4 * label.shape[0]
    while excess[i] > _NOTHING:
        lowest = unreachable
        for j in near:
            room = residual[j, i]
            if room > _NOTHING and layer[j] == _AWAKE:
                if label[j] == label[i] - 1:
                    passed = min(excess[i], room)
                    residual[j, i] = room - passed
                    residual[i, j] += passed
                    excess[i] -= passed
                    if excess[j] <= _NOTHING:
                        active[n_active] = j
                        n_active += 1
                    excess[j] += passed
                    if excess[i] <= _NOTHING:
                        return n_layers, n_active
                    if room - passed > _NOTHING:
                        lowest = min(lowest, label[j])
                elif label[j] < lowest:
                    lowest = label[j]
        if _is_missing(label[i], label, layer, i):
            # Relabelling this node would leave a gap in the labels.
            return _put_to_sleep(label[i], label, layer, n_layers), n_active
        if lowest == unreachable:
            layer[i] = n_layers + 1
            return n_layers + 1, n_active
        label[i] = lowest + 1
    return n_layers, n_active


@kernel
def _is_safe(u, v, fed, layer, seen):
    """Return whether no set that contains node `v`, off the source side, is tight or violated.

    This holds if each head of `v` off the source side receives more from the source side than it gives to `v`. The
    inflow of a set is at least the inflow of `v`, minus the weight from heads inside the set, plus the weight that
    these heads receive from the source side. (Heads that give nothing matter only for sets that are entered at `v`
    alone, which are tight for all weights.) The weight that a head receives only grows, so `seen` stores for each node
    the first head that failed.
    """
    row, h = u[v - 1], seen[v]
    while h < row.shape[0] and (h == v or layer[h] == 0 or row[h] == 0.0 or fed[h] > row[h] + _ABOVE):
        h += 1
    seen[v] = h
    return h == row.shape[0]


@kernel
def _join_source(v, near, u, residual, excess, layer, fed):
    """Move a node to the source side and saturate its arcs.

    Parameters
    ----------
    v : int
    near : int array
        The neighbours of the node.
    u, residual, excess, layer
        As in `minimum_cuts`.
    fed : array of shape (n_nodes,)
        The capacity that each node receives from the source side; increased.
    """
    layer[v] = 0
    for k in near:
        if layer[k] != 0:
            excess[k] += residual[k, v]
            residual[v, k] += residual[k, v]
            residual[k, v] = 0.0
            fed[k] += u[k - 1, v]


@kernel
def minimum_cuts(u, sets):
    """Find minimum cuts that have the root on the source side (Hao and Orlin 1994).

    One preflow serves all sinks: when a sink is done, it joins the source side. If any set of words violates its cut, a
    violated one is found. Nodes whose heads show that they are in no such set join the source side without being a
    sink.

    Returns
    -------
    found, violated : int
        The number of sets in `sets`, violated or tight; and the number of violated ones.
    """
    n_nodes = u.shape[1]
    # residual[j, i] is the residual capacity from node i to node j.
    residual = np.empty((n_nodes, n_nodes))
    excess = np.zeros(n_nodes)
    # For each node, its distance label, and its state: awake (-1), on the source side (0), or in a sleeping layer (>
    # 0).
    label = np.empty(n_nodes, np.int64)
    layer = np.empty(n_nodes, np.int64)
    # For each node, the capacity it receives from the source side, and the number of its heads that `_is_safe` has
    # checked.
    fed = np.zeros(n_nodes)
    seen = np.zeros(n_nodes, np.int64)
    near = np.empty((n_nodes, n_nodes), np.int64)
    degree = np.empty(n_nodes, np.int64)
    active = np.empty(n_nodes, np.int64)
    _neighbours(u, near, degree)
    for j in range(n_nodes):
        label[j], layer[j] = 1, _AWAKE
        if j > 0:
            copy_into(residual[j], u[j - 1])
            # Arcs from the root are saturated. They need no residual, because no flow returns to the root.
            excess[j] = fed[j] = u[j - 1, 0]
    layer[0] = 0
    sink = np.int64(1)
    n_layers = np.int64(0)
    found = 0
    violated = 0
    label[sink] = 0
    while True:
        n_active = np.int64(0)
        for v in range(1, n_nodes):
            if layer[v] == _AWAKE and v != sink and excess[v] > _NOTHING:
                active[n_active] = v
                n_active += 1
        # A positive excess keeps the sink from being added to the active nodes.
        reached, excess[sink] = excess[sink], 1.0
        i, n_active = _take_highest(active, n_active, label, layer)
        while i >= 0:
            n_layers, n_active = _discharge(
                i, near[i, : degree[i]], residual, excess, label, layer, n_layers, active, n_active
            )
            i, n_active = _take_highest(active, n_active, label, layer)
        reached += excess[sink] - 1.0
        if reached < 1.0 + _ABOVE:
            violated += reached < 1.0 - _BELOW
            for v in range(n_nodes):
                sets[found, v] = layer[v] == _AWAKE
            found += 1
        _join_source(sink, near[sink, : degree[sink]], u, residual, excess, layer, fed)
        joined = True
        while joined:
            joined = False
            for v in range(1, n_nodes):
                if layer[v] != 0 and _is_safe(u, v, fed, layer, seen):
                    joined = True
                    was_awake = layer[v] == _AWAKE
                    _join_source(v, near[v, : degree[v]], u, residual, excess, layer, fed)
                    if was_awake and _is_missing(label[v], label, layer, v):
                        lowest = _lowest_awake(label, layer)
                        if lowest >= 0 and label[lowest] < label[v]:
                            n_layers = _put_to_sleep(label[v], label, layer, n_layers)
        sink = _lowest_awake(label, layer)
        while sink < 0:
            if n_layers == 0:
                return found, violated
            for v in range(1, n_nodes):
                if layer[v] == n_layers:
                    layer[v] = _AWAKE
            n_layers -= 1
            sink = _lowest_awake(label, layer)
