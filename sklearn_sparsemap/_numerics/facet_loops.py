"""Jacobian products of many problems that facet solvers solved, in one compiled call.

Used by `inference`.
"""

from collections import namedtuple

from numba import types

from .._core.jit import FLOATS, INTS, PARTS, entry
from .backward import DIRECTIONS, PRODUCTS
from .facets import FACET_PRODUCTS
from .loops import PROBLEMS

# Solutions of facet solvers for several problems, concatenated: those of problem i begin at ptr[i] and end at ptr[i +
# 1]. `usable` is 0 if the facets do not determine the face, or if the problem was solved by the active set.
# `inference/_results/solutions.py` makes it by the order of its fields.
Facets = namedtuple("Facets", ["slots", "slot_ptr", "additional", "additional_ptr", "weights", "weight_ptr", "usable"])
FACETS_TYPE = types.NamedTuple([PARTS, INTS, PARTS, INTS, FLOATS, INTS, INTS], Facets)


@entry(types.void(FACET_PRODUCTS, PROBLEMS, types.int64, types.int64, FACETS_TYPE, FLOATS, DIRECTIONS, PRODUCTS))
def facet_products_range(products, problems, start, stop, facets, marginals, directions, out):
    """Multiply directions with the Jacobians of the problems in start..stop whose facets are usable.

    Parameters
    ----------
    products : Jacobian product
        See `facets`.
    problems : Problems
    start, stop : int
    facets : Facets
    marginals : array
        Flat, of all problems.
    directions : Directions
    out : Products
    """
    extra_ptr = directions.extra_ptr
    for i in range(start, stop):
        if not facets.usable[i]:
            continue
        first, last = problems.score_ptr[i], problems.score_ptr[i + 1]
        out.extra[extra_ptr[i] : extra_ptr[i + 1]] = 0.0
        products(
            problems.dims[i],
            marginals[first:last],
            facets.slots[facets.slot_ptr[i] : facets.slot_ptr[i + 1]],
            facets.additional[facets.additional_ptr[i] : facets.additional_ptr[i + 1]],
            facets.weights[facets.weight_ptr[i] : facets.weight_ptr[i + 1]],
            directions.unary[first:last],
            directions.extra[extra_ptr[i] : extra_ptr[i + 1]],
            out.unary[first:last],
            out.extra[extra_ptr[i] : extra_ptr[i + 1]],
        )
