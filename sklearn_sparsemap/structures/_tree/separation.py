"""Sets of words that too little flows into: what separates a matrix of arcs from the polytope of trees.

Conventions: node 0 is the root, node m word m, u[m - 1, h] the weight of the arc from h to m; each row of u sums to 1.
A row of `sets` (n_nodes, n_nodes) says which nodes are in a set that arcs of a total weight below 1 enter.
"""

import numpy as np

from ..._core.jit import copy_into, kernel

# An inflow below 1 by more than this separates: found by contraction, and by minimum cuts, which are the last word.
_CLEARLY_BELOW, _BELOW = 1e-9, 1e-10
# One that is above 1 by no more is tight.
_ABOVE = 1e-9
# Residual capacities and excesses up to this are rounding.
_NOTHING = 1e-14
_AWAKE = -1


@kernel
def _heaviest(weights, inside):
    """Return the node outside of the component `inside` from which most comes."""
    best = 0
    for h in range(1, weights.shape[0]):
        if weights[h] > weights[best] and h != inside:
            best = h
    return best


@kernel
def contract_cycles(u, sets):
    """Contract cycles of heaviest arcs, as Edmonds does; return how many contracted sets separate.

    Quick, and finds most sets that `minimum_cuts` would; not all.
    """
    n_nodes = u.shape[1]
    weights, owner = np.empty((n_nodes, n_nodes)), np.empty(n_nodes, np.int64)
    head, mark = np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64)
    for m in range(n_nodes):
        owner[m], mark[m], head[m] = m, 0, 0
        for h in range(n_nodes):
            weights[m, h] = u[m - 1, h] if h != m and m > 0 else 0.0
        if m > 0:
            head[m] = _heaviest(weights[m], m)
    found = 0
    # Walk along heads from each node; a walk that meets itself has found a cycle, and goes on from what it becomes.
    for start in range(1, n_nodes):
        v = owner[start]
        while v != 0 and (mark[v] == 0 or mark[v] == start):
            if mark[v] == 0:
                mark[v] = start
                v = owner[head[v]]
                continue
            x = owner[head[v]]
            while x != v:
                above = owner[head[x]]
                for h in range(n_nodes):
                    weights[v, h] += weights[x, h]
                for q in range(n_nodes):
                    if owner[q] == x:
                        owner[q] = v
                for q in range(1, n_nodes):
                    weights[q, v] += weights[q, x]
                    weights[q, x] = 0.0
                x = above
            inflow = 0.0
            for h in range(n_nodes):
                if owner[h] == v:
                    weights[v, h] = 0.0
                inflow += weights[v, h]
            if inflow < 1.0 - _CLEARLY_BELOW:
                for q in range(n_nodes):
                    sets[found, q] = owner[q] == v
                found += 1
            head[v] = _heaviest(weights[v], v)
            mark[v] = 0
    return found


@kernel
def _neighbours(u, near, degree):
    """List for each word the words that an arc with weight links it with, in either direction."""
    for i in range(degree.shape[0]):
        degree[i] = 0
    for m in range(1, u.shape[1]):
        for h in range(1, u.shape[1]):
            if u[m - 1, h] > 0.0 and h != m and (m > h or u[h - 1, m] == 0.0):
                near[h, degree[h]], near[m, degree[m]] = m, h
                degree[h] += 1
                degree[m] += 1


@kernel
def _take_highest(active, n_active, label, layer):
    """Take the node whose label is highest from those that are active and awake; return it, -1 without one, and how
    many are left.
    """
    best, a = np.int64(-1), np.int64(0)
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
    """Return the awake node whose label is lowest; -1 without one."""
    best = np.int64(-1)
    for v in range(1, label.shape[0]):
        if layer[v] == _AWAKE and (best < 0 or label[v] < label[best]):
            best = v
    return best


@kernel
def _put_to_sleep(gap, label, layer, n_layers):
    """Put what is at or above a gap in the labels to sleep: it does not reach the sink. Return the number of layers."""
    n_layers += 1
    for v in range(1, label.shape[0]):
        if layer[v] == _AWAKE and label[v] >= gap:
            layer[v] = n_layers
    return n_layers


@kernel
def _is_missing(level, label, layer, i):
    """Tell whether no awake node but `i` has a label."""
    v = 1
    while v < label.shape[0] and (label[v] != level or v == i or layer[v] != _AWAKE):
        v += 1
    return v == label.shape[0]


@kernel
def _discharge(i, near, residual, excess, label, layer, n_layers, active, n_active):
    """Pass on what node `i` has too much of, or put it to sleep; return the numbers of layers and of active nodes."""
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
            # A gap in the labels, once this one goes up.
            return _put_to_sleep(label[i], label, layer, n_layers), n_active
        if lowest == unreachable:
            layer[i] = n_layers + 1
            return n_layers + 1, n_active
        label[i] = lowest + 1
    return n_layers, n_active


@kernel
def _is_safe(u, v, fed, layer, seen):
    """Tell whether no set of node `v` and others, all off the source side, is tight or separates.

    It is if each of its heads off the source side gets more from there than it gives to `v`: into a set go from outside
    all that `v` gets less what it gets from within, and what the others get from the source side. (Heads that give
    nothing matter to sets that only `v` is entered in, which are tight whatever the weights are.) What a head gets only
    grows: `seen` says for each node how many of its heads are known to give too little.
    """
    row, h = u[v - 1], seen[v]
    while h < row.shape[0] and (h == v or layer[h] == 0 or row[h] == 0.0 or fed[h] > row[h] + _ABOVE):
        h += 1
    seen[v] = h
    return h == row.shape[0]


@kernel
def _join_source(v, near, u, residual, excess, layer, fed):
    """Move a node to the source side: all that it can give, it gives."""
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

    One preflow serves all sinks: when a sink is done, it joins the source side. If a set of words separates at all, one
    that does is found. Nodes that are in no such set, as their heads show, join the source side without being a sink.

    Returns
    -------
    found, violated : int
        How many sets are in `sets`: those that separate, and those that are tight; and how many of them separate.
    """
    n_nodes = u.shape[1]
    # residual[j, i] is what may still flow from node i to node j.
    residual, excess = np.empty((n_nodes, n_nodes)), np.zeros(n_nodes)
    # For each node, its distance label, and its state: awake (-1), on the source side (0), or in a sleeping layer (>
    # 0).
    label, layer = np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64)
    # For each node, the capacity it receives from the source side, and the number of its heads that `_is_safe` has
    # checked.
    fed, seen = np.zeros(n_nodes), np.zeros(n_nodes, np.int64)
    near, degree = np.empty((n_nodes, n_nodes), np.int64), np.empty(n_nodes, np.int64)
    active = np.empty(n_nodes, np.int64)
    _neighbours(u, near, degree)
    for j in range(n_nodes):
        label[j], layer[j] = 1, _AWAKE
        if j > 0:
            copy_into(residual[j], u[j - 1])
            # Arcs from the root are saturated. They need no residual, because no flow returns to the root.
            excess[j] = fed[j] = u[j - 1, 0]
    layer[0] = 0
    sink, n_layers, found, violated = np.int64(1), np.int64(0), 0, 0
    label[sink] = 0
    while True:
        n_active = np.int64(0)
        for v in range(1, n_nodes):
            if layer[v] == _AWAKE and v != sink and excess[v] > _NOTHING:
                active[n_active] = v
                n_active += 1
        # So that it is never taken for active.
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
                    joined, was_awake = True, layer[v] == _AWAKE
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
