"""An interior point method for flows: Mehrotra's predictor-corrector with one step length for all variables.

It takes 9 to 17 iterations at all scales of the scores. Each needs one block factorisation and two solves.
"""

from collections import namedtuple

import numpy as np

from ...._core.jit import kernel
from ...._core.lanes import WIDTH, larger, largest, load, spread, store, total
from .blocks import factorize, new_factors, solve
from .layout import into, out_of, width_of

# A network with the scores of its nodes and arcs; see the package's docstring. ``scale`` is that of all scores, and
# ``slack_scale`` that of the differences between arcs.
Network = namedtuple("Network", ["scores", "gains", "allowed", "on", "scale", "slack_scale", "layout"])
Flow = namedtuple("Flow", ["u", "flow", "potentials"])
# Work arrays of an iteration: one value for each arc, and the steps of the potentials.
_Arcs = namedtuple("_Arcs", ["slack", "inverse_slack", "weight", "flow_step", "slack_step", "potential_steps"])

_MOST_ITERATIONS = 60
# Complementarity at the end, relative to the scale of the slacks and the number of arcs between two steps.
_COMPLEMENTARITY = 1e-8
_INFEASIBILITY = 1e-9


@kernel
def new_flow(layout):
    """Allocate a flow and its potentials."""
    n_nodes, n_arcs = layout.nodes[-1], layout.arcs[-1]
    return Flow(np.zeros(n_nodes), np.zeros(n_arcs), np.zeros(2 * n_nodes))


@kernel
def _new_arcs(layout):
    """Allocate the work arrays of the iterations."""
    n = layout.arcs[-1]
    return _Arcs(np.empty(n), np.empty(n), np.empty(n), np.zeros(n), np.zeros(n), np.zeros(2 * layout.nodes[-1]))


@kernel
def set_nodes(network, on, n_centred, total_flow, state):
    """Compute u on the open nodes from the potentials; in the first `n_centred` steps it sums to `total_flow`."""
    nodes = network.layout.nodes
    for t in range(nodes.shape[0] - 1):
        through, count = spread(0.0), spread(0.0)
        for p in range(nodes[t], nodes[t + 1], WIDTH):
            potentials = load(state.potentials, nodes[t] + p) + load(state.potentials, nodes[t + 1] + p)
            u = load(on, p) * (load(network.scores, p) - potentials)
            store(state.u, p, u)
            through += u
            count += load(on, p)
        if t < n_centred:
            shift = (total(through) - total_flow) / total(count)
            for p in range(nodes[t], nodes[t + 1], WIDTH):
                store(state.u, p, load(state.u, p) - load(on, p) * shift)


@kernel
def write_nodes(layout, state, x):
    """Write u into the right-hand side of the system of potentials: the required flow into and out of each node."""
    nodes = layout.nodes
    last = nodes.shape[0] - 2
    for t in range(last + 1):
        for p in range(nodes[t], nodes[t + 1], WIDTH):
            u = load(state.u, p)
            store(x, nodes[t] + p, u if t > 0 else spread(0.0))
            store(x, nodes[t + 1] + p, u if t < last else spread(0.0))


@kernel
def move_potentials(state, x, step):
    """Add a multiple of a solution of the system to the potentials."""
    for p in range(0, x.shape[0], WIDTH):
        store(state.potentials, p, load(state.potentials, p) + step * load(x, p))


@kernel
def _start(network, state, slack):
    """Choose potentials for which all reduced costs are positive, and a flow spread over the arcs."""
    layout, potentials = network.layout, state.potentials
    for t in range(layout.counts.shape[0] - 1, 0, -1):
        mean, count, n_arcs, top = 0.0, 0.0, 0.0, -np.inf
        for p in range(layout.nodes[t], layout.nodes[t + 1]):
            mean += network.on[p] * network.scores[p]
            count += network.on[p]
        for a in range(layout.arcs[t - 1], layout.arcs[t]):
            n_arcs += network.allowed[a]
            if network.allowed[a] > 0.0:
                top = max(top, network.gains[a])
        level = (mean - 1.0) / count - potentials[out_of(layout, t)]
        for i in range(layout.counts[t]):
            potentials[into(layout, t) + i] = level
        for i in range(layout.counts[t - 1]):
            potentials[out_of(layout, t - 1) + i] = -top - network.scale - level
        for a in range(layout.arcs[t - 1], layout.arcs[t]):
            state.flow[a] = network.allowed[a] / n_arcs
            slack[a] = top + network.scale - network.gains[a] if network.allowed[a] > 0.0 else 1.0


@kernel
def _advance(network, state, arcs, step):
    """Take the steps; return the complementarity of all arcs, and the largest violation of flow conservation."""
    layout = network.layout
    move_potentials(state, arcs.potential_steps, step)
    set_nodes(network, network.on, 1, 1.0, state)
    complementarity, residual = spread(0.0), 0.0
    for t in range(layout.counts.shape[0] - 1):
        width = width_of(layout, t + 1)
        for i in range(layout.counts[t]):
            leaving, row = spread(0.0), layout.arcs[t] + i * width
            for p in range(row, row + width, WIDTH):
                flow = load(state.flow, p) + step * load(arcs.flow_step, p)
                slack = load(arcs.slack, p) + step * load(arcs.slack_step, p)
                inverse = 1.0 / slack
                store(state.flow, p, flow)
                store(arcs.slack, p, slack)
                store(arcs.inverse_slack, p, inverse)
                store(arcs.weight, p, flow * inverse)
                complementarity += flow * slack
                leaving += flow
            residual = max(residual, abs(total(leaving) - state.u[layout.nodes[t] + i]))
    return total(complementarity), residual


@kernel
def _direct(network, state, arcs, factors, centre, corrects):
    """Compute the steps that make flow times slack 0 (predictor) or, with `corrects` 1.0, `centre` (corrector).

    The corrector includes the product of the predictor's steps.

    Returns
    -------
    inverse_length : float
        1 over the largest multiple of the steps that keeps flows and slacks positive; 0 if there is no limit.
    change, product : float
        After a multiple s of the steps, complementarity has changed by ``s change + s^2 product``.
    """
    layout, potentials, x = network.layout, state.potentials, arcs.potential_steps
    last = layout.counts.shape[0] - 1
    write_nodes(layout, state, x)
    for t in range(last):
        leave, enter, width = out_of(layout, t), into(layout, t + 1), width_of(layout, t + 1)
        for i in range(layout.counts[t]):
            leaving, row = spread(0.0), layout.arcs[t] + i * width
            for p in range(0, width, WIDTH):
                q = row + p
                residual = load(arcs.slack, q) + load(network.gains, q) + load(potentials, enter + p)
                residual = residual + potentials[leave + i]
                left = centre - load(arcs.flow_step, q) * load(arcs.slack_step, q)
                target = load(network.allowed, q) * left * corrects
                wanted = target * load(arcs.inverse_slack, q) + load(arcs.weight, q) * residual
                leaving += wanted
                store(x, enter + p, load(x, enter + p) - wanted)
            x[leave + i] -= total(leaving)
    solve(factors, layout, x)
    inverse_length, change, product = spread(0.0), spread(0.0), spread(0.0)
    for t in range(last):
        leave, enter, width = out_of(layout, t), into(layout, t + 1), width_of(layout, t + 1)
        for i in range(layout.counts[t]):
            row = layout.arcs[t] + i * width
            for p in range(0, width, WIDTH):
                q = row + p
                flow, slack, allowed = load(state.flow, q), load(arcs.slack, q), load(network.allowed, q)
                inverse = load(arcs.inverse_slack, q)
                # Compute the residual with the same rounding as above, because large weights amplify differences.
                residual = slack + load(network.gains, q) + load(potentials, enter + p)
                residual = residual + potentials[leave + i]
                potential_step = load(x, enter + p) + x[leave + i]
                left = centre - load(arcs.flow_step, q) * load(arcs.slack_step, q)
                slack_step = (0.0 - allowed) * (residual + potential_step)
                flow_step = allowed * left * corrects * inverse - flow - load(arcs.weight, q) * slack_step
                store(arcs.slack_step, q, slack_step)
                store(arcs.flow_step, q, flow_step)
                inverse_length = larger(inverse_length, (0.0 - flow_step) / flow)
                inverse_length = larger(inverse_length, (0.0 - slack_step) * inverse)
                change += flow * slack_step + slack * flow_step
                product += flow_step * slack_step
    return largest(inverse_length), total(change), total(product)


@kernel
def interior_point(network, state):
    """Solve a network approximately; return the number of iterations."""
    layout = network.layout
    arcs, factors = _new_arcs(layout), new_factors(layout)
    _start(network, state, arcs.slack)
    n_arcs = 0.0
    for a in range(network.allowed.shape[0]):
        n_arcs += network.allowed[a]
    goal = _COMPLEMENTARITY * network.slack_scale * (layout.counts.shape[0] - 1) / n_arcs
    before, step = np.inf, 0.0
    for iteration in range(_MOST_ITERATIONS):
        complementarity, residual = _advance(network, state, arcs, step)
        mu = complementarity / n_arcs
        if (mu <= goal and residual <= _INFEASIBILITY) or (iteration > 8 and mu > 0.9 * before) or mu <= 1e-3 * goal:
            break
        before = mu
        factorize(layout, arcs.weight, 1.0, network.on, 1, 0.0, 1e-14, factors)
        inverse_length, change, product = _direct(network, state, arcs, factors, 0.0, 0.0)
        step = 1.0 / max(1.0, inverse_length)
        reached = (complementarity + step * (change + step * product)) / n_arcs
        inverse_length, _, _ = _direct(network, state, arcs, factors, (reached / mu) ** 3 * mu, 1.0)
        step = 1.0 / max(1.0, inverse_length / 0.995)
    return iteration
