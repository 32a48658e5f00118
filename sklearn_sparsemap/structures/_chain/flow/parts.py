"""Chains by parts: runs of steps between steps with a single state, solved on the states that may have weight.

Few states of a step have weight: two to five if scores have a scale of 1 or more. A step whose working set has a single
state cuts the chain, and the parts on its two sides are independent. So a chain is solved in rounds. Each round solves
the flow of the parts on their working sets. Then it prices all states by their max-marginals under ``scores - u``. A
state must enter if its max-marginal is above those of all states in the working set of its step. (The value of the
solution is no threshold: as soon as one step violates it, almost all do.) If no state must enter, the best path under
``scores - u`` uses states of the working sets only, and the solution is exact for the whole chain.

Arrays of a chain are (T, M) or, padded, (T, P). A part is a network with its own number of states at each step, whose
arrays are flat, see the package's docstring; the states are places in the working sets.
"""

from collections import namedtuple

import numpy as np

from ...._core.jit import kernel
from ...._core.lanes import padded
from ....numerics.facets import TIE
from ....numerics.sparsemax import highest, lower_to_zero, sparsemax
from ....numerics.support import EPS, FEASIBLE
from .crossover import best_paths, cross_over, guess_open_arcs, onward
from .interior_point import Network, interior_point, new_flow
from .layout import arc_of, new_layout, width_of
from .pricing import max_marginals
from .scores import part_of
from .working_sets import choose_first_states, has_tied_states, let_states_enter, new_sets, next_part

# If scores spread more than this, rounding of the potentials can leave fewer than six correct digits of the marginals,
# in one of ten thousand chains. The active set is fast there, because few paths have weight. But it takes very long for
# long chains whose scores tie; those stay with the flow up to the second, larger spread.
_TOO_SPREAD, _TOO_SPREAD_IF_LONG = 1e3, 1e5
# Number of steps from which on rounding can leave a gap above the tolerance.
LONG = 100
# The scale of transitions, relative to that of all scores, below which rounding hides their differences.
_WEAKEST = 1e-6
# Rounds after which working sets only grow, so that the rounds end.
_SHRINKING_ROUNDS = 20

# The solution so far. ``u`` (T, P) is the flow through all nodes. The arcs with flow from step t to the next are
# first_arc[t]..last_arc[t] of `Arcs`. For the part that begins at step t, ``tied[t]`` and ``failed[t]`` tell whether
# paths tie, and whether the result may not be exact.
Found = namedtuple("Found", ["u", "first_arc", "last_arc", "tied", "failed"])
# Arcs from state ``ends // M`` to state ``ends % M``, and their flow. The first used[0] are in use.
Arcs = namedtuple("Arcs", ["ends", "flow", "used"])


@kernel
def new_found(n_steps, n_states):
    """Allocate what the parts find."""
    arcs, flags = np.zeros((2, n_steps), np.int64), np.zeros((2, n_steps), np.bool_)
    return Found(np.zeros((n_steps, padded(n_states))), arcs[0], arcs[1], flags[0], flags[1])


@kernel
def new_arcs(n):
    """Allocate room for `n` arcs."""
    return Arcs(np.empty(n, np.int64), np.empty(n), np.zeros(1, np.int64))


@kernel
def _with_room(arcs, n):
    """Return arcs with room for `n` more."""
    used = arcs.used[0]
    if used + n <= arcs.ends.shape[0]:
        return arcs
    larger = new_arcs(2 * (used + n))
    for a in range(used):
        larger.ends[a], larger.flow[a] = arcs.ends[a], arcs.flow[a]
    larger.used[0] = used
    return larger


@kernel
def _append(arcs, ends, flow):
    arcs.ends[arcs.used[0]], arcs.flow[arcs.used[0]] = ends, flow
    arcs.used[0] += 1


@kernel
def _part_scores(nodes, additional, dims, sets, start, layout):
    """Return the scores of a part's nodes, with those of the arcs from and to its neighbours; -inf in the padding.

    Parameters
    ----------
    nodes : array (T, P)
        Scores of the nodes of the chain.
    additional, dims
        Of the chain, as in a MAP oracle.
    sets : WorkingSets
    start : int
        The first step of the part.
    layout : Layout
        The layout of the part.
    """
    stop = start + layout.counts.shape[0]
    scores = np.full(layout.nodes[-1], -np.inf)
    for t in range(start, stop):
        for x in range(sets.counts[t]):
            i, node = sets.states[t, x], layout.nodes[t - start] + x
            scores[node] = nodes[t, i]
            if t == start and start > 0:
                scores[node] += additional[part_of(dims, t - 1, sets.states[t - 1, 0], i)]
            if t == stop - 1 and stop < dims[0]:
                scores[node] += additional[part_of(dims, t, i, sets.states[t + 1, 0])]
    return scores


@kernel
def _part_gains(additional, dims, sets, start, layout):
    """Return the scores of the arcs between the steps of a part; -inf in the padding."""
    gains = np.full(layout.arcs[-1], -np.inf)
    for t in range(start, start + layout.counts.shape[0] - 1):
        width = width_of(layout, t - start + 1)
        for x in range(sets.counts[t]):
            first, row = part_of(dims, t, sets.states[t, x], 0), layout.arcs[t - start] + x * width
            for y in range(sets.counts[t + 1]):
                gains[row + y] = additional[first + sets.states[t + 1, y]]
    return gains


@kernel
def _close_dead_ends(layout, scores, gains, allowed, on):
    """Mark the nodes and arcs on allowed paths, and set other scores to 0.

    Parameters
    ----------
    layout : Layout
    scores, gains : arrays
        Scores of nodes and arcs.
    allowed, on : arrays of zeros
        Get 1.0 for the arcs and nodes that are on an allowed path.
    """
    last = layout.counts.shape[0] - 1
    for p in range(layout.nodes[1]):
        on[p] = 1.0 if scores[p] > -np.inf else 0.0
    for t in range(last):
        width = width_of(layout, t + 1)
        for i in range(layout.counts[t]):
            for j in range(layout.counts[t + 1]):
                node = layout.nodes[t + 1] + j
                leads_on = on[layout.nodes[t] + i] > 0.0 and gains[layout.arcs[t] + i * width + j] > -np.inf
                if leads_on and scores[node] > -np.inf:
                    on[node] = 1.0
    for t in range(last - 1, -1, -1):
        width = width_of(layout, t + 1)
        for i in range(layout.counts[t]):
            node, leads_on = layout.nodes[t] + i, False
            for j in range(layout.counts[t + 1]):
                arc = layout.arcs[t] + i * width + j
                if on[node] > 0.0 and on[layout.nodes[t + 1] + j] > 0.0 and gains[arc] > -np.inf:
                    allowed[arc], leads_on = 1.0, True
            if not leads_on:
                on[node] = 0.0
    for p in range(on.shape[0]):
        if on[p] == 0.0:
            scores[p] = 0.0
    for a in range(allowed.shape[0]):
        if allowed[a] == 0.0:
            gains[a] = 0.0


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
def _is_flow(layout, state, open_arcs):
    """Tell whether open arcs carry one unit of flow from the first step to the last, through nodes that carry `u`."""
    unit = 0.0
    for p in range(layout.nodes[1]):
        unit += state.u[p]
    worst = abs(unit - 1.0)
    missing = state.u.copy()
    for t in range(layout.counts.shape[0] - 1):
        width = width_of(layout, t + 1)
        for i in range(layout.counts[t]):
            leaving = 0.0
            for j in range(layout.counts[t + 1]):
                arc = layout.arcs[t] + i * width + j
                if open_arcs[arc] > 0.0:
                    leaving += state.flow[arc]
                    missing[layout.nodes[t + 1] + j] -= state.flow[arc]
                    worst = max(worst, -state.flow[arc])
            worst = max(worst, abs(leaving - state.u[layout.nodes[t] + i]))
    for p in range(layout.nodes[1], missing.shape[0]):
        worst = max(worst, abs(missing[p]))
    return worst <= FEASIBLE


@kernel
def _has_ties(network, state, open_arcs):
    """Tell whether an open arc has no flow, or a closed arc is on a path that ties with those with weight."""
    layout = network.layout
    before, after = np.empty(state.u.shape[0]), np.empty(state.u.shape[0])
    best_paths(network, state, before, after)
    last = layout.counts.shape[0] - 1
    least = highest(before[layout.nodes[last] :]) - TIE * network.scale
    for t in range(last):
        width = width_of(layout, t + 1)
        for i in range(layout.counts[t]):
            reached = before[layout.nodes[t] + i]
            for j in range(layout.counts[t + 1]):
                arc = layout.arcs[t] + i * width + j
                if open_arcs[arc] > 0.0:
                    if state.flow[arc] <= TIE * network.scale:
                        return True
                elif reached + onward(network, state, after, arc, layout.nodes[t + 1] + j) >= least:
                    return True
    return False


@kernel
def project_step(scores, u):
    """Project one step; return whether states tie, as the tie flag, which is -1 if all states are forbidden."""
    _, n_forbidden = lower_to_zero(scores)
    if n_forbidden == scores.shape[0]:
        return -1.0
    threshold, _ = sparsemax(scores, np.inf, u)
    tied = 0.0
    for i in range(scores.shape[0]):
        if u[i] <= TIE and scores[i] >= threshold - TIE:
            tied = 1.0
    return tied


@kernel
def _keep_flow(sets, start, layout, state, open_arcs, found, arcs):
    """Write the flow of a part to `found` and to the arcs, which are returned because they may have moved.

    Parameters
    ----------
    sets : WorkingSets
    start : int
        The first step of the part.
    layout : Layout
    state : Flow
        The flow of the part.
    open_arcs : array
        1.0 for the arcs that carry it.
    found : Found
    arcs : Arcs
    """
    n_states, last = sets.where.shape[1], layout.counts.shape[0] - 1
    for t in range(last + 1):
        for x in range(layout.counts[t]):
            found.u[start + t, sets.states[start + t, x]] = max(state.u[layout.nodes[t] + x], 0.0)
    for t in range(last):
        arcs, width = _with_room(arcs, layout.arcs[t + 1] - layout.arcs[t]), width_of(layout, t + 1)
        found.first_arc[start + t] = arcs.used[0]
        for x in range(layout.counts[t]):
            for y in range(layout.counts[t + 1]):
                a = layout.arcs[t] + x * width + y
                if open_arcs[a] > 0.0:
                    ends = sets.states[start + t, x] * n_states + sets.states[start + t + 1, y]
                    _append(arcs, ends, max(state.flow[a], 0.0))
        found.last_arc[start + t] = arcs.used[0]
    return arcs


@kernel
def _keep_cuts(sets, found, arcs):
    """Do the same for the steps with a single state, through which all flow goes, and for their arcs."""
    n_steps, n_states = sets.where.shape
    for t in range(n_steps):
        if sets.counts[t] == 1:
            found.u[t, sets.states[t, 0]] = 1.0
    for t in range(n_steps - 1):
        n, m = sets.counts[t], sets.counts[t + 1]
        if min(n, m) == 1:
            arcs = _with_room(arcs, n * m)
            found.first_arc[t] = arcs.used[0]
            for x in range(n):
                for y in range(m):
                    i, j = sets.states[t, x], sets.states[t + 1, y]
                    flow = min(found.u[t, i], found.u[t + 1, j])
                    if flow > 0.0:
                        _append(arcs, i * n_states + j, flow)
            found.last_arc[t] = arcs.used[0]
    return arcs


@kernel
def _open_known_arcs(sets, start, layout, found, arcs, state, open_arcs):
    """Give a part the flow of the solution so far; return whether it has any.

    Parameters
    ----------
    sets : WorkingSets
    start : int
        The first step of the part.
    layout : Layout
    found : Found
    arcs : Arcs
    state : Flow
    open_arcs : array
        Gets 1.0 for the arcs that have flow.
    """
    n_states = sets.where.shape[1]
    for t in range(layout.counts.shape[0] - 1):
        n_open = 0
        for a in range(found.first_arc[start + t], found.last_arc[start + t]):
            x = sets.where[start + t, arcs.ends[a] // n_states]
            y = sets.where[start + t + 1, arcs.ends[a] % n_states]
            if x >= 0 and y >= 0 and arcs.flow[a] > 0.0:
                arc = arc_of(layout, t, x, y)
                open_arcs[arc], state.flow[arc] = 1.0, arcs.flow[a]
                n_open += 1
        if n_open == 0:
            return False
    return True


@kernel
def _solve_part(nodes, additional, dims, sets, start, stop, found, arcs):
    """Solve a part on its working sets.

    Parameters
    ----------
    nodes, additional, dims, sets, start, stop
        See `_part_scores`.
    found : Found
    arcs : Arcs
        Get the solution.

    Returns
    -------
    arcs : Arcs
    n_iter : int
        Number of iterations of the interior point method.
    """
    layout = new_layout(sets.counts[start:stop])
    scores = _part_scores(nodes, additional, dims, sets, start, layout)
    if stop - start == 1:
        n_states = layout.counts[0]
        u = np.empty(n_states)
        found.tied[start], found.failed[start] = project_step(scores[:n_states], u) > 0.0, False
        for x in range(n_states):
            found.u[start, sets.states[start, x]] = u[x]
        return arcs, 1
    gains = _part_gains(additional, dims, sets, start, layout)
    allowed, open_arcs = np.zeros(gains.shape[0]), np.zeros(gains.shape[0])
    on, open_nodes = np.zeros(scores.shape[0]), np.zeros(scores.shape[0])
    _close_dead_ends(layout, scores, gains, allowed, on)
    gains_scale = _spread_of(gains, allowed)
    scale = max(max(_spread_of(scores, on), gains_scale), 1e-12)
    # If transitions are weak, the best arcs and the next best differ by little.
    slack_scale = max(gains_scale, _WEAKEST * scale)
    network, state = Network(scores, gains, allowed, on, scale, slack_scale, layout), new_flow(layout)
    # A part that was solved before has a few new states. Its former arcs are nearly those of the new solution.
    n_iter, is_known = np.int64(0), _open_known_arcs(sets, start, layout, found, arcs, state, open_arcs)
    if not (is_known and cross_over(network, state, open_arcs, open_nodes)):
        state = new_flow(layout)
        n_iter = interior_point(network, state)
        guess_open_arcs(network, state, open_arcs)
        cross_over(network, state, open_arcs, open_nodes)
    limit = _TOO_SPREAD if dims[0] <= LONG else _TOO_SPREAD_IF_LONG
    found.tied[start] = _has_ties(network, state, open_arcs)
    found.failed[start] = not (network.scale < limit and _is_flow(layout, state, open_arcs))
    return _keep_flow(sets, start, layout, state, open_arcs, found, arcs), n_iter


@kernel
def _solve_changed_parts(nodes, additional, dims, sets, changed, found, arcs):
    """Solve the parts of which a step, or a neighbour, has changed: bool array (T,); see `_solve_part`."""
    n_steps, most_iter = dims[0], np.int64(0)
    start, stop = next_part(sets.counts, 0)
    while start < n_steps:
        is_stale = False
        for t in range(max(start - 1, 0), min(stop + 1, n_steps)):
            is_stale |= changed[t]
        if is_stale:
            arcs, n_iter = _solve_part(nodes, additional, dims, sets, start, stop, found, arcs)
            most_iter = max(most_iter, n_iter)
        start, stop = next_part(sets.counts, stop)
    return _keep_cuts(sets, found, arcs), most_iter


@kernel
def _allowed_nodes(nodes, priced):
    """Return the scores of all nodes, and 1.0 for those on an allowed path, both flat."""
    scores, on = np.zeros(priced.shape), np.zeros(priced.shape)
    for t in range(priced.shape[0]):
        for i in range(priced.shape[1]):
            if priced[t, i] > -np.inf:
                scores[t, i], on[t, i] = nodes[t, i], 1.0
    return scores.reshape(-1), on.reshape(-1)


@kernel
def solve_by_parts(nodes, additional, dims):
    """Solve a chain with transitions.

    Returns
    -------
    found : Found
    arcs : Arcs
    tied : float
        The tie flag; -1 if no path is allowed.
    n_iter : int
        Iterations of the interior point method: of the part with the most, in all rounds.
    is_flow : bool
        Whether the result is a flow and exact.
    """
    n_steps, n_states = dims[0], dims[1]
    sets, found = new_sets(n_steps, n_states), new_found(n_steps, n_states)
    arcs, n_iter = new_arcs(64 * n_steps), np.int64(0)
    priced, after = np.empty((n_steps, n_states)), np.empty((n_steps, n_states))
    if not choose_first_states(nodes, found.u, additional, dims, priced, after, sets):
        return found, arcs, -1.0, 0, False
    scale = max(_spread_of(*_allowed_nodes(nodes, priced)), 1e-12)
    changed, violated, n_rounds = np.ones(n_steps, np.bool_), True, 0
    while violated:
        arcs, more = _solve_changed_parts(nodes, additional, dims, sets, changed, found, arcs)
        n_iter, n_rounds = n_iter + more, n_rounds + 1
        best = max_marginals(nodes, found.u, additional, dims, priced, after)
        tolerance = 1e-12 * scale + 8.0 * EPS * abs(best)
        violated = let_states_enter(priced, found.u, tolerance, n_rounds < _SHRINKING_ROUNDS, sets, changed)
    tied, is_flow = has_tied_states(priced, TIE * scale, sets), True
    start, stop = next_part(sets.counts, 0)
    while start < n_steps:
        tied |= found.tied[start]
        is_flow &= not found.failed[start]
        start, stop = next_part(sets.counts, stop)
    return found, arcs, 1.0 if tied else 0.0, n_iter, is_flow
