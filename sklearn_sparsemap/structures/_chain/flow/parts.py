"""Chains by parts: runs of steps between steps with a single state, solved on the states that may have weight.

Few states of a step have weight: two to five if scores have a scale of 1 or more. A step whose working set has a single
state cuts the chain, and the parts on its two sides are independent. So a chain is solved in rounds. Each round solves
the flow of the parts on their working sets. Then it prices all states by their max-marginals under ``scores - u``. A
state must enter if its max-marginal is above those of all states in the working set of its step. (The value of the
solution is no threshold: as soon as one step violates it, almost all do.) If no state must enter, the best path under
``scores - u`` uses states of the working sets only, and the solution is exact for the whole chain.

Arrays of a chain are (T, M) or, padded, (T, P); see the package's docstring. Arrays of a part have its own numbers of
steps and states; the states are places in the working sets.
"""

from collections import namedtuple

import numpy as np

from ...._core.jit import kernel
from ...._core.lanes import padded
from ....numerics.facets import TIE
from ....numerics.sparsemax import highest, lower_to_zero, sparsemax
from ....numerics.support import EPS, FEASIBLE
from .crossover import best_paths, cross_over, onward
from .interior_point import Network, interior_point, new_flow
from .pricing import max_marginals
from .scores import part_of
from .working_sets import choose_first_states, has_tied_states, let_states_enter, most_states, new_sets, next_part

# If scores spread more than this, rounding of the potentials can leave fewer than six correct digits of the marginals,
# in one of ten thousand chains. The active set is fast there, because few paths have weight. But it takes very long for
# long chains whose scores tie; those stay with the flow up to the second, larger spread.
_TOO_SPREAD, _TOO_SPREAD_IF_LONG = 1e3, 1e5
# Number of steps from which on rounding can leave a gap above the tolerance.
LONG = 100
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
def _part_scores(nodes, additional, dims, sets, start, stop):
    """Return the scores of a part's nodes, with those of the arcs from and to its neighbours; -inf in the padding.

    Parameters
    ----------
    nodes : array (T, P)
        Scores of the nodes of the chain.
    additional, dims
        Of the chain, as in a MAP oracle.
    sets : WorkingSets
    start, stop : int
        The first step of the part, and the step after its last.
    """
    n_states = most_states(sets.counts, start, stop)
    scores = np.full((stop - start, padded(n_states)), -np.inf)
    for t in range(start, stop):
        for x in range(sets.counts[t]):
            i = sets.states[t, x]
            scores[t - start, x] = nodes[t, i]
            if t == start and start > 0:
                scores[t - start, x] += additional[part_of(dims, t - 1, sets.states[t - 1, 0], i)]
            if t == stop - 1 and stop < dims[0]:
                scores[t - start, x] += additional[part_of(dims, t, i, sets.states[t + 1, 0])]
    return scores


@kernel
def _part_gains(additional, dims, sets, start, stop):
    """Return the scores of the arcs between the steps of a part; -inf in the padding."""
    n_states = most_states(sets.counts, start, stop)
    gains = np.full((stop - start - 1, n_states, padded(n_states)), -np.inf)
    for t in range(start, stop - 1):
        for x in range(sets.counts[t]):
            first = part_of(dims, t, sets.states[t, x], 0)
            for y in range(sets.counts[t + 1]):
                gains[t - start, x, y] = additional[first + sets.states[t + 1, y]]
    return gains


@kernel
def _close_dead_ends(nodes, gains, allowed, on):
    """Mark the nodes and arcs on allowed paths, and set other scores to 0."""
    n_steps, n_states = nodes.shape[0], gains.shape[1]
    for t in range(n_steps):
        for j in range(n_states):
            reached = t == 0
            for i in range(n_states):
                reached |= t > 0 and on[t - 1, i] > 0.0 and gains[t - 1, i, j] > -np.inf
            on[t, j] = 1.0 if reached and nodes[t, j] > -np.inf else 0.0
    for t in range(n_steps - 1, -1, -1):
        for i in range(nodes.shape[1]):
            leads_on = t == n_steps - 1 and i < n_states
            for j in range(n_states):
                if t < n_steps - 1 and i < n_states:
                    passes = on[t, i] > 0.0 and on[t + 1, j] > 0.0 and gains[t, i, j] > -np.inf
                    allowed[t, i, j] = 1.0 if passes else 0.0
                    leads_on |= passes
            if not leads_on:
                on[t, i] = 0.0
            if on[t, i] == 0.0:
                nodes[t, i] = 0.0
    for t in range(n_steps - 1):
        for i in range(n_states):
            for j in range(gains.shape[2]):
                if allowed[t, i, j] == 0.0:
                    gains[t, i, j] = 0.0


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
def _keep_flow(sets, start, stop, state, open_arcs, found, arcs):
    """Write the flow of a part to `found` and to the arcs, which are returned because they may have moved.

    Parameters
    ----------
    sets : WorkingSets
    start, stop : int
        The steps of the part.
    state : Flow
        The flow of the part.
    open_arcs : array
        1.0 for the arcs that carry it.
    found : Found
    arcs : Arcs
    """
    n_states = sets.where.shape[1]
    for t in range(start, stop):
        for x in range(sets.counts[t]):
            found.u[t, sets.states[t, x]] = max(state.u[t - start, x], 0.0)
    for t in range(start, stop - 1):
        arcs = _with_room(arcs, sets.counts[t] * sets.counts[t + 1])
        found.first_arc[t] = arcs.used[0]
        for x in range(sets.counts[t]):
            for y in range(sets.counts[t + 1]):
                if open_arcs[t - start, x, y] > 0.0:
                    ends = sets.states[t, x] * n_states + sets.states[t + 1, y]
                    _append(arcs, ends, max(state.flow[t - start, x, y], 0.0))
        found.last_arc[t] = arcs.used[0]
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
    n_steps, scores = stop - start, _part_scores(nodes, additional, dims, sets, start, stop)
    n_states, width = most_states(sets.counts, start, stop), scores.shape[1]
    if n_steps == 1:
        u = np.empty(n_states)
        found.tied[start], found.failed[start] = project_step(scores[0, :n_states], u) > 0.0, False
        for x in range(n_states):
            found.u[start, sets.states[start, x]] = u[x]
        return arcs, 1
    gains = _part_gains(additional, dims, sets, start, stop)
    shape = (n_steps - 1, n_states, width)
    allowed, open_arcs = np.zeros(shape), np.zeros(shape)
    on, open_nodes = np.zeros((n_steps, width)), np.zeros((n_steps, width))
    _close_dead_ends(scores, gains, allowed, on)
    scale = max(_spread_of(scores.reshape(-1), on.reshape(-1)), _spread_of(gains.reshape(-1), allowed.reshape(-1)))
    network, state = Network(scores, gains, allowed, on, max(scale, 1e-12)), new_flow(n_steps, n_states)
    n_iter = interior_point(network, state)
    cross_over(network, state, open_arcs, open_nodes)
    limit = _TOO_SPREAD if dims[0] <= LONG else _TOO_SPREAD_IF_LONG
    found.tied[start] = _has_ties(network, state, open_arcs)
    found.failed[start] = not (network.scale < limit and _is_flow(state.flow, open_arcs, state.u))
    return _keep_flow(sets, start, stop, state, open_arcs, found, arcs), n_iter


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
