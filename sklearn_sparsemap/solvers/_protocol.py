"""What a solver is: the one signature under which kernels call any of them.

A solver is compiled once, and goes into the loops over a batch or an epoch as a first-class function, like the oracle
that it is given::

    solution = solver(
        oracle, scores, additional, dims, sizes, tol, max_iter, warm_slots, warm_additional, warm_weights, marginals
    )

The first four arguments and `sizes` are the problem, as in structures/_base.py. `tol` is the duality gap to reach and
`max_iter` the most calls of the oracle. The three `warm` arrays hold structures to start from, one a row, and their
weights; no row is a cold start. `marginals` is overwritten. The solution is a tuple

- slots, additional slots: the structures of the support, one a row (rows beyond their number are scratch);
- weights: their probabilities;
- k: the number of structures, or INFEASIBLE;
- objective, gap: as in `SparseMAPResult`;
- n_iter: calls of the oracle.
"""

from numba import types

from .._jit import FLOATS, FLOATS_OUT, INTS, ORACLE, PARTS_2D_OUT, Entry

INFEASIBLE = -1

SOLVER_SIGNATURE = types.Tuple(
    (PARTS_2D_OUT, PARTS_2D_OUT, FLOATS_OUT, types.int64, types.float64, types.float64, types.int64)
)(
    ORACLE,
    FLOATS,
    FLOATS,
    INTS,
    INTS,
    types.float64,
    types.int64,
    PARTS_2D_OUT,
    PARTS_2D_OUT,
    FLOATS_OUT,
    FLOATS_OUT,
)
SOLVER = types.FunctionType(SOLVER_SIGNATURE)


def as_solver(function):
    """Make a module-level function a solver that every loop can call."""
    return Entry(function, SOLVER_SIGNATURE)
