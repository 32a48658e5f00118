"""The active set solver: SparseMAP as the minimum-norm point of a polytope that is known by its MAP oracle.

Niculae et al. 2018, section 3 and appendix A. Each round solves exactly for the weights on the support, so the method
ends after finitely many rounds. This includes structures that are affinely dependent on the support, which occur
because only unary parts are penalised. `tensors.py` is the same method for tensors.

Used by `_graphs`, `inference`, `frank_wolfe.py` and `loops.py`.
"""

import numpy as np

from .._core.jit import copy_into, kernel, new_constants, new_floats, new_parts
from .cholesky import dot, solve_constrained, solve_upper
from .solver import BY_STRUCTURES, INFEASIBLE, as_solver
from .support import (
    append,
    append_if_independent,
    certified_gap,
    find,
    grow,
    is_distribution,
    mix,
    new_support,
    parts_repeat,
    project_on_support,
    refactor,
    remove,
    rounding_of_gap,
    score,
)

# If the gap is good enough, continue as long as it falls below this fraction of the best gap within this many calls.
_GETS_ON, _MAX_IDLE = 0.7, 12
# If the gap has not halved for this many rounds, queries move towards the best dual point, which gets this weight.
_SLOW_AFTER, _INNER = 20, 0.8


@kernel
def refine(support, k):
    """Solve for the weights of the support, dropping structures if necessary; return the new size.

    Each round solves exactly on the support. If the solution has a negative weight, move towards it until the first
    weight reaches zero, and drop that structure.
    """
    weights, target = support.weights, support.target
    while True:
        if k == 1:
            # Exactly 1, so that a training sample that is fitted has a gradient of exactly zero.
            weights[0] = 1.0
            return k
        solve_constrained(support.factor, support.rhs, k, target)
        step = 1.0
        blocking = np.int64(-1)
        for s in range(k):
            if target[s] < 0.0:
                ratio = weights[s] / (weights[s] - target[s])
                if blocking < 0 or ratio < step:
                    step, blocking = ratio, s
        if blocking < 0:
            copy_into(weights, target[:k])
            return k
        for s in range(k):
            weights[s] = max(0.0, weights[s] + step * (target[s] - weights[s]))
        k = remove(support, k, blocking)


@kernel
def drop_weightless(support, k):
    """Drop the structures without weight; return the new size."""
    for s in range(k - 1, -1, -1):
        if support.weights[s] <= 1e-15 and k > 1:
            k = remove(support, k, s)
    return k


@kernel
def make_room(support, k):
    """Drop the structure that an affinely dependent one replaces; return the new size and the new structure's weight.

    `support.column` holds the projection of the new structure. Its unary parts equal a combination w of the support.
    Moving weight t from the combination t w to the new structure keeps the marginals, and gains t times the gap. t
    grows until the first weight reaches zero.
    """
    combination, weights = support.column, support.weights
    solve_upper(support.factor, k, combination)
    step = np.inf
    leaving = np.int64(-1)
    for s in range(k):
        if combination[s] > 1e-6 and weights[s] < step * combination[s]:
            step, leaving = weights[s] / combination[s], s
    if leaving < 0:
        return k, 0.0
    for s in range(k):
        weights[s] = max(0.0, weights[s] - step * combination[s])
    return remove(support, k, leaving), step


@kernel
def warm_start(support, k, scores, additional, warm_slots, warm_additional, warm_weights):
    """Fill an empty support with structures of an earlier solution; return the size and the reference score.

    A structure whose score is below the best by more than its number of parts cannot have weight, so it is left out.
    Scores of a very different magnitude would also cost precision.

    Parameters
    ----------
    support : Support
    k : int
        0.
    scores, additional : arrays
        Of the problem.
    warm_slots, warm_additional, warm_weights : arrays
        The structures, one a row, and their weights.
    """
    total, best = 0.0, -np.inf
    for s in range(warm_weights.shape[0]):
        best = max(best, score(scores, additional, warm_slots[s], warm_additional[s]))
    for s in range(warm_weights.shape[0]):
        theta = score(scores, additional, warm_slots[s], warm_additional[s])
        if not theta >= best - warm_slots.shape[1] or theta == -np.inf:
            continue
        k = append_if_independent(support, k, warm_slots[s], warm_additional[s], theta - best, warm_weights[s])
    for s in range(k):
        total += support.weights[s]
    for s in range(k):
        support.weights[s] = support.weights[s] / total if total > 0.0 else 1.0 / k
    return k, best


@kernel
def start(oracle, scores, additional, dims, sizes, limit, work, slots, additional_slots, warm):
    """Return a support with structures of an earlier solution, or else with the best structure.

    Parameters
    ----------
    oracle, scores, additional, dims, sizes, limit
        See `solver.py`.
    work, slots, additional_slots : arrays
        Scratch space of the oracle, and for its structure.
    warm : tuple of arrays
        `warm_slots`, `warm_additional` and `warm_weights` of `solver.py`.

    Returns
    -------
    support : Support
    k : int
        Number of its structures; 0 if no structure is allowed.
    reference : float
        The score that is subtracted from the scores of all structures.
    n_iter : int
        Number of calls of the oracle.
    """
    n_warm = warm[2].shape[0]
    support, k = new_support(max(8, n_warm + 2), sizes[0], sizes[1], parts_repeat(sizes))
    reference, n_iter = 0.0, 0
    if n_warm > 0 and limit[0] > 0:
        k, reference = warm_start(support, k, scores, additional, warm[0], warm[1], warm[2])
    if k == 0:
        n_iter = 1
        if oracle(scores, additional, dims, work, slots, additional_slots) != -np.inf:
            reference = score(scores, additional, slots, additional_slots)
            k = append_if_independent(support, k, slots, additional_slots, 0.0, 1.0)
    return support, k, reference, n_iter


@kernel
def _project(support, k, slots, additional_slots):
    """Project a new structure on the support, and drop a structure that it replaces if it is affinely dependent.

    Returns
    -------
    k : int
        Number of structures of the support.
    weight : float
        Initial weight of the new structure.
    pivot_squared : float
        See `project_on_support`; 0 if the structure cannot join.
    """
    weight = 0.0
    pivot_squared = 0.0
    # In a loop, so that the projection is in the compiled code once.
    for trial in range(3):
        if trial == 1:
            if find(support.slots, support.additional, k, slots, additional_slots) >= 0:
                break
            k = drop_weightless(support, k)
        elif trial == 2:
            k, weight = make_room(support, k)
        pivot_squared = project_on_support(support, k, slots)
        if pivot_squared > 0.0:
            break
    return k, weight, pivot_squared


@kernel
def _solve_on_support(support, k, reference, scores, marginals, reduced):
    """Refine the weights, and write the marginals, and the scores minus the marginals.

    Returns
    -------
    k : int
        Number of structures that are left.
    linear, norm_squared : float
        The score of the mixture, and the squared norm of its marginals.
    """
    k = refine(support, k)
    mix(support.slots, k, support.weights, marginals)
    for i in range(scores.shape[0]):
        reduced[i] = scores[i] - marginals[i]
    return k, dot(support.theta[:k], support.weights[:k]) + reference, dot(marginals, marginals)


@kernel
def _lowest_bound(value, scores, query, best, inner):
    """Return the lower of `best` and the dual bound at a query, whose best structure has the score `value`.

    If the query's bound is lower, `inner` becomes the query.
    """
    for i in range(scores.shape[0]):
        if scores[i] > -np.inf:
            difference = scores[i] - query[i]
            value += 0.5 * (difference * difference)
    if not value < best:
        return best
    copy_into(inner, query)
    return value


@kernel
def _price(oracle, query, scores, additional, dims, work, slots, additional_slots, best, inner):
    """Call the oracle at a query; return the value, and the lower of `best` and its dual bound; see `_lowest_bound`."""
    value = oracle(query, additional, dims, work, slots, additional_slots)
    return value, _lowest_bound(value, scores, query, best, inner)


@as_solver
def active_set(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Solve one problem exactly; for arguments and results see `solver.py`.

    Rounding sets a floor to the gap: a few units in the last place of the sum of scores, and more if the support is
    large and the factor less accurate. Below the floor structures are swapped forever. So the solver also stops if the
    gap is good enough and further calls do not improve it.

    Parts without a penalty can make the gap fall slowly, because scores minus marginals oscillate between rounds. Then
    the oracle is first called at a point between them and the best dual point (in-out pricing: Ben-Ameur and Neto
    2007). If its answer does not help, it is called at scores minus marginals, too.
    """
    n_parts = scores.shape[0]
    work = new_constants(sizes[2], 0.0)
    reduced = new_floats(n_parts)
    slots = new_parts(sizes[0])
    additional_slots = new_parts(sizes[1])
    support, k, reference, n_iter = start(
        oracle, scores, additional, dims, sizes, limit, work, slots, additional_slots,
        (warm_slots, warm_additional, warm_weights),
    )  # fmt: skip
    floor = rounding_of_gap(scores, additional, support.slots[0], support.additional[0]) if k > 0 else 0.0
    # Sums of many terms lose more digits; the solver still aims at the floor.
    aim = max(aim, floor)
    tol = max(tol, 4.0 * floor * max(1.0, sizes[0] / 64.0))
    best_gap, idle = np.inf, 0
    best_dual = np.inf
    inner = new_floats(n_parts)
    query = new_floats(n_parts)
    halved, n_slow = np.inf, 0
    linear, norm_squared, gap = 0.0, 0.0, 0.0

    # Rounding in the Cholesky factor can make a known structure look like an improvement. The factor is then
    # recomputed, at most a few times.
    refreshed = 0
    while k > 0:
        k, linear, norm_squared = _solve_on_support(support, k, reference, scores, marginals, reduced)
        helps, gap = False, np.inf
        if n_slow >= _SLOW_AFTER:
            for i in range(scores.shape[0]):
                query[i] = _INNER * inner[i] + (1.0 - _INNER) * reduced[i]
            _, best_dual = _price(
                oracle, query, scores, additional, dims, work, slots, additional_slots, best_dual, inner
            )
            n_iter += 1
            gap = max(best_dual - (linear - 0.5 * norm_squared), 0.0)
            helps = gap <= aim or score(reduced, additional, slots, additional_slots) > linear - norm_squared + tol
        if not helps and n_iter < limit[0]:
            value, best_dual = _price(
                oracle, reduced, scores, additional, dims, work, slots, additional_slots, best_dual, inner
            )
            n_iter += 1
            gap = min(gap, certified_gap(value, linear - norm_squared))
        n_slow += 1
        if gap < 0.5 * halved:
            # After the switch to slow mode, stay in it.
            halved = gap
            n_slow = n_slow if n_slow > _SLOW_AFTER else 0
        if gap < _GETS_ON * best_gap:
            best_gap, idle = gap, 0
        elif gap <= tol:
            idle += 1
        is_last = n_iter >= limit[0]
        # If the solver may be called again, the last structure joins, so that the oracle need not find it again.
        ends = gap <= aim or gap == np.inf or refreshed > 2 or idle >= _MAX_IDLE
        if ends or (is_last and limit.shape[0] == 1):
            break
        k, weight, pivot_squared = _project(support, k, slots, additional_slots)
        if pivot_squared == 0.0:
            if is_last:
                break
            refreshed += 1
            k = refactor(support, k)
            continue
        support = grow(support, k)
        theta = score(scores, additional, slots, additional_slots) - reference
        k = append(support, k, slots, additional_slots, theta, weight, pivot_squared)
        if is_last:
            break
    weights = support.weights[:k]
    status = BY_STRUCTURES if k > 0 else INFEASIBLE
    gap = max(gap, 0.0) if k == 0 or is_distribution(weights) else np.inf
    return support.slots[:k], support.additional[:k], weights, status, linear - 0.5 * norm_squared, gap, n_iter
