"""What a structure says of its polytope beyond a MAP oracle: a solver of its own, and when it is the quicker one."""

from collections import namedtuple
from collections.abc import Callable
from typing import NamedTuple

from numba import types

from .._core.jit import FLOATS, INTS, INTS_OUT, Entry, FirstClass, entry
from .loops import PROBLEMS
from .solver import SOLVER

PREFERENCE_SIGNATURE = types.boolean(FLOATS, INTS)
PREFERENCE = FirstClass(PREFERENCE_SIGNATURE)

# A solver by facets with one by structures, for loops that choose for each problem, as those of losses do.
# `prefers(scores, dims)` tells which problems are for facets; the active set takes over those that it gives up.
Solvers = namedtuple("Solvers", ["prefers", "by_facets", "by_structures"])
SOLVERS = types.NamedTuple([PREFERENCE, SOLVER, SOLVER], Solvers)


def as_preference(function):
    """Make a module-level function one that tells from scores and dims whether a solver is the quicker one."""
    return Entry(function, PREFERENCE_SIGNATURE)


@as_preference
def never(scores, dims):
    """Leave all problems to the active set."""
    return False


@as_preference
def always(scores, dims):
    """Leave no problem to the active set."""
    return True


class CallBudget(NamedTuple):
    """When to stop the active set and take a solver whose cost does not depend on the scores.

    Attributes
    ----------
    limits : callable
        ``limits(dims)`` returns two int arrays of shape (n_problems,): the calls of the oracle after which the active
        set has lost, and the number of structures from which on it is not tried at all. None leaves nothing to it.
    expect : Entry
        ``expect(problems, start, stop, n_structures)`` writes how many structures problems are likely to take.
    """

    limits: Callable
    expect: Entry


class PolytopeSolver(NamedTuple):
    """The solver of a structure that knows more of its polytope than a MAP oracle.

    Attributes
    ----------
    name : {"facets", "interior_point"}
        What users write in ``solver=``.
    solve : Entry
        See `solver` for the signature, and `facets` for what it returns.
    products : Entry or None
        The Jacobian product that goes with it; None if `solve` returns structures.
    prefers : Entry, default=always
        Tells which problems it solves sooner than the active set does.
    budget : CallBudget, default=None
        Decides in its place for batches whose problems are solved one by one.
    paths : Entry, default=None
        Returns the structures and weights that a solution consists of; None leaves them to the active set.
    equations : Entry, default=None
        Writes down the face of a solution, for factor graphs; see `tight_face`. None leaves these to the active set.
    """

    name: str
    solve: Entry
    products: Entry | None
    prefers: Entry = always
    budget: CallBudget | None = None
    paths: Entry | None = None
    equations: Entry | None = None


def solvers_of(polytope_solver, by_structures):
    """Return the `Solvers` of a structure, to be given to kernels. None is that of one without a solver of its own."""
    if polytope_solver is None or polytope_solver.prefers is never:
        return Solvers(never, by_structures, by_structures)
    return Solvers(polytope_solver.prefers, polytope_solver.solve, by_structures)


@entry(types.void(PREFERENCE, PROBLEMS, types.int64, types.int64, INTS_OUT))
def prefer_range(prefers, problems, start, stop, chosen):
    """Tell which of problems start..stop a solver prefers."""
    for i in range(start, stop):
        chosen[i] = prefers(problems.scores[problems.score_ptr[i] : problems.score_ptr[i + 1]], problems.dims[i])
