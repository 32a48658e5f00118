"""MAP inference in factor graphs: the linear relaxation, and an exact search if that is fractional."""

from typing import NamedTuple

import numpy as np

from ..._core.jit import working_time
from ..._core.validation import check_positive
from ...graphs.rows import INFEASIBLE
from ...graphs.samples import GAP, OBJECTIVE, RESIDUAL, STATUS
from .branch import INTEGRAL, branch, fractional, rounded
from .clipping import Clipping
from .consistency import rule_out
from .exact import assign_exactly, warn_of_time_limit
from .problems import problems_by_graph
from .solve import check_feasible, choose_solver, empty_solutions, solve_graph

# Magnitude to which scores are scaled, so that LP-SparseMAP agrees with the linear program in nearly all graphs.
# "block" changes dual variables by at most 1 in a sweep, so it needs smaller scores.
_SHARPNESS = {"newton": 100.0, "block": 10.0, "tables": 100.0}
# Lower bound of the magnitude of scores, in case all are zero.
_LEAST_SIZE = 1e-100
# Largest residual of a valid solution.
_MOST_RESIDUAL = 1e-6
# Default time limit of a sample in seconds, and the fraction of it for the relaxation; the rest is for a search.
MAP_TIME_LIMIT, _RELAXATION = 10.0, 0.3
# Number of samples that have one time limit for all their relaxations, which are usually fast.
_CHUNK = 64


class GraphMAPResult(NamedTuple):
    """The best assignment found in a factor graph. Within this room also those of many samples, one row for each.

    Attributes
    ----------
    structure : bool ndarray, shape of the variables; or dict of str -> ndarray
        The assignment: True for variables that are on.
    value : float
        Total score of the assignment.
    integral : bool
        Whether the assignment is a solution of the linear relaxation. Otherwise it was found by a search.
    bound : float
        Upper bound of the total scores of all assignments, up to rounding. If it equals `value`, `structure` is
        optimal.
    marginals : ndarray or dict of str -> ndarray
        The solution of the linear relaxation.
    """

    structure: object
    value: float
    integral: bool
    bound: float
    marginals: object


def check_graph_options(options):
    """Return the keyword arguments of MAP inference in graphs; raise TypeError or ValueError if one is invalid."""
    unknown = sorted(options.keys() - {"additional", "tol", "map_time_limit"})
    if unknown:
        raise TypeError(
            f"for a graph, the keywords are additional, tol and map_time_limit; got {unknown[0]!r}. Pass the scores of "
            f"a graph by factor: additional={{{unknown[0]!r}: ...}}"
        )
    check_positive("tol", options.get("tol", 1e-9))
    if options.get("map_time_limit") is not None:
        check_positive("map_time_limit", options["map_time_limit"])
    return options


def map_graph(graph, scores, *, additional=None, n_jobs=None, tol=1e-9, map_time_limit=MAP_TIME_LIMIT):
    """Find the best assignment; see `map_inference`."""
    groups, many = problems_by_graph(graph, scores, additional)
    results, late = [None] * sum(len(places) for places, _ in groups), {}
    for places, problems in groups:
        found = best_assignments(problems, late, n_jobs, tol, places if many else None, map_time_limit)
        shape = problems.layout.shape_variables
        for i, structure, value, integral, bound, u in zip(places, *found):
            results[i] = GraphMAPResult(shape(structure), float(value), bool(integral), float(bound), shape(u))
    warn_of_time_limit(late, map_time_limit)
    return results if many else results[0]


def best_assignments(problems, late, n_jobs=None, tol=1e-9, numbers=None, map_time_limit=MAP_TIME_LIMIT):
    """Find the best assignments of samples that are laid out for the kernels.

    Parameters
    ----------
    problems : GraphProblems
    late : dict
        Output: the possible loss of each sample whose search is not complete, by its index.
    numbers : sequence of int, default=None
        Indices of the samples in the user's list; None for a single sample.
    map_time_limit : float or None
        Maximum number of seconds for a sample.

    Returns
    -------
    found : GraphMAPResult
        Each entry is an array with one row for each sample; variables and marginals are flat.
    """
    n = len(problems.scores)
    parts = []
    for start in range(0, n, _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, n))
        own = None if numbers is None else [numbers[i] for i in rows]
        parts.append(_best_of_chunk(problems.take(rows), n_jobs, tol, own, map_time_limit, late))
    return GraphMAPResult(*map(np.concatenate, zip(*parts)))


def _best_of_chunk(problems, n_jobs, tol, numbers, time_limit, late):
    """Find the best assignments of a few samples; see `best_assignments`.

    Parameters
    ----------
    problems, n_jobs, tol, numbers, late
        As in `best_assignments`.
    time_limit : float or None
        Maximum number of seconds for a sample.
    """
    left, shape = np.arange(len(problems.scores)), problems.scores.shape
    n = len(left)
    out = GraphMAPResult(np.empty(shape, bool), np.empty(n), np.empty(n, bool), np.empty(n), np.empty(shape))
    clipping = Clipping(problems, problems.sizes(), unit=0.0)
    if time_limit is not None:
        time_limit /= clipping.n_attempts
    while len(left):
        names = None if numbers is None else [numbers[i] for i in left]
        relaxed, best, integral, bounds = _solve_trial(clipping.clip(left), n_jobs, tol, names, time_limit, late)
        values, exact = best.objective, np.ones(len(left), bool)
        for k, i in enumerate(left.tolist()):
            exact[k] = clipping.is_exact(i, *((own.marginals[k], own.joint[k]) for own in (relaxed, best)))
            if exact[k] and clipping.is_clipped(i) and np.isfinite(values[k]):
                gap = bounds[k] - values[k]
                values[k] = clipping.value(i, best.marginals[k], best.joint[k])
                bounds[k] = values[k] + gap
        for array, new in zip(out, (best.marginals > 0.5, values, integral, bounds, relaxed.marginals)):
            array[left[exact]] = new[exact]
        left = left[~exact]
    return out


def _solve_trial(problems, n_jobs, tol, names, time_limit, late):
    """Solve the relaxation of samples, and search for the best assignments of those whose relaxation is fractional.

    Parameters
    ----------
    problems, n_jobs, tol, time_limit, late
        As in `_best_of_chunk`.
    names : list of int, or None
        Indices of the samples in messages; None for a single sample.

    Returns
    -------
    relaxed : GraphSolutions
        Solutions of the relaxation.
    best : GraphSolutions
        The best assignments found, with their scores as objectives.
    integral : bool array of shape (n_samples,)
        Whether the best assignment is that of the relaxation.
    bounds : array of shape (n_samples,)
        Upper bounds of the scores of all assignments.
    """
    n, began = len(problems.scores), working_time()
    relaxed = relax(problems, tol, n_jobs, deadline=_deadline(began, time_limit, _RELAXATION))
    check_feasible(problems, relaxed, names is not None, names)
    best, sizes = relaxed.take(np.arange(n)), _sizes(problems)
    integral = ~fractional(relaxed.marginals).any(axis=1) & (relaxed.gap <= INTEGRAL * sizes)
    u, joint = (rounded(array[integral]) for array in (relaxed.marginals, relaxed.joint))
    best.marginals[integral], best.joint[integral] = u, joint
    best.objective[integral] = problems.take(integral).values(u, joint)
    bounds = _bounds(best)
    for k in np.flatnonzero(~integral):
        one = problems.take([k])
        if n > 1:
            began = working_time()
            if time_limit is not None and not np.isfinite(relaxed.gap[k]):
                # Time ran out for this sample, or for previous ones.
                relaxed.put([k], relax(one, tol, deadline=_deadline(began, time_limit, _RELAXATION)))
                bounds[k] = _bounds(relaxed.take([k]))[0]
        found = relaxed.marginals[k], relaxed.joint[k], relaxed.gap[k], bounds[k]
        *assignment, value, bound = _search(one, *found, tol, _deadline(began, time_limit))
        best.marginals[k], best.joint[k] = assignment
        best.objective[k], bounds[k] = value, max(min(bounds[k], bound), value)
        name = 0 if names is None else names[k]
        if value < bound and bounds[k] - value > tol * sizes[k]:
            late[name] = bounds[k] - value
        if bound == -np.inf:
            _refuse(problems.layout, relaxed.take([k]), "scores" if names is None else f"scores[{name}]")
    return relaxed, best, integral, bounds


def _deadline(began, time_limit, fraction=1.0):
    """Return the `working_time` at which a fraction of the time limit is over; None without a limit."""
    return None if time_limit is None else began + fraction * time_limit


def _bounds(solutions):
    """Return upper bounds of the scores of all assignments; infinite if the relaxation was not solved."""
    solved = np.isfinite(solutions.gap)
    return np.add(solutions.objective, solutions.gap, out=np.full(len(solved), np.inf), where=solved)


def _refuse(layout, relaxed, which):
    """Raise ValueError for a sample without a feasible assignment; `relaxed` holds the solution of its relaxation."""
    arrays, message = layout.arrays, ""
    if np.isfinite(relaxed.gap[0]):
        of_link = np.repeat(np.arange(len(arrays.kinds)), np.diff(arrays.link_ptr))
        numbers = np.unique(of_link[fractional(relaxed.marginals[0])[arrays.links]])
        message = ", ".join(repr(layout.factor_of(int(f))) for f in numbers[:4])
        message += f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
        message = f", although marginals between 0 and 1 do; these factors have fractional variables: {message}"
    raise ValueError(
        f"infeasible: under {which} (with the additional scores) no assignment satisfies all factors{message}. Remove "
        "a factor, or allow more variables by scores above -inf"
    )


def _sizes(problems):
    """Return the magnitude of the scores of each sample, except those of variables that are certain."""
    scores = np.where(problems.certain(), 0.0, problems.scores)
    return np.maximum(problems._replace(scores=scores).sizes(), _LEAST_SIZE)


def relax(problems, tol=1e-9, n_jobs=None, keep="all", deadline=None):
    """Solve the linear relaxation of samples that are laid out for the kernels, by the proximal point method.

    Parameters
    ----------
    problems : GraphProblems
    keep : {"all", "marginals"}, default="all"
        See `solve_graph`; ``"marginals"`` leaves out `joint`.
    deadline : float or None, default=None
        The `working_time` at which the method ends.

    Returns
    -------
    solutions : GraphSolutions
        Their objective is the value of the relaxation, and the gap an upper bound of its error: infinite if it was not
        solved, NaN if nothing is feasible.
    """
    sizes = _sizes(problems)
    sharpness = _SHARPNESS[choose_solver(problems.layout)] / sizes
    own = problems.scaled(sharpness)
    own.scales[:, 1] = tol * sizes * sharpness
    found = _solve_consistent(own, tol, 2000, n_jobs=n_jobs, sizes=sizes * sharpness, keep=keep, deadline=deadline)
    u, statistics = found.marginals, found.statistics
    statistics[:, GAP] /= sharpness
    statistics[statistics[:, RESIDUAL] > _MOST_RESIDUAL, GAP] = np.inf
    statistics[statistics[:, STATUS] == INFEASIBLE, GAP] = np.nan
    if keep == "all":
        statistics[:, OBJECTIVE] = problems.values(u, found.joint)
    else:
        statistics[:, OBJECTIVE] = (statistics[:, OBJECTIVE] + 0.5 * (u * u).sum(axis=1)) / sharpness
    return found


def _solve_consistent(problems, tol, max_iter, *, sizes, **options):
    """Solve samples by `solve_graph`, except those of which single tables show that they are infeasible."""
    if problems.layout.tables is None:
        return solve_graph(problems, tol, max_iter, sizes=sizes, **options)
    problems, contradicted, guilty = rule_out(problems)
    if not contradicted.any():
        return solve_graph(problems, tol, max_iter, sizes=sizes, **options)
    found = empty_solutions(problems.layout, len(sizes), options["keep"])
    found.statistics[contradicted, STATUS] = INFEASIBLE
    if options["keep"] == "all":
        found.links[contradicted] = guilty[contradicted]
    if not contradicted.all():
        left = ~contradicted
        found.put(left, solve_graph(problems.take(left), tol, max_iter, sizes=sizes[left], **options))
    return found


def _search(problem, u, joint, gap, bound, tol, deadline):
    """Find the best assignment of one sample whose relaxation is fractional; see `assign_exactly` and `branch`.

    Parameters
    ----------
    problem : GraphProblems
        A single sample.
    u, joint : arrays
        The solution of its relaxation.
    gap : float
        Upper bound of the error of the relaxation.
    bound : float
        Upper bound of the scores of all assignments.
    tol : float
    deadline : float or None
    """
    layout = problem.layout
    if layout.tables is not None or len(layout.arrays.structures):
        size = max(problem.sizes()[0], _LEAST_SIZE)
        return branch(problem, u, joint, bound, tol, size, relax, deadline)
    known, scores = problem.certain()[0], problem.scores[0]
    start = np.where(known, scores > 0.0, u > 0.5).astype(np.float64)
    if layout.only_pairs and gap <= INTEGRAL * np.abs(scores[~known]).min(initial=np.inf):
        # Roof duality: if all factors are pairs, an optimal assignment agrees with the integral values of the
        # relaxation.
        known |= ~fractional(u)
    return assign_exactly(problem, start, known, deadline)
