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

_MOST_REPAIRS, _MOST_STEPS = 12, 40
# Relative to the scale of the scores: the final residual of the equations, and the least price (reduced gain) at which
# a closed arc is opened.
_EXACT, _WORTHWHILE = 1e-14, 1e-12


@kernel
def settle(network, open_arcs, on, total_flow, rho, state, factors):
    """Solve the equations on open arcs and nodes, starting from the flow in `state`; return the residual.

    `total_flow` is 1, or 0 for a direction.
    """
    n_steps, width = on.shape
    n_states = open_arcs.shape[1]
    x = np.empty((2 * n_steps - 2, width))
    ridge = 1e-10 * (1.0 + rho)
    factorize(open_arcs, rho, on, n_steps, ridge, 0.5 * ridge, factors)
    last, residual = np.inf, np.inf
    for step in range(_MOST_STEPS):
        set_nodes(network, on, n_steps, total_flow, state)
        most = spread(0.0)
        write_nodes(state, x)
        for t in range(n_steps - 1):
            enter = (2 * t + 1) * width
            for i in range(n_states):
                leaving = spread(0.0)
                for p in range(0, width, WIDTH):
                    q = (t * n_states + i) * width + p
                    potentials = load(state.into, (t + 1) * width + p) + state.out[t, i]
                    gain = load(open_arcs, q) * (load(network.gains, q) + potentials)
                    wanted = load(state.flow, q) + rho * gain
                    leaving += wanted
                    store(x, enter + p, load(x, enter + p) - wanted)
                    most = larger(larger(most, gain), 0.0 - gain)
                x[2 * t, i] -= total(leaving)
        residual = largest(most)
        if step > 1 and (residual <= _EXACT * network.scale or (residual > 0.5 * last and step > 8)):
            break
        last = residual
        solve(factors, x)
        move_potentials(state, x, 1.0)
        for t in range(n_steps - 1):
            for i in range(n_states):
                for p in range(0, width, WIDTH):
                    q = (t * n_states + i) * width + p
                    potentials = load(state.into, (t + 1) * width + p) + state.out[t, i]
                    gain = load(open_arcs, q) * (load(network.gains, q) + potentials)
                    store(state.flow, q, load(state.flow, q) + rho * gain)
    return residual


@kernel
def _nodes_of(open_arcs, on):
    """Mark the nodes that an open arc leaves or enters."""
    n_steps, n_states = on.shape[0], open_arcs.shape[1]
    for t in range(n_steps):
        for i in range(n_states):
            on[t, i] = 0.0
    for t in range(n_steps - 1):
        for i in range(n_states):
            for j in range(n_states):
                if open_arcs[t, i, j] > 0.0:
                    on[t, i] = on[t + 1, j] = 1.0


@kernel
def best_paths(network, state, before, after):
    """Write the best reduced scores of paths that end in each node, and of paths that begin there."""
    n_steps, n_states = network.scores.shape[0], network.gains.shape[1]
    for t in range(n_steps):
        for i in range(n_states):
            before[t, i] = after[t, i] = -np.inf
    for i in range(n_states):
        if network.on[0, i] > 0.0:
            before[0, i] = network.scores[0, i] - state.u[0, i]
        if network.on[n_steps - 1, i] > 0.0:
            after[n_steps - 1, i] = 0.0
    for t in range(1, n_steps):
        for i in range(n_states):
            for j in range(n_states):
                if network.allowed[t - 1, i, j] > 0.0:
                    total = before[t - 1, i] + network.gains[t - 1, i, j] + network.scores[t, j] - state.u[t, j]
                    before[t, j] = max(before[t, j], total)
    for t in range(n_steps - 2, -1, -1):
        for i in range(n_states):
            for j in range(n_states):
                after[t, i] = max(after[t, i], onward(network, state, after, t, i, j))


@kernel
def onward(network, state, after, t, i, j):
    """Return the best reduced score of continuations from node i of step t by way of node j."""
    if network.allowed[t, i, j] == 0.0:
        return -np.inf
    return network.gains[t, i, j] + network.scores[t + 1, j] - state.u[t + 1, j] + after[t + 1, j]


@kernel
def _value_of(network, state):
    """Return the score of the flow under the scores minus u, and the magnitude of its terms."""
    n_steps, n_states = network.scores.shape[0], network.gains.shape[1]
    value, size = 0.0, 0.0
    for t in range(n_steps):
        for i in range(n_states):
            u = state.u[t, i]
            if u > 0.0:
                value += u * (network.scores[t, i] - u)
                size += u * abs(network.scores[t, i])
            if t < n_steps - 1:
                for j in range(n_states):
                    value += state.flow[t, i, j] * network.gains[t, i, j]
    return value, size + abs(value)


@kernel
def _open_best_path(network, state, open_arcs, before, after):
    """Open the arcs of the best path if it beats the paths with flow; tell if any of them was closed.

    Reduced gains by potentials are not meaningful for nodes without flow, whose potentials are not determined.
    """
    n_steps, n_states = network.scores.shape[0], network.gains.shape[1]
    best_paths(network, state, before, after)
    value, size = _value_of(network, state)
    node = np.int64(0)
    for i in range(n_states):
        if before[0, i] + after[0, i] > before[0, node] + after[0, node]:
            node = i
    found = False
    if before[0, node] + after[0, node] <= value + _WORTHWHILE * network.scale + 1e-14 * size:
        return found
    for t in range(n_steps - 1):
        best, best_node = -np.inf, np.int64(0)
        for j in range(n_states):
            total = onward(network, state, after, t, node, j)
            if total > best:
                best, best_node = total, j
        found |= open_arcs[t, node, best_node] == 0.0
        open_arcs[t, node, best_node] = 1.0
        node = best_node
    return found


@kernel
def cross_over(network, state, open_arcs, on):
    """Make the flow exact; write the arcs and nodes that carry it to `open_arcs` and `on`.

    If that fails, the certificate shows it.
    """
    n_steps, n_states = network.scores.shape[0], network.gains.shape[1]
    factors = new_factors(n_steps, n_states)
    rho = 100.0 / (n_states * network.scale)
    most_rho = 100.0 * rho
    for t in range(n_steps - 1):
        for i in range(n_states):
            for j in range(n_states):
                slack = -(network.gains[t, i, j] + state.out[t, i] + state.into[t + 1, j])
                is_open = network.allowed[t, i, j] > 0.0 and state.flow[t, i, j] * n_states * network.scale > slack
                open_arcs[t, i, j] = 1.0 if is_open else 0.0
                if not is_open:
                    state.flow[t, i, j] = 0.0
    before, after = np.empty((n_steps, n_states)), np.empty((n_steps, n_states))
    for _ in range(_MOST_REPAIRS):
        _nodes_of(open_arcs, on)
        residual = settle(network, open_arcs, on, 1.0, rho, state, factors)
        while residual > 1e3 * _EXACT * network.scale and rho < most_rho:
            # Slow convergence: use longer proximal steps. Very long ones would cost digits.
            rho *= 10.0
            residual = settle(network, open_arcs, on, 1.0, rho, state, factors)
        lowest, best_price = np.inf, -np.inf
        for t in range(n_steps - 1):
            for i in range(n_states):
                for j in range(n_states):
                    if open_arcs[t, i, j] > 0.0:
                        lowest = min(lowest, state.flow[t, i, j])
                    elif network.allowed[t, i, j] > 0.0:
                        best_price = max(best_price, network.gains[t, i, j] + state.out[t, i] + state.into[t + 1, j])
        if lowest >= 0.0 and best_price <= _WORTHWHILE * network.scale:
            if not _open_best_path(network, state, open_arcs, before, after):
                break
            continue
        # Close arcs with negative flow. If there are none in a step, open its best closed arc.
        for t in range(n_steps - 1):
            best, best_from, best_to = _WORTHWHILE * network.scale, np.int64(-1), np.int64(-1)
            for i in range(n_states):
                for j in range(n_states):
                    if open_arcs[t, i, j] > 0.0:
                        if state.flow[t, i, j] <= 0.0:
                            open_arcs[t, i, j] = state.flow[t, i, j] = 0.0
                    elif network.allowed[t, i, j] > 0.0:
                        gain = network.gains[t, i, j] + state.out[t, i] + state.into[t + 1, j]
                        if gain > best:
                            best, best_from, best_to = gain, i, j
            if best_from >= 0 and lowest >= 0.0:
                open_arcs[t, best_from, best_to] = 1.0
