"""The k best assignments of a factor graph: each is searched for under rules that exclude those before."""

import numpy as np

from .exact import warn_of_time_limit
from .map import MAP_TIME_LIMIT, best_assignments
from .problems import problems_by_graph


def n_best_of_graph(graph, scores, k, *, additional=None, n_jobs=None, tol=1e-9, map_time_limit=MAP_TIME_LIMIT):
    """Find the `k` best assignments of each sample; see `n_best`."""
    groups, many = problems_by_graph(graph, scores, additional)
    results, late = [None] * sum(len(places) for places, _ in groups), {}
    for places, problems in groups:
        for row, i in enumerate(places):
            own = problems.take([row])
            numbers = [i] if many else None
            found = best_of_problem(own, k, n_jobs, numbers, map_time_limit, late, tol)
            results[i] = [(problems.layout.shape_variables(assignment), value) for assignment, value in found]
    warn_of_time_limit(late, map_time_limit)
    return results if many else results[0]


def best_of_problem(problem, k, n_jobs, numbers, map_time_limit, late, tol=1e-9):
    """Return a list of (assignment, value) for one sample; assignments are flat arrays."""
    found = []
    while len(found) < k:
        try:
            best = best_assignments(problem, n_jobs, tol, numbers, map_time_limit, late)
        except ValueError as error:
            if found and str(error).startswith("infeasible"):
                break
            raise
        found.append((best.structures[0], float(best.values[0])))
        # At least one variable differs from this assignment.
        layout = problem.layout.with_clause(np.arange(problem.layout.n_variables), best.structures[0])
        problem = problem._replace(layout=layout)
    return found
