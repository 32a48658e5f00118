"""What solvers by facets return, and the certificate that they share.

They have the signature of `_polytope.protocol`, and give facets where others give structures; the number of structures
is then FACETS, and `n_iter` counts Newton steps. `slots` and `additional_slots` have a row for each facet, of a width
of their own, with -1 in unused places:

- trees: a row of `slots` is the set of words of a cut, and `weights` has the cut's multiplier;
- matchings and subsets: no rows; `weights` has the multipliers of the columns, and that of the size;
- rankings: a single row with the block of each item, -1 for those without points; `weights` has nothing but the last;
- chains: a row is an arc that carries flow, with the node that it leaves in `slots` and its transition in
  `additional_slots`, step by step; `weights` has the flow. Rows without a node follow for start and end, with their
  marginals.

Such a solution is also what solvers of trees and matchings start from, in place of structures.

`weights` has one more entry, which is 1 where the solution has ties, so that its facets do not tell its face.

A Jacobian product by facets has one signature for all structures::

    products(dims, marginals, slots, additional_slots, weights, direction, additional_direction, out, additional_out)

with what the solver returned, rows one after the other. The Jacobian is symmetric: the same serves `vjp` and `jvp`. To
`additional_out` is added.

A solver that does not get to the end soon gives up, with GAVE_UP in place of FACETS: another one had better be tried.
"""

import numpy as np
from numba import types

from .._core.jit import FLOATS, FLOATS_OUT, INTS, PARTS, Entry, FirstClass, kernel
from .support import certified_gap, rounding_of_gap

FACETS, GAVE_UP = -2, -3

# The most Newton steps; those that end need a third of them, and others had better go by structures.
MOST_STEPS = 60
# An entry whose price is this close to its row's threshold could as well be in the support.
TIE = 1e-9
# Marginals that are no larger may be nothing but rounding.
ROUNDING = 1e-12

# A cut with no more than this multiplier does not hold the solution.
BINDING = 1e-10

PRODUCTS_SIGNATURE = types.void(
    INTS, FLOATS, PARTS, PARTS, FLOATS, FLOATS, FLOATS, FLOATS_OUT, FLOATS_OUT
)
PRODUCTS = FirstClass(PRODUCTS_SIGNATURE)


def as_products(function):
    """Make a module-level function a Jacobian product by facets."""
    return Entry(function, PRODUCTS_SIGNATURE)


@kernel
def certify(oracle, scores, additional, dims, sizes, marginals, linear):
    """Return the objective of `marginals`, their gap by one call of the oracle, and what of it rounding can leave.

    `linear` is the score of the additional marginals.
    """
    reduced = np.empty(scores.shape[0])
    norm_squared = 0.0
    for i in range(scores.shape[0]):
        u = marginals[i]
        reduced[i] = scores[i] - u
        if u > 0.0:
            linear += scores[i] * u
            norm_squared += u * u
    slots, additional_slots = np.empty(sizes[0], np.int32), np.empty(sizes[1], np.int32)
    best = oracle(reduced, additional, dims, np.zeros(sizes[2]), slots, additional_slots)
    floor = rounding_of_gap(scores, additional, slots, additional_slots)
    return linear - 0.5 * norm_squared, max(certified_gap(best, linear - norm_squared), 0.0), floor


@kernel
def is_feasible(oracle, scores, additional, dims, sizes):
    """Tell whether any structure is allowed, by a call of the oracle where scores forbid parts."""
    slots, additional_slots = np.empty(sizes[0], np.int32), np.empty(sizes[1], np.int32)
    return oracle(scores, additional, dims, np.zeros(sizes[2]), slots, additional_slots) > -np.inf


@kernel
def has_ties(rows):
    """Tell whether an entry outside of the support is at its row's threshold."""
    for r in range(rows.u.shape[0]):
        least = rows.threshold[r] - TIE
        for i in range(rows.u.shape[1]):
            if rows.u[r, i] <= TIE and rows.shifted[r, i] >= least:
                return True
    return False
