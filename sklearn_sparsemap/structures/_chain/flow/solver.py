"""SparseMAP over chains by an interior point method and a crossover to the exact flow."""

import numpy as np

from ...._core.jit import kernel
from ...._core.lanes import padded
from ....numerics.facets import TIE, as_products, certify
from ....numerics.solver import BY_FACETS, GAVE_UP, INFEASIBLE, as_solver
from ....numerics.sparsemax import highest, lower_to_zero, sparsemax
from ....numerics.support import FEASIBLE
from ..map import NO_TRANSITIONS, STATIONARY, places_of_ends
from .blocks import new_factors
from .crossover import best_paths, cross_over, onward, settle
from .interior_point import Network, interior_point, new_flow, set_nodes

# The proximal weight of Jacobian products.
_RHO = 1e3
# If scores spread more than this, rounding of the potentials can leave fewer than six correct digits of the marginals,
# in one of ten thousand chains. The active set is fast there, because few paths have weight. But it takes very long for
# long chains whose scores tie; those stay with the flow up to the second, larger spread.
_TOO_SPREAD, _TOO_SPREAD_IF_LONG = 1e3, 1e5
# Number of steps from which on rounding can leave a gap above the tolerance.
_LONG = 100


@kernel
def part_of(dims, t, i, j):
    """Return the additional part of a transition from state i of step t to state j of the next."""
    n_states = dims[1]
    first = 0 if dims[2] == STATIONARY else t * n_states * n_states
    return first + i * n_states + j


@kernel
def node_scores(scores, additional, dims):
    """Return the scores of the nodes (T, P), including the start and end scores."""
    n_steps, n_states = dims[0], dims[1]
    nodes = np.zeros((n_steps, padded(n_states)))
    for t in range(n_steps):
        for i in range(n_states):
            nodes[t, i] = scores[t * n_states + i]
    start, end = places_of_ends(additional, dims)
    for i in range(n_states):
        if dims[3]:
            nodes[0, i] += additional[start + i]
        if dims[4]:
            nodes[n_steps - 1, i] += additional[end + i]
    return nodes


@kernel
def _close_dead_ends(nodes, gains, allowed, on):
    """Mark the nodes and arcs on allowed paths, and set other scores to 0; return whether there is an allowed path."""
    n_steps, n_states = nodes.shape[0], gains.shape[1]
    for t in range(n_steps):
        for j in range(n_states):
            reached = t == 0
            for i in range(n_states):
                reached |= t > 0 and on[t - 1, i] > 0.0 and gains[t - 1, i, j] > -np.inf
            on[t, j] = 1.0 if reached and nodes[t, j] > -np.inf else 0.0
    for t in range(n_steps - 1, -1, -1):
        for i in range(n_states):
            leads_on = t == n_steps - 1
            for j in range(n_states):
                if t < n_steps - 1:
                    passes = on[t, i] > 0.0 and on[t + 1, j] > 0.0 and gains[t, i, j] > -np.inf
                    allowed[t, i, j] = 1.0 if passes else 0.0
                    leads_on |= passes
                    if not passes:
                        gains[t, i, j] = 0.0
            if not leads_on:
                on[t, i] = 0.0
            if on[t, i] == 0.0:
                nodes[t, i] = 0.0
    feasible = False
    for i in range(n_states):
        feasible |= on[0, i] > 0.0
    return feasible


@kernel
def _spread_of(values, weights):
    """Return the standard deviation of the values with nonzero weight."""
    total, squares, count = 0.0, 0.0, 0.0
    for a in range(values.shape[0]):
        total += weights[a] * values[a]
        count += weights[a]
    mean = total / max(count, 1.0)
    for a in range(values.shape[0]):
        squares += weights[a] * (values[a] - mean) ** 2
    return np.sqrt(squares / max(count, 1.0))


@kernel
def _independent_steps(nodes, dims, marginals):
    """Project each step separately, because without transitions steps are independent; return the tie flag, or -1."""
    n_steps, n_states = dims[0], dims[1]
    tied = 0.0
    for t in range(n_steps):
        u, scores = marginals[t * n_states : (t + 1) * n_states], nodes[t, :n_states]
        _, n_forbidden = lower_to_zero(scores)
        if n_forbidden == n_states:
            return -1.0
        threshold, _ = sparsemax(scores, np.inf, u)
        for i in range(n_states):
            if u[i] <= TIE and nodes[t, i] >= threshold - TIE:
                tied = 1.0
    return tied


@kernel
def _write_facets(additional, dims, marginals, flow, open_arcs, tied):
    """Return the rows of the arcs with flow, and of the start and the end; see `numerics.facets`."""
    n_steps, n_states = dims[0], dims[1]
    count = 0
    for t in range(open_arcs.shape[0]):
        for i in range(n_states):
            for j in range(n_states):
                count += open_arcs[t, i, j] > 0.0
    n_rows = count + n_states * (dims[3] + dims[4])
    slots, parts = np.empty((n_rows, 1), np.int32), np.empty((n_rows, 1), np.int32)
    weights = np.empty(n_rows + 1)
    weights[n_rows] = tied
    for r in range(n_rows):
        slots[r, 0] = -1
    r = 0
    for t in range(open_arcs.shape[0]):
        for i in range(n_states):
            for j in range(n_states):
                if open_arcs[t, i, j] > 0.0:
                    slots[r, 0], parts[r, 0] = t * n_states + i, part_of(dims, t, i, j)
                    weights[r] = max(flow[t, i, j], 0.0)
                    r += 1
    start, end = places_of_ends(additional, dims)
    for i in range(n_states):
        if dims[3]:
            parts[r, 0], weights[r] = start + i, marginals[i]
            r += 1
    for i in range(n_states):
        if dims[4]:
            parts[r, 0], weights[r] = end + i, marginals[(n_steps - 1) * n_states + i]
            r += 1
    return slots, parts, weights


@kernel
def _is_flow(flow, open_arcs, u):
    """Tell whether open arcs carry one unit of flow from the first step to the last, through nodes that carry `u`."""
    n_steps, n_states = u.shape[0], open_arcs.shape[1]
    unit = 0.0
    for i in range(n_states):
        unit += u[0, i]
    worst = abs(unit - 1.0)
    for t in range(n_steps - 1):
        for i in range(n_states):
            leaving, entering = 0.0, 0.0
            for j in range(n_states):
                if open_arcs[t, i, j] > 0.0:
                    leaving += flow[t, i, j]
                    worst = max(worst, -flow[t, i, j])
                if open_arcs[t, j, i] > 0.0:
                    entering += flow[t, j, i]
            worst = max(worst, max(abs(leaving - u[t, i]), abs(entering - u[t + 1, i])))
    return worst <= FEASIBLE


@kernel
def _has_ties(network, state, open_arcs):
    """Tell whether an open arc has no flow, or a closed arc is on a path that ties with those with weight."""
    n_steps, n_states = network.scores.shape[0], network.gains.shape[1]
    before, after = np.empty((n_steps, n_states)), np.empty((n_steps, n_states))
    best_paths(network, state, before, after)
    least = highest(before[n_steps - 1]) - TIE * network.scale
    for t in range(n_steps - 1):
        for i in range(n_states):
            for j in range(n_states):
                if open_arcs[t, i, j] > 0.0:
                    if state.flow[t, i, j] <= TIE * network.scale:
                        return True
                elif before[t, i] + onward(network, state, after, t, i, j) >= least:
                    return True
    return False


@kernel
def _solve_flow(nodes, additional, dims, marginals):
    """Solve a chain with transitions.

    Return the flow, its arcs, the tie flag (-1 if no path is allowed), the number of iterations, and whether the result
    is a flow and exact.
    """
    n_steps, n_states = dims[0], dims[1]
    shape = (n_steps - 1, n_states, padded(n_states))
    gains, allowed, open_arcs = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    on, open_nodes = np.zeros(nodes.shape), np.zeros(nodes.shape)
    for t in range(n_steps - 1):
        for i in range(n_states):
            for j in range(n_states):
                gains[t, i, j] = additional[part_of(dims, t, i, j)]
    state = new_flow(n_steps, n_states)
    if not _close_dead_ends(nodes, gains, allowed, on):
        return state.flow, open_arcs, -1.0, 0, False
    scale = max(_spread_of(nodes.reshape(-1), on.reshape(-1)), _spread_of(gains.reshape(-1), allowed.reshape(-1)))
    network = Network(nodes, gains, allowed, on, max(scale, 1e-12))
    n_iter = interior_point(network, state)
    cross_over(network, state, open_arcs, open_nodes)
    for t in range(n_steps):
        for i in range(n_states):
            marginals[t * n_states + i] = max(state.u[t, i], 0.0)
    tied = 1.0 if _has_ties(network, state, open_arcs) else 0.0
    limit = _TOO_SPREAD if n_steps <= _LONG else _TOO_SPREAD_IF_LONG
    is_flow = network.scale < limit and _is_flow(state.flow, open_arcs, state.u)
    return state.flow, open_arcs, tied, n_iter, is_flow


@as_solver
def chain_interior_point(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Solve one problem exactly, by its flow; see `numerics.facets`."""
    nodes = node_scores(scores, additional, dims)
    if dims[2] == NO_TRANSITIONS or dims[0] == 1:
        flow, open_arcs, n_iter, is_flow = np.empty((0, 0, 0)), np.empty((0, 0, 0)), 1, True
        tied = _independent_steps(nodes, dims, marginals)
    else:
        flow, open_arcs, tied, n_iter, is_flow = _solve_flow(nodes, additional, dims, marginals)
    if tied < 0.0:
        none = np.empty((0, 1), np.int32)
        return none, none, np.empty(0), INFEASIBLE, 0.0, 0.0, 1
    slots, parts, weights = _write_facets(additional, dims, marginals, flow, open_arcs, tied)
    linear = 0.0
    for r in range(parts.shape[0]):
        if weights[r] > 0.0:
            linear += weights[r] * additional[parts[r, 0]]
    objective, gap, floor = certify(oracle, scores, additional, dims, sizes, marginals, linear)
    # The active set would take very long for a long chain, so a somewhat larger gap is accepted and returned.
    slack = 1e-12 * abs(objective) if dims[0] > _LONG else 0.0
    if not is_flow or not gap <= max(tol, 4.0 * floor, slack):
        none = np.empty((0, 1), np.int32)
        return none, none, np.empty(0), GAVE_UP, objective, gap, n_iter
    return slots, parts, weights, BY_FACETS, objective, gap, n_iter


@as_products
def chain_products(
    dims, marginals, slots, additional_slots, weights, direction, additional_direction, out, additional_out
):
    """Multiply a direction with the Jacobian; see `numerics.facets`."""
    n_steps, n_states = dims[0], dims[1]
    shape = (n_steps - 1, n_states, padded(n_states))
    nodes = node_scores(direction, additional_direction, dims)
    on = np.zeros(nodes.shape)
    for t in range(n_steps):
        for i in range(n_states):
            on[t, i] = 1.0 if marginals[t * n_states + i] > 0.0 else 0.0
    open_arcs, gains = np.zeros(shape), np.zeros(shape)
    n_rows = 0
    while n_rows < slots.shape[0] and slots[n_rows] >= 0:
        t, i, part = slots[n_rows] // n_states, slots[n_rows] % n_states, additional_slots[n_rows]
        j = part % n_states
        open_arcs[t, i, j] = on[t, i] = on[t + 1, j] = 1.0
        gains[t, i, j] = additional_direction[part]
        n_rows += 1
    state, network = new_flow(n_steps, n_states), Network(nodes, gains, open_arcs, on, 1.0)
    if n_rows > 0:
        settle(network, open_arcs, on, 0.0, _RHO, state, new_factors(n_steps, n_states))
    else:
        set_nodes(network, on, n_steps, 0.0, state)
    start, end = places_of_ends(additional_direction, dims)
    for i in range(n_states):
        if dims[3]:
            additional_out[start + i] += state.u[0, i]
        if dims[4]:
            additional_out[end + i] += state.u[n_steps - 1, i]
    for r in range(n_rows):
        t, i, part = slots[r] // n_states, slots[r] % n_states, additional_slots[r]
        additional_out[part] += state.flow[t, i, part % n_states]
    for t in range(n_steps):
        for i in range(n_states):
            out[t * n_states + i] = state.u[t, i]
