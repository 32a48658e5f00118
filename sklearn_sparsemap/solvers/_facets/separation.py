"""Sets of words that too little flows into: what separates a matrix of arcs from the polytope of trees.

Conventions: node 0 is the root, node m word m, u[m - 1, h] the weight of the arc from h to m; each row of u sums to 1.
A row of `sets` (n_nodes, n_nodes) says which nodes are in a set that arcs of a total weight below 1 enter.
"""

import numpy as np

from ..._jit import kernel

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
def _highest_active(excess, label, layer, sink):
    """Return the awake node with something to pass on whose label is highest; -1 without one."""
    best = -1
    for v in range(1, label.shape[0]):
        if layer[v] == _AWAKE and v != sink and excess[v] > _NOTHING and (best < 0 or label[v] > label[best]):
            best = v
    return best


@kernel
def _discharge(i, residual, excess, label, layer, n_layers):
    """Pass on what node `i` has too much of, or put it to sleep; return the number of sleeping layers."""
    n_nodes = label.shape[0]
    row = residual[i]
    unreachable = 4 * n_nodes
    while excess[i] > _NOTHING:
        lowest = unreachable
        for j in range(1, n_nodes):
            if row[j] > _NOTHING and layer[j] == _AWAKE:
                if label[j] == label[i] - 1:
                    passed = min(excess[i], row[j])
                    row[j] -= passed
                    residual[j, i] += passed
                    excess[i] -= passed
                    excess[j] += passed
                    if excess[i] <= _NOTHING:
                        return n_layers
                    if row[j] > _NOTHING:
                        lowest = min(lowest, label[j])
                elif label[j] < lowest:
                    lowest = label[j]
        alone = True
        for v in range(1, n_nodes):
            if v != i and layer[v] == _AWAKE and label[v] == label[i]:
                alone = False
        if alone:
            # A gap in the labels: nothing at or above it reaches the sink.
            n_layers += 1
            gap = label[i]
            for v in range(1, n_nodes):
                if layer[v] == _AWAKE and label[v] >= gap:
                    layer[v] = n_layers
            return n_layers
        if lowest == unreachable:
            n_layers += 1
            layer[i] = n_layers
            return n_layers
        label[i] = lowest + 1
    return n_layers


@kernel
def minimum_cuts(u, sets):
    """Find minimum cuts that have the root on the source side (Hao and Orlin 1994).

    One preflow serves all sinks: when a sink is done, it joins the source side. If a set of words separates at all, one
    that does is found.

    Returns
    -------
    found, violated : int
        How many sets are in `sets`: those that separate, and those that are tight; and how many of them separate.
    """
    n_nodes = u.shape[1]
    residual, excess = np.empty((n_nodes, n_nodes)), np.empty(n_nodes)
    # Of a node: its distance label; and whether it is awake (-1), on the source side (0) or in a sleeping layer.
    label, layer = np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64)
    for j in range(n_nodes):
        label[j], layer[j] = 1, _AWAKE
        for i in range(n_nodes):
            residual[i, j] = u[j - 1, i] if i != j and j > 0 else 0.0
    layer[0], label[0] = 0, n_nodes
    for j in range(1, n_nodes):
        excess[j] = residual[0, j]
        residual[j, 0] += residual[0, j]
        residual[0, j] = 0.0
    sink, n_layers, found, violated = np.int64(1), np.int64(0), 0, 0
    label[sink] = 0
    while True:
        i = _highest_active(excess, label, layer, sink)
        while i >= 0:
            n_layers = _discharge(i, residual, excess, label, layer, n_layers)
            i = _highest_active(excess, label, layer, sink)
        if excess[sink] < 1.0 + _ABOVE:
            violated += excess[sink] < 1.0 - _BELOW
            for v in range(n_nodes):
                sets[found, v] = layer[v] == _AWAKE
            found += 1
        layer[sink] = 0
        for k in range(1, n_nodes):
            if layer[k] != 0 and residual[sink, k] > _NOTHING:
                excess[k] += residual[sink, k]
                residual[k, sink] += residual[sink, k]
                residual[sink, k] = 0.0
        awake = False
        for v in range(1, n_nodes):
            awake |= layer[v] == _AWAKE
        if not awake:
            if n_layers == 0:
                return found, violated
            for v in range(1, n_nodes):
                if layer[v] == n_layers:
                    layer[v] = _AWAKE
            n_layers -= 1
        sink = np.int64(-1)
        for v in range(1, n_nodes):
            if layer[v] == _AWAKE and (sink < 0 or label[v] < label[sink]):
                sink = v
