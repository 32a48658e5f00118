"""From a nearly optimal flow to the exact one: guess the arcs with flow, solve the equations, correct the guess.

With the arcs and nodes fixed, the problem consists of linear equations. Flows have no penalty, so they are found by
proximal steps: each solves with ``weight = rho`` on the arcs and adds rho times the reduced gain to their flow. The
same method computes Jacobian products.
"""

import numpy as np

from ...._core.jit import kernel
from ...._core.lanes import WIDTH, larger, largest, load, spread, store, total
from .blocks import factorize, new_factors, solve
from .interior_point import move_potentials, set_nodes, write_nodes
from .layout import into, out_of, width_of

_MOST_REPAIRS, _MOST_STEPS = 12, 40
# Relative to the scale of the scores: the final residual of the equations, and the least price (reduced gain) at which
# a closed arc is opened.
_EXACT, _WORTHWHILE = 1e-14, 1e-12


@kernel
def settle(network, open_arcs, on, total_flow, rho, state, factors):
    """Solve the equations on open arcs and nodes, starting from the flow in `state`; return the residual.

    Parameters
    ----------
    network : Network
    open_arcs, on : arrays
        1.0 for arcs and nodes that may have flow.
    total_flow : float
        1, or 0 for a direction.
    rho : float
        The length of the proximal steps.
    state : Flow
        Gets the solution.
    factors : Factors
        Work arrays.
    """
    layout, potentials = network.layout, state.potentials
    last, x = layout.counts.shape[0] - 1, np.empty(state.potentials.shape[0])
    ridge = 1e-10 * (1.0 + rho)
    factorize(layout, open_arcs, rho, on, last + 1, ridge, 0.5 * ridge, factors)
    previous, residual = np.inf, np.inf
    for step in range(_MOST_STEPS):
        set_nodes(network, on, last + 1, total_flow, state)
        most = spread(0.0)
        write_nodes(layout, state, x)
        for t in range(last):
            leave, enter, width = out_of(layout, t), into(layout, t + 1), width_of(layout, t + 1)
            for i in range(layout.counts[t]):
                leaving, row = spread(0.0), layout.arcs[t] + i * width
                for p in range(0, width, WIDTH):
                    q = row + p
                    price = load(network.gains, q) + (load(potentials, enter + p) + potentials[leave + i])
                    gain = load(open_arcs, q) * price
                    wanted = load(state.flow, q) + rho * gain
                    leaving += wanted
                    store(x, enter + p, load(x, enter + p) - wanted)
                    most = larger(larger(most, gain), 0.0 - gain)
                x[leave + i] -= total(leaving)
        residual = largest(most)
        if step > 1 and (residual <= _EXACT * network.scale or (residual > 0.5 * previous and step > 8)):
            break
        previous = residual
        solve(factors, layout, x)
        move_potentials(state, x, 1.0)
        for t in range(last):
            leave, enter, width = out_of(layout, t), into(layout, t + 1), width_of(layout, t + 1)
            for i in range(layout.counts[t]):
                row = layout.arcs[t] + i * width
                for p in range(0, width, WIDTH):
                    q = row + p
                    price = load(network.gains, q) + (load(potentials, enter + p) + potentials[leave + i])
                    store(state.flow, q, load(state.flow, q) + rho * (load(open_arcs, q) * price))
    return residual


@kernel
def _nodes_of(layout, open_arcs, on):
    """Mark the nodes that an open arc leaves or enters."""
    for p in range(on.shape[0]):
        on[p] = 0.0
    for t in range(layout.counts.shape[0] - 1):
        width = width_of(layout, t + 1)
        for i in range(layout.counts[t]):
            for j in range(layout.counts[t + 1]):
                if open_arcs[layout.arcs[t] + i * width + j] > 0.0:
                    on[layout.nodes[t] + i] = on[layout.nodes[t + 1] + j] = 1.0


@kernel
def best_paths(network, state, before, after):
    """Write the best reduced scores of paths that end in each node, and of paths that begin there."""
    layout = network.layout
    last = layout.counts.shape[0] - 1
    for p in range(before.shape[0]):
        before[p] = after[p] = -np.inf
    for p in range(layout.nodes[1]):
        if network.on[p] > 0.0:
            before[p] = network.scores[p] - state.u[p]
    for p in range(layout.nodes[last], layout.nodes[last + 1]):
        if network.on[p] > 0.0:
            after[p] = 0.0
    for t in range(last):
        width = width_of(layout, t + 1)
        for i in range(layout.counts[t]):
            reached = before[layout.nodes[t] + i]
            for j in range(layout.counts[t + 1]):
                arc, node = layout.arcs[t] + i * width + j, layout.nodes[t + 1] + j
                if network.allowed[arc] > 0.0:
                    before[node] = max(
                        before[node], reached + network.gains[arc] + network.scores[node] - state.u[node]
                    )
    for t in range(last - 1, -1, -1):
        width = width_of(layout, t + 1)
        for i in range(layout.counts[t]):
            best = -np.inf
            for j in range(layout.counts[t + 1]):
                arc, node = layout.arcs[t] + i * width + j, layout.nodes[t + 1] + j
                best = max(best, onward(network, state, after, arc, node))
            after[layout.nodes[t] + i] = best


@kernel
def onward(network, state, after, arc, node):
    """Return the best reduced score of continuations along an arc that ends in a node."""
    if network.allowed[arc] == 0.0:
        return -np.inf
    return network.gains[arc] + network.scores[node] - state.u[node] + after[node]


@kernel
def _connect_backward(network, state, open_arcs, before, after, t, node):
    """Open the best way from an earlier node with open arcs, or from the first step, to a node of step t.

    Parameters
    ----------
    network : Network
    state : Flow
    open_arcs : array
    before, after : arrays
        See `best_paths`.
    t, node : int
        A step and the place of one of its nodes within the step.
    """
    layout = network.layout
    for s in range(t - 1, -1, -1):
        best, best_from, width = -np.inf, np.int64(0), width_of(layout, s + 1)
        for i in range(layout.counts[s]):
            arc = layout.arcs[s] + i * width + node
            if open_arcs[arc] > 0.0:
                return
            through = before[layout.nodes[s] + i] + onward(network, state, after, arc, layout.nodes[s + 1] + node)
            if through > best:
                best, best_from = through, i
        open_arcs[layout.arcs[s] + best_from * width + node] = 1.0
        node = best_from


@kernel
def _connect_forward(network, state, open_arcs, after, t, node):
    """Open the best way from a node of step t to a later node with open arcs, or to the last step.

    For the parameters see `_connect_backward`.
    """
    layout = network.layout
    for s in range(t, layout.counts.shape[0] - 1):
        best, best_to, width = -np.inf, np.int64(0), width_of(layout, s + 1)
        for j in range(layout.counts[s + 1]):
            arc = layout.arcs[s] + node * width + j
            if open_arcs[arc] > 0.0:
                return
            through = onward(network, state, after, arc, layout.nodes[s + 1] + j)
            if through > best:
                best, best_to = through, j
        open_arcs[layout.arcs[s] + node * width + best_to] = 1.0
        node = best_to


@kernel
def _value_of_flow(network, state):
    """Return the reduced score of all paths with flow, and a bound of its rounding error."""
    value, size = 0.0, 0.0
    for p in range(state.u.shape[0]):
        u = state.u[p]
        if u > 0.0:
            value += u * (network.scores[p] - u)
            size += u * abs(network.scores[p])
    for a in range(state.flow.shape[0]):
        value += state.flow[a] * network.gains[a]
    return value, _WORTHWHILE * network.scale + 1e-14 * (size + abs(value))


@kernel
def _open_paths(network, state, open_arcs, before, after):
    """Open the best closed arc of each step that is better than all open ones; return whether any path was.

    An arc is worth the best path through it, and is connected by that path. A path that is better than those with flow
    also raises the worth of open arcs on it, so the value of the flow is no threshold for the arcs of a single step.
    """
    layout = network.layout
    best_paths(network, state, before, after)
    value, tolerance = _value_of_flow(network, state)
    found = False
    for t in range(layout.counts.shape[0] - 1):
        best, best_from, best_to, width = value + tolerance, np.int64(-1), np.int64(-1), width_of(layout, t + 1)
        best_open = value
        for i in range(layout.counts[t]):
            reached = before[layout.nodes[t] + i]
            for j in range(layout.counts[t + 1]):
                arc = layout.arcs[t] + i * width + j
                through = reached + onward(network, state, after, arc, layout.nodes[t + 1] + j)
                if open_arcs[arc] > 0.0:
                    best_open = max(best_open, through)
                elif through > best:
                    best, best_from, best_to = through, i, j
        found |= best_from >= 0
        if best > best_open + tolerance and best_from >= 0:
            open_arcs[layout.arcs[t] + best_from * width + best_to] = 1.0
            _connect_backward(network, state, open_arcs, before, after, t, best_from)
            _connect_forward(network, state, open_arcs, after, t + 1, best_to)
    return found


@kernel
def guess_open_arcs(network, state, open_arcs):
    """Open the arcs whose flow is large in comparison with their slack, and remove the flow of all others."""
    layout, potentials = network.layout, state.potentials
    for t in range(layout.counts.shape[0] - 1):
        leave, enter, width = out_of(layout, t), into(layout, t + 1), width_of(layout, t + 1)
        # The flow of a step is divided by its states, and the slack by its scale.
        unit = layout.counts[t] * network.slack_scale
        for i in range(layout.counts[t]):
            for j in range(width):
                arc = layout.arcs[t] + i * width + j
                slack = -(network.gains[arc] + potentials[leave + i] + potentials[enter + j])
                is_open = network.allowed[arc] > 0.0 and state.flow[arc] * unit > slack
                open_arcs[arc] = 1.0 if is_open else 0.0
                if not is_open:
                    state.flow[arc] = 0.0


@kernel
def _worst_arcs(network, state, open_arcs, on):
    """Return the lowest flow of an open arc, and the best reduced gain of a closed arc between nodes that are on.

    Other nodes have no flow, and their potentials are not determined.
    """
    layout, potentials, lowest, best_price = network.layout, state.potentials, np.inf, -np.inf
    for t in range(layout.counts.shape[0] - 1):
        leave, enter, width = out_of(layout, t), into(layout, t + 1), width_of(layout, t + 1)
        for i in range(layout.counts[t]):
            for j in range(layout.counts[t + 1]):
                arc = layout.arcs[t] + i * width + j
                if open_arcs[arc] > 0.0:
                    lowest = min(lowest, state.flow[arc])
                elif network.allowed[arc] * on[layout.nodes[t] + i] * on[layout.nodes[t + 1] + j] > 0.0:
                    best_price = max(best_price, network.gains[arc] + potentials[leave + i] + potentials[enter + j])
    return lowest, best_price


@kernel
def _close_negative_arcs(state, open_arcs):
    for arc in range(open_arcs.shape[0]):
        if open_arcs[arc] > 0.0 and state.flow[arc] <= 0.0:
            open_arcs[arc] = state.flow[arc] = 0.0


@kernel
def _open_best_arcs(network, state, open_arcs, on):
    """Open the closed arc of each step that has the best reduced gain, if it is worthwhile; see `_worst_arcs`."""
    layout, potentials = network.layout, state.potentials
    for t in range(layout.counts.shape[0] - 1):
        leave, enter, width = out_of(layout, t), into(layout, t + 1), width_of(layout, t + 1)
        best, best_arc = _WORTHWHILE * network.scale, np.int64(-1)
        for i in range(layout.counts[t]):
            for j in range(layout.counts[t + 1]):
                arc = layout.arcs[t] + i * width + j
                is_on = on[layout.nodes[t] + i] * on[layout.nodes[t + 1] + j] > 0.0
                if open_arcs[arc] == 0.0 and network.allowed[arc] > 0.0 and is_on:
                    price = network.gains[arc] + potentials[leave + i] + potentials[enter + j]
                    if price > best:
                        best, best_arc = price, arc
        if best_arc >= 0:
            open_arcs[best_arc] = 1.0


@kernel
def cross_over(network, state, open_arcs, on):
    """Make the flow exact; return whether this succeeded.

    Parameters
    ----------
    network : Network
    state : Flow
        The flow to start from; gets the result.
    open_arcs : array
        1.0 for arcs that probably have flow; gets those that have.
    on : array
        Gets 1.0 for nodes with flow.
    """
    layout = network.layout
    factors, most_states = new_factors(layout), np.int64(0)
    for t in range(layout.counts.shape[0]):
        most_states = max(most_states, layout.counts[t])
    rho = 1000.0 / (most_states * network.scale)
    most_rho = 100.0 * rho
    before, after = np.empty(on.shape[0]), np.empty(on.shape[0])
    for _ in range(_MOST_REPAIRS):
        _nodes_of(layout, open_arcs, on)
        residual = settle(network, open_arcs, on, 1.0, rho, state, factors)
        while residual > 1e3 * _EXACT * network.scale and rho < most_rho:
            # Slow convergence: use longer proximal steps. Very long ones would cost digits.
            rho *= 10.0
            residual = settle(network, open_arcs, on, 1.0, rho, state, factors)
        lowest, best_price = _worst_arcs(network, state, open_arcs, on)
        if lowest < 0.0:
            _close_negative_arcs(state, open_arcs)
        elif best_price > _WORTHWHILE * network.scale:
            _close_negative_arcs(state, open_arcs)
            _open_best_arcs(network, state, open_arcs, on)
        elif not _open_paths(network, state, open_arcs, before, after):
            return True
    return False
