"""A duality gap from the multipliers of cuts, without a call of the oracle, for the facets of trees and matchings.

`rows` and `cuts` are as in `newton.py`.

Used by `structures`.
"""

import numpy as np

from .._core.jit import kernel
from .newton import largest_violation
from .support import EPS, FEASIBLE


@kernel
def is_in_polytope(rows, cuts, k, n_free):
    """Return whether all rows sum to 1, all cuts hold, and all cuts with a multiplier are tight."""
    for r in range(rows.u.shape[0]):
        total = 0.0
        for c in range(rows.u.shape[1]):
            total += rows.u[r, c]
        if not abs(total - 1.0) <= FEASIBLE:
            return False
    return largest_violation(cuts.multiplier, cuts.slope, k, n_free) <= FEASIBLE


@kernel
def certify_rows(scores, marginals, rows, cuts, k):
    """Return the objective of `marginals`, an upper bound of their gap, and the part of it that rounding can explain.

    The reduced score of the best structure is at most the sum of multipliers times bounds of the `k` cuts, and of each
    row's best reduced score minus its multipliers. The bound is as sharp as a call of the oracle, for which such scores
    are hard, because all structures of the face tie. It is a certificate if the marginals are in the polytope.
    """
    linear, norm_squared = 0.0, 0.0
    for i in range(scores.shape[0]):
        u = marginals[i]
        if u > 0.0:
            linear += scores[i] * u
            norm_squared += u * u
    gap, size = 0.0, 1.0
    for r in range(rows.u.shape[0]):
        row, u, top = rows.shifted[r], rows.u[r], -np.inf
        for c in range(row.shape[0]):
            top = max(top, row[c] - u[c])
        for c in range(row.shape[0]):
            if u[c] > 0.0:
                gap += u[c] * (top - (row[c] - u[c]))
                size += u[c] * (1.0 + abs(rows.scores[r, c]))
    for c in range(k):
        gap -= cuts.multiplier[c] * cuts.slope[c]
    return linear - 0.5 * norm_squared, max(gap, 0.0), 8.0 * EPS * size
