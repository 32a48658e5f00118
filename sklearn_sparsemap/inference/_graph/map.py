"""MAP inference in factor graphs: the linear relaxation, and an exact search where that is fractional."""

from time import perf_counter
from typing import NamedTuple

import numpy as np

from ..._validation import check_positive
from ...solvers._graph.batch import RESIDUAL, STATUS
from ...solvers._graph.rows import INFEASIBLE
from .exact import assign_exactly, warn_of_time_limit
from .problems import as_graph_problems
from .sizes import LARGE, clipped_samples, with_trials
from .solve import check_feasible, choose_solver, solve_graph

# Marginals as close as this to 0 or 1 count as such.
_INTEGRAL = 1e-6
# LP-SparseMAP at this many times the scores' size is the linear programme already, in nearly all graphs; the centre of
# its quadratic term is then moved until nothing changes. "block" moves by 1 in a sweep, and needs smaller steps.
_SHARPNESS = {"newton": 100.0, "block": 10.0}
_MOST_STEPS = 50
# Scores far below the largest move little in a step: the steps grow.
_GROWTH, _SHARPEST = 3.0, 1e8
# Scores that are all zero have no size.
_LEAST_SIZE = 1e-100
# A solution with a larger residual is none.
_MOST_RESIDUAL = 1e-6
# Most relaxations in the search for the best assignment where the first one is fractional.
_MOST_NODES = 500
# Most seconds of that search, for a sample.
TIME_LIMIT = 10.0


class GraphMAPResult(NamedTuple):
    """The best assignment that was found in a factor graph.

    Attributes
    ----------
    structure : bool ndarray, shape of the variables; or dict of str -> ndarray
        Which variables are on.
    value : float
        Its total score.
    integral : bool
        Whether the linear relaxation has this solution itself. Otherwise `structure` was found by a search.
    bound : float
        No assignment has a total score above this, up to rounding: `structure` is the best one if it is `value`.
    marginals : ndarray or dict of str -> ndarray
        The solution of the linear relaxation.
    """

    structure: object
    value: float
    integral: bool
    bound: float
    marginals: object


class Assignments(NamedTuple):
    """The best assignments that were found, one row a sample; see `GraphMAPResult`."""

    structures: np.ndarray
    values: np.ndarray
    integral: np.ndarray
    bounds: np.ndarray
    marginals: np.ndarray


def map_graph(graph, scores, *, additional=None, n_jobs=None, tol=1e-9, time_limit=TIME_LIMIT):
    """Find the best assignment; see `map_inference`."""
    if time_limit is not None:
        check_positive("time_limit", time_limit)
    problems, many = as_graph_problems(graph, scores, additional)
    found = best_assignments(problems, n_jobs, tol, many, time_limit)
    shape = problems.layout.shape_variables
    results = [
        GraphMAPResult(shape(structure), float(value), bool(integral), float(bound), shape(u))
        for structure, value, integral, bound, u in zip(*found)
    ]
    return results if many else results[0]


def best_assignments(problems, n_jobs=None, tol=1e-9, many=True, time_limit=TIME_LIMIT):
    """Find the best assignments of samples that are laid out for the kernels: `Assignments`."""
    late = {}
    layout, left = problems.layout, np.arange(len(problems.scores))
    shape, n = problems.scores.shape, len(left)
    out = Assignments(np.empty(shape, bool), np.empty(n), np.empty(n, bool), np.empty(n), np.empty(shape))
    trials = clipped_samples(problems, np.flatnonzero(problems.sizes() > LARGE), 0.0)
    while len(left):
        current = {i: trials[i].pop(0) for i in left.tolist() if i in trials}
        own = with_trials(problems, left, current)
        u, joint, values, gaps = relax(
            own, tol, n_jobs, lambda solutions, left=left: check_feasible(layout, solutions, many, left)
        )
        best, best_joint, bounds, integral = u.copy(), joint.copy(), values + gaps, ~_fractional(u).any(axis=1)
        for k in np.flatnonzero(~integral):
            began = perf_counter()
            if len(layout.arrays.structures):
                found = _branch(own.take([k]), u[k], joint[k], bounds[k], tol, time_limit)
            else:
                rounded, known = (u[k] > 0.5).astype(np.float64), np.zeros(len(u[k]), bool)
                found = assign_exactly(own.take([k]), rounded, known, time_limit)
            best[k], best_joint[k], values[k], bound = found
            bounds[k] = max(min(bounds[k], bound), values[k])
            if time_limit is not None and values[k] < bound and perf_counter() - began > 0.9 * time_limit:
                late[int(left[k])] = bounds[k] - values[k]
            if bound == -np.inf:
                _refuse(layout, u[k], f"scores[{left[k]}]" if many else "scores")
        accepted = np.ones(len(left), bool)
        for k, i in enumerate(left.tolist()):
            if i in current:
                trial = current[i]
                accepted[k] = not trials[i] or (trial.accepts(u[k], joint[k]) and trial.accepts(best[k], best_joint[k]))
                gain = trial.value(best[k], best_joint[k])
                values[k], bounds[k] = values[k] + gain, bounds[k] + gain
        for array, new in zip(out, (best > 0.5, values, integral, bounds, u)):
            array[left[accepted]] = new[accepted]
        left = left[~accepted]
    if late:
        warn_of_time_limit(list(late), max(late.values()), time_limit)
    return out


def _refuse(layout, u, which):
    """Raise ValueError for a sample whose relaxation has the solution `u`, but which no assignment satisfies."""
    arrays = layout.arrays
    numbers = np.unique(np.repeat(np.arange(len(arrays.kinds)), np.diff(arrays.link_ptr))[_fractional(u)[arrays.links]])
    message = ", ".join(repr(layout.graph.factor_of(int(f))) for f in numbers[:4])
    message += f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
    raise ValueError(
        f"infeasible: under {which} (with the additional scores) no assignment satisfies all factors, though marginals "
        f"between 0 and 1 do; look at the factors of these: {message}. Remove a factor, or allow more variables by "
        "scores above -inf"
    )


def relax(problems, tol=1e-9, n_jobs=None, check=None):
    """Solve the linear relaxation of samples that are laid out for the kernels, by the proximal point method.

    Parameters
    ----------
    problems : GraphProblems
    check : callable, default=None
        Called with the solutions of the first step.

    Returns
    -------
    u, joint : arrays with one row a sample
        Marginals of the variables and of the additional scores.
    values, gaps : arrays of shape (n_samples,)
        The relaxation's value, and by how much it may be too small: infinite where it was not solved, NaN where nothing
        is feasible.
    """
    layout, n = problems.layout, len(problems.scores)
    sharpest = _SHARPNESS[choose_solver(layout)]
    sizes = np.maximum(problems.sizes(), _LEAST_SIZE)
    u, joint = np.zeros((n, layout.n_variables)), np.zeros((n, layout.n_additional))
    gaps = np.full(n, np.inf)
    left, warm = np.arange(n), None
    for step in range(_MOST_STEPS):
        sharpness = min(sharpest * _GROWTH**step, _SHARPEST) / sizes[left]
        moved = problems.take(left).moved(sharpness, u[left])
        found = solve_graph(moved, 1e-9, 2000, n_jobs=n_jobs, warm=warm, clip=False)
        if step == 0 and check is not None:
            check(found)
        change = np.abs(found.marginals - u[left])
        u[left], joint[left] = found.marginals, found.joint
        # What the quadratic term can hide: its gradient, times how far any other point is away.
        gaps[left] = change.sum(axis=1) / sharpness
        gaps[left[found.statistics[:, RESIDUAL] > _MOST_RESIDUAL]] = np.inf
        infeasible = found.statistics[:, STATUS] == INFEASIBLE
        gaps[left[infeasible]] = np.nan
        open_ = (gaps[left] > tol * sizes[left]) & ~infeasible
        if not open_.any():
            break
        # Multipliers grow with the scores.
        left, warm = left[open_], (_GROWTH * found.multipliers[open_], _GROWTH * found.links[open_])
    return u, joint, problems.values(u, joint), gaps


def _branch(problem, u, joint, bound, tol, time_limit):
    """Branch and bound, depth first, for at most _MOST_NODES relaxations and `time_limit` seconds.

    Each branch fixes the variable that is farthest from 0 and 1, by a reward or fine that outweighs all scores.
    Without any assignment found the value is -inf, and the structure may violate factors; the bound is -inf, too, if
    there is none.

    Returns
    -------
    u, joint : arrays
        The assignment, and the marginals of the additional scores.
    value : float
    bound : float
        Of what was not examined; the value itself if the search is complete.
    """
    layout, size = problem.layout, max(problem.sizes()[0], _LEAST_SIZE)
    reward = 10.0 * size * max(layout.n_variables + layout.n_additional, 10)
    best, best_joint, best_value = u, joint, -np.inf
    # Fixed variables are +1 (on) and -1 (off).
    nodes = [(bound, np.zeros(len(u)), u)]
    n_nodes, unsolved, end = 0, -np.inf, np.inf if time_limit is None else perf_counter() + time_limit
    # With no assignment yet the search goes on: without one there is nothing to return.
    while nodes and n_nodes < _MOST_NODES and (best_value == -np.inf or perf_counter() < end):
        bound, fixed, u = nodes.pop()
        if bound <= best_value + tol * size:
            continue
        i = int(np.where(fixed == 0, np.minimum(u, 1.0 - u), -1.0).argmax())
        children = []
        for sign in (1.0, -1.0):
            own = fixed.copy()
            own[i] = sign
            n_nodes += 1
            fined = problem._replace(scores=problem.scores + reward * own)
            found, found_joint, _, gaps = relax(fined, tol)
            wrong = np.where(own > 0, 1.0 - found[0], np.where(own < 0, found[0], 0.0)).max()
            if np.isnan(gaps[0]) or (gaps[0] <= size and wrong > _INTEGRAL):
                # Nothing satisfies the factors and what is fixed.
                continue
            if not gaps[0] <= size:
                unsolved = max(unsolved, bound)
                continue
            score = problem.values(found, found_joint)[0]
            if _fractional(found[0]).any() and (own == 0).any():
                children.append((score + gaps[0], own, found[0]))
            elif score > best_value:
                best, best_joint, best_value = found[0], found_joint[0], score
        # The more promising one is examined first.
        nodes.extend(sorted(children, key=lambda node: node[0]))
    return best, best_joint, best_value, max([best_value, unsolved, *(node[0] for node in nodes)])


def _fractional(u):
    return np.minimum(u, 1.0 - u) > _INTEGRAL
