"""Jacobian products of SparseMAP from the structures of its solution (Niculae et al. 2018, Prop. 1).

The Jacobian is the orthogonal projector onto the direction space of the face on which the solution lies. The support
of a solver need not span that face (a structure of weight zero may be missing), so the face is completed first.

Used by `_graphs`, `inference`, `backward.py` and `tensors.py`.
"""

from collections import namedtuple

import numpy as np
from numba import types

from .._core.jit import (
    FLOATS,
    FLOATS_OUT,
    INTS,
    ORACLE,
    PARTS_2D_OUT,
    copy_into,
    entry,
    kernel,
    new_constants,
    new_floats,
    new_parts,
)
from .cholesky import dot, solve_lower, solve_upper
from .draw import fill_random
from .support import add_parts, append_if_independent, gather, grow, independent_support_of, mix, parts_repeat, score

# Largest reduced cost of a structure on the face, for scores of magnitude 1.
FACE_TOLERANCE = 1e-9
# Largest entry of a direction below which its face is not completed, because the inverse of the entry overflows.
_NEGLIGIBLE = 1e-300

# A direction to multiply with a Jacobian: its part for the scores and its part for the additional scores. If `is_all`,
# the face is used for this product only. `_graphs/faces.py` and `inference/_results` make it, too, by the order of its
# fields.
Direction = namedtuple("Direction", ["unary", "extra", "is_all"])
DIRECTION = types.NamedTuple([FLOATS, FLOATS, types.boolean], Direction)


@kernel
def _reduced_score(scores, additional, marginals, slots, additional_slots):
    return score(scores, additional, slots, additional_slots) - gather(marginals, slots)


@kernel
def respond(support, k, products):
    """Overwrite `products`, one entry for each structure, with the response of the weights on the face."""
    ones = new_constants(k, 1.0)
    solve_lower(support.factor, k, products)
    solve_lower(support.factor, k, ones)
    shift = dot(ones, products) / dot(ones, ones)
    for s in range(k):
        products[s] -= shift * ones[s]
    solve_upper(support.factor, k, products)


@kernel
def multiply(support, k, unary, extra, out, extra_out):
    """Multiply a direction of the scores and the additional scores with the Jacobian of mixtures of `k` structures."""
    products = new_floats(k)
    for s in range(k):
        products[s] = score(unary, extra, support.slots[s], support.additional[s])
    respond(support, k, products)
    mix(support.slots, k, products, out)
    mix(support.additional, k, products, extra_out)


@kernel
def _left_of(support, k, unary, extra):
    """Subtract from a direction its component that the support spans; return the largest remaining entry.

    All structures of the support have the same score under the remainder.
    """
    products = new_floats(k)
    for s in range(k):
        products[s] = score(unary, extra, support.slots[s], support.additional[s])
    respond(support, k, products)
    for s in range(k):
        add_parts(unary, support.slots[s], -products[s])
    return max(_largest(unary), _largest(extra))


@kernel
def _largest(values):
    largest = 0.0
    for i in range(values.shape[0]):
        largest = max(largest, abs(values[i]))
    return largest


@kernel
def span_face(oracle, scores, additional, dims, sizes, marginals, slots, additional_slots, direction, tolerance):
    """Find affinely independent structures that span the face of a solution.

    Call the oracle for the best structure under ``scores - marginals + epsilon d``, with both signs of epsilon, for
    directions d from which the span of the support was removed. A structure joins the support if its score is equal to
    that of the support, up to `tolerance` or rounding. If none joins, all structures of the face have the same score
    under d, and the rest of the face does not change the product with `direction`. If only this product is needed, that
    is enough. Otherwise continue with random directions until two of them find nothing new.

    Parameters
    ----------
    oracle, scores, additional, dims, sizes
        The problem, as in `solver.py`.
    marginals : array of shape (n_parts,)
        The solution.
    slots, additional_slots : int arrays with one row a structure
        The support of the solution.
    direction : Direction
    tolerance : float
        Largest reduced cost of a structure in the face.

    Returns
    -------
    support : Support
    k : int
        Number of its structures.
    """
    support, k = independent_support_of(slots, additional_slots, parts_repeat(sizes))
    best = -np.inf
    for s in range(slots.shape[0]):
        best = max(best, _reduced_score(scores, additional, marginals, slots[s], additional_slots[s]))
    size = 1.0 + abs(best)
    work = new_constants(sizes[2], 0.0)
    found = new_parts(sizes[0])
    found_additional = new_parts(sizes[1])
    n_parts, n_additional = scores.shape[0], additional.shape[0]
    unary = new_floats(n_parts)
    extra = new_floats(n_additional)
    tilted = new_floats(n_parts)
    tilted_additional = new_floats(n_additional)
    tolerance = max(tolerance, 1e-15 * size * sizes[0])
    state = np.uint64(88172645463325252)
    attempt, fruitless = 0, 0
    while fruitless < 2:
        if attempt == 0 or direction.is_all:
            copy_into(unary, direction.unary)
            copy_into(extra, direction.extra)
        else:
            state = fill_random(state, unary)
            extra[:] = 0.0
        attempt += 1
        least = max(1e-10 * max(_largest(unary), _largest(extra)), _NEGLIGIBLE)
        largest = _left_of(support, k, unary, extra)
        grown = False
        for sign in (1.0, -1.0):
            if largest <= least:
                break
            epsilon, trial = sign * 1e-6 / largest, 0
            # A structure close to the face can hide one on it; a smaller tilt distinguishes them.
            while trial < 3 or abs(epsilon) * largest > 5.0 * tolerance:
                trial += 1
                for i in range(scores.shape[0]):
                    tilted[i] = scores[i] - marginals[i] + epsilon * unary[i]
                for i in range(additional.shape[0]):
                    tilted_additional[i] = additional[i] + epsilon * extra[i]
                if not oracle(tilted, tilted_additional, dims, work, found, found_additional) > -np.inf:
                    break
                if best - _reduced_score(scores, additional, marginals, found, found_additional) <= tolerance:
                    support = grow(support, k)
                    before = k
                    k = append_if_independent(support, k, found, found_additional, 0.0, 0.0)
                    grown = k > before
                    break
                epsilon *= 0.1
            if grown:
                break
        if grown:
            fruitless = 0
        elif direction.is_all:
            fruitless = 2
        elif attempt > 1:
            fruitless += 1
    return support, k


_ROWS = types.UniTuple(PARTS_2D_OUT, 2)


@entry(_ROWS(ORACLE, FLOATS, FLOATS, INTS, INTS, FLOATS, _ROWS, DIRECTION, FLOATS, types.UniTuple(FLOATS_OUT, 2)))
def complete_face(oracle, scores, additional, dims, sizes, marginals, support, direction, extra, products):
    """Find affinely independent structures that span the face of a solution, and multiply a direction by its Jacobian.

    Parameters
    ----------
    oracle, scores, additional, dims, sizes, marginals, direction
        As in `span_face`.
    support : tuple of arrays
        `slots` and `additional_slots` of `span_face`.
    extra : array
        The direction of the additional scores in the product; the face is found without it.
    products : tuple of arrays
        Get the products of `direction.unary` and `extra` with the Jacobian.

    Returns
    -------
    slots, additional_slots : int arrays with one row a structure
    """
    spanning, k = span_face(
        oracle, scores, additional, dims, sizes, marginals, support[0], support[1], direction, FACE_TOLERANCE
    )
    multiply(spanning, k, direction.unary, extra, products[0], products[1])
    return spanning.slots[:k], spanning.additional[:k]
