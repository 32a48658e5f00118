"""Conditional gradient (Frank-Wolfe): vanilla, away-step and pairwise, in one loop with a step rule (S A.1, Alg. 1).

They need nothing but the oracle and one line search a step, and converge slowly (vanilla) or linearly. The active set
is faster and exact; these are here to compare with.
"""

import numpy as np

from ..._jit import copy_into, kernel
from .cholesky import dot
from .protocol import INFEASIBLE, as_solver
from .support import certified_gap, find, gather, mix, rounding_of_gap, score

_VANILLA, _AWAY_STEP, _PAIRWISE = 0, 1, 2
# The marginals are made again from the weights after so many steps, before rounding adds up.
_REFRESH_EVERY = 100


@kernel
def _with_room(rows, k):
    """Return a 2-D array with room for one more row after the first k."""
    if k < rows.shape[0]:
        return rows
    larger = np.empty((2 * k, rows.shape[1]), rows.dtype)
    for s in range(k):
        copy_into(larger[s], rows[s])
    return larger


@kernel
def _step_size(slope, curvature, largest):
    """Maximise ``slope * step - curvature / 2 * step^2`` for steps from 0 to `largest`."""
    if slope >= largest * curvature:
        return largest
    return max(0.0, slope / curvature)


@kernel
def frank_wolfe(
    variant,
    oracle,
    scores,
    additional,
    dims,
    sizes,
    aim,
    tol,
    limit,
    warm_slots,
    warm_additional,
    warm_weights,
    marginals,
):
    """Solve one problem with one of the variants; see `_protocol`."""
    n_slots, n_additional, n_work = sizes[0], sizes[1], sizes[2]
    work = np.zeros(n_work)
    new_slots, new_additional = np.empty(n_slots, np.int32), np.empty(n_additional, np.int32)
    reduced, forward = np.empty(scores.shape[0]), np.empty(scores.shape[0])
    n_warm = warm_weights.shape[0]
    capacity = max(16, 2 * n_warm)
    slots, extra = np.empty((capacity, n_slots), np.int32), np.empty((capacity, n_additional), np.int32)
    # Columns: weight, score.
    weights_and_scores = np.zeros((capacity, 2))
    k, n_iter = np.int64(0), 0
    if n_warm == 0:
        value = oracle(scores, additional, dims, work, new_slots, new_additional)
        n_iter = 1
        if value == -np.inf:
            return slots, extra, np.zeros(1), INFEASIBLE, 0.0, 0.0, n_iter
        copy_into(slots[0], new_slots)
        copy_into(extra[0], new_additional)
        weights_and_scores[0, 0] = 1.0
        weights_and_scores[0, 1] = score(scores, additional, new_slots, new_additional)
        k += 1
    total = 0.0
    for s in range(n_warm):
        total += warm_weights[s]
    for s in range(n_warm):
        copy_into(slots[s], warm_slots[s])
        copy_into(extra[s], warm_additional[s])
        weights_and_scores[s, 0] = warm_weights[s] / total
        weights_and_scores[s, 1] = score(scores, additional, warm_slots[s], warm_additional[s])
        k += 1
    aim = max(aim, rounding_of_gap(scores, additional, slots[0], extra[0]))

    step_number = 0
    while True:
        weights, theta = weights_and_scores[:, 0], weights_and_scores[:, 1]
        if step_number % _REFRESH_EVERY == 0:
            mix(slots, k, weights, marginals)
        step_number += 1
        linear = 0.0
        for s in range(k):
            linear += weights[s] * theta[s]
        norm_squared = dot(marginals, marginals)
        for i in range(scores.shape[0]):
            reduced[i] = scores[i] - marginals[i]
        value = oracle(reduced, additional, dims, work, new_slots, new_additional)
        n_iter += 1
        here = linear - norm_squared
        gap = certified_gap(value, here)
        if gap <= aim or gap == np.inf or n_iter >= limit[0]:
            break

        # The structure of the support that is worst under the reduced scores, and its distance below the mixture.
        worst, lowest = np.int64(-1), np.inf
        if variant != _VANILLA:
            for s in range(k):
                reduced_score = theta[s] - gather(marginals, slots[s])
                if reduced_score < lowest:
                    worst, lowest = s, reduced_score
        away = variant == _AWAY_STEP and here - lowest > gap

        place = np.int64(-1)
        if not away:
            place = find(slots, extra, k, new_slots, new_additional)
            if place < 0:
                slots, extra = _with_room(slots, k), _with_room(extra, k)
                weights_and_scores = _with_room(weights_and_scores, k)
                weights, theta = weights_and_scores[:, 0], weights_and_scores[:, 1]
                copy_into(slots[k], new_slots)
                copy_into(extra[k], new_additional)
                weights[k], theta[k] = 0.0, score(scores, additional, new_slots, new_additional)
                place = k
                k += 1

        # The direction in the unary parts: towards the new structure, away from the worst, or from one to the other.
        for i in range(scores.shape[0]):
            forward[i] = 0.0 if variant == _PAIRWISE else (marginals[i] if away else -marginals[i])
        if not away:
            for part in slots[place]:
                if part >= 0:
                    forward[part] += 1.0
        if away or variant == _PAIRWISE:
            for part in slots[worst]:
                if part >= 0:
                    forward[part] -= 1.0
        if variant == _PAIRWISE:
            slope, largest = value - lowest, weights[worst]
        elif away:
            slope, largest = here - lowest, weights[worst] / (1.0 - weights[worst])
        else:
            slope, largest = gap, 1.0
        step = _step_size(slope, dot(forward, forward), largest)
        for i in range(scores.shape[0]):
            marginals[i] += step * forward[i]
        if variant != _PAIRWISE:
            for s in range(k):
                weights[s] *= 1.0 + step if away else 1.0 - step
        if not away:
            weights[place] += step
        if away or variant == _PAIRWISE:
            # A full step drops the structure, exactly.
            weights[worst] = 0.0 if step == largest else weights[worst] - step
        kept = np.int64(0)
        for s in range(k):
            if weights[s] > 0.0:
                if kept < s:
                    copy_into(slots[kept], slots[s])
                    copy_into(extra[kept], extra[s])
                    weights[kept], theta[kept] = weights[s], theta[s]
                kept += 1
        k = kept
    final = np.empty(k)
    for s in range(k):
        final[s] = weights_and_scores[s, 0]
    # Away from a structure, rounding can leave less than nothing of its parts.
    mix(slots, k, final, marginals)
    return slots, extra, final, k, linear - 0.5 * norm_squared, max(gap, 0.0), n_iter


@as_solver
def conditional_gradient(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Vanilla conditional gradient: always towards the structure that the oracle finds."""
    return frank_wolfe(
        _VANILLA,
        oracle,
        scores,
        additional,
        dims,
        sizes,
        aim,
        tol,
        limit,
        warm_slots,
        warm_additional,
        warm_weights,
        marginals,
    )


@as_solver
def away_step(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Conditional gradient that may also go away from the worst structure of the support."""
    return frank_wolfe(
        _AWAY_STEP,
        oracle,
        scores,
        additional,
        dims,
        sizes,
        aim,
        tol,
        limit,
        warm_slots,
        warm_additional,
        warm_weights,
        marginals,
    )


@as_solver
def pairwise(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Conditional gradient that moves weight from the worst structure of the support to the one found."""
    return frank_wolfe(
        _PAIRWISE,
        oracle,
        scores,
        additional,
        dims,
        sizes,
        aim,
        tol,
        limit,
        warm_slots,
        warm_additional,
        warm_weights,
        marginals,
    )
