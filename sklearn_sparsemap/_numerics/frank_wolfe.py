"""Conditional gradient (Frank-Wolfe): three variants that differ in their direction.

Niculae et al. 2018, appendix A.1, algorithm 1.

Vanilla always moves towards the oracle's structure. The away-step variant can also move away from the worst structure
of the support. The pairwise variant moves weight from the worst structure to the oracle's structure.

A step needs only the oracle and one line search, and convergence is slow (vanilla) or linear. The active set is faster
and exact; these variants serve as baselines.

The error of marginals can be as large as the square root of twice the gap, and rounding of large scores hides gaps that
are not small. So once the gap is small enough, the exact weights on the support are computed, and the gap again.

Used by `loops.py`.
"""

import numpy as np

from .._core.jit import copy_into, kernel, new_constants, new_floats, new_parts
from .active_set import refine, start, warm_start
from .cholesky import dot
from .solver import BY_STRUCTURES, INFEASIBLE, as_solver
from .support import add_parts, certified_gap, find, gather, grow, mix, new_support, rounding_of_gap, score

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
def _worst_of(support, k, reference, marginals):
    """Return the structure of the support with the lowest reduced score, and that score."""
    worst = np.int64(0)
    lowest = np.inf
    for s in range(k):
        reduced_score = support.theta[s] + reference - gather(marginals, support.slots[s])
        if reduced_score < lowest:
            worst, lowest = s, reduced_score
    return worst, lowest


@kernel
def _with_structure(support, k, slots, additional_slots, theta):
    """Return the support with a structure, added without weight if it is new; the size; and the structure's place."""
    place = find(support.slots, support.additional, k, slots, additional_slots)
    if place >= 0:
        return support, k, place
    support = grow(support, k)
    copy_into(support.slots[k], slots)
    copy_into(support.additional[k], additional_slots)
    support.weights[k], support.theta[k] = 0.0, theta
    return support, k + 1, k


@kernel
def _move(support, k, to, away, scale, largest, slope, marginals):
    """Move the weights and the marginals along a direction, by exact line search.

    Parameters
    ----------
    support : Support
    k : int
        Number of its structures.
    to, away : int
        Places of the structures towards which, and away from which, the direction leads; -1 for none.
    scale, largest : float
        See `_choose`.
    slope : float
        Derivative of the objective along the direction.
    marginals : array of shape (n_parts,)
    """
    weights = support.weights
    direction = new_floats(marginals.shape[0])
    for i in range(marginals.shape[0]):
        direction[i] = scale * marginals[i]
    if to >= 0:
        add_parts(direction, support.slots[to], 1.0)
    if away >= 0:
        add_parts(direction, support.slots[away], -1.0)
    step = _step_size(slope, dot(direction, direction), largest)
    for i in range(marginals.shape[0]):
        marginals[i] += step * direction[i]
    for s in range(k):
        weights[s] *= 1.0 + scale * step
    if to >= 0:
        weights[to] += step
    if away >= 0:
        # A full step drops the structure; set its weight to exactly zero.
        weights[away] = 0.0 if step == largest else weights[away] - step


@kernel
def _drop_weightless(support, k):
    """Remove the structures without weight; return the size."""
    kept = np.int64(0)
    for s in range(k):
        if support.weights[s] > 0.0:
            if kept < s:
                copy_into(support.slots[kept], support.slots[s])
                copy_into(support.additional[kept], support.additional[s])
                support.weights[kept], support.theta[kept] = support.weights[s], support.theta[s]
            kept += 1
    return kept


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
        work = new_constants(sizes[2], 0.0)
        reduced = new_floats(scores.shape[0])
        slots = new_parts(sizes[0])
        additional_slots = new_parts(sizes[1])
        # The factor of the support is not kept up to date.
        support, k, reference, n_iter = start(
            oracle, scores, additional, dims, sizes, limit, work, slots, additional_slots,
            (warm_slots, warm_additional, warm_weights),
        )  # fmt: skip
        if k == 0:
            return support.slots[:0], support.additional[:0], support.weights[:0], INFEASIBLE, 0.0, 0.0, n_iter
        aim = max(aim, rounding_of_gap(scores, additional, support.slots[0], support.additional[0]))

        step_number, has_best_weights = 0, False
        while True:
            if step_number % _REFRESH_EVERY == 0:
                mix(support.slots, k, support.weights, marginals)
            step_number += 1
            linear = dot(support.theta[:k], support.weights[:k]) + reference
            norm_squared = dot(marginals, marginals)
            for i in range(scores.shape[0]):
                reduced[i] = scores[i] - marginals[i]
            value = oracle(reduced, additional, dims, work, slots, additional_slots)
            n_iter += 1
            here = linear - norm_squared
            gap = certified_gap(value, here)
            if gap == np.inf or n_iter >= limit[0] or (gap <= aim and has_best_weights):
                break
            if gap <= aim:
                support, k, reference = _with_best_weights(support, k, scores, additional)
                step_number, has_best_weights = 0, True
                continue

            worst = np.int64(0)
            lowest = np.inf
            if variant != _VANILLA:
                worst, lowest = _worst_of(support, k, reference, marginals)
            to_found, from_worst, scale, largest = _choose(variant, gap, here - lowest, support.weights[worst])
            place = np.int64(-1)
            slope = scale * here
            if to_found:
                theta = score(scores, additional, slots, additional_slots) - reference
                support, k, place = _with_structure(support, k, slots, additional_slots, theta)
                slope += value
            if from_worst:
                slope -= lowest
            _move(support, k, place, worst if from_worst else np.int64(-1), scale, largest, slope, marginals)
            k = _drop_weightless(support, k)
        # Rounding in away steps can leave slightly negative marginals, so compute them from the weights.
        mix(support.slots, k, support.weights, marginals)
        found = support.slots[:k], support.additional[:k], support.weights[:k]
        return *found, BY_STRUCTURES, linear - 0.5 * norm_squared, max(gap, 0.0), n_iter

    frank_wolfe.__name__ = name
    return as_solver(frank_wolfe)


conditional_gradient = _solver("conditional_gradient", _VANILLA)
away_step = _solver("away_step", _AWAY_STEP)
pairwise = _solver("pairwise", _PAIRWISE)
