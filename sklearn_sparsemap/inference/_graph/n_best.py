"""The k best assignments of a factor graph: each is the best one under factors that exclude the previous ones.

Used by `_training` and `problems.py`.
"""

import numpy as np

from ..._core.errors import SampleError
from ..._core.jit import working_time
from .exact import Late, warn_of_time_limit
from .map import search_together


def best_of_groups(groups, k, n_jobs, map_time_limit, tol=1e-9):
    """Find the `k` best assignments of groups of samples with the same layout.

    Parameters
    ----------
    groups : iterable of (indices, GraphBatch)
        The indices of the samples of a group, and their problems.
    k : int
    n_jobs : int or None
    map_time_limit : float or None
        Maximum number of seconds for all searches of a sample together. If it is over, the list ends, with a warning.
    tol : float, default=1e-9

    Yields
    ------
    i : int
        The index of a sample.
    layout : Layout
    assignments : list of (assignment, value)
        Assignments are flat arrays.
    """
    late = {}
    for indices, problems in groups:
        for row, i in enumerate(indices):
            yield i, problems.layout, _best_of(problems.take([row]), k, n_jobs, tol, map_time_limit, late)
    warn_of_time_limit(late, map_time_limit)


def _best_of(problem, k, n_jobs, tol, map_time_limit, late):
    """Return a list of (assignment, value) for one sample; assignments are flat arrays.

    Parameters
    ----------
    problem : GraphBatch
        A single sample.
    k, n_jobs, tol, map_time_limit, late
        As in `best_of_groups`; `late` collects the possible losses of searches that are not complete.
    """
    assignments = []
    end = None if map_time_limit is None else working_time() + map_time_limit
    if not problem.layout.has_scored_parts:
        found = search_together(problem, k, tol, end)
        if found is not None:
            return found
    while len(assignments) < k:
        left = None if end is None else end - working_time()
        if assignments and left is not None and left <= 0.0:
            late[problem.number_of(0)] = Late(np.inf)
            break
        try:
            best = problem.map(n_jobs, tol, left)
            late |= problem.late_of(best)
        except SampleError as error:
            if assignments and error.infeasible:
                break
            raise
        if best.value[0] == -np.inf:
            # The search ended without an assignment, of which `late` tells.
            break
        assignments.append((best.structure[0], float(best.value[0])))
        # At least one variable differs from this assignment.
        layout = problem.layout.with_clause(np.arange(problem.layout.n_variables), best.structure[0])
        problem = problem._replace(layout=layout)
    # Rounding must not reverse the order.
    return sorted(assignments, key=lambda pair: -pair[1])
