"""An interior point method for flows: Mehrotra's predictor-corrector with one step length for all variables.

It takes 11 to 17 iterations at all scales of the scores. Each needs one block factorisation and two solves.
"""

from collections import namedtuple

import numpy as np

from ...._core.jit import kernel
from ...._core.lanes import WIDTH, larger, largest, load, padded, spread, store, total
from .blocks import factorize, new_factors, solve

# A network with the scores of its nodes and arcs; see the package's docstring.
Network = namedtuple("Network", ["scores", "gains", "allowed", "on", "scale"])
Flow = namedtuple("Flow", ["u", "flow", "out", "into"])
# Work arrays of an iteration: one value for each arc, and the steps of the potentials in the order of their linear
# system.
_Arcs = namedtuple("_Arcs", ["slack", "inverse_slack", "weight", "flow_step", "slack_step", "potential_steps"])

_MOST_ITERATIONS = 60
# Complementarity at the end, relative to the scale of the scores and the number of arcs between two steps.
_COMPLEMENTARITY = 1e-8
_INFEASIBILITY = 1e-9


@kernel
def new_flow(n_steps, n_states):
    """Allocate a flow and its potentials."""
    width = padded(n_states)
    nodes, arcs = (n_steps, width), (n_steps - 1, n_states, width)
    return Flow(np.zeros(nodes), np.zeros(arcs), np.zeros(nodes), np.zeros(nodes))


@kernel
def _new_arcs(n_steps, n_states):
    """Allocate the work arrays of the iterations. In the padding slacks are 1, all else is 0."""
    width = padded(n_states)
    shape = (n_steps - 1, n_states, width)
    potential_steps = np.zeros((2 * n_steps - 2, width))
    return _Arcs(np.ones(shape), np.empty(shape), np.empty(shape), np.zeros(shape), np.zeros(shape), potential_steps)


@kernel
def set_nodes(network, on, n_centred, total_flow, state):
    """Compute u on the open nodes from the potentials; in the first `n_centred` steps it sums to `total_flow`."""
    n_steps, width = on.shape
    for t in range(n_steps):
        through, count = spread(0.0), spread(0.0)
        for p in range(t * width, (t + 1) * width, WIDTH):
            u = load(on, p) * (load(network.scores, p) - load(state.out, p) - load(state.into, p))
            store(state.u, p, u)
            through += u
            count += load(on, p)
        if t < n_centred:
            shift = (total(through) - total_flow) / total(count)
            for p in range(t * width, (t + 1) * width, WIDTH):
                store(state.u, p, load(state.u, p) - load(on, p) * shift)


@kernel
def write_nodes(state, x):
    """Write u into the right-hand side of the system of potentials: the required flow out of and into each node."""
    n_steps, width = state.u.shape
    for t in range(n_steps - 1):
        for p in range(0, width, WIDTH):
            store(x, 2 * t * width + p, load(state.u, t * width + p))
            store(x, (2 * t + 1) * width + p, load(state.u, (t + 1) * width + p))


@kernel
def move_potentials(state, x, step):
    """Add a multiple of a solution of the system to the potentials."""
    n_steps, width = state.u.shape
    for t in range(n_steps - 1):
        for p in range(0, width, WIDTH):
            q, r = t * width + p, (t + 1) * width + p
            store(state.out, q, load(state.out, q) + step * load(x, 2 * t * width + p))
            store(state.into, r, load(state.into, r) + step * load(x, (2 * t + 1) * width + p))


@kernel
def _start(network, state, slack):
    """Choose potentials for which all reduced costs are positive, and a flow spread over the arcs."""
    n_steps, n_states = network.scores.shape[0], network.gains.shape[1]
    for t in range(n_steps - 1, 0, -1):
        mean, count, n_arcs, top = 0.0, 0.0, 0.0, -np.inf
        for i in range(n_states):
            mean += network.on[t, i] * network.scores[t, i]
            count += network.on[t, i]
            for j in range(n_states):
                n_arcs += network.allowed[t - 1, i, j]
                if network.allowed[t - 1, i, j] > 0.0:
                    top = max(top, network.gains[t - 1, i, j])
        level = (mean - 1.0) / count - state.out[t, 0]
        for i in range(n_states):
            state.into[t, i] = level
            state.out[t - 1, i] = -top - network.scale - level
        for i in range(n_states):
            for j in range(n_states):
                state.flow[t - 1, i, j] = network.allowed[t - 1, i, j] / n_arcs
                slack[t - 1, i, j] = top + network.scale - network.gains[t - 1, i, j]


@kernel
def _advance(network, state, arcs, step):
    """Take the steps; return the complementarity of all arcs, and the largest violation of flow conservation."""
    n_steps, width = network.scores.shape
    n_states = network.gains.shape[1]
    move_potentials(state, arcs.potential_steps, step)
    set_nodes(network, network.on, 1, 1.0, state)
    complementarity, residual = spread(0.0), 0.0
    for t in range(n_steps - 1):
        for i in range(n_states):
            leaving, row = spread(0.0), (t * n_states + i) * width
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
            residual = max(residual, abs(total(leaving) - state.u[t, i]))
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
    n_steps, width = network.scores.shape
    n_states = network.gains.shape[1]
    x = arcs.potential_steps
    write_nodes(state, x)
    for t in range(n_steps - 1):
        enter = (2 * t + 1) * width
        for i in range(n_states):
            leaving, row = spread(0.0), (t * n_states + i) * width
            for p in range(0, width, WIDTH):
                q = row + p
                potentials = load(state.into, (t + 1) * width + p) + state.out[t, i]
                residual = load(arcs.slack, q) + load(network.gains, q) + potentials
                left = centre - load(arcs.flow_step, q) * load(arcs.slack_step, q)
                target = load(network.allowed, q) * left * corrects
                wanted = target * load(arcs.inverse_slack, q) + load(arcs.weight, q) * residual
                leaving += wanted
                store(x, enter + p, load(x, enter + p) - wanted)
            x[2 * t, i] -= total(leaving)
    solve(factors, x)
    inverse_length, change, product = spread(0.0), spread(0.0), spread(0.0)
    for t in range(n_steps - 1):
        for i in range(n_states):
            row = (t * n_states + i) * width
            for p in range(0, width, WIDTH):
                q = row + p
                flow, slack, allowed = load(state.flow, q), load(arcs.slack, q), load(network.allowed, q)
                inverse = load(arcs.inverse_slack, q)
                potentials = load(state.into, (t + 1) * width + p) + state.out[t, i]
                # Compute the residual with the same rounding as above, because large weights amplify differences.
                residual = slack + load(network.gains, q) + potentials
                potential_step = load(x, (2 * t + 1) * width + p) + x[2 * t, i]
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
    n_steps, n_states = network.scores.shape[0], network.gains.shape[1]
    arcs, factors = _new_arcs(n_steps, n_states), new_factors(n_steps, n_states)
    _start(network, state, arcs.slack)
    n_arcs = 0.0
    allowed = network.allowed.reshape(-1)
    for a in range(allowed.shape[0]):
        n_arcs += allowed[a]
    goal = _COMPLEMENTARITY * network.scale * (n_steps - 1) / n_arcs
    before, step = np.inf, 0.0
    for iteration in range(_MOST_ITERATIONS):
        complementarity, residual = _advance(network, state, arcs, step)
        mu = complementarity / n_arcs
        if (mu <= goal and residual <= _INFEASIBILITY) or (iteration > 8 and mu > 0.9 * before) or mu <= 1e-3 * goal:
            break
        before = mu
        factorize(arcs.weight, 1.0, network.on, 1, 0.0, 1e-14, factors)
        inverse_length, change, product = _direct(network, state, arcs, factors, 0.0, 0.0)
        step = 1.0 / max(1.0, inverse_length)
        reached = (complementarity + step * (change + step * product)) / n_arcs
        inverse_length, _, _ = _direct(network, state, arcs, factors, (reached / mu) ** 3 * mu, 1.0)
        step = 1.0 / max(1.0, inverse_length / 0.995)
    return iteration
