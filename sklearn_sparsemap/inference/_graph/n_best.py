"""The k best assignments of a factor graph: each is the best one under factors that exclude the previous ones."""

import numpy as np

from ..._core.jit import working_time
from .exact import warn_of_time_limit
from .map import MAP_TIME_LIMIT, best_assignments
from .problems import problems_by_graph


def n_best_of_graph(graph, scores, k, *, additional=None, n_jobs=None, tol=1e-9, map_time_limit=MAP_TIME_LIMIT):
    """Find the `k` best assignments of each sample; see `n_best`."""
    groups, many = problems_by_graph(graph, scores, additional)
    results = [None] * sum(len(places) for places, _ in groups)
    for i, layout, found in best_of_groups(groups, k, n_jobs, map_time_limit, tol, many):
        results[i] = [(layout.shape_variables(assignment), value) for assignment, value in found]
    return results if many else results[0]


def best_of_groups(groups, k, n_jobs, map_time_limit, tol=1e-9, many=True):
    """Find the `k` best assignments of groups of samples with the same layout.

    Parameters
    ----------
    groups : iterable of (places, GraphProblems)
        The indices of the samples of a group, and their problems.
    k : int
    n_jobs : int or None
    map_time_limit : float or None
        Maximum number of seconds for all searches of a sample together. If it is over, the list ends, with a warning.
    tol : float, default=1e-9
    many : bool, default=True
        Whether messages contain the index of a sample.

    Yields
    ------
    i : int
        The index of a sample.
    layout : Layout
    found : list of (assignment, value)
        Assignments are flat arrays.
    """
    late = {}
    for places, problems in groups:
        for row, i in enumerate(places):
            numbers = [i] if many else None
            yield i, problems.layout, _best_of(problems.take([row]), k, n_jobs, tol, numbers, map_time_limit, late)
    warn_of_time_limit(late, map_time_limit)


def _best_of(problem, k, n_jobs, tol, numbers, map_time_limit, late):
    """Return a list of (assignment, value) for one sample; assignments are flat arrays.

    Parameters
    ----------
    problem : GraphProblems
        A single sample.
    k, n_jobs, tol, numbers, map_time_limit, late
        As in `best_assignments`.
    """
    found, end = [], None if map_time_limit is None else working_time() + map_time_limit
    while len(found) < k:
        left = None if end is None else end - working_time()
        if found and left is not None and left <= 0.0:
            late[0 if numbers is None else numbers[0]] = np.inf
            break
        try:
            best = best_assignments(problem, late, n_jobs, tol, numbers, left)
        except ValueError as error:
            if found and str(error).startswith("infeasible"):
                break
            raise
        if best.value[0] == -np.inf:
            # The search ended without an assignment, of which `late` tells.
            break
        found.append((best.structure[0], float(best.value[0])))
        # At least one variable differs from this assignment.
        layout = problem.layout.with_clause(np.arange(problem.layout.n_variables), best.structure[0])
        problem = problem._replace(layout=layout)
    return found
