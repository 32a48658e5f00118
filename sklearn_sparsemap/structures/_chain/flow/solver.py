"""SparseMAP over chains by their flow, and products with the Jacobian, as `numerics.facets` describes them."""

import numpy as np

from ...._core.jit import kernel
from ....numerics.facets import as_products, certify
from ....numerics.solver import BY_FACETS, GAVE_UP, INFEASIBLE, as_solver
from ..map import NO_TRANSITIONS, places_of_ends
from .blocks import new_factors
from .crossover import settle
from .interior_point import Network, new_flow, set_nodes
from .layout import arc_of, new_layout
from .parts import LONG, new_arcs, new_found, project_step, solve_by_parts
from .scores import node_scores, part_of
from .working_sets import choose_states, new_sets, next_part

# The proximal weight of Jacobian products.
_RHO = 1e3


@kernel
def _independent_steps(nodes, dims, marginals):
    """Project each step separately, because without transitions steps are independent; return the tie flag, or -1."""
    n_steps, n_states = dims[0], dims[1]
    tied = 0.0
    for t in range(n_steps):
        own = project_step(nodes[t, :n_states], marginals[t * n_states : (t + 1) * n_states])
        if own < 0.0:
            return -1.0
        tied = max(tied, own)
    return tied


@kernel
def _write_facets(additional, dims, marginals, found, arcs, tied):
    """Return the rows of the arcs with flow, and of the start and the end; see `numerics.facets`."""
    n_steps, n_states = dims[0], dims[1]
    n_rows = n_states * (dims[3] + dims[4])
    for t in range(found.first_arc.shape[0]):
        n_rows += found.last_arc[t] - found.first_arc[t]
    slots, parts, weights = np.full((n_rows, 1), -1, np.int32), np.empty((n_rows, 1), np.int32), np.empty(n_rows + 1)
    weights[n_rows] = tied
    r = 0
    for t in range(found.first_arc.shape[0]):
        for a in range(found.first_arc[t], found.last_arc[t]):
            i, j = arcs.ends[a] // n_states, arcs.ends[a] % n_states
            slots[r, 0], parts[r, 0], weights[r] = t * n_states + i, part_of(dims, t, i, j), arcs.flow[a]
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


@as_solver
def chain_interior_point(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Solve one problem exactly, by its flow; see `numerics.facets`."""
    n_steps, n_states = dims[0], dims[1]
    nodes = node_scores(scores, additional, dims)
    # Without transitions, there are no arcs.
    found, arcs = new_found(0, n_states), new_arcs(0)
    if dims[2] == NO_TRANSITIONS or n_steps == 1:
        n_iter, is_flow = np.int64(1), True
        tied = _independent_steps(nodes, dims, marginals)
    else:
        found, arcs, tied, n_iter, is_flow = solve_by_parts(nodes, additional, dims)
        for t in range(n_steps):
            for i in range(n_states):
                marginals[t * n_states + i] = found.u[t, i]
    if tied < 0.0:
        none = np.empty((0, 1), np.int32)
        return none, none, np.empty(0), INFEASIBLE, 0.0, 0.0, 1
    slots, parts, weights = _write_facets(additional, dims, marginals, found, arcs, tied)
    linear = 0.0
    for r in range(parts.shape[0]):
        if weights[r] > 0.0:
            linear += weights[r] * additional[parts[r, 0]]
    objective, gap, floor = certify(oracle, scores, additional, dims, sizes, marginals, linear)
    # The active set would take very long for a long chain, so a somewhat larger gap is accepted and returned.
    slack = 1e-12 * abs(objective) if n_steps > LONG else 0.0
    if not is_flow or not gap <= max(tol, 4.0 * floor, slack):
        none = np.empty((0, 1), np.int32)
        return none, none, np.empty(0), GAVE_UP, objective, gap, n_iter
    return slots, parts, weights, BY_FACETS, objective, gap, n_iter


@kernel
def _states_with_flow(dims, marginals, slots, additional_slots, first_row):
    """Return the states with flow as working sets; write the first row of each step, of the arcs that leave it."""
    n_steps, n_states = dims[0], dims[1]
    is_in = np.zeros((n_steps, n_states), np.bool_)
    for t in range(n_steps):
        for i in range(n_states):
            is_in[t, i] = marginals[t * n_states + i] > 0.0
    n_rows, step = 0, 0
    while n_rows < slots.shape[0] and slots[n_rows] >= 0:
        t, i, j = slots[n_rows] // n_states, slots[n_rows] % n_states, additional_slots[n_rows] % n_states
        is_in[t, i] = is_in[t + 1, j] = True
        while step <= t:
            first_row[step] = n_rows
            step += 1
        n_rows += 1
    while step <= n_steps:
        first_row[step] = n_rows
        step += 1
    sets = new_sets(n_steps, n_states)
    choose_states(is_in, sets)
    return sets


@kernel
def _direct_part(nodes, additional_direction, sets, start, stop, slots, additional_slots, first_row):
    """Return the direction in a part as a network, whose allowed arcs are those with flow.

    Parameters
    ----------
    nodes : array (T, P)
        The direction of the nodes.
    additional_direction : array
    sets : WorkingSets
    start, stop : int
        The steps of the part.
    slots, additional_slots : arrays
        The arcs with flow.
    first_row : int array (T + 1,)
        The first arc out of each step.
    """
    all_states, layout = sets.where.shape[1], new_layout(sets.counts[start:stop])
    scores, on = np.zeros(layout.nodes[-1]), np.zeros(layout.nodes[-1])
    gains, open_arcs = np.zeros(layout.arcs[-1]), np.zeros(layout.arcs[-1])
    for t in range(start, stop):
        for x in range(sets.counts[t]):
            node = layout.nodes[t - start] + x
            scores[node], on[node] = nodes[t, sets.states[t, x]], 1.0
    for r in range(first_row[max(start - 1, 0)], first_row[stop]):
        t, i, j = slots[r] // all_states, slots[r] % all_states, additional_slots[r] % all_states
        change = additional_direction[additional_slots[r]]
        if t < start:
            scores[sets.where[t + 1, j]] += change
        elif t == stop - 1:
            scores[layout.nodes[t - start] + sets.where[t, i]] += change
        else:
            arc = arc_of(layout, t - start, sets.where[t, i], sets.where[t + 1, j])
            gains[arc], open_arcs[arc] = change, 1.0
    return Network(scores, gains, open_arcs, on, 1.0, 1.0, layout)


@as_products
def chain_products(
    dims, marginals, slots, additional_slots, weights, direction, additional_direction, out, additional_out
):
    """Multiply a direction with the Jacobian; see `numerics.facets`."""
    n_steps, n_states = dims[0], dims[1]
    nodes, first_row = node_scores(direction, additional_direction, dims), np.empty(n_steps + 1, np.int64)
    sets = _states_with_flow(dims, marginals, slots, additional_slots, first_row)
    for p in range(n_steps * n_states):
        out[p] = 0.0
    start, stop = next_part(sets.counts, 0)
    while start < n_steps:
        network = _direct_part(nodes, additional_direction, sets, start, stop, slots, additional_slots, first_row)
        layout = network.layout
        state = new_flow(layout)
        if stop - start == 1 or first_row[n_steps] == 0:
            set_nodes(network, network.on, stop - start, 0.0, state)
        else:
            settle(network, network.allowed, network.on, 0.0, _RHO, state, new_factors(layout))
        for t in range(start, stop):
            for x in range(sets.counts[t]):
                out[t * n_states + sets.states[t, x]] = state.u[layout.nodes[t - start] + x]
        for r in range(first_row[start], first_row[stop - 1]):
            t, i, j = slots[r] // n_states, slots[r] % n_states, additional_slots[r] % n_states
            arc = arc_of(layout, t - start, sets.where[t, i], sets.where[t + 1, j])
            additional_out[additional_slots[r]] += state.flow[arc]
        start, stop = next_part(sets.counts, stop)
    for r in range(first_row[n_steps]):
        t, i, j = slots[r] // n_states, slots[r] % n_states, additional_slots[r] % n_states
        # All flow of an arc between a part and a step with a single state goes through one node of the part.
        if sets.counts[t] == 1:
            additional_out[additional_slots[r]] += out[(t + 1) * n_states + j]
        elif sets.counts[t + 1] == 1:
            additional_out[additional_slots[r]] += out[t * n_states + i]
    first_of_start, first_of_end = places_of_ends(additional_direction, dims)
    for i in range(n_states):
        if dims[3]:
            additional_out[first_of_start + i] += out[i]
        if dims[4]:
            additional_out[first_of_end + i] += out[(n_steps - 1) * n_states + i]
