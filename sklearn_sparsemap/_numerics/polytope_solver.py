"""Specialised solvers of a structure's polytope, and the rule for when they are faster than the active set.

Used by `_graphs`, `_layers`, `_training`, `inference`, `losses`, `structures` and `testing`.
"""

from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

from numba import types

from .._core.jit import FLOATS, INTS, INTS_OUT, Entry, FirstClass, by_address, entry
from .loops import PROBLEMS, SOLVERS_BY_NAME
from .solver import SOLVER

PREFERENCE_SIGNATURE = types.boolean(FLOATS, INTS)
PREFERENCE = FirstClass(PREFERENCE_SIGNATURE)

# A facet solver and a solver by structures, for loops that choose one for each problem, such as those of losses.
# `prefers(scores, dims)` returns whether to try the facet solver. If that gives up, the other takes over.
Solvers = namedtuple("Solvers", ["prefers", "by_facets", "by_structures"])
SOLVERS = by_address([PREFERENCE, SOLVER, SOLVER], Solvers)


def as_preference(function):
    """Make a module-level function of scores and dims a preference: it returns whether a solver is faster."""
    return Entry(function, PREFERENCE_SIGNATURE)


@as_preference
def never(scores, dims):
    """Use the active set for all problems."""
    return False


@as_preference
def always(scores, dims):
    """Use the specialised solver for all problems."""
    return True


class PolytopeSolver(NamedTuple):
    """The specialised solver of a structure, which uses more than a MAP oracle.

    Attributes
    ----------
    name : {"facets", "flow"}
        The name of the solver in ``solver=``.
    solve : Entry
        See `solver` for the signature, and `facets` for what it returns.
    products : Entry or None
        The matching Jacobian product; None if `solve` returns structures.
    few_parts : int, default=0
        The active set solves all problems with at most this number of parts. There it takes at most about the time of
        the specialised solver, whose compilation takes seconds.
    prefers : Entry, default=always
        Whether it solves a larger problem faster than the active set, as a function of scores and dims.
    budget : Entry, default=None
        Replaces `prefers` for batches whose problems are solved one by one. ``budget(problems, start, stop, most,
        is_tried)`` writes for each problem the number of oracle calls after which the active set is stopped, and
        whether it is tried at all.
    paths : Entry, default=None
        Decomposes a solution into structures and weights. If None, the active set does it.
    equations : Entry, default=None
        Returns the equations of a solution's face, for factor graphs; see `tight_face`. None means the active set.
    of_many : callable, default=None
        Jacobian products of a closed form that returns structures, if these are many: ``of_many(problems, marginals,
        unary)`` in NumPy, for all problems at once.

    `inference`, `_graphs/choice.py` and `_layers` read these, too.
    """

    name: str
    solve: Entry
    products: Entry | None
    few_parts: int = 0
    prefers: Entry = always
    budget: Entry | None = None
    paths: Entry | None = None
    equations: Entry | None = None
    of_many: Callable[..., Any] | None = None


def solver_of(structure, solver="auto"):
    """Return a compiled solver of a structure that never gives up: its closed form, or a solver over structures."""
    own = structure.polytope_solver
    if own is not None and own.products is None and solver in ("auto", "active_set", "facets"):
        return own.solve
    return SOLVERS_BY_NAME["active_set" if solver == "auto" else solver]


def solvers_of(polytope_solver, by_structures):
    """Return the `Solvers` of a structure, for kernels; `polytope_solver` is None if it has no specialised solver."""
    if polytope_solver is None or polytope_solver.prefers is never:
        return Solvers(never, by_structures, by_structures)
    return Solvers(polytope_solver.prefers, polytope_solver.solve, by_structures)


@entry(types.void(PREFERENCE, PROBLEMS, INTS_OUT, types.int64, types.int64))
def prefer_range(prefers, problems, chosen, start, stop):
    """Write whether a solver is preferred for each of the problems start..stop."""
    for i in range(start, stop):
        chosen[i] = prefers(problems.scores[problems.score_ptr[i] : problems.score_ptr[i + 1]], problems.dims[i])
