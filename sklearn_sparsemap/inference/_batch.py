"""Inference for problems that are laid out for the kernels: a batch is one compiled call a thread."""

from itertools import pairwise

import numpy as np

from .._jit import readonly
from .._threads import over_ranges
from ..solvers._polytope.batch import N_STRUCTURES, PROJECTIONS, SOLVERS, map_range, marginals_range, sparsemap_range
from ..solvers._polytope.protocol import AIM


def map_problems(structure, problems, *, n_jobs=None, many=True):
    """Find the MAP structures of problems laid out for the kernels.

    Returns
    -------
    slots : int32 array
        Those of problem i from slot_ptr[i] to slot_ptr[i + 1].
    slot_ptr : array of shape (n_problems + 1,)
    values : array of shape (n_problems,)
    """
    slot_ptr = readonly(np.concatenate([[0], np.cumsum(problems.sizes[:, 0])]), np.int64)
    slots, values = np.empty(slot_ptr[-1], np.int32), np.empty(len(problems.sizes))
    over_ranges(
        lambda start, stop: map_range(structure.oracle, problems, start, stop, slot_ptr, slots, values),
        np.diff(problems.score_ptr),
        n_jobs,
    )
    check_feasible(values > -np.inf, many)
    return slots, slot_ptr, values


def decode_problems(structure, problems, slots, slot_ptr):
    """Return the structures of what `map_problems` has found, decoded."""
    cuts = pairwise(slot_ptr.tolist())
    return [structure.decode(slots[start:stop], dims) for (start, stop), dims in zip(cuts, problems.dims)]


def sparsemap_problems(structure, problems, *, solver="active_set", tol=1e-9, max_iter=None, n_jobs=None, many=True):
    """Solve SparseMAP problems laid out for the kernels.

    Returns
    -------
    marginals : array, like ``problems.scores``
    statistics : array of shape (n_problems, 4)
        See solvers/_batch.py.
    supports : tuple of arrays
        Slots, additional slots and weights of all structures, one problem after the other.
    """
    if max_iter is None:
        max_iter = 10_000 + 100 * int(np.diff(problems.score_ptr).max())
    limit = np.array([min(max_iter, np.iinfo(np.int64).max)])
    run = solver_of(structure, solver)
    marginals, statistics = np.empty(len(problems.scores)), np.empty((len(problems.sizes), 4))
    pools = over_ranges(
        lambda start, stop: sparsemap_range(
            structure.oracle, run, problems, start, stop, AIM * tol, tol, limit, marginals, statistics
        ),
        np.diff(problems.score_ptr),
        n_jobs,
        limit=limit,
    )
    check_feasible(statistics[:, N_STRUCTURES] > 0, many)
    return marginals, statistics, tuple(np.concatenate(parts) for parts in zip(*pools))


def solver_of(structure, solver="active_set"):
    """Return the compiled solver for a structure: its closed form, where it has one."""
    closed_form = structure.projection is not None and solver == "active_set"
    return PROJECTIONS[structure.projection] if closed_form else SOLVERS[solver]


def marginal_problems(oracle, problems, *, n_jobs=None, many=True):
    """Compute the Gibbs marginals of problems laid out for the kernels.

    Returns
    -------
    marginals : array, like ``problems.scores``
    log_partition : array of shape (n_problems,)
    expected : array
        The additional marginals of all problems, one after the other.
    """
    lengths = problems.additional_stop - problems.additional_start
    expected_ptr = readonly(np.concatenate([[0], np.cumsum(lengths)]), np.int64)
    marginals, expected = np.empty(len(problems.scores)), np.empty(expected_ptr[-1])
    log_partition = np.empty(len(problems.sizes))
    over_ranges(
        lambda start, stop: marginals_range(
            oracle, problems, start, stop, expected_ptr, marginals, expected, log_partition
        ),
        np.diff(problems.score_ptr),
        n_jobs,
    )
    check_feasible(log_partition > -np.inf, many)
    return marginals, log_partition, expected


def marginal_oracle_of(structure, what):
    """Return the marginal oracle of a structure, or raise ValueError saying why `what` is not to be had."""
    if structure.marginal_oracle is None:
        raise ValueError(f"{what} needs marginals, which {structure!r} does not have: {structure.no_marginals}")
    return structure.marginal_oracle


def check_feasible(feasible, many):
    """Raise ValueError for the first problem that is marked as infeasible."""
    if not feasible.all():
        which = f"scores[{int(np.argmin(feasible))}]" if many else "scores"
        raise ValueError(
            f"infeasible: {which} (with the additional scores) forbid every structure; allow at least one by "
            "a score above -inf"
        )
