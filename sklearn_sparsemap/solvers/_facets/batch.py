"""Which solver goes with a structure and its scores, and the products of many problems that were solved by facets."""

from collections import namedtuple

from numba import types

from ..._jit import FLOATS, INTS, INTS_2D, INTS_OUT, PARTS, entry
from .._flow.chains import chain_interior_point, chain_products
from .._flow.paths import flow_paths
from .._polytope.backward import DIRECTIONS, PRODUCTS
from .._polytope.batch import PROBLEMS
from .matchings import matching_facets, matching_products
from .protocol import PRODUCTS as FACET_PRODUCTS
from .rankings import ranking_facets, ranking_products
from .sparsemax import ENOUGH_IN_MATCHING, ENOUGH_IN_TREE, prefer_facets
from .subsets import subset_facets, subset_products
from .trees import tree_facets, tree_products

# By `Structure.facets`.
FACET_SOLVERS = {
    "chain": chain_interior_point,
    "matching": matching_facets,
    "ranking": ranking_facets,
    "subset": subset_facets,
    "tree": tree_facets,
}
FACET_PRODUCTS_OF = {
    "chain": chain_products,
    "matching": matching_products,
    "ranking": ranking_products,
    "subset": subset_products,
    "tree": tree_products,
}

# Those whose facets say which structures a solution is made of. Of all others the active set finds them.
PATHS_OF = {"chain": flow_paths}

# What solvers by facets returned, for problems one after the other: those of problem i begin at ptr[i] and end at
# ptr[i + 1]. `usable` is 0 where facets do not tell the face, or the problem was solved by structures.
Facets = namedtuple("Facets", ["slots", "slot_ptr", "additional", "additional_ptr", "weights", "weight_ptr", "usable"])
FACETS_TYPE = types.NamedTuple([PARTS, INTS, PARTS, INTS, FLOATS, INTS, INTS], Facets)

# By `Structure.facets`, where structures may be quicker.
ENOUGH = {"matching": ENOUGH_IN_MATCHING, "tree": ENOUGH_IN_TREE}


@entry(types.void(PROBLEMS, types.int64, types.int64, INTS_2D, FLOATS, INTS_OUT))
def prefer_facets_range(problems, start, stop, shapes, enough, prefers):
    """Judge problems start..stop by the supports that lines of their scores have on their own.

    `shapes[i]` is the shape of the matrix of scores; see `prefer_facets`.
    """
    for p in range(start, stop):
        scores = problems.scores[problems.score_ptr[p] : problems.score_ptr[p + 1]]
        prefers[p] = prefer_facets(scores, shapes[p, 0], shapes[p, 1], enough)


@entry(
    types.void(FACET_PRODUCTS, PROBLEMS, types.int64, types.int64, FACETS_TYPE, FLOATS, DIRECTIONS, PRODUCTS)
)
def facet_products_range(products, problems, start, stop, facets, marginals, directions, out):
    """Multiply directions with the Jacobians of those of problems start..stop whose facets are usable."""
    extra_ptr = directions.extra_ptr
    for i in range(start, stop):
        if not facets.usable[i]:
            continue
        first, last = problems.score_ptr[i], problems.score_ptr[i + 1]
        for a in range(extra_ptr[i], extra_ptr[i + 1]):
            out.extra[a] = 0.0
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
