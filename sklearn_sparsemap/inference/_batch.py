"""Inference for problems that are laid out for the kernels, with one compiled call for each thread.

Used by `_layers`, `_training`, `estimators`, `inference/_results` and `losses`.
"""

from functools import partial
from itertools import pairwise

import numpy as np

from .._core.jit import readonly
from .._core.offsets import offsets, ragged_indices
from .._core.threads import over_ranges
from .._numerics.argmax import gibbs_argmax, map_argmax
from .._numerics.loops import (
    GAP,
    N_ADDITIONAL,
    N_ITER,
    N_SLOTS,
    N_STATISTICS,
    N_WEIGHTS,
    SOLVERS_BY_NAME,
    STATUS,
    map_range,
    marginals_range,
    sparsemap_range,
    take_problems,
)
from .._numerics.polytope_solver import always, prefer_range, solver_of
from .._numerics.solver import AIM, GAVE_UP, INFEASIBLE

# Solvers of the regularised argmaxes other than SparseMAP, by their names in the recipes of `losses`.
OTHER_ARGMAXES = {"map": map_argmax, "gibbs": gibbs_argmax}
# Structures that have a specialised solver, by its name.
SPECIALISED_SOLVERS = {
    "facets": "Simplex, Matching, Subset, Ranking and DependencyTree(projective=False)",
    "flow": "LinearChain",
}


def default_max_iter(n_parts):
    """Return the default maximum number of oracle calls, far above usual numbers."""
    return 10_000 + 100 * int(n_parts)


def _n_parts(problems):
    """Return the number of parts of each problem; for a single problem this is four times as fast as `np.diff`."""
    return problems.score_ptr[1:] - problems.score_ptr[:-1]


def map_problems(structure, problems, *, n_jobs=None, many=True, check=True):
    """Compute the MAP structures of problems that are laid out for the kernels.

    Parameters
    ----------
    structure : Structure
    problems : Problems
    n_jobs : int, default=None
    many : bool, default=True
        Whether error messages contain the index of the sample.
    check : bool, default=True
        Whether to raise ValueError if all structures of a problem are forbidden. If not, it has the value -inf.

    Returns
    -------
    slots : int32 array
        The slots of problem i are from slot_ptr[i] to slot_ptr[i + 1].
    slot_ptr : array of shape (n_problems + 1,)
    values : array of shape (n_problems,)
    """
    slot_ptr = offsets(problems.sizes[:, 0])
    slots, values = np.empty(slot_ptr[-1], np.int32), np.empty(len(problems.sizes))
    over_ranges(
        lambda start, stop: map_range(structure.oracle, problems, start, stop, slot_ptr, slots, values),
        _n_parts(problems),
        n_jobs,
    )
    if check:
        check_feasible(values > -np.inf, many, structure, problems)
    return slots, slot_ptr, values


def decode_problems(structure, problems, slots, slot_ptr):
    """Decode one structure for each problem; problem i has the slots from slot_ptr[i] to slot_ptr[i + 1]."""
    if structure._decodes_stacks and (problems.dims == problems.dims[0]).all():
        return list(structure.decode(slots.reshape(len(problems.dims), -1), problems.dims[0]))
    cuts = pairwise(slot_ptr.tolist())
    return [structure.decode(slots[start:stop], dims) for (start, stop), dims in zip(cuts, problems.dims)]


def argmax_problems(
    structure, problems, argmax="sparsemap", *, solver="auto", tol=1e-9, max_iter=None, n_jobs=None, many=True
):
    """Compute a regularised argmax for problems that are laid out for the kernels.

    Parameters
    ----------
    structure : Structure
        For ``"gibbs"`` it must have a marginal oracle.
    problems : Problems
    argmax : {"sparsemap", "map", "gibbs"}, default="sparsemap"
        MAP and Gibbs marginals ignore `solver`, `tol` and `max_iter`. The objective of Gibbs marginals is the
        log-partition function.
    solver, tol, max_iter, n_jobs
        As in `sparsemap`.
    many : bool, default=True
        Whether error messages contain the index of the sample.

    Returns
    -------
    marginals : array, like ``problems.scores``
    statistics : array of shape (n_problems, N_STATISTICS)
        See _numerics/loops.py.
    supports : tuple of arrays
        Slots, additional slots and weights of all structures, or of facets, one problem after the other.
    """
    n_parts, statistics, solution = _n_parts(problems), np.zeros((len(problems.sizes), N_STATISTICS)), None
    if max_iter is None:
        max_iter = default_max_iter(n_parts.max())
    # Kernels take no other ints, such as int32.
    max_iter = min(int(max_iter), np.iinfo(np.int64).max)
    oracle, specialised = structure.oracle, structure.polytope_solver
    if argmax != "sparsemap":
        oracle = structure.marginal_oracle if argmax == "gibbs" else oracle
        stages = [(OTHER_ARGMAXES[argmax], None, None)]
    elif solver in SOLVERS_BY_NAME or (solver == "auto" and specialised is None):
        stages = [(solver_of(structure, solver), None, max_iter)]
    elif solver != "auto" and (specialised is None or specialised.name != solver):
        which = SPECIALISED_SOLVERS[solver]
        raise ValueError(f"solver={solver!r} is for {which}; got {structure!r}: use solver='auto'")
    else:
        stages = _stages(specialised, solver == "auto", problems, tol, max_iter, n_jobs, statistics)
    for entry, chosen, most in stages:
        is_all = chosen is None or len(chosen) == len(n_parts)
        part = problems if is_all else take_problems(problems, chosen)
        limit = None if most is None else np.array([most])
        found = np.empty(len(part.scores)), np.empty((len(part.sizes), N_STATISTICS))
        arguments = oracle, entry, part, AIM * tol, tol, np.zeros(1, np.int64) if limit is None else limit, *found
        pools = over_ranges(partial(sparsemap_range, *arguments), _n_parts(part), n_jobs, limit=limit)
        # A single problem has one range.
        found = *found, pools[0] if len(pools) == 1 else tuple(map(np.concatenate, zip(*pools)))
        solution = found if is_all else _merge(problems, solution, chosen, found)
        statistics[:] = solution[1]
    check_feasible(solution[1][:, STATUS] != INFEASIBLE, many, structure, problems)
    return solution


def marginal_problems(structure, problems, *, n_jobs=None, many=True):
    """Compute the Gibbs marginals of problems that are laid out for the kernels.

    With many additional scores, this takes half the time and memory of `argmax_problems`.

    Returns
    -------
    marginals : array, like ``problems.scores``
    log_partition : array of shape (n_problems,)
    expected : array
        The additional marginals of all problems, one after the other.
    """
    oracle, lengths = structure.marginal_oracle, problems.additional_stop - problems.additional_start
    expected_ptr = offsets(lengths)
    marginals, expected = np.empty(len(problems.scores)), np.empty(expected_ptr[-1])
    log_partition = np.empty(len(problems.sizes))
    over_ranges(
        lambda start, stop: marginals_range(
            oracle, problems, start, stop, expected_ptr, marginals, expected, log_partition
        ),
        _n_parts(problems),
        n_jobs,
    )
    check_feasible(log_partition > -np.inf, many, structure, problems)
    return marginals, log_partition, expected


def _stages(special, is_auto, problems, tol, max_iter, n_jobs, statistics):
    """Yield solvers with the problems that they solve next, which depend on the results so far.

    Parameters
    ----------
    special : PolytopeSolver
        The specialised solver of the structure. The active set takes over problems at which it gives up.
    is_auto : bool
        Whether the active set solves the problems for which it is faster.
    statistics : array of shape (n_problems, N_STATISTICS)
        Statistics of the solutions so far, filled in by the caller between two stages.

    Yields
    ------
    solver : Entry
    chosen : int array or None
        Indices of the problems. None stands for all.
    max_iter : int
    """
    is_few = is_auto & (_n_parts(problems) <= special.few_parts)
    if is_few.all():
        yield SOLVERS_BY_NAME["active_set"], None, max_iter
        return
    left = np.flatnonzero(~is_few)
    if len(left) < len(is_few):
        yield SOLVERS_BY_NAME["active_set"], np.flatnonzero(is_few), max_iter
    if len(left) and is_auto and special.budget is not None:
        # Each problem has its own limit of calls, so that its solution does not depend on other problems.
        most, is_tried = np.empty((2, len(is_few)), np.int64)
        over_ranges(
            lambda start, stop: special.budget(problems, start, stop, most, is_tried), _n_parts(problems), n_jobs
        )
        is_left = (is_tried == 0) & (most < max_iter) & ~is_few
        first = np.flatnonzero(~(is_left | is_few))
        if len(first):
            yield SOLVERS_BY_NAME["active_set"], first, min(int(most[first].max()), max_iter)
            calls, gaps, most = statistics[first, N_ITER], statistics[first, GAP], most[first]
            is_left[first] = ((calls > most) | ((calls == most) & (gaps > tol))) & (most < max_iter)
        left = np.flatnonzero(is_left)
    elif len(left) and is_auto and special.prefers is not always:
        prefers = np.empty(len(is_few), np.int64)
        over_ranges(partial(prefer_range, special.prefers, problems, prefers), _n_parts(problems), n_jobs)
        others = left[prefers[left] == 0]
        left = left[prefers[left] != 0]
        if len(others):
            yield SOLVERS_BY_NAME["active_set"], others, max_iter
    if len(left):
        yield special.solve, left, max_iter
        gave_up = np.flatnonzero(statistics[:, STATUS] == GAVE_UP)
        if len(gave_up):
            yield SOLVERS_BY_NAME["active_set"], gave_up, max_iter


def _merge(problems, solution, chosen, update):
    """Replace parts of a solution by new solutions of some problems; None is an empty solution."""
    if solution is None:
        statistics = np.zeros((len(problems.sizes), N_STATISTICS))
        solution = np.empty(len(problems.scores)), statistics, tuple(pool[:0] for pool in update[2])
    marginals, statistics, pools = solution
    marginals[ragged_indices(problems.score_ptr[:-1][chosen], _n_parts(problems)[chosen])] = update[0]
    merged = []
    for column, pool, new in zip((N_SLOTS, N_ADDITIONAL, N_WEIGHTS), pools, update[2]):
        lengths, own = (values[:, column].astype(np.int64) for values in (statistics, update[1]))
        begins = np.cumsum(lengths) - lengths
        lengths[chosen], begins[chosen] = own, len(pool) + np.cumsum(own) - own
        merged.append(np.concatenate([pool, new])[ragged_indices(begins, lengths)])
    statistics[chosen] = update[1]
    return marginals, statistics, tuple(merged)


def marginal_oracle_of(structure, what):
    """Return the marginal oracle of a structure, or raise ValueError with the reason why `what` is not available."""
    if structure.marginal_oracle is None:
        raise ValueError(f"{what} needs marginals, which {structure!r} does not have: {structure.no_marginals}")
    return structure.marginal_oracle


def check_feasible(feasible, many, structure, problems):
    """Raise ValueError for the first problem that is marked as infeasible; its structure or its scores are at fault.

    `_layers/samples.py` and `estimators/_structured/restrictions.py` recognise the beginning of these messages.
    """
    if feasible.all():
        return
    i = int(np.argmin(feasible))
    alone = take_problems(problems, np.array([i]))
    zeros = [readonly(np.zeros(len(array))) for array in (alone.scores, alone.additional)]
    _, _, values = map_problems(structure, alone._replace(scores=zeros[0], additional=zeros[1]), check=False)
    which = f"scores[{i}]" if many else "scores"
    if values[0] == -np.inf:
        what = f" (for {which})" if many else ""
        raise ValueError(
            f"infeasible: {structure!r} has no solution at all here{what}, whatever the scores; its constraints "
            "contradict each other"
        )
    added = " (with the additional scores)" if structure.additional_names else ""
    raise ValueError(f"infeasible: {which}{added} forbid every structure; allow at least one by scores above -inf")
