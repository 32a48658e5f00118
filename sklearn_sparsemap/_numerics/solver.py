"""The common signature of all solvers that kernels call.

A solver is compiled once, and passed to the loops over a batch or an epoch as a first-class function, like its oracle::

    solution = solver(
        oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
    )

The first four arguments and `sizes` are the problem, as in structures/_base.py. The solver aims at the duality gap
`aim`, and accepts `tol` if rounding keeps it from `aim`. `limit[0]` is the maximum number of oracle calls. It is read
before each call, so that another thread can stop the solver by setting it to 0. If there is a `limit[1]`, another call
may continue the solution, and the flow of a chain gives up after `limit[1]` rounds. The three `warm` arrays hold
structures for a warm start, one a row, and their weights; no row means a cold start. `marginals` is overwritten. The
solution is a tuple

- slots, additional slots: the structures of the support, one a row;
- weights: their probabilities;
- status: BY_STRUCTURES for structures; BY_FACETS if the three arrays hold facets (see `facets`); INFEASIBLE if no
  structure is allowed; GAVE_UP if another solver has to take over; LATER if that solver has to be compiled first;
- objective, gap: as in `SparseMAPResult`;
- n_iter: calls of the oracle.

Used by `_graphs`, `inference`, `losses`, `structures`, `active_set.py`, `argmax.py`, `competence.py` and
`frank_wolfe.py`.
"""

from numba import types

from .._core.jit import FLOATS, FLOATS_OUT, INTS, ORACLE, PARTS_2D_OUT, Entry, FirstClass

BY_STRUCTURES, BY_FACETS, INFEASIBLE, GAVE_UP, LATER = range(5)

# Factor of the requested gap at which the active set aims. The error of marginals can be as large as the square root of
# the gap; with this factor marginals are accurate to about `tol`. It costs little, because the active set is finite.
AIM = 1e-3
# Duality gap and maximum number of oracle calls of a structure in a factor graph, which is solved many times.
STRUCTURE_TOL = 1e-10
MAX_STRUCTURE_CALLS = 100_000

SOLVER_SIGNATURE = types.Tuple(
    (PARTS_2D_OUT, PARTS_2D_OUT, FLOATS_OUT, types.int64, types.float64, types.float64, types.int64)
)(
    ORACLE,
    FLOATS,
    FLOATS,
    INTS,
    INTS,
    types.float64,
    types.float64,
    INTS,
    PARTS_2D_OUT,
    PARTS_2D_OUT,
    FLOATS_OUT,
    FLOATS_OUT,
)
SOLVER = FirstClass(SOLVER_SIGNATURE)


def as_solver(function):
    """Make a module-level function a solver that every loop can call."""
    return Entry(function, SOLVER_SIGNATURE)
