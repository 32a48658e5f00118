"""Derivatives of Gibbs marginals along directions of the scores, for every marginal oracle.

The derivative along a direction d is the covariance of the parts with the score of d. It is the slope at t = 0 of the
marginals at ``scores + t d``, and is computed from four of them, by the central difference of fourth order. Marginals
depend on t by exponentials of t times the score of d. So if the step is a small fraction of the inverse of the largest
score of d, the error of the difference is as small as that of rounding, and the relative error is about 1e-10.

Used by `inference` and `losses`.
"""

import numpy as np
from numba import types

from .._core.jit import FLOATS, FLOATS_OUT, INTS, ORACLE, copy_into, entry, kernel, new_constants, new_floats, new_parts
from .loops import PROBLEMS

# Step of the difference, in units of the inverse of the largest score of the direction. The error of the difference is
# about _STEP^4 / 30, and that of rounding about 1e-16 / _STEP for each part of a structure.
_STEP = 2.0**-8
# Largest score of a direction below which its derivative is zero, because the step overflows.
_NEGLIGIBLE = 1e-300


@kernel
def derivative_of_marginals(oracle, scores, additional, dims, sizes, direction, marginals):
    """Return the derivative of the Gibbs marginals of a problem along a direction of the scores.

    Parameters
    ----------
    oracle : marginal oracle
    scores, additional, dims, sizes : arrays
        The problem, which allows some structure.
    direction : array of shape (n_parts + n_additional,)
        It is set to zero in parts that have no probability. With NaN in another part, all slopes are NaN.
    marginals : array of shape (n_parts + n_additional,)
        Marginals and additional marginals.

    Returns
    -------
    slopes : array of shape (n_parts + n_additional,)
    """
    n_parts, n_additional = scores.shape[0], additional.shape[0]
    slopes = new_constants(n_parts + n_additional, 0.0)
    largest, largest_additional = 0.0, 0.0
    for j in range(n_parts + n_additional):
        if marginals[j] == 0.0:
            direction[j] = 0.0
        if np.isnan(direction[j]):
            # The largest entries below ignore NaN.
            return new_constants(n_parts + n_additional, np.nan)
        if j < n_parts:
            largest = max(largest, abs(direction[j]))
        else:
            largest_additional = max(largest_additional, abs(direction[j]))
    extent = sizes[0] * largest + sizes[1] * largest_additional
    if extent <= _NEGLIGIBLE:
        return slopes
    none = new_parts(np.int64(0))
    work = new_floats(sizes[3])
    moved = new_floats(n_parts)
    moved_additional = new_floats(n_additional)
    step = _STEP / extent
    for place in range(-2, 3):
        if place == 0:
            continue
        for j in range(n_parts):
            moved[j] = scores[j] + place * step * direction[j]
        for j in range(n_additional):
            moved_additional[j] = additional[j] + place * step * direction[n_parts + j]
        oracle(moved, moved_additional, dims, work, none, none)
        # The weights are 1, -8, 8 and -1, divided by twelve steps.
        weight = 8.0 * place if abs(place) == 1 else -0.5 * place
        for j in range(n_parts + n_additional):
            # The weights sum to zero. Without the marginals, rounding of the sum would be larger.
            slopes[j] += weight / (12.0 * step) * (work[j] - marginals[j])
    return slopes


@entry(types.void(ORACLE, PROBLEMS, types.int64, types.int64, INTS, FLOATS, FLOATS, FLOATS_OUT, FLOATS_OUT))
def derivatives_range(
    oracle, problems, start, stop, additional_ptr, directions, additional_directions, slopes, additional_slopes
):
    """Compute the derivatives of the Gibbs marginals of problems start..stop along a direction each.

    Parameters
    ----------
    oracle : marginal oracle
    problems : Problems
    start, stop : int
    additional_ptr : int array of shape (n_problems + 1,)
        Problem i has the additional directions from ``additional_ptr[i]`` to ``additional_ptr[i + 1]``.
    directions, additional_directions : arrays
        The former in the layout of the scores.
    slopes, additional_slopes : arrays
        Output, like the directions.
    """
    none = new_parts(np.int64(0))
    for i in range(start, stop):
        first, last = problems.score_ptr[i], problems.score_ptr[i + 1]
        own, own_end = additional_ptr[i], additional_ptr[i + 1]
        scores = problems.scores[first:last]
        additional = problems.additional[problems.additional_start[i] : problems.additional_stop[i]]
        n_parts = last - first
        direction = new_floats(n_parts + own_end - own)
        copy_into(direction, directions[first:last])
        copy_into(direction[n_parts:], additional_directions[own:own_end])
        work = new_floats(problems.sizes[i, 3])
        oracle(scores, additional, problems.dims[i], work, none, none)
        found = derivative_of_marginals(
            oracle, scores, additional, problems.dims[i], problems.sizes[i], direction, work
        )  # fmt: skip
        copy_into(slopes[first:last], found[:n_parts])
        copy_into(additional_slopes[own:own_end], found[n_parts:])
