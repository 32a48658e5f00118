"""MAP and SparseMAP of a range of the problems of a batch, in one compiled call each.

Used by `_graphs`, `_training`, `inference`, `losses`, `structures`, `testing` and most files here.
"""

from collections import namedtuple

import numpy as np
from numba import types

from .._core.jit import (
    FLOATS,
    FLOATS_2D_OUT,
    FLOATS_OUT,
    INTS,
    INTS_2D,
    ORACLE,
    PARTS_OUT,
    by_address,
    copy_into,
    entry,
    kernel,
    new_constants,
    new_floats,
    new_part_rows,
    new_parts,
    readonly,
)
from .._core.offsets import offsets, ragged_indices
from .active_set import active_set
from .competence import SOLVERS, solve
from .frank_wolfe import away_step, conditional_gradient, pairwise

# Problem i has scores[score_ptr[i]:score_ptr[i + 1]], additional[additional_start[i]:additional_stop[i]] (problems may
# share additional scores), dims[i] and sizes[i] (the result of `Structure.layout`). All arrays are made read-only with
# `readonly`. For `sparsemap_range`, a single row of `dims` may apply to all problems. `inference` and `_training` make
# problems by the order of the fields; they, `losses` and `_layers` read them.
Problems = namedtuple(
    "Problems", ["scores", "score_ptr", "additional", "additional_start", "additional_stop", "dims", "sizes"]
)
PROBLEMS = by_address([FLOATS, INTS, FLOATS, INTS, INTS, INTS_2D, INTS_2D], Problems)

# Solvers by their name in the public parameter `solver`.
SOLVERS_BY_NAME = {
    "active_set": active_set,
    "cg": conditional_gradient,
    "away_step": away_step,
    "pairwise": pairwise,
}

# Columns of the statistics of a batch. The last three are the numbers of entries that a problem has in each pool.
N_STATISTICS = 7
OBJECTIVE, GAP, N_ITER, STATUS, N_SLOTS, N_ADDITIONAL, N_WEIGHTS = range(N_STATISTICS)


@entry(types.void(ORACLE, PROBLEMS, types.int64, types.int64, INTS, PARTS_OUT, FLOATS_OUT))
def map_range(oracle, problems, start, stop, slot_ptr, slots, values):
    """Compute the MAP structures of problems start..stop.

    Parameters
    ----------
    oracle : MAP oracle
    problems : Problems
    start, stop : int
    slot_ptr : int array of shape (n_problems + 1,)
    slots : int array
        The structure of problem i is written to ``slots[slot_ptr[i]:slot_ptr[i + 1]]``.
    values : array of shape (n_problems,)
        Gets the scores of the structures.
    """
    for i in range(start, stop):
        work = new_constants(problems.sizes[i, 2], 0.0)
        additional_slots = new_parts(problems.sizes[i, 1])
        values[i] = oracle(
            problems.scores[problems.score_ptr[i] : problems.score_ptr[i + 1]],
            problems.additional[problems.additional_start[i] : problems.additional_stop[i]],
            problems.dims[i],
            work,
            slots[slot_ptr[i] : slot_ptr[i + 1]],
            additional_slots,
        )


@entry(types.void(ORACLE, PROBLEMS, types.int64, types.int64, INTS, FLOATS_OUT, FLOATS_OUT, FLOATS_OUT))
def marginals_range(oracle, problems, start, stop, expected_ptr, marginals, expected, log_partition):
    """Compute the Gibbs marginals of problems start..stop.

    Parameters
    ----------
    oracle : marginal oracle
    problems : Problems
    start, stop : int
    expected_ptr : int array of shape (n_problems + 1,)
    marginals : array
        Gets the marginals, in the layout of the scores.
    expected : array
        The additional marginals of problem i are written from ``expected_ptr[i]`` on.
    log_partition : array of shape (n_problems,)
    """
    none = new_parts(np.int64(0))
    for i in range(start, stop):
        work = new_floats(problems.sizes[i, 3])
        first, last = problems.score_ptr[i], problems.score_ptr[i + 1]
        additional = problems.additional[problems.additional_start[i] : problems.additional_stop[i]]
        log_partition[i] = oracle(problems.scores[first:last], additional, problems.dims[i], work, none, none)
        n_parts = last - first
        copy_into(marginals[first:], work[:n_parts])
        copy_into(expected[expected_ptr[i] :], work[n_parts : n_parts + additional.shape[0]])


def take_problems(problems, chosen):
    """Return a selection of the problems."""
    lengths = np.diff(problems.score_ptr)[chosen]
    return Problems(
        readonly(problems.scores[ragged_indices(problems.score_ptr[:-1][chosen], lengths)]),
        offsets(lengths),
        problems.additional,
        *(readonly(array[chosen], np.int64) for array in problems[3:]),
    )


@kernel
def pour(pool, used, values):
    """Append values to the used entries of a pool; return the pool, larger if it was full, and their new number."""
    end = used + values.shape[0]
    if end > pool.shape[0]:
        larger = np.empty(2 * end, pool.dtype)
        copy_into(larger, pool[:used])
        pool = larger
    copy_into(pool[used:], values)
    return pool, end


@kernel
def _pour_rows(pool, used, rows):
    """Append the rows of an array; see `pour`. (`reshape` takes much longer to compile.)"""
    for r in range(rows.shape[0]):
        pool, used = pour(pool, used, rows[r])
    return pool, used


_SUPPORTS = types.Tuple((PARTS_OUT, PARTS_OUT, FLOATS_OUT))


@entry(
    _SUPPORTS(
        ORACLE, SOLVERS, PROBLEMS, types.float64, types.float64, INTS, FLOATS_OUT, FLOATS_2D_OUT, types.int64,
        types.int64,
    )
)  # fmt: skip
def sparsemap_range(oracle, solvers, problems, aim, tol, limit, marginals, statistics, start, stop):
    """Solve problems start..stop.

    Parameters
    ----------
    oracle : MAP oracle
    solvers : Solvers
    problems : Problems
    aim, tol, limit
        As in `solver.py`.
    marginals : array
        Gets the marginals, in the layout of the scores.
    statistics : array of shape (n_problems, N_STATISTICS)
        Overwritten; see the names of columns above.
    start, stop : int

    Returns
    -------
    slots, additional_slots, weights : arrays
        The concatenated supports. `statistics` contains the number of entries of each problem.
    """
    # As int64: with a literal 0 as an argument Numba would compile a second version of the callee.
    n_slots_used = np.int64(0)
    n_additional_used = np.int64(0)
    n_weights_used = np.int64(0)
    slot_pool = new_parts(np.int64(64))
    additional_pool = new_parts(np.int64(64))
    weight_pool = new_floats(np.int64(16))
    no_slots = new_part_rows(np.int64(0), np.int64(0))
    no_weights = new_floats(np.int64(0))
    for i in range(start, stop):
        slots, additional_slots, weights, status, objective, gap, n_iter = solve(
            oracle,
            solvers,
            (
                problems.scores[problems.score_ptr[i] : problems.score_ptr[i + 1]],
                problems.additional[problems.additional_start[i] : problems.additional_stop[i]],
                problems.dims[min(i, problems.dims.shape[0] - 1)],
                problems.sizes[i],
            ),
            (aim, tol, limit),
            (no_slots, no_slots, no_weights),
            marginals[problems.score_ptr[i] : problems.score_ptr[i + 1]],
            False,
        )
        statistics[i, OBJECTIVE] = objective
        statistics[i, GAP] = gap
        statistics[i, N_ITER] = n_iter
        statistics[i, STATUS] = status
        statistics[i, N_SLOTS] = slots.size
        statistics[i, N_ADDITIONAL] = additional_slots.size
        statistics[i, N_WEIGHTS] = weights.shape[0]
        slot_pool, n_slots_used = _pour_rows(slot_pool, n_slots_used, slots)
        additional_pool, n_additional_used = _pour_rows(additional_pool, n_additional_used, additional_slots)
        weight_pool, n_weights_used = pour(weight_pool, n_weights_used, weights)
    return slot_pool[:n_slots_used], additional_pool[:n_additional_used], weight_pool[:n_weights_used]
