"""SparseMAP over the simplex in closed form.

Used by `structure.py`.
"""

import numpy as np

from ..._numerics.facets import TIE
from ..._numerics.polytope_solver import PolytopeSolver
from ..._numerics.solver import BY_STRUCTURES, INFEASIBLE, as_solver
from ..._numerics.sparsemax import highest
from ..._numerics.support import is_distribution
from ..._numerics.tight_face import as_equations


@as_solver
def project_simplex(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Project onto the probability simplex (sparsemax: Niculae et al. 2018, section 2); see `_numerics.solver`.

    Only scores within 1 of the best can be in the support. Starting from these, drop those at or below the threshold
    until none is dropped (Michelot). Each round computes the threshold from the scores alone, so that a single score in
    the support gets a weight of exactly 1: AdaGrad makes a full step of the smallest residual.
    """
    best = highest(scores)
    threshold = -1.0
    count = -1
    kept = 0
    while best > -np.inf:
        total, kept = 0.0, 0
        for i in range(scores.shape[0]):
            # Relative to the best score, so that large scores cost no digits.
            above = scores[i] - best
            if above > threshold:
                total += above
                kept += 1
        if kept >= count >= 0:
            # The support has not shrunk: rounding moves a score at the threshold in and out.
            break
        threshold, count = (total - 1.0) / kept, kept
    slots = np.empty((kept, 1), np.int32)
    weights = np.empty(kept)
    if kept == 0:
        return slots, np.empty((0, 0), np.int32), weights, INFEASIBLE, 0.0, 0.0, 1
    k, objective, value, reached = 0, best, -np.inf, 0.0
    for i in range(scores.shape[0]):
        above = scores[i] - best
        u = max(above - threshold, 0.0)
        marginals[i] = u
        value = max(value, above - u)
        if u > 0.0:
            slots[k, 0] = i
            weights[k] = u
            k += 1
            objective += u * (above - 0.5 * u)
            reached += u * (above - u)
    gap = max(value - reached, 0.0) if is_distribution(weights[:k]) else np.inf
    return slots[:k], np.empty((k, 0), np.int32), weights[:k], BY_STRUCTURES, objective, gap, 1


@as_equations
def simplex_equations(dims, z, p, slots, weights):
    """Write down the equation of a face: the sum of the support; see `_numerics.tight_face`.

    The face is open if a part off the support is at the threshold.
    """
    block = np.empty(p.shape[0], np.int32)
    highest = np.int64(0)
    for i in range(p.shape[0]):
        block[i] = 0 if p[i] > 0.0 else -1
        highest = i if p[i] > p[highest] else highest
    least, is_tied = z[highest] - p[highest] - TIE, False
    for i in range(p.shape[0]):
        is_tied |= p[i] <= TIE and z[i] >= least
    return block, 1, np.zeros(1, np.int32), np.empty(0, np.int32), is_tied


def centre(problems, marginals, unary):
    """Multiply directions with the Jacobians: subtract the mean over the best choices.

    Parameters
    ----------
    problems : Problems
    marginals, unary : arrays
        Marginals and directions, flat, one problem after the other.
    """
    first, reduced = problems.score_ptr[:-1], problems.scores - marginals
    of_problem = np.repeat(np.arange(len(first)), np.diff(problems.score_ptr))
    best = np.maximum.reduceat(reduced, first)
    is_best = reduced >= (best - np.maximum(TIE, 1e-15 * np.abs(best)))[of_problem]
    means = np.add.reduceat(np.where(is_best, unary, 0.0), first) / np.add.reduceat(is_best, first, dtype=np.int64)
    return np.where(is_best, unary - means[of_problem], 0.0)


PROJECTION = PolytopeSolver("facets", project_simplex, None, equations=simplex_equations, of_many=centre)
