"""SparseMAP over chains by their flow, and products with the Jacobian, as `_numerics.facets` describes them.

Used by `choice.py`.
"""

import numpy as np

from ...._core.jit import kernel
from ...._numerics.facets import TIE, as_products, certify
from ...._numerics.solver import BY_FACETS, GAVE_UP, INFEASIBLE, as_solver
from ...._numerics.sparsemax import lower_to_zero, sparsemax
from ...._numerics.support import add_exactly
from ..map import NO_TRANSITIONS, end_indices_of
from .forest import clear, ends_of, grow, into, new_forest, out_of, solve_forest
from .pivots import pivot, tolerance_of
from .pricing import all_states, new_prices, price_backward, price_forward, price_of
from .scores import new_chain, part_of
from .start import add_candidates, are_allowed, first_candidates, link_arcs, plant, planted_states, sweep

# Number of steps from which on rounding can leave a gap above the tolerance.
_LONG = 100
# Maximum number of rounds, unless the caller has a lower one. Chains that converge need up to half as many.
_MAX_ROUNDS = 600
# Maximum number of rounds from the forest of similar scores. Most need fewer than ten; a guess needs more than those
# that need many.
_MAX_WARM_ROUNDS = 300


@kernel
def _project_step(scores, u):
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
def _independent_steps(chain, marginals):
    """Project each step separately, because without transitions steps are independent; return the tie flag, or -1."""
    n_states, tied = chain.n_states, 0.0
    for t in range(chain.n_steps):
        scores = chain.scores[t * chain.width : t * chain.width + n_states]
        own = _project_step(scores, marginals[t * n_states : (t + 1) * n_states])
        if own < 0.0:
            return -1.0
        tied = max(tied, own)
    return tied


@kernel
def _has_ties(chain, forest, prices):
    """Return whether an arc of the forest has no flow, or another path that ties would change the face.

    An arc within a tree does not change the face, because it changes no potential and adds no node.
    """
    width, tie = chain.width, TIE * chain.scale
    for t in range(chain.n_steps):
        for i in range(chain.n_states):
            node = t * width + i
            if not forest.on[node]:
                if price_of(chain, forest, prices, node) >= -tie:
                    return True
            elif t > 0:
                x = into(width, t) + i
                for j in range(chain.n_states):
                    y = out_of(width, t - 1) + j
                    if forest.on[node - i - width + j] and forest.tree[x] != forest.tree[y]:
                        gain = chain.gains[(t - 1) * chain.stride + j * width + i]
                        if gain + forest.potential[x] + forest.potential[y] >= -tie:
                            return True
    is_empty = False
    for x in range(forest.parent.shape[0]):
        is_empty |= forest.parent[x] >= 0 and forest.flow[x] <= tie
    return is_empty


@kernel
def _improve(chain, forest, candidates, prices, most_rounds):
    """Pivot until no state enters, candidate or not; return the number of rounds, and whether this is reached."""
    every = all_states(chain.n_steps, chain.n_states)
    n_removals = np.zeros(chain.n_steps, np.int64)
    n_rounds = np.int64(0)
    is_solved = False
    n_candidates = np.int64(0)
    for t in range(chain.n_steps):
        n_candidates += candidates.counts[t]
    while n_rounds < most_rounds and not is_solved:
        n_rounds += pivot(chain, forest, candidates, prices, n_removals, most_rounds - n_rounds)
        is_solved = True
        if n_candidates == chain.n_steps * chain.n_states:
            break
        tolerance = tolerance_of(chain, forest)
        price_forward(chain, forest, every, prices, 0.0)
        price_backward(chain, forest, every, prices, 0.0)
        for node in range(forest.u.shape[0]):
            if node % chain.width < chain.n_states and not forest.on[node]:
                is_solved &= not price_of(chain, forest, prices, node) > tolerance
        if not is_solved:
            add_candidates(chain, forest, prices, 0.0, candidates)
    return n_rounds, is_solved and n_rounds < most_rounds


@kernel
def _solve(chain, forest, slots, parts, most_rounds):
    """Solve a chain with transitions, from the arcs of a similar one if there are any, in at most so many rounds.

    If those from the arcs do not suffice, as many follow from the start.

    Returns
    -------
    tied : float
        The tie flag; -1 if no path is allowed.
    n_rounds : int
        Number of rounds of pivots, over all sets of candidates.
    is_solved : bool
    """
    prices = new_prices(chain)
    n_rounds = np.int64(0)
    is_solved = False
    if are_allowed(chain, slots, parts) and link_arcs(chain, forest, slots, parts) > 0:
        most_warm = min(most_rounds, _MAX_WARM_ROUNDS)
        n_rounds, is_solved = _improve(chain, forest, planted_states(chain, forest), prices, most_warm)
        if not is_solved:
            clear(forest)
    if not is_solved:
        best = sweep(chain, forest, prices)
        if best == -np.inf:
            return -1.0, 0, False
        candidates = first_candidates(chain, forest, prices, best)
        plant(chain, forest, candidates, prices, best)
        more_rounds, is_solved = _improve(chain, forest, candidates, prices, most_rounds)
        n_rounds += more_rounds
    # Once more from the last potentials, which removes rounding errors.
    solve_forest(chain, forest, 1.0)
    return 1.0 if _has_ties(chain, forest, prices) else 0.0, n_rounds, is_solved


@kernel
def _write_facets(chain, forest, additional, dims, marginals, tied):
    """Return the rows of the arcs with flow, and of the start and the end; see `_numerics.facets`.

    Parameters
    ----------
    chain : Chain
    forest : Forest
    additional, dims : arrays
        As of the oracle.
    marginals : array of shape (n_steps * n_states,)
    tied : float
        The tie flag.
    """
    n_steps, n_states, width = chain.n_steps, chain.n_states, chain.width
    n_rows = n_states * (dims[3] + dims[4])
    for x in range(forest.parent.shape[0]):
        n_rows += forest.parent[x] >= 0
    slots = np.full((n_rows, 1), -1, np.int32)
    parts = np.empty((n_rows, 1), np.int32)
    weights = np.empty(n_rows + 1)
    weights[n_rows] = tied
    r = 0
    for x in range(forest.parent.shape[0]):
        if forest.parent[x] >= 0:
            s = x // (2 * width)
            i, j = ends_of(width, s, x, forest.parent[x])
            slots[r, 0] = (s - 1) * n_states + i
            parts[r, 0] = part_of(dims, s - 1, i, j)
            weights[r] = max(forest.flow[x], 0.0)
            r += 1
    start, end = end_indices_of(additional, dims)
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
def chain_flow_solver(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Solve one problem exactly, by its flow; see `_numerics.facets`."""
    n_steps, n_states = dims[0], dims[1]
    chain = new_chain(scores, additional, dims, -np.inf)
    n_iter = np.int64(1)
    is_solved = True
    # Without transitions, there are no arcs.
    forest = new_forest(n_steps, chain.width)
    if dims[2] == NO_TRANSITIONS or n_steps == 1:
        tied = _independent_steps(chain, marginals)
    else:
        most_rounds = np.int64(_MAX_ROUNDS)
        if limit.shape[0] > 1:
            most_rounds = min(most_rounds, limit[1])
        n_warm = warm_slots.shape[0]
        slots = warm_slots.reshape(n_warm)
        parts = warm_additional.reshape(n_warm)
        tied, n_iter, is_solved = _solve(chain, forest, slots, parts, most_rounds)
        for t in range(n_steps):
            for i in range(n_states):
                marginals[t * n_states + i] = max(forest.u[t * chain.width + i], 0.0)
    if tied < 0.0:
        none = np.empty((0, 1), np.int32)
        return none, none, np.empty(0), INFEASIBLE, 0.0, 0.0, 1
    slots, parts, weights = _write_facets(chain, forest, additional, dims, marginals, tied)
    linear, lost = 0.0, 0.0
    for r in range(parts.shape[0]):
        if weights[r] > 0.0:
            linear, lost = add_exactly(linear, lost, weights[r] * additional[parts[r, 0]])
    objective, gap, floor = certify(oracle, scores, additional, dims, sizes, marginals, linear)
    # The active set would take very long for a long chain, so a somewhat larger gap is accepted and returned.
    slack = 1e-12 * abs(objective) if n_steps > _LONG else 0.0
    if not is_solved or not gap <= max(tol, 4.0 * floor, slack):
        none = np.empty((0, 1), np.int32)
        return none, none, np.empty(0), GAVE_UP, objective, gap, n_iter
    return slots, parts, weights, BY_FACETS, objective, gap, n_iter


@kernel
def _centre_steps(chain, marginals, u):
    """Centre the direction on the support of each step: the product if steps are independent."""
    for t in range(chain.n_steps):
        first, total, count = t * chain.width, 0.0, 0.0
        for i in range(chain.n_states):
            if marginals[t * chain.n_states + i] > 0.0:
                total += chain.scores[first + i]
                count += 1.0
        for i in range(chain.n_states):
            if marginals[t * chain.n_states + i] > 0.0:
                u[first + i] = chain.scores[first + i] - total / count


@as_products
def chain_products(
    dims, marginals, slots, additional_slots, weights, direction, additional_direction, out, additional_out
):
    """Multiply a direction with the Jacobian; see `_numerics.facets`."""
    n_steps, n_states = dims[0], dims[1]
    chain = new_chain(direction, additional_direction, dims, 0.0)
    width = chain.width
    forest = new_forest(n_steps, chain.width)
    n_arcs = link_arcs(chain, forest, slots, additional_slots)
    if n_arcs > 0:
        grow(chain, forest)
        solve_forest(chain, forest, 0.0)
    else:
        _centre_steps(chain, marginals, forest.u)
    for t in range(n_steps):
        for i in range(n_states):
            out[t * n_states + i] = forest.u[t * width + i]
    for r in range(n_arcs):
        t, i, j = slots[r] // n_states, slots[r] % n_states, additional_slots[r] % n_states
        x = out_of(width, t) + i
        y = into(width, t + 1) + j
        additional_out[additional_slots[r]] += forest.flow[x] if forest.parent[x] == y else forest.flow[y]
    start, end = end_indices_of(additional_direction, dims)
    for i in range(n_states):
        if dims[3]:
            additional_out[start + i] += out[i]
        if dims[4]:
            additional_out[end + i] += out[(n_steps - 1) * n_states + i]
