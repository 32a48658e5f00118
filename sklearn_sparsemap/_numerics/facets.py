"""Solutions by facets: the arrays that a facet solver returns, and the certificate that these solvers share.

A facet solver has the signature in `solver`, but returns facets of the polytope in place of structures. The status
is then BY_FACETS, and `n_iter` counts Newton steps. If the solver does not converge, or its marginals are not in the
polytope, the status is GAVE_UP, and the active set takes over. `slots` and `additional_slots` have a row for each
facet; -1 marks unused places:

- trees: a row of `slots` is the set of words of a cut; `weights` holds the multipliers of the cuts;
- matchings: no rows; `weights` holds the multipliers of the columns;
- subsets: if there are ties, one row with 0 for each free item and -1 for others; `weights` holds the multiplier of the
  size;
- rankings: one row with the block of each item, -1 for items without points; no multipliers;
- chains: a row is an arc with flow, its first node in `slots` and its transition in `additional_slots`, ordered by
  step; `weights` holds the flow. Rows without a node follow for start and end, with their marginals.

`weights` has one more entry. It is 1 if the solution has ties, so that its facets do not determine its face. Trees and
matchings can start from such a solution.

A Jacobian product by facets has one signature for all structures::

    products(dims, marginals, slots, additional_slots, weights, direction, additional_direction, out, additional_out)

Its arrays are those of the solution, rows one after the other. The Jacobian is symmetric, so one function serves `vjp`
and `jvp`. It overwrites `out` and adds to `additional_out`. `tight_face.face_products` makes one from the equations
of a face.

Used by `_graphs`, `structures`, `facet_loops.py`, `newton.py`, `rows.py` and `tight_face.py`.
"""

import numpy as np
from numba import types

from .._core.jit import FLOATS, FLOATS_OUT, INTS, PARTS, Entry, FirstClass, kernel
from .support import add_exactly, rounding_of_gap

# Maximum number of Newton steps. Solvers that converge need a third of it; the active set takes over for the others.
MAX_STEPS = 60
# An entry whose reduced score is this close to the threshold of its row may belong to the support: a tie.
TIE = 1e-9
# Difference of scores above which rounding can hide a tie. Derivatives then use the face spanned by structures, of
# which few have weight there.
HIDES_TIES = 1e4
# Marginals up to this size may be rounding error.
ROUNDING = 1e-12

# A cut whose multiplier is at most this does not bind.
BINDING = 1e-10

PRODUCTS_SIGNATURE = types.void(INTS, FLOATS, PARTS, PARTS, FLOATS, FLOATS, FLOATS, FLOATS_OUT, FLOATS_OUT)
FACET_PRODUCTS = FirstClass(PRODUCTS_SIGNATURE)


def as_products(function):
    """Make a module-level function a Jacobian product by facets."""
    return Entry(function, PRODUCTS_SIGNATURE)


@kernel
def certify(oracle, scores, additional, dims, sizes, marginals, linear):
    """Return the objective of `marginals`, their gap by one call of the oracle, and the gap that rounding can explain.

    The gap of a long structure is a small difference of large sums, so it is added up exactly.

    Parameters
    ----------
    oracle, scores, additional, dims, sizes
        The problem, as in `solver.py`.
    marginals : array of shape (n_parts,)
    linear : float
        The score of the additional marginals.
    """
    reduced = np.empty(scores.shape[0])
    norm_squared, gap, lost = 0.0, -linear, 0.0
    for i in range(scores.shape[0]):
        u = marginals[i]
        reduced[i] = scores[i] - u
        if u > 0.0:
            linear += scores[i] * u
            norm_squared += u * u
            gap, lost = add_exactly(gap, lost, -reduced[i] * u)
    slots = np.empty(sizes[0], np.int32)
    additional_slots = np.empty(sizes[1], np.int32)
    best = oracle(reduced, additional, dims, np.zeros(sizes[2]), slots, additional_slots)
    for i in slots:
        if i >= 0:
            gap, lost = add_exactly(gap, lost, reduced[i])
    for i in additional_slots:
        if i >= 0:
            gap, lost = add_exactly(gap, lost, additional[i])
    floor = rounding_of_gap(scores, additional, slots, additional_slots)
    return linear - 0.5 * norm_squared, max(gap, 0.0) if -np.inf < best < np.inf else np.inf, floor


@kernel
def is_feasible(oracle, scores, additional, dims, sizes):
    """Return whether any structure is allowed, by a call of the oracle."""
    slots = np.empty(sizes[0], np.int32)
    additional_slots = np.empty(sizes[1], np.int32)
    return oracle(scores, additional, dims, np.zeros(sizes[2]), slots, additional_slots) > -np.inf
