"""Conditional gradient (Frank-Wolfe): three variants that differ in their direction.

Niculae et al. 2018, appendix A.1, algorithm 1.

Vanilla always moves towards the oracle's structure. The away-step variant can also move away from the worst structure
of the support. The pairwise variant moves weight from the worst structure to the oracle's structure.

A step needs only the oracle and one line search, and convergence is slow (vanilla) or linear. The active set is faster
and exact; these variants serve as baselines.

The error of marginals can be as large as the square root of twice the gap, and rounding of large scores hides gaps that
are not small. So once the gap is small enough, the exact weights on the support are computed, and the gap again.
"""

import numpy as np

from .._core.jit import copy_into, kernel
from .active_set import refine, warm_start
from .cholesky import dot
from .solver import BY_STRUCTURES, INFEASIBLE, as_solver
from .support import certified_gap, find, gather, grow, mix, new_support, parts_repeat, rounding_of_gap, score

_VANILLA, _AWAY_STEP, _PAIRWISE = 0, 1, 2
# steps; after each this many the marginals are recomputed from the weights, so that rounding errors do not add up
_REFRESH_EVERY = 100


@kernel
def _step_size(slope, curvature, largest):
    """Maximise ``slope * step - curvature / 2 * step^2`` for steps from 0 to `largest`."""
    if slope >= largest * curvature:
        return largest
    return max(0.0, slope / curvature)


@kernel
def _choose(variant, gap, gap_of_worst, weight):
    """Choose a direction; this is the only difference between the variants.

    `gap` is the reduced score of the oracle's structure minus that of the mixture, and `gap_of_worst` that of the
    mixture minus that of the worst structure of the support, whose weight is `weight`.

    Returns
    -------
    to_found, from_worst : bool
        Whether the direction leads to the oracle's structure, and away from the worst one.
    scale : float
        Factor of the mixture in the direction: -1.0 towards the oracle's structure, 1.0 away from the worst one, else
        0.0.
    largest : float
        The largest step.
    """
    if variant == _PAIRWISE:
        return True, True, 0.0, weight
    if variant == _AWAY_STEP and gap_of_worst > gap:
        return False, True, 1.0, weight / (1.0 - weight)
    return True, False, -1.0, 1.0


@kernel
def _with_best_weights(support, k, scores, additional):
    """Return a support with the exact weights of the first k structures, without some; its size; and the reference."""
    weights = support.weights[:k].copy()
    best, n = new_support(k + 2, support.slots.shape[1], support.additional.shape[1], support.repeats)
    n, reference = warm_start(best, n, scores, additional, support.slots[:k], support.additional[:k], weights)
    return best, refine(best, n), reference


def _solver(name, variant):
    """Make the solver of one variant."""

    def frank_wolfe(
        oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
    ):
        """Solve one problem; for arguments and results see `solver.py`."""
        work, n_iter, reference = np.zeros(sizes[2]), 0, 0.0
        new_slots, new_additional = np.empty((1, sizes[0]), np.int32), np.empty((1, sizes[1]), np.int32)
        reduced, forward = np.empty(scores.shape[0]), np.empty(scores.shape[0])
        # The factor of the support is not kept up to date.
        support, k = new_support(max(16, 2 * warm_weights.shape[0]), sizes[0], sizes[1], parts_repeat(sizes))
        if warm_weights.shape[0] > 0:
            k, reference = warm_start(support, k, scores, additional, warm_slots, warm_additional, warm_weights)
        if k == 0:
            value = oracle(scores, additional, dims, work, new_slots[0], new_additional[0])
            n_iter = 1
            if value == -np.inf:
                return new_slots[:0], new_additional[:0], np.empty(0), INFEASIBLE, 0.0, 0.0, n_iter
            k, reference = warm_start(support, k, scores, additional, new_slots, new_additional, np.ones(1))
        aim = max(aim, rounding_of_gap(scores, additional, support.slots[0], support.additional[0]))

        step_number, has_best_weights = 0, False
        while True:
            slots, weights, theta = support.slots, support.weights, support.theta
            if step_number % _REFRESH_EVERY == 0:
                mix(slots, k, weights, marginals)
            step_number += 1
            linear = dot(theta[:k], weights[:k]) + reference
            norm_squared = dot(marginals, marginals)
            for i in range(scores.shape[0]):
                reduced[i] = scores[i] - marginals[i]
            value = oracle(reduced, additional, dims, work, new_slots[0], new_additional[0])
            n_iter += 1
            here = linear - norm_squared
            gap = certified_gap(value, here)
            if gap == np.inf or n_iter >= limit[0] or (gap <= aim and has_best_weights):
                break
            if gap <= aim:
                support, k, reference = _with_best_weights(support, k, scores, additional)
                step_number, has_best_weights = 0, True
                continue

            # The structure of the support with the lowest reduced score.
            worst, lowest = np.int64(0), np.inf
            if variant != _VANILLA:
                for s in range(k):
                    reduced_score = theta[s] + reference - gather(marginals, slots[s])
                    if reduced_score < lowest:
                        worst, lowest = s, reduced_score
            to_found, from_worst, scale, largest = _choose(variant, gap, here - lowest, weights[worst])

            place = np.int64(-1)
            if to_found:
                place = find(slots, support.additional, k, new_slots[0], new_additional[0])
                if place < 0:
                    support, place = grow(support, k), k
                    slots, weights, theta = support.slots, support.weights, support.theta
                    copy_into(slots[k], new_slots[0])
                    copy_into(support.additional[k], new_additional[0])
                    weights[k] = 0.0
                    theta[k] = score(scores, additional, new_slots[0], new_additional[0]) - reference
                    k += 1

            # The direction in the unary parts, and the derivative of the objective along it.
            slope = scale * here
            for i in range(scores.shape[0]):
                forward[i] = scale * marginals[i]
            if to_found:
                slope += value
                for part in slots[place]:
                    if part >= 0:
                        forward[part] += 1.0
            if from_worst:
                slope -= lowest
                for part in slots[worst]:
                    if part >= 0:
                        forward[part] -= 1.0
            step = _step_size(slope, dot(forward, forward), largest)
            for i in range(scores.shape[0]):
                marginals[i] += step * forward[i]
            for s in range(k):
                weights[s] *= 1.0 + scale * step
            if to_found:
                weights[place] += step
            if from_worst:
                # A full step drops the structure; set its weight to exactly zero.
                weights[worst] = 0.0 if step == largest else weights[worst] - step
            kept = np.int64(0)
            for s in range(k):
                if weights[s] > 0.0:
                    if kept < s:
                        copy_into(slots[kept], slots[s])
                        copy_into(support.additional[kept], support.additional[s])
                        weights[kept], theta[kept] = weights[s], theta[s]
                    kept += 1
            k = kept
        # Rounding in away steps can leave slightly negative marginals, so compute them from the weights.
        mix(support.slots, k, support.weights, marginals)
        found = support.slots[:k], support.additional[:k], support.weights[:k]
        return *found, BY_STRUCTURES, linear - 0.5 * norm_squared, max(gap, 0.0), n_iter

    frank_wolfe.__name__ = name
    return as_solver(frank_wolfe)


conditional_gradient = _solver("conditional_gradient", _VANILLA)
away_step = _solver("away_step", _AWAY_STEP)
pairwise = _solver("pairwise", _PAIRWISE)
