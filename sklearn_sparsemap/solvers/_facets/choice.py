"""A solver by facets with one by structures, for loops that choose for each problem, as those of losses do."""

from collections import namedtuple

from numba import types

from ..._jit import FLOATS, INTS, Entry, FirstClass
from .._polytope.protocol import SOLVER
from .batch import FACET_SOLVERS
from .sparsemax import ENOUGH_IN_MATCHING, ENOUGH_IN_TREE, prefer_facets

PREFERENCE_SIGNATURE = types.boolean(FLOATS, INTS)

# `prefers(scores, dims)` tells which problems are for facets; where these give up, structures are left.
Solvers = namedtuple("Solvers", ["prefers", "by_facets", "by_structures"])
SOLVERS = types.NamedTuple([FirstClass(PREFERENCE_SIGNATURE), SOLVER, SOLVER], Solvers)


def _as_preference(function):
    return Entry(function, PREFERENCE_SIGNATURE)


@_as_preference
def never(scores, dims):
    """Leave all problems to structures."""
    return False


@_as_preference
def _always(scores, dims):
    return True


@_as_preference
def _in_trees(scores, dims):
    return prefer_facets(scores, dims[0] + 1, dims[0], ENOUGH_IN_TREE)


@_as_preference
def _in_matchings(scores, dims):
    return prefer_facets(scores, dims[0], dims[1], ENOUGH_IN_MATCHING)


# By `Structure.facets`. Flows of chains are for single problems that are known to be hard.
_PREFERENCES = {"matching": _in_matchings, "ranking": _always, "subset": _always, "tree": _in_trees}


def solvers_of(facets, by_structures):
    """Return the `Solvers` of a structure with these facets (None without), to be given to kernels."""
    if facets not in _PREFERENCES:
        return Solvers(never, by_structures, by_structures)
    return Solvers(_PREFERENCES[facets], FACET_SOLVERS[facets], by_structures)
