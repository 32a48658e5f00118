"""Presolve: bounds on the scores fix most variables of a sample before a solver runs.

It is a reduction, as those in `inference/_graph/reductions.py`, within a compiled call. `pairwise_bounds` tells to
which variables it applies, `fix_variables` applies it, and `write_marginals`, `write_multipliers` and
`write_fixed_multipliers` invert it.

Solutions are sparse: of hundreds of labels a handful is on. A variable is off in every solution if its score is
negative even with all positive pair scores. It is on if its score is at least 1 even with all negative pair scores.
Then the scores of its pairs become scores of their other ends, which may fix more variables. The solver gets the small
graph of the open variables. Variables of structures and of inequalities stay open.

The multipliers of the pairs of fixed variables follow from the order of fixing: of the two ends of a pair, the one that
was fixed first gets the whole score in the case that is worst for its state. So the solution of the open graph and
these multipliers are together a solution of the whole graph.

Used by `batch.py` and `pairs.py`.
"""

from collections import namedtuple

import numpy as np

from .._core.jit import copy_into, kernel
from .rows import compute_gradient, new_space

OFF, ON, OPEN = 0, 1, 2
_MAX_ROUNDS = 20  # rounds over the open variables; later rounds fix few

# The pairs of each variable: its ends of pairs ("slots"), those of variable i from ptr[i] to ptr[i + 1]; see
# `GraphArrays`. `others` is the variable at the other end, ~j if it is negated. `signs` are -1 if this end is negated.
# `effects` is the change of the variable's score if the other literal is on. `high` and `low` are the sums of the
# positive and of the negative effects on a variable. `free` marks variables that may be fixed: those in pairs only, if
# the graph has no structures, whose solvers need all variables. `negated` marks variables with a negated end.
PairwiseBounds = namedtuple(
    "PairwiseBounds", ["ptr", "ends", "others", "signs", "effects", "high", "low", "free", "negated"]
)

# The state of presolve for one sample: `states` (OFF, ON or OPEN), `ranks` (the order of fixing) and `positions` (among
# the open variables) of all variables. `variables` lists the open variables and `pairs` the pairs between them;
# `counts` are their numbers. `base` are the scores of the open variables, including the effects of fixed ones. `space`
# is a `Dual` for all variables and pairs. Each sample uses a part of it, because allocation takes longer than most
# samples.
PresolveState = namedtuple(
    "PresolveState", ["states", "ranks", "positions", "counts", "variables", "base", "pairs", "space"]
)


@kernel
def new_presolve(graph):
    """Return the state of presolve for samples of a graph, without values."""
    n, n_pairs = graph.degrees.shape[0], graph.pairs.shape[0]
    return PresolveState(
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
def pairwise_bounds(graph, additional):
    """Return the pairs of each variable with their effects."""
    n, n_slots = graph.degrees.shape[0], graph.slots.shape[0]
    bounds = PairwiseBounds(
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
        bounds.free[i] = is_only_in_pairs and graph.structures.shape[0] == 0
        for slot in range(graph.slot_ptr[i], graph.slot_ptr[i + 1]):
            e, side = graph.slots[slot] // 2, graph.slots[slot] % 2
            j, effect = graph.pair_ends[e, 1 - side], graph.pair_signs[e, side]
            effect *= additional[graph.additional_ptr[graph.pairs[e]]]
            bounds.others[slot] = j if graph.pair_signs[e, 1 - side] > 0.0 else ~j
            bounds.effects[slot] = effect
            bounds.signs[slot] = graph.pair_signs[e, side]
            bounds.negated[i] |= graph.pair_signs[e, side] < 0.0
            if effect > 0.0:
                bounds.high[i] += effect
            else:
                bounds.low[i] += effect
    return bounds


@kernel
def fix_variables(bounds, scores, scale, presolve):
    """Fix variables by bounds, and list the open ones and their pairs; `scale` is a factor of the pair scores."""
    states = presolve.states
    ptr = bounds.ptr
    n = scores.shape[0]
    n_open = np.int64(0)
    rank = np.int64(0)
    for i in range(n):
        presolve.ranks[i] = n
        if bounds.free[i] and scores[i] + scale * bounds.high[i] <= 0.0:
            states[i], presolve.ranks[i] = OFF, rank
        elif bounds.free[i] and scores[i] + scale * bounds.low[i] >= 1.0:
            states[i], presolve.ranks[i] = ON, rank
        else:
            states[i] = OPEN
            presolve.variables[n_open] = i
            n_open += 1
    changed = True
    n_rounds = np.int64(0)
    while changed:
        changed = False
        n_rounds = n_rounds + 1
        n_left = np.int64(0)
        for k in range(n_open):
            i = presolve.variables[k]
            base, high, low = scores[i], 0.0, 0.0
            for slot in range(ptr[i], ptr[i + 1]):
                other, effect = bounds.others[slot], scale * bounds.effects[slot]
                state = states[other] if other >= 0 else states[~other]
                if state == OPEN:
                    high += max(effect, 0.0)
                    low += min(effect, 0.0)
                elif (state == ON) == (other >= 0):
                    base += effect
            if n_rounds <= _MAX_ROUNDS and bounds.free[i] and (base + high <= 0.0 or base + low >= 1.0):
                states[i] = OFF if base + high <= 0.0 else ON
                rank += 1
                presolve.ranks[i] = rank
                changed = True
            else:
                presolve.variables[n_left] = i
                presolve.base[n_left] = base
                n_left += 1
        n_open = n_left
    presolve.counts[0] = n_open
    presolve.counts[1] = _list_open_pairs(bounds, scale, presolve, n_open)


@kernel
def _list_open_pairs(bounds, scale, presolve, n_open):
    """List the pairs between open variables, and number these variables; return the number of pairs."""
    states = presolve.states
    ptr = bounds.ptr
    n_pairs = np.int64(0)
    for k in range(n_open):
        i = presolve.variables[k]
        presolve.positions[i] = k
        for slot in range(ptr[i], ptr[i + 1]):
            other, end = bounds.others[slot], bounds.ends[slot]
            # A pair is listed at its first end.
            if end % 2 == 0 and states[other if other >= 0 else ~other] == OPEN and scale * bounds.effects[slot] != 0.0:
                presolve.pairs[n_pairs] = end // 2
                n_pairs += 1
    return n_pairs


@kernel
def write_marginals(presolve, open_marginals, u):
    """Write the marginals of all variables; `open_marginals` are those of the open ones."""
    for i in range(u.shape[0]):
        u[i] = 1.0 if presolve.states[i] == ON else 0.0
    for k in range(open_marginals.shape[0]):
        u[presolve.variables[k]] = open_marginals[k]


@kernel
def write_multipliers(presolve, dual, multipliers):
    """Write the multipliers of the rows and of the open pairs; those of other pairs are left unchanged."""
    n_logic = dual.n_logic
    copy_into(multipliers, dual.multipliers[:n_logic])
    for k in range(presolve.counts[1]):
        multipliers[n_logic + presolve.pairs[k]] = dual.multipliers[n_logic + k]


@kernel
def write_fixed_multipliers(graph, presolve, additional, multipliers):
    """Write the multipliers of the pairs that have a fixed end."""
    n_rows = graph.row_bounds.shape[0]
    for e in range(graph.pairs.shape[0]):
        ranks = presolve.ranks[graph.pair_ends[e, 0]], presolve.ranks[graph.pair_ends[e, 1]]
        side = 0 if ranks[0] <= ranks[1] else 1
        state = presolve.states[graph.pair_ends[e, side]]
        score = additional[graph.additional_ptr[graph.pairs[e]]]
        if state != OPEN:
            is_on = (state == ON) == (graph.pair_signs[e, side] > 0.0)
            # The multiplier is the part of a positive score at the first end, or what a negative one takes from both.
            multipliers[n_rows + e] = abs(score) if is_on == (score < 0.0 or side == 1) else 0.0


@kernel
def pair_marginal(score, p, q):
    """Return the best marginal of both literals of a pair being on; without a score, that of independent literals."""
    if score > 0.0:
        return min(p, q)
    if score < 0.0:
        return max(0.0, p + q - 1.0)
    return p * q


@kernel
def value_of(bounds, scores, scale, u):
    """Return the objective of LP-SparseMAP at marginals, in a graph of pairs only."""
    value = 0.0
    for i in range(scores.shape[0]):
        value += u[i] * (scores[i] - 0.5 * u[i]) if u[i] > 0.0 else 0.0
        if u[i] == 0.0 and not bounds.negated[i]:
            continue
        for slot in range(bounds.ptr[i], bounds.ptr[i + 1]):
            if bounds.ends[slot] % 2 == 0:
                other, sign = bounds.others[slot], bounds.signs[slot]
                p = u[i] if sign > 0.0 else 1.0 - u[i]
                q = u[other] if other >= 0 else 1.0 - u[~other]
                value += scale * sign * bounds.effects[slot] * pair_marginal(sign * bounds.effects[slot], p, q)
    return value


@kernel
def gap_of(dual):
    """Return the duality gap in a graph of pairs only."""
    compute_gradient(dual)
    gap = 0.0
    for r in range(dual.gradient.shape[0]):
        gap += dual.multipliers[r] * dual.gradient[r] - dual.row_high[r] * min(dual.gradient[r], 0.0)
    return gap
