"""The loss of one sample with its gradient, for public calls and training kernels.

Used by `_training`, `_expected_cost.py` and `_fenchel_young.py`.
"""

from collections import namedtuple

import numpy as np
from numba import types

from .._core.jit import (
    FLOATS,
    FLOATS_OUT,
    INTS,
    INTS_OUT,
    ORACLE,
    PARTS,
    PARTS_OUT,
    by_address,
    copy_into,
    entry,
    kernel,
    readonly,
)
from .._numerics.competence import READY, SOLVERS, solve
from .._numerics.loops import PROBLEMS
from .._numerics.solver import BY_FACETS, INFEASIBLE, LATER
from .._numerics.support import parts_repeat, score

# A loss, in the form that kernels take. `quadratic` is 1 if the regulariser contains 1/2 |u|^2, and `margin` is 1 if it
# contains the cost. The cost is the sum of `cost[g * m + j]` over all steps, for gold label g and predicted label j. If
# `cost` is empty, it is the number of predicted parts that are not gold (Hamming). In addition, each missing gold part
# costs `missing`. Tasks, learners and layers read the fields by these names, too.
LossForm = namedtuple("LossForm", ["temperature", "quadratic", "margin", "missing", "cost"])
LOSS_FORM = by_address([types.float64, types.float64, types.float64, types.float64, FLOATS], LossForm)

# The gold structures of many samples, as in structures/_base.py: sample i has slots[slot_ptr[i]:slot_ptr[i + 1]].
Gold = namedtuple("Gold", ["slots", "slot_ptr", "additional", "additional_ptr"])
GOLD = by_address([PARTS, INTS, PARTS, INTS], Gold)

# Input of the loss of a sample: its problem, its gold structure, and its weight. `_training/_data.py` makes it, and
# `Gold`, too, by the order of the fields.
Target = namedtuple("Target", ["scores", "additional", "dims", "sizes", "gold_slots", "gold_additional", "weight"])

# The losses of many samples, and their gradients with respect to the scores and to the additional scores, flat.
Losses = namedtuple("Losses", ["losses", "residuals", "additional_residuals"])
LOSSES_TYPE = by_address([FLOATS_OUT] * 3, Losses)

# The structures of each sample's last solution, as warm start for the next one: at most `capacity` structures, stored
# from slots[slot_start[i]] on and likewise in other arrays. Capacity 0 stores nothing. `limit[0]` is the maximum number
# of oracle calls for a loss, as in _numerics/solver.py. Setting it to 0 ends the running inference. `later[0]` becomes
# 1 if a sample needs a solver that is not compiled, and `later[1]` if its compilation is worth it, too. `counts` holds
# the numbers of structures or, if negative, of visits since the specialised solver took over. Then the arrays of slots
# hold `n_facets` arcs of a flow instead, see `_numerics/facets.py`, and `weights` nothing.
Memory = namedtuple(
    "Memory",
    ["capacity", "counts", "n_facets", "slots", "slot_start", "additional", "additional_start", "weights", "limit",
     "later"],
)  # fmt: skip
MEMORY = by_address(
    [types.int64, INTS_OUT, INTS_OUT, PARTS_OUT, INTS, PARTS_OUT, INTS, FLOATS_OUT, INTS_OUT, INTS_OUT], Memory
)

# Maximum number of oracle calls for a loss. Nearly tied structures would take many more, for a gain that is negligible
# in training.
_MAX_ITER = 1000
# Calls of the oracle by the active set, in place of another solver, from which on it is worth to compile that solver.
_WORTH_COMPILING = 100
# Visits after which the active set is tried again for a sample that the other solver solves, and the number of
# structures from which on it is not; smaller values keep taggers of sentences at the slower solver.
_VISITS, _FEW_STRUCTURES = 8, 48
# Maximum number of stored structures of a sample, and the maximum if the first one would take more than this memory, in
# bytes. More take memory, and warm starts are hardly better: with 8 in place of 16, epochs take the same time.
_MAX_STORED, _MAX_STORED_OF_MANY, _MANY_BYTES = 16, 8, 2**22
# Largest duality gap, relative to 1 + loss, of a converged loss.
_INEXACT = 1e-4


@kernel
def _remember(memory, i, slots, additional_slots, weights, k):
    """Store the structures with the largest weights as warm start of sample `i`.

    Parameters
    ----------
    memory : Memory
    i : int
        Index of the sample.
    slots, additional_slots : int arrays with one row for each structure
        The structures of the solution.
    weights : array of shape (k,)
    k : int
        Number of structures.
    """
    n_slots, n_additional = slots.shape[1], additional_slots.shape[1]
    kept = min(k, memory.capacity)
    s = np.int64(-1)
    last = np.inf
    for place in range(kept):
        if k == kept:
            s = place
        else:
            # The next largest weight; of equal weights, the first. (An array of flags takes long to compile.)
            following = np.int64(-1)
            for r in range(k):
                is_left = weights[r] < last or (weights[r] == last and r > s)
                if is_left and (following < 0 or weights[r] > weights[following]):
                    following = r
            s = following
            last = weights[following]
        copy_into(memory.slots[memory.slot_start[i] + place * n_slots :], slots[s])
        copy_into(memory.additional[memory.additional_start[i] + place * n_additional :], additional_slots[s])
        memory.weights[i * memory.capacity + place] = weights[s]
    memory.counts[i] = kept


@kernel
def _remember_arcs(memory, i, slots, additional_slots):
    """Store the arcs of a flow as warm start of sample `i`, if there is space; other facets are not stored."""
    n = 0
    if slots.shape[1] == additional_slots.shape[1] == 1:
        while n < slots.shape[0] and slots[n, 0] >= 0:
            n += 1
    last = i + 1 == memory.counts.shape[0]
    space = memory.slots.shape[0] if last else memory.slot_start[i + 1]
    additional_space = memory.additional.shape[0] if last else memory.additional_start[i + 1]
    if min(space - memory.slot_start[i], additional_space - memory.additional_start[i]) < n:
        n = 0
    for r in range(n):
        memory.slots[memory.slot_start[i] + r] = slots[r, 0]
        memory.additional[memory.additional_start[i] + r] = additional_slots[r, 0]
    memory.n_facets[i] = n


@kernel
def _count_visit(memory, i, n_slots):
    """Count a visit in which the specialised solver solved sample `i`, or let the active set try again.

    A flow along paths of `n_slots` parts that has n arcs mixes about n - n_slots of them. If these are many, the active
    set would be slow.
    """
    n_visits = max(-memory.counts[i], 0) + 1
    tries_again = n_visits >= _VISITS and memory.n_facets[i] < n_slots + _FEW_STRUCTURES
    memory.counts[i] = 0 if tries_again else -n_visits


@kernel
def divided(values, number):
    """Return the values divided by a number."""
    quotients = np.empty(values.shape[0])
    for i in range(values.shape[0]):
        quotients[i] = values[i] / number
    return quotients


@kernel
def add_cost(scores, gold_slots, cost, missing, repeats):
    """Add the cost of each part to its score.

    An empty structure costs `missing` times the number of gold parts, a constant that is not in the scores. So each
    gold part gets a cost of ``-missing``. If parts repeat, there is no other cost.
    """
    if repeats:
        for part in gold_slots:
            scores[part] -= missing
        return
    if cost.shape[0] == 0:
        for i in range(scores.shape[0]):
            scores[i] += 1.0
        for part in gold_slots:
            if part >= 0:
                scores[part] -= 1.0 + missing
        return
    n_labels = np.int64(np.sqrt(cost.shape[0]) + 0.5)
    for part in gold_slots:
        row, gold = part // n_labels, part % n_labels
        for j in range(n_labels):
            scores[row * n_labels + j] += cost[gold * n_labels + j]


@kernel
def loss_of_sample(oracle, solvers, form, target, tol, memory, i, residual, additional_residual):
    """Compute the loss of a sample and its gradient.

    Parameters
    ----------
    oracle : compiled function
    solvers : Solvers
    form : LossForm
    target : Target
    tol : float
        Duality gap of inference.
    memory : Memory
    i : int
        Index of the sample in the memory; -1 does not use it.
    residual : array of shape (n_parts,)
        Output: the gradient with respect to the scores.
    additional_residual : array of shape (n_additional,)
        The gradient with respect to the additional scores, times the weight of the sample, is added.

    Returns
    -------
    loss : float
        NaN if the scores forbid all structures; infinite if they forbid only the gold structure.
    gap : float
        Duality gap of the inference, an upper bound of the error of the loss.
    """
    n_slots, n_additional = target.sizes[0], target.sizes[1]
    scores, additional = target.scores, target.additional
    if form.temperature != 1.0:
        scores = divided(scores, form.temperature)
        additional = divided(additional, form.temperature)
    gold_score = score(scores, additional, target.gold_slots, target.gold_additional)
    if form.margin != 0.0:
        scores = divided(scores, 1.0)
        add_cost(scores, target.gold_slots, form.cost, form.missing, parts_repeat(target.sizes))
    remembers = i >= 0 and memory.capacity > 0
    first, first_additional = memory.slot_start[i], memory.additional_start[i]
    n_warm, first_weight = (max(memory.counts[i], 0), i * memory.capacity) if remembers else (0, 0)
    skips = remembers and memory.counts[i] < 0 and solvers.readiness == READY
    width, additional_width, warm_weights = n_slots, n_additional, memory.weights[first_weight : first_weight + n_warm]
    if skips:
        # Facets start without multipliers.
        n_warm, width, additional_width = memory.n_facets[i], 1, 1
        warm_weights = np.zeros(n_warm + 1)
    last, last_additional = first + n_warm * width, first_additional + n_warm * additional_width
    slots, additional_slots, weights, status, objective, gap, n_calls = solve(
        oracle,
        solvers,
        (scores, additional, target.dims, target.sizes),
        (tol, tol, memory.limit),
        (
            memory.slots[first:last].reshape((n_warm, width)),
            memory.additional[first_additional:last_additional].reshape((n_warm, additional_width)),
            warm_weights,
        ),
        residual,
        skips,
    )
    if status == LATER:
        memory.later[0] = 1
        if n_calls >= _WORTH_COMPILING:
            memory.later[1] = 1
    if status == INFEASIBLE:
        objective = np.nan
        for j in range(residual.shape[0]):
            residual[j] = 0.0
    else:
        if remembers:
            if status == BY_FACETS:
                _remember_arcs(memory, i, slots, additional_slots)
                _count_visit(memory, i, n_slots)
            else:
                _remember(memory, i, slots, additional_slots, weights, weights.shape[0])
        # Rows of facets have additional parts if they are arcs with flow.
        n_columns = additional_slots.shape[1]
        for s in range(additional_slots.shape[0]):
            weight = target.weight * weights[s]
            for a in range(n_columns):
                part = additional_slots[s, a]
                if part >= 0:
                    additional_residual[part] += weight
    # Squared norm of gold. Repeated parts are adjacent, and a part that occurs k times contributes k^2 = 1 + 3 + ... +
    # (2k - 1).
    n_gold, run, before = 0.0, 0.0, -1
    for part in target.gold_slots:
        if part >= 0:
            residual[part] -= 1.0
            run = run + 1.0 if part == before else 1.0
            n_gold += 2.0 * run - 1.0
            before = part
    for part in target.gold_additional:
        if part >= 0:
            additional_residual[part] -= target.weight
    # The constant that `add_cost` omits: the cost of missing all gold parts. With it, the cost of gold is zero.
    loss = objective + (0.5 * form.quadratic + form.missing) * n_gold - gold_score
    # Rounding can make the loss of a fitted sample negative; NaN stays NaN.
    return form.temperature * (loss if not loss < 0.0 else 0.0), form.temperature * gap


@kernel
def is_inexact(loss, gap):
    """Tell whether inference ended too far from the optimum for an accurate loss."""
    return gap > _INEXACT * (1.0 + abs(loss))


@kernel
def target_of(problems, gold, i):
    """Return the `Target` of problem `i`, with a weight of 1."""
    return Target(
        problems.scores[problems.score_ptr[i] : problems.score_ptr[i + 1]],
        problems.additional[problems.additional_start[i] : problems.additional_stop[i]],
        problems.dims[i],
        problems.sizes[i],
        gold.slots[gold.slot_ptr[i] : gold.slot_ptr[i + 1]],
        gold.additional[gold.additional_ptr[i] : gold.additional_ptr[i + 1]],
        1.0,
    )


@entry(
    types.void(ORACLE, SOLVERS, LOSS_FORM, PROBLEMS, GOLD, types.float64, MEMORY, types.int64, types.int64, LOSSES_TYPE)
)
def losses_of_range(oracle, solvers, form, problems, gold, tol, memory, start, stop, out):
    """Compute the losses and gradients of samples start..stop, with separate additional gradients for each sample.

    Parameters
    ----------
    oracle, solvers, form, tol, memory
        As in `loss_of_sample`.
    problems : Problems
    gold : Gold
    start, stop : int
        Range of samples.
    out : Losses
        Output, for all samples.
    """
    offset = 0
    for i in range(start):
        offset += problems.additional_stop[i] - problems.additional_start[i]
    for i in range(start, stop):
        first, last = problems.score_ptr[i], problems.score_ptr[i + 1]
        target = target_of(problems, gold, i)
        n_additional = target.additional.shape[0]
        additional_residual = out.additional_residuals[offset : offset + n_additional]
        # The range may be computed again.
        for a in range(n_additional):
            additional_residual[a] = 0.0
        out.losses[i], _ = loss_of_sample(
            oracle, solvers, form, target, tol, memory, i, out.residuals[first:last], additional_residual
        )
        offset += n_additional


def join_gold(encoded):
    """Join encoded gold structures, a list of ``(slots, additional_slots)``, in the form that kernels take."""
    slots, additional = zip(*encoded)
    return Gold(
        readonly(np.concatenate(slots), np.int32),
        readonly(np.cumsum([0] + [len(s) for s in slots]), np.int64),
        readonly(np.concatenate(additional), np.int32),
        readonly(np.cumsum([0] + [len(a) for a in additional]), np.int64),
    )


def new_memory(sizes, max_bytes):
    """Allocate the memory of the samples' last solutions.

    Parameters
    ----------
    sizes : array with one row for each sample
        See `Structure.layout`.
    max_bytes : int
        Memory limit. Below the size of two structures for each sample, nothing is stored.
    """
    n = len(sizes)
    a_structure = 4 * int(sizes[:, :2].sum()) + 8 * n
    most = _MAX_STORED if _MAX_STORED * a_structure <= _MANY_BYTES else _MAX_STORED_OF_MANY
    capacity = min(most, max_bytes // max(a_structure, 1))
    if capacity < 2:
        capacity = 0
    starts = [readonly(np.concatenate([[0], np.cumsum(capacity * sizes[:, c])[:-1]]), np.int64) for c in (0, 1)]
    return Memory(
        capacity,
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.empty(capacity * int(sizes[:, 0].sum()), np.int32),
        starts[0],
        np.empty(capacity * int(sizes[:, 1].sum()), np.int32),
        starts[1],
        np.empty(capacity * n),
        np.array([_MAX_ITER]),
        np.zeros(2, np.int64),
    )
