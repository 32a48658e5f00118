"""Pivots: from a forest of arcs to that of the solution.

In each round, the equations are solved on the forest, see `forest.py`. Then all layers change at once, each by a few
arcs. An arc with negative flow is removed, and so are nodes that have lost all arcs on one side. Elsewhere, the best
arc with a positive reduced gain enters, and the best node through which a path with positive reduced gain leads. An
arc within a tree closes a cycle: flow is moved around it until an arc of the cycle has none, and leaves. If nothing
changes, the flow is optimal, because it is feasible and no path is better than those with flow.

Used by `solver.py` and `start.py`.
"""

import numpy as np

from ...._core.jit import kernel
from ...._numerics.support import EPS
from .forest import ABSENT, cut, grow, into, link, out_of, solve_forest, switch_on
from .pricing import price_backward, price_forward, price_of

# After this number of removals, plus one for each node, a layer may remove arcs in every second round only, later in
# every third, and so on, at random. Otherwise neighbours can force each other to repeat their pivots forever.
_PATIENCE = 6
# After so many rounds, a random half of the layers rests in each round. Otherwise neighbours that change at the same
# time can undo each other's pivots for hundreds of rounds.
_LIVELY_ROUNDS = 12
_WORTHWHILE = 1e-12  # least price worth a pivot, relative to the scale of the scores


@kernel
def _add_way(chain, forest, candidates, prices, t, i, step):
    """Add the best way from a node to the nodes with arcs, or to an end of the chain.

    Parameters
    ----------
    chain : Chain
    forest : Forest
    candidates : Candidates
    prices : Prices
    t, i : int
        The step and the state of the node.
    step : int
        1 for the way to the last step, -1 for that to the first.
    """
    width = chain.width
    reached = prices.behind if step > 0 else prices.ahead
    while 0 <= t + step < chain.n_steps:
        table = min(t, t + step) * chain.stride
        place, stride = (table + i * width, 1) if step > 0 else (table + i, width)
        best = -np.inf
        state = np.int64(0)
        for k in range(candidates.counts[t + step]):
            other = candidates.states[t + step, k]
            value = chain.gains[place + other * stride] + reached[(t + step) * width + other]
            if value > best:
                best, state = value, other
        is_new = not forest.on[(t + step) * width + state]
        if is_new:
            switch_on(chain, forest, t + step, state)
        if step > 0:
            link(forest, out_of(width, t) + i, into(width, t + 1) + state)
        else:
            link(forest, into(width, t) + i, out_of(width, t - 1) + state)
        forest.stale[max(t, t + step)] = True
        if not is_new:
            break
        t, i = t + step, state


@kernel
def enter(chain, forest, candidates, prices, t, i):
    """Add a node, and the best ways from and to nodes with arcs, or the ends of the chain.

    Parameters
    ----------
    chain : Chain
    forest : Forest
    candidates : Candidates
        The states through which the ways may lead.
    prices : Prices
    t, i : int
        The step and the state of the node.
    """
    switch_on(chain, forest, t, i)
    _add_way(chain, forest, candidates, prices, t, i, np.int64(-1))
    _add_way(chain, forest, candidates, prices, t, i, np.int64(1))


@kernel
def _open_nodes(chain, forest, candidates, prices, busy, tolerance):
    """Add the best node of each step whose price is above the tolerance; return their number.

    Parameters
    ----------
    chain : Chain
    forest : Forest
    candidates : Candidates
    prices : Prices
    busy : bool array of shape (n_steps,)
        Mask of the steps that stay as they are in this round.
    tolerance : float
    """
    n_opened = 0
    for t in range(chain.n_steps):
        if busy[t]:
            continue
        best = tolerance
        best_state = np.int64(-1)
        for k in range(candidates.counts[t]):
            i = candidates.states[t, k]
            if not forest.on[t * chain.width + i]:
                price = price_of(chain, forest, prices, t * chain.width + i)
                if price > best:
                    best, best_state = price, i
        if best_state >= 0:
            enter(chain, forest, candidates, prices, t, best_state)
            n_opened += 1
    return n_opened


@kernel
def _make_room(forest, x, y, is_left, is_on_way):
    """Remove the arc with the least flow among those that lose flow if an arc from x to y, of one tree, gets some.

    Parameters
    ----------
    forest : Forest
    x, y : int
    is_left : int
        Vertices below this place are out-vertices.
    is_on_way : bool array of the size of a layer
        False, and again so at the end.
    """
    node = x
    while node >= 0:
        is_on_way[node] = True
        node = forest.parent[node]
    top = y
    while not is_on_way[top]:
        top = forest.parent[top]
    node = x
    while node >= 0:
        is_on_way[node] = False
        node = forest.parent[node]
    least = np.inf
    least_node = np.int64(-1)
    # On the way from x, arcs from an out-vertex to its parent lose flow; on the way from y, those from an in-vertex do.
    for side in range(2):
        node = x if side == 0 else y
        while node != top:
            if (node < is_left) == (side == 0) and forest.flow[node] < least:
                least, least_node = forest.flow[node], node
            node = forest.parent[node]
    cut(forest, least_node)


@kernel
def _open_arcs(chain, forest, prices, busy, tolerance):
    """Add the best arc of each layer whose reduced gain is above the tolerance; return their number."""
    width, n_opened = chain.width, 0
    is_on_way = np.zeros(forest.parent.shape[0], np.bool_)
    for s in range(1, chain.n_steps):
        if forest.stale[s] or busy[s - 1] or busy[s] or not prices.best_arc[s] > tolerance:
            continue
        best = -np.inf
        x = np.int64(-1)
        y = np.int64(-1)
        first, last, next_last = (s - 1) * width, (s - 1) * width + forest.n_on[s - 1], s * width + forest.n_on[s]
        for k in range(first, last):
            i = forest.states[k]
            row = (s - 1) * chain.stride + i * width
            leave = out_of(width, s - 1) + i
            for k_next in range(s * width, next_last):
                enters = into(width, s) + forest.states[k_next]
                gain = chain.gains[row + forest.states[k_next]] + forest.potential[leave] + forest.potential[enters]
                if gain > best:
                    best, x, y = gain, leave, enters
        if forest.tree[x] == forest.tree[y]:
            _make_room(forest, x, y, 2 * width * s + width, is_on_way)
        link(forest, x, y)
        forest.stale[s] = True
        n_opened += 1
    return n_opened


@kernel
def _leave(chain, forest, t, i):
    """Remove a node and its arcs."""
    width, node = chain.width, t * chain.width + i
    forest.on[node], forest.u[node] = False, 0.0
    for s in range(max(t, 1), min(t + 2, chain.n_steps)):
        x = into(width, t) + i if s == t else out_of(width, t) + i
        first = 2 * width * s
        if forest.parent[x] >= 0:
            cut(forest, x)
        for k in range(first, first + forest.n_vertices[s]):
            if forest.parent[forest.order[k]] == x:
                cut(forest, forest.order[k])
        forest.stale[s] = True
    forest.parent[into(width, t) + i] = forest.parent[out_of(width, t) + i] = ABSENT


@kernel
def _is_cut_off(chain, forest, t, i):
    """Return whether a node has no arc into it, and whether it has none out of it."""
    has_in = t == 0 or forest.degree[into(chain.width, t) + i] > 0
    has_out = t == chain.n_steps - 1 or forest.degree[out_of(chain.width, t) + i] > 0
    return not has_in, not has_out


@kernel
def _connect(chain, forest, t, i, s):
    """Add the best arc between a node, which has none on this side, and the nodes with arcs of a neighbouring step."""
    width = chain.width
    best = -np.inf
    best_state = np.int64(-1)
    for j in range(chain.n_states):
        if forest.on[s * width + j]:
            if s < t:
                value = chain.gains[s * chain.stride + j * width + i] + forest.potential[out_of(width, s) + j]
            else:
                value = chain.gains[t * chain.stride + i * width + j] + forest.potential[into(width, s) + j]
            if value > best:
                best, best_state = value, j
    if best_state < 0:
        _leave(chain, forest, t, i)
    elif s < t:
        link(forest, into(width, t) + i, out_of(width, s) + best_state)
    else:
        link(forest, out_of(width, t) + i, into(width, s) + best_state)
    forest.stale[max(s, t)] = True


@kernel
def _repair(chain, forest):
    """Remove nodes that have lost all arcs on one side, until there are none.

    Only the node of each step with most flow stays, and gets its best arc instead.
    """
    anchors = np.zeros(chain.n_steps, np.int64)
    for t in range(chain.n_steps):
        first, most = t * chain.width, -np.inf
        for k in range(first, first + forest.n_on[t]):
            i = forest.states[k]
            if forest.u[first + i] > most:
                most, anchors[t] = forest.u[first + i], i
    again = True
    while again:
        again = False
        for t in range(chain.n_steps):
            if forest.stale[t] or (t + 1 < chain.n_steps and forest.stale[t + 1]):
                for k in range(t * chain.width, t * chain.width + forest.n_on[t]):
                    i = forest.states[k]
                    if i != anchors[t] and forest.on[t * chain.width + i]:
                        no_in, no_out = _is_cut_off(chain, forest, t, i)
                        if no_in or no_out:
                            _leave(chain, forest, t, i)
                            again = True
    for t in range(chain.n_steps):
        no_in, no_out = _is_cut_off(chain, forest, t, anchors[t])
        if no_in:
            _connect(chain, forest, t, anchors[t], t - 1)
        if no_out and forest.on[t * chain.width + anchors[t]]:
            _connect(chain, forest, t, anchors[t], t + 1)


@kernel
def _draw(s, n_rounds):
    """Return a pseudo-random number for a layer in a round."""
    number = (s * 7919 + n_rounds * 104729) % 65537
    number = (number ^ (number >> 7)) * 40503 % 65537
    return (number ^ (number >> 9)) * 60493 % 65537


@kernel
def _rests(s, n_rounds):
    """Return whether a layer, or a step, stays as it is in this round; see `_LIVELY_ROUNDS`."""
    return n_rounds >= _LIVELY_ROUNDS and _draw(s, n_rounds) % 2 == 0


@kernel
def _may_remove(n_removals, patience, s, n_rounds):
    """Return whether a layer may remove arcs in this round; see `_PATIENCE`."""
    return not _rests(s, n_rounds) and _draw(s, n_rounds + 7) % (1 + n_removals // patience) == 0


@kernel
def _remove_arcs(chain, forest, n_removals, n_rounds, busy):
    """Remove arcs with no or negative flow, and mark the steps nearby as busy; return whether there were any."""
    found = False
    for t in range(chain.n_steps):
        busy[t] = False
    for s in range(1, chain.n_steps):
        first, is_infeasible = 2 * chain.width * s, False
        for k in range(first, first + forest.n_vertices[s]):
            x = forest.order[k]
            is_infeasible |= forest.parent[x] >= 0 and forest.flow[x] <= 0.0
        if not is_infeasible:
            continue
        found = busy[s - 1] = busy[s] = True
        if _may_remove(n_removals[s], _PATIENCE + forest.n_on[s], s, n_rounds):
            n_removals[s] += 1
            forest.stale[s] = True
            for k in range(first, first + forest.n_vertices[s]):
                x = forest.order[k]
                if forest.parent[x] >= 0 and forest.flow[x] <= 0.0:
                    cut(forest, x)
    if found:
        _repair(chain, forest)
    return found


@kernel
def tolerance_of(chain, forest):
    """Return the price that rounding can explain."""
    return _WORTHWHILE * chain.scale + 8.0 * EPS * abs(forest.potential[chain.width])


@kernel
def pivot(chain, forest, candidates, prices, n_removals, most_rounds):
    """Make the flow optimal among all that use only candidates; return the number of rounds.

    Parameters
    ----------
    chain : Chain
    forest : Forest
        The forest to start from; gets the solution.
    candidates : Candidates
    prices : Prices
        Gets the prices of the solution.
    n_removals : int array (T,)
        Rounds in which each layer has removed arcs; changed in place.
    most_rounds : int
    """
    busy = np.zeros(chain.n_steps, np.bool_)
    is_last = False
    for n_rounds in range(most_rounds):
        grow(chain, forest)
        solve_forest(chain, forest, 1.0)
        is_infeasible = _remove_arcs(chain, forest, n_removals, n_rounds, busy)
        price_forward(chain, forest, candidates, prices, 0.0)
        price_backward(chain, forest, candidates, prices, 0.0)
        n_resting = 0
        if not is_last:
            for t in range(chain.n_steps):
                if not busy[t] and _rests(t, n_rounds):
                    busy[t] = True
                    n_resting += 1
        tolerance = tolerance_of(chain, forest)
        n_opened = _open_arcs(chain, forest, prices, busy, tolerance)
        n_opened += _open_nodes(chain, forest, candidates, prices, busy, tolerance)
        # If nothing changed while some steps rested, the next round shows whether these change.
        is_last = n_opened == 0 and not is_infeasible
        if is_last and n_resting == 0:
            return n_rounds + 1
    return most_rounds
