"""What a solver is: the one signature under which kernels call any of them.

A solver is compiled once, and goes into the loops over a batch or an epoch as a first-class function, like the oracle
that it is given::

    solution = solver(
        oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
    )

The first four arguments and `sizes` are the problem, as in structures/_base.py. `aim` is the duality gap to reach and
`tol` the one that will do where rounding keeps the solver from its aim. `limit[0]` is the most calls of the oracle; it
is read before each call, so that another thread can end the solver by setting it to 0. The three `warm` arrays hold
structures to start from, one a row, and their weights; no row is a cold start. `marginals` is overwritten. The solution
is a tuple

- slots, additional slots: the structures of the support, one a row;
- weights: their probabilities;
- status: BY_STRUCTURES for the above; BY_FACETS if the three arrays hold facets (see `facets`); INFEASIBLE if no
  structure is allowed; GAVE_UP if another solver has to take over;
- objective, gap: as in `SparseMAPResult`;
- n_iter: calls of the oracle.
"""

from numba import types

from .._core.jit import FLOATS, FLOATS_OUT, INTS, ORACLE, PARTS_2D_OUT, Entry, FirstClass

BY_STRUCTURES, BY_FACETS, INFEASIBLE, GAVE_UP = range(4)

# The active set is finite, and stopping it early saves little: it aims below the gap asked for, so that marginals,
# whose error can be as large as the gap's square root, are right to about `tol` themselves.
AIM = 1e-3
# The duality gap of a structure in a factor graph, which is solved many times over, and the most calls of its oracle.
STRUCTURE_TOL = 1e-10
MOST_STRUCTURE_CALLS = 100_000


def most_calls(n_parts):
    """Return the most calls of the oracle where the user says nothing: far more than usual."""
    return 10_000 + 100 * int(n_parts)


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
