"""What bounds settle of a sample before any solver runs, and how the rest is put together with it.

Solutions are sparse: of hundreds of labels a handful is on. A variable whose score is negative even if all pairs that
could raise it did is off in every solution, and its pairs are scores of their other ends; one that all pairs together
cannot push below 1 is on. That goes on until nothing more is settled. What remains is a small graph of open variables.
Those of structures and of inequalities stay open.

A settled variable may take the worst of each of its pairs for granted. So its pairs have multipliers that make the
solution of what is open that of the whole: all of a pair's score goes to that end which was settled first as if the
other did its worst, and what it really does is a score of the other end.
"""

from collections import namedtuple

import numpy as np

from .._core.jit import copy_into, kernel
from .rows import compute_gradient, new_space

OFF, ON, OPEN = 0, 1, 2
# Rounds over the open variables.
_MOST_ROUNDS = 20

# The data of the ends of pairs ("slots", those of variable i from ptr[i] to ptr[i + 1]; see `GraphArrays`) for their
# variables. `others` is the variable at the other end, ~j if it is negated, and `signs` are -1 if this end is negated.
# `pulls` is added to the variable's score if the other literal is on. `high` and `low` are the sums of a variable's
# positive and negative pulls. `free` marks variables that may be settled: they are only in pairs, and there are no
# structures, whose solvers need all variables. `negated` marks those that are negated in some pair.
PairSlots = namedtuple("PairSlots", ["ptr", "ends", "others", "signs", "pulls", "high", "low", "free", "negated"])

# Space for what is settled: `states` (OFF, ON or OPEN) and `ranks`, the order of settling, of all variables; `places`
# of the open ones among each other. `counts` says how many of `variables`, which are open, and of `pairs` between them
# are in use; `base` are the open variables' scores with what settled ones add to them. `space` is a `Dual` for all
# variables and pairs, of which each sample uses a part: making it anew takes longer than most samples do.
Settled = namedtuple("Settled", ["states", "ranks", "places", "counts", "variables", "base", "pairs", "space"])


@kernel
def new_settled(graph):
    """Make space for what is settled of a sample."""
    n, n_pairs = graph.degrees.shape[0], graph.pairs.shape[0]
    return Settled(
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.zeros(2, np.int64),
        np.empty(n, np.int64),
        np.empty(n),
        np.empty(n_pairs, np.int64),
        new_space(graph),
    )


@kernel
def pull_slots(graph, additional):
    """Lay out what the scores of pairs say to their ends."""
    n, n_slots = graph.degrees.shape[0], graph.slots.shape[0]
    slots = PairSlots(
        graph.slot_ptr,
        graph.slots,
        np.empty(n_slots, np.int64),
        np.empty(n_slots),
        np.empty(n_slots),
        np.zeros(n),
        np.zeros(n),
        np.empty(n, np.bool_),
        np.zeros(n, np.bool_),
    )
    for i in range(n):
        is_only_in_pairs = graph.degrees[i] == graph.slot_ptr[i + 1] - graph.slot_ptr[i]
        slots.free[i] = is_only_in_pairs and graph.structures.shape[0] == 0
        for slot in range(graph.slot_ptr[i], graph.slot_ptr[i + 1]):
            e, side = graph.slots[slot] // 2, graph.slots[slot] % 2
            j, pull = graph.pair_ends[e, 1 - side], graph.pair_signs[e, side]
            pull *= additional[graph.additional_ptr[graph.pairs[e]]]
            slots.others[slot] = j if graph.pair_signs[e, 1 - side] > 0.0 else ~j
            slots.pulls[slot] = pull
            slots.signs[slot] = graph.pair_signs[e, side]
            slots.negated[i] |= graph.pair_signs[e, side] < 0.0
            if pull > 0.0:
                slots.high[i] += pull
            else:
                slots.low[i] += pull
    return slots


@kernel
def settle(slots, scores, scale, settled):
    """Settle variables by bounds, and list the others and their pairs; `scale` is a factor of the pairs' scores."""
    states, ptr, n, n_open, rank = settled.states, slots.ptr, scores.shape[0], np.int64(0), np.int64(0)
    for i in range(n):
        settled.ranks[i] = n
        if slots.free[i] and scores[i] + scale * slots.high[i] <= 0.0:
            states[i], settled.ranks[i] = OFF, rank
        elif slots.free[i] and scores[i] + scale * slots.low[i] >= 1.0:
            states[i], settled.ranks[i] = ON, rank
        else:
            states[i] = OPEN
            settled.variables[n_open] = i
            n_open += 1
    changed, n_rounds = True, np.int64(0)
    while changed:
        changed, n_rounds, n_left = False, n_rounds + 1, np.int64(0)
        for k in range(n_open):
            i = settled.variables[k]
            base, high, low = scores[i], 0.0, 0.0
            for slot in range(ptr[i], ptr[i + 1]):
                other, pull = slots.others[slot], scale * slots.pulls[slot]
                state = states[other] if other >= 0 else states[~other]
                if state == OPEN:
                    high += max(pull, 0.0)
                    low += min(pull, 0.0)
                elif (state == ON) == (other >= 0):
                    base += pull
            if n_rounds <= _MOST_ROUNDS and slots.free[i] and (base + high <= 0.0 or base + low >= 1.0):
                states[i] = OFF if base + high <= 0.0 else ON
                rank += 1
                settled.ranks[i] = rank
                changed = True
            else:
                settled.variables[n_left] = i
                settled.base[n_left] = base
                n_left += 1
        n_open = n_left
    n_pairs = np.int64(0)
    for k in range(n_open):
        i = settled.variables[k]
        settled.places[i] = k
        for slot in range(ptr[i], ptr[i + 1]):
            other, end = slots.others[slot], slots.ends[slot]
            # Each pair is listed by its first end.
            if end % 2 == 0 and states[other if other >= 0 else ~other] == OPEN and scale * slots.pulls[slot] != 0.0:
                settled.pairs[n_pairs] = end // 2
                n_pairs += 1
    settled.counts[0], settled.counts[1] = n_open, n_pairs


@kernel
def write_marginals(settled, found, u):
    """Write the marginals of all variables, of which those of the open ones were found."""
    for i in range(u.shape[0]):
        u[i] = 1.0 if settled.states[i] == ON else 0.0
    for k in range(found.shape[0]):
        u[settled.variables[k]] = found[k]


@kernel
def write_multipliers(settled, dual, multipliers):
    """Write the multipliers of what is open; those of other pairs stay as they are."""
    n_logic = dual.n_logic
    copy_into(multipliers, dual.multipliers[:n_logic])
    for k in range(settled.counts[1]):
        multipliers[n_logic + settled.pairs[k]] = dual.multipliers[n_logic + k]


@kernel
def write_settled_multipliers(graph, settled, additional, multipliers):
    """Write the multipliers of the pairs that have a settled end."""
    n_rows = graph.row_bounds.shape[0]
    for e in range(graph.pairs.shape[0]):
        ranks = settled.ranks[graph.pair_ends[e, 0]], settled.ranks[graph.pair_ends[e, 1]]
        side = 0 if ranks[0] <= ranks[1] else 1
        state = settled.states[graph.pair_ends[e, side]]
        score = additional[graph.additional_ptr[graph.pairs[e]]]
        if state != OPEN:
            is_on = (state == ON) == (graph.pair_signs[e, side] > 0.0)
            # The share of the first end; and what a negative score takes from both.
            multipliers[n_rows + e] = abs(score) if is_on == (score < 0.0 or side == 1) else 0.0


@kernel
def pair_marginal(score, p, q):
    """Return the best marginal of a pair's being on together; where it has no score, that of independent variables."""
    if score > 0.0:
        return min(p, q)
    if score < 0.0:
        return max(0.0, p + q - 1.0)
    return p * q


@kernel
def value_of(slots, scores, scale, u):
    """Return the objective of LP-SparseMAP at marginals, in a graph of nothing but pairs."""
    value = 0.0
    for i in range(scores.shape[0]):
        value += u[i] * (scores[i] - 0.5 * u[i]) if u[i] > 0.0 else 0.0
        if u[i] == 0.0 and not slots.negated[i]:
            continue
        for slot in range(slots.ptr[i], slots.ptr[i + 1]):
            if slots.ends[slot] % 2 == 0:
                other, sign = slots.others[slot], slots.signs[slot]
                p, q = u[i] if sign > 0.0 else 1.0 - u[i], u[other] if other >= 0 else 1.0 - u[~other]
                value += scale * sign * slots.pulls[slot] * pair_marginal(sign * slots.pulls[slot], p, q)
    return value


@kernel
def gap_of(dual):
    """Return the duality gap in a graph of nothing but pairs: what their shares promise above what they pay."""
    compute_gradient(dual)
    gap = 0.0
    for r in range(dual.gradient.shape[0]):
        gap += dual.multipliers[r] * dual.gradient[r] - dual.row_high[r] * min(dual.gradient[r], 0.0)
    return gap
