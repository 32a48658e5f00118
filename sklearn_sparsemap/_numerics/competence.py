"""The choice between the active set and the specialised solver of a polytope, for each problem.

The active set costs a call of the MAP oracle a round, and products with all structures found so far. A specialised
solver costs about the same whatever the scores. So a competence says how many calls of the oracle the active set may
make before the specialised solver takes over: 0 if the latter is expected to be faster, `ALL` if it never is. It is
asked twice: before the first call and, if the problem is not solved by then, after the calls that the first answer
allows, when the gap tells how many more calls to expect. The active set continues from the structures it has found.

Used by `_graphs`, `_layers`, `_training`, `inference`, `losses` and `structures`.
"""

from collections import namedtuple

import numpy as np
from numba import types

from .._core.jit import FLOATS, INTS, Entry, FirstClass, by_address, kernel, new_ints
from .solver import GAVE_UP, INFEASIBLE, LATER, SOLVER

ALL = np.iinfo(np.int64).max  # calls of a problem that the active set solves alone

COMPETENCE_SIGNATURE = types.int64(FLOATS, FLOATS, INTS, FLOATS, types.float64, types.int64)
COMPETENCE = FirstClass(COMPETENCE_SIGNATURE)

# How `solve` treats a problem that needs the specialised solver. READY calls it. The others stand for it until it is
# compiled: STOPS returns the status LATER at once; REPLACED leaves the problem to the active set, and returns LATER.
READY, STOPS, REPLACED = range(3)

# The solvers of a structure, for `solve`. Problems of at most `few_parts` parts are left to the active set. `before`
# and `after` are competences. `readiness` is one of the constants above; if it is not READY, `after` and `own` are
# substitutes that are compiled.
Solvers = namedtuple("Solvers", ["before", "after", "own", "by_structures", "few_parts", "readiness"])
SOLVERS = by_address([COMPETENCE, COMPETENCE, SOLVER, SOLVER, types.int64, types.int64], Solvers)


def as_competence(function):
    """Make a module-level function a competence.

    Its arguments are the scores, additional scores and dims of a problem, and the marginals and the duality gap of the
    active set, and its number of calls so far. Before the first call, the marginals are arbitrary, the gap is infinite,
    and the number is 0.
    """
    return Entry(function, COMPETENCE_SIGNATURE)


@as_competence
def never(scores, additional, dims, marginals, gap, n_calls):
    """Use the active set for all problems."""
    return ALL


@as_competence
def always(scores, additional, dims, marginals, gap, n_calls):
    """Use the specialised solver for all problems."""
    return np.int64(0)


@kernel
def solve(oracle, solvers, problem, goal, warm, marginals, skips):
    """Solve one problem by the solver that is expected to take the least time; return as `solver.py` describes.

    Parameters
    ----------
    oracle : MAP oracle
    solvers : Solvers
    problem, goal, warm : tuples
        (scores, additional, dims, sizes), (aim, tol, limit) and (warm_slots, warm_additional, warm_weights); see
        `solver.py`.
    marginals : array of shape (n_parts,)
        Output.
    skips : bool
        Whether to call the specialised solver at once, if it is ready.
    """
    scores, additional, dims, sizes = problem
    aim, tol, limit = goal
    slots, additional_slots, weights = warm
    status, objective, gap, n_calls = np.int64(GAVE_UP), 0.0, np.inf, np.int64(0)
    is_ready, most, part = solvers.readiness == READY, np.int64(ALL), new_ints(np.int64(1))
    asks = scores.shape[0] > solvers.few_parts
    if skips and is_ready:
        most, asks = np.int64(0), False
    while True:
        # One call of a competence and one of a solver, because each takes long to compile.
        competence = solvers.before if n_calls == 0 else solvers.after
        if asks:
            most = competence(scores, additional, dims, marginals, gap, n_calls)
        is_own = most <= n_calls
        if is_own and solvers.readiness == STOPS:
            status = np.int64(LATER)
            break
        solver = solvers.own if is_own else solvers.by_structures
        is_last = most == 0 or most >= limit[0] or (is_own and not is_ready)
        part[0] = most - n_calls if most > 0 else -most
        # The specialised solver cannot start from structures.
        n_warm = 0 if is_own and is_ready else weights.shape[0]
        new_slots, new_additional, new_weights, status, objective, gap, n_iter = solver(
            oracle, scores, additional, dims, sizes, aim, tol, limit if is_last else part, slots[:n_warm],
            additional_slots[:n_warm], weights[:n_warm], marginals,
        )  # fmt: skip
        if status == GAVE_UP:
            most, asks = np.int64(ALL), False
            continue
        slots, additional_slots, weights = new_slots, new_additional, new_weights
        n_calls += n_iter
        if is_own and not is_ready:
            status = np.int64(LATER)
        if is_own or is_last or n_iter < part[0] or gap <= aim or status == INFEASIBLE:
            break
    return slots, additional_slots, weights, status, objective, gap, n_calls
