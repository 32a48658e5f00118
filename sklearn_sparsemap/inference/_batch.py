"""Inference for problems that are laid out for the kernels, with one compiled call for each thread.

Used by `_layers`, `_training`, `estimators`, `inference/_results`, `losses`, `_decisions.py`, `_entropy.py`,
`_n_best.py` and `_public.py`.
"""

from functools import partial
from itertools import pairwise

import numpy as np

from .._core.errors import SampleError
from .._core.jit import readonly
from .._core.offsets import offsets
from .._core.threads import over_ranges
from .._numerics.argmax import gibbs_argmax, map_argmax
from .._numerics.competence import READY, STOPS
from .._numerics.covariance import derivatives_range
from .._numerics.loops import (
    N_STATISTICS,
    SOLVERS_BY_NAME,
    STATUS,
    map_range,
    marginals_range,
    sparsemap_range,
    take_problems,
)
from .._numerics.polytope_solver import solver_of, solvers_of
from .._numerics.solver import AIM, INFEASIBLE, LATER

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
    slots = np.empty(slot_ptr[-1], np.int32)
    values = np.empty(len(problems.sizes))
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
    if len(slot_ptr) == 2:
        return [structure.decode(slots, problems.dims[0])]
    if structure.decodes_stacks and (problems.dims == problems.dims[0]).all():
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
    if max_iter is None:
        max_iter = default_max_iter(_n_parts(problems).max())
    # Kernels take no other ints, such as int32.
    max_iter = min(int(max_iter), np.iinfo(np.int64).max)
    oracle, own = structure.oracle, structure.polytope_solver
    if argmax != "sparsemap":
        oracle = structure.marginal_oracle if argmax == "gibbs" else oracle
        solvers = solvers_of(None, OTHER_ARGMAXES[argmax])
    elif solver == "auto":
        is_small = own is None or _n_parts(problems).max() <= own.few_parts
        is_ready = is_small or own.solve.is_compiled
        solvers = solvers_of(None if is_small else own, solver_of(own), READY if is_ready else STOPS)
    elif solver in SOLVERS_BY_NAME:
        solvers = solvers_of(None, solver_of(own, solver))
    elif own is None or own.name != solver:
        which = SPECIALISED_SOLVERS[solver]
        raise ValueError(f"solver={solver!r} is for {which}; got {structure!r}: use solver='auto'")
    else:
        solvers = solvers_of(own.alone, solver_of(own))
    limit = np.array([max_iter])
    marginals = np.empty(len(problems.scores))
    statistics = np.empty((len(problems.sizes), N_STATISTICS))
    while True:
        arguments = oracle, solvers, problems, AIM * tol, tol, limit, marginals, statistics
        pools = over_ranges(partial(sparsemap_range, *arguments), _n_parts(problems), n_jobs, limit=limit)
        if not (statistics[:, STATUS] == LATER).any():
            break
        # The first problem that needs the specialised solver: it is compiled, and solves the batch.
        solvers = solvers_of(own, solver_of(own))
    check_feasible(statistics[:, STATUS] != INFEASIBLE, many, structure, problems)
    # A single problem has one range.
    return marginals, statistics, pools[0] if len(pools) == 1 else tuple(map(np.concatenate, zip(*pools)))


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
    marginals = np.empty(len(problems.scores))
    expected = np.empty(expected_ptr[-1])
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


def marginal_slopes(structure, problems, directions, additional_directions, *, n_jobs=None):
    """Multiply a direction for each problem with the Jacobian of the Gibbs marginals, which is their covariance.

    Parameters
    ----------
    structure : Structure
    problems : Problems
        Some structure of each must be allowed.
    directions, additional_directions : arrays
        In the layout of the scores, and of the additional scores of all problems, one after the other.
    n_jobs : int, default=None

    Returns
    -------
    slopes, additional_slopes : arrays, like the directions
        The relative error is about 1e-10; see _numerics/covariance.py.
    """
    additional_ptr = offsets(problems.additional_stop - problems.additional_start)
    given = readonly(directions), readonly(additional_directions)
    out = np.empty(len(given[0])), np.empty(len(given[1]))
    over_ranges(
        lambda start, stop: derivatives_range(
            structure.marginal_oracle, problems, start, stop, additional_ptr, *given, *out
        ),
        _n_parts(problems),
        n_jobs,
    )
    return out


def marginal_oracle_of(structure, what):
    """Return the marginal oracle of a structure, or raise ValueError with the reason why `what` is not available."""
    if structure.marginal_oracle is None:
        raise ValueError(
            f"{what} needs Gibbs marginals, which {structure!r} does not have: {structure.no_marginals}. SparseMAP, "
            "and the losses 'sparsemap', 'margin_sparsemap', 'perceptron' and 'hinge', do without"
        )
    return structure.marginal_oracle


def check_feasible(feasible, many, structure, problems):
    """Raise `SampleError` for the first infeasible problem; its structure or its scores are at fault."""
    if feasible.all():
        return
    i = int(np.argmin(feasible))
    alone = take_problems(problems, np.array([i]))
    zeros = [readonly(np.zeros(len(array))) for array in (alone.scores, alone.additional)]
    _, _, values = map_problems(structure, alone._replace(scores=zeros[0], additional=zeros[1]), check=False)
    added = " (with the additional scores)" if structure.additional_names else ""
    message = "infeasible: ", f"{added} forbid every structure"
    remedies = ["; allow at least one by scores above -inf", "; allow at least one by weights above -inf"]
    if values[0] == -np.inf:
        rest = "), whatever the scores; its constraints contradict each other"
        message = f"infeasible: {structure!r} has no solution at all here (for ", rest
        remedies = ["", ""]
    position = i if many else None
    raise SampleError("scores", position, *message, infeasible=True, remedy=remedies[0], model_remedy=remedies[1])
