"""The choice between the active set and the specialised solver of a polytope, for each problem.

The active set costs a call of the MAP oracle a round, and products with all structures found so far. A specialised
solver costs about the same whatever the scores. So a competence says how many calls of the oracle the active set may
make before it is asked again: `ALL` if the active set is expected to be faster. If the specialised solver is, it
returns `AT_ONCE`, or `at_most_rounds` of the number of rounds after which that solver gives up. The active set then
continues from the structures it has found.

Used by `_graphs`, `_layers`, `_training`, `inference`, `losses`, `structures`, `loops.py` and `polytope_solver.py`.
"""

from collections import namedtuple

import numpy as np
from numba import types

from .._core.jit import FLOATS, INTS, Entry, FirstClass, by_address, kernel, new_ints
from .solver import GAVE_UP, INFEASIBLE, LATER, SOLVER

ALL = np.iinfo(np.int64).max  # calls of a problem that the active set solves alone
AT_ONCE = np.int64(0)  # the active set makes no calls, because the specialised solver takes the problem to its end

COMPETENCE_SIGNATURE = types.int64(FLOATS, FLOATS, INTS, FLOATS, types.float64, types.int64)
COMPETENCE = FirstClass(COMPETENCE_SIGNATURE)

# How `solve` treats a problem that needs the specialised solver. READY calls it. The others stand for it until it is
# compiled: STOPS returns the status LATER at once; REPLACED leaves the problem to the active set, and returns LATER.
READY, STOPS, REPLACED = range(3)

# The solvers of a structure, for `solve`. Problems of at most `few_parts` parts are left to the active set. `readiness`
# is one of the constants above; if it is not READY, `own` is a substitute that is compiled.
Solvers = namedtuple("Solvers", ["competence", "own", "by_structures", "few_parts", "readiness"])
SOLVERS = by_address([COMPETENCE, SOLVER, SOLVER, types.int64, types.int64], Solvers)

# Rounds of the specialised solver if it is called at once.
_ROUNDS_AT_ONCE = 600


def as_competence(function):
    """Make a module-level function a competence.

    Its arguments are the scores, additional scores and dims of a problem, and the marginals and the duality gap of the
    active set, and its number of calls so far. Before the first call, the marginals are arbitrary, the gap is infinite,
    and the number is 0.
    """
    return Entry(function, COMPETENCE_SIGNATURE)


@kernel
def at_most_rounds(n_rounds):
    """Return the answer of a competence by which the specialised solver is next, and gives up after some rounds."""
    return -np.int64(n_rounds)


@as_competence
def never(scores, additional, dims, marginals, gap, n_calls):
    """Use the active set for all problems."""
    return ALL


@as_competence
def always(scores, additional, dims, marginals, gap, n_calls):
    """Use the specialised solver for all problems."""
    return AT_ONCE


@kernel
def solve(oracle, solvers, problem, goal, warm, marginals, skips):
    """Solve one problem by the solver that is expected to take the least time; return as `solver.py` describes.

    Parameters
    ----------
    oracle : MAP oracle
    solvers : Solvers
    problem, goal, warm : tuples
        (scores, additional, dims, sizes), (aim, tol, limit) and (warm_slots, warm_additional, warm_weights); see
        `solver.py`. Facets if it skips, otherwise structures.
    marginals : array of shape (n_parts,)
        Output.
    skips : bool
        Whether to call the specialised solver at once, if it is ready.
    """
    scores, additional, dims, sizes = problem
    aim, tol, limit = goal
    slots, additional_slots, weights = warm
    status = np.int64(GAVE_UP)
    objective = 0.0
    gap = np.inf
    n_calls = np.int64(0)
    is_ready = solvers.readiness == READY
    # `most` is the last answer of the competence: `ALL`, `AT_ONCE` (0), a number of oracle calls, or `at_most_rounds`
    # (minus a number of rounds). `asks` is whether the competence is asked before each call of a solver.
    most = np.int64(ALL)
    # The limits of one call of a solver: oracle calls, and rounds, which the specialised solver alone reads.
    part = new_ints(np.int64(2))
    asks = scores.shape[0] > solvers.few_parts
    if skips and is_ready:
        most = np.int64(-_ROUNDS_AT_ONCE)
        asks = False
    while True:
        if asks:
            most = solvers.competence(scores, additional, dims, marginals, gap, n_calls)
        # The specialised solver is next: at once (0 or less), or because the active set has made its calls.
        is_own = most <= n_calls
        if is_own and solvers.readiness == STOPS:
            status = np.int64(LATER)
            break
        # No call of a solver follows this one, unless it gives up.
        is_last = most == 0 or most >= limit[0] or (is_own and not is_ready)
        part[0] = limit[0] if is_own else min(most, limit[0]) - n_calls
        part[1] = -most
        # Whether the call reads `limit` itself, by which another thread can end it. It ignores the earlier calls
        # of the oracle, so these must be few.
        heeds = is_last and (is_own or 100 * n_calls <= limit[0])
        # The specialised solver cannot start from structures.
        n_warm = slots.shape[0]
        if is_own and is_ready and not skips:
            n_warm = 0
        n_weights = weights.shape[0] if n_warm > 0 else 0
        # One call for both solvers, because each takes long to compile.
        solver = solvers.own if is_own else solvers.by_structures
        new_slots, new_additional, new_weights, status, objective, gap, n_iter = solver(
            oracle, scores, additional, dims, sizes, aim, tol, limit if heeds else part, slots[:n_warm],
            additional_slots[:n_warm], weights[:n_weights], marginals,
        )  # fmt: skip
        if status == GAVE_UP:
            most = np.int64(ALL)
            asks = False
            if skips:
                # The active set cannot start from facets.
                slots = slots[:0]
                additional_slots = additional_slots[:0]
                weights = weights[:0]
            continue
        slots = new_slots
        additional_slots = new_additional
        weights = new_weights
        n_calls += n_iter
        if is_own and not is_ready and status != INFEASIBLE:
            status = np.int64(LATER)
        if is_own or is_last or n_iter < part[0] or gap <= aim or status == INFEASIBLE:
            break
    return slots, additional_slots, weights, status, objective, gap, n_calls
