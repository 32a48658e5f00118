"""The choice between the active set and the specialised solver of a polytope, for each problem.

The active set costs a call of the MAP oracle a round, and products with all structures found so far. A specialised
solver costs about the same whatever the scores. So a competence says how many calls of the oracle the active set may
make before the specialised solver takes over: 0 if the latter is expected to be faster, `ALL` if it never is. It is
asked twice: before the first call and, if the problem is not solved by then, after the calls that the first answer
allows, when the gap tells how many more calls to expect. The active set continues from the structures it has found.

Used by `_graphs`, `_layers`, `_training`, `losses` and `structures`.
"""

from collections import namedtuple

import numpy as np
from numba import types

from .._core.jit import FLOATS, INTS, Entry, FirstClass, by_address, kernel
from .solver import GAVE_UP, INFEASIBLE, LATER, SOLVER

ALL = np.iinfo(np.int64).max  # calls of a problem that the active set solves alone

COMPETENCE_SIGNATURE = types.int64(FLOATS, FLOATS, INTS, FLOATS, types.float64, types.int64)
COMPETENCE = FirstClass(COMPETENCE_SIGNATURE)

# The solvers of a structure, for `solve`. Problems of at most `few_parts` parts are left to the active set. `before`
# and `after` are competences. If `is_ready` is 0, `after` and `own` are not compiled, and `solve` returns LATER for a
# problem that needs them.
Solvers = namedtuple("Solvers", ["before", "after", "own", "by_structures", "few_parts", "is_ready"])
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
    n_iter = np.int64(0)
    part = np.zeros(1, np.int64)
    is_small = scores.shape[0] <= solvers.few_parts
    for stage in range(2 if skips and solvers.is_ready != 0 else 0, 3):
        most = np.int64(ALL)
        if is_small:
            pass
        elif stage == 0:
            most = solvers.before(scores, additional, dims, marginals, np.inf, np.int64(0))
        elif solvers.is_ready == 0:
            status = np.int64(LATER)
            break
        elif stage == 1:
            most = solvers.after(scores, additional, dims, marginals, gap, n_calls)
        else:
            n = slots.shape[0] if skips else 0
            found = solvers.own(
                oracle, scores, additional, dims, sizes, aim, tol, limit, slots[:n], additional_slots[:n],
                weights[: n + 1 if n else 0], marginals,
            )  # fmt: skip
            if found[3] != GAVE_UP:
                return found
            if skips:
                # The active set cannot start from facets.
                slots, additional_slots, weights = slots[:0], additional_slots[:0], weights[:0]
        if most <= n_calls:
            continue
        is_last = most >= limit[0]
        part[0] = most - n_calls
        slots, additional_slots, weights, status, objective, gap, n_iter = solvers.by_structures(
            oracle, scores, additional, dims, sizes, aim, tol, limit if is_last else part, slots, additional_slots,
            weights, marginals,
        )  # fmt: skip
        n_calls += n_iter
        if is_last or n_iter < part[0] or gap <= aim or status == INFEASIBLE:
            break
    return slots, additional_slots, weights, status, objective, gap, n_calls
