"""MAP inference in factor graphs: the linear relaxation, and an exact search if that is fractional.

Used by `_layers`, `_training`, `estimators`, `inference`, `losses`, `n_best.py` and `problems.py`.
"""

from typing import Any, NamedTuple

import numpy as np

from ..._core.jit import working_time
from ..._graphs.arrays import FORBIDDEN
from ..._graphs.rows import INFEASIBLE
from ..._graphs.samples import GAP, OBJECTIVE, RESIDUAL, STATUS
from ..._numerics.zero_one import best_zero_one
from .branch import INTEGRAL, branch, fractional, rounded
from .clipping import Clipping
from .consistency import rule_out
from .contradictions import list_rules
from .exact import Assignment, AssignmentProgram, assign_exactly
from .solve import GraphSolver, check_feasible, choose_solver, empty_solutions, infeasible, solve_graph

# Magnitude to which scores are scaled, so that LP-SparseMAP agrees with the linear program in nearly all graphs.
# "block" changes dual variables by at most 1 in a sweep, so it needs smaller scores.
_SHARPNESS = {"newton": 100.0, "block": 10.0, "tables": 100.0}
_MIN_SIZE = 1e-100  # lower bound of the magnitude of scores, in case all are zero
_MAX_ITER = 2000  # sweeps and Newton steps of a relaxation
_MAX_RESIDUAL = 1e-6  # largest residual of a valid solution; the gaps of others say nothing
# Default time limit of a sample in seconds, and the fraction of it for the relaxation; the rest is for a search.
MAP_TIME_LIMIT, _RELAXATION = 10.0, 0.3
# Gap of a relaxation, relative to the value of its assignment, at which this is the best one; and the largest ratio of
# two scores with which the gap proves that.
_TOL, _FAR = 1e-10, 1e5
# Variables of a graph of rules in which integral relaxations are found by `assign_exactly`, and the operations for each
# variable and each entry of a row that this may take.
_LARGE, _EASY = 500, 20
_MAX_TOGETHER = 2_000_000  # operations of one search for all of the best assignments, before one search for each
_MAX_SHOWN = 4  # factors in the message about an infeasible sample
_TOL_OF_RULES = 1e-6  # tolerance of the relaxation without scores, which tells whether rules contradict each other
_MAX_NODES = 20  # nodes of a search in training; rotas of four people need one, frustrated grids more
# Number of samples that have one time limit for all their relaxations, which are usually fast.
_CHUNK = 64


class GraphMAPResult(NamedTuple):
    """The best assignment found in a factor graph.

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

    structure: Any
    value: float
    integral: bool
    bound: float
    marginals: Any


class Assignments(NamedTuple):
    """The best assignments found of many samples, one row for each, with flat variables.

    Attributes
    ----------
    structure, value, integral, bound, marginals : arrays
        See `GraphMAPResult`.
    loss : array of shape (n_samples,)
        The possible loss of samples whose search is not complete; 0 for others.
    after_nodes : bool array of shape (n_samples,)
        Whether the number of relaxations ended the search, not the time.
    """

    structure: np.ndarray
    value: np.ndarray
    integral: np.ndarray
    bound: np.ndarray
    marginals: np.ndarray
    loss: np.ndarray
    after_nodes: np.ndarray


def best_assignments(problems, n_jobs=None, tol=1e-9, map_time_limit=MAP_TIME_LIMIT):
    """Find the best assignments of samples that are laid out for the kernels.

    Samples with large scores are clipped. The linear relaxation is solved for many samples together. Those whose
    relaxation is fractional are then searched one by one.

    Parameters
    ----------
    problems : GraphBatch
    map_time_limit : float or None
        Maximum number of seconds for a sample.

    Returns
    -------
    best : Assignments
    """
    chunks = [slice(start, start + _CHUNK) for start in range(0, len(problems.scores), _CHUNK)]
    parts = [_best_of_chunk(problems.take(rows), n_jobs, tol, map_time_limit) for rows in chunks]
    return Assignments(*map(np.concatenate, zip(*parts)))


def _best_of_chunk(problems, n_jobs, tol, time_limit):
    """Find the best assignments of a few samples; see `best_assignments`."""
    n = len(problems.scores)
    shape = problems.scores.shape
    out = Assignments(
        *(np.empty(shape, bool), np.empty(n), np.empty(n, bool), np.empty(n), np.empty(shape)),
        *(np.empty(n), np.empty(n, bool)),
    )
    clipping = Clipping(problems, problems.sizes(), unit=0.0)
    rows = np.arange(n)
    if time_limit is not None:
        time_limit /= clipping.n_attempts
    while len(rows):
        relaxed, best, integral, bounds, *losses = _relax_and_search(clipping.clip(rows), n_jobs, tol, time_limit)
        values = best.objective
        exact = np.ones(len(rows), bool)
        for k, i in enumerate(rows.tolist()):
            exact[k] = clipping.is_exact(i, *((each.marginals[k], each.joint[k]) for each in (relaxed, best)))
            if exact[k] and clipping.is_clipped(i) and np.isfinite(values[k]):
                gap = bounds[k] - values[k]
                values[k] = clipping.value(i, best.marginals[k], best.joint[k])
                bounds[k] = values[k] + gap
        for array, new in zip(out, (best.marginals > 0.5, values, integral, bounds, relaxed.marginals, *losses)):
            array[rows[exact]] = new[exact]
        rows = rows[~exact]
    return out


def best_or_relaxed(problems, tol=1e-9, n_jobs=None):
    """Return the best assignments of samples, or the solution of the relaxation if a short search does not find them.

    The search is limited by nodes. If it were limited by time, learned weights would depend on the machine. In graphs
    with tables or structures there is no search.

    Parameters
    ----------
    problems, n_jobs, tol
        As in `best_assignments`.

    Returns
    -------
    solutions : GraphSolutions
        As `relax` returns them.
    """
    if problems.layout.has_scored_parts:
        return relax(problems, tol, n_jobs)
    relaxed, best, _, _, losses, _ = _relax_and_search(problems, n_jobs, tol, None, _MAX_NODES)
    late = np.flatnonzero(losses)
    best.put(late, relaxed.take(late))
    return best


def _relax_and_search(problems, n_jobs, tol, time_limit, max_nodes=None):
    """Solve the relaxation of samples, and search for the best assignments of those whose relaxation is fractional.

    Parameters
    ----------
    problems, n_jobs, tol
        As in `best_assignments`.
    time_limit : float or None
        Maximum number of seconds for a sample.
    max_nodes : int, default=None
        Maximum number of nodes of the search for a sample, in graphs of rules and pairs.

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
    losses, after_nodes : arrays of shape (n_samples,)
        See `Assignments`.
    """
    n = len(problems.scores)
    began = working_time()
    sizes = _sizes(problems)
    relaxed = _relax_large(problems, sizes, tol, n_jobs, _deadline(began, time_limit, _RELAXATION))
    check_feasible(problems, relaxed)
    best = relaxed.take(np.arange(n))
    integral = ~fractional(relaxed.marginals).any(axis=1) & (relaxed.gap <= INTEGRAL * sizes)
    u, joint = (rounded(array[integral]) for array in (relaxed.marginals, relaxed.joint))
    best.marginals[integral], best.joint[integral] = u, joint
    chosen = problems if integral.all() else problems.take(integral)
    best.objective[integral] = chosen.values(u, joint)
    integral[integral] = _are_proven(chosen, u, best.objective[integral], best.gap[integral], sizes[integral])
    bounds = _bounds(best)
    losses = np.zeros(n)
    after_nodes = np.zeros(n, bool)
    for k in np.flatnonzero(~integral):
        one = problems.take([k])
        if n > 1:
            began = working_time()
            if time_limit is not None and not np.isfinite(relaxed.gap[k]):
                # Time ran out for this sample, or for previous ones.
                relaxed.put([k], relax(one, tol, deadline=_deadline(began, time_limit, _RELAXATION)))
                bounds[k] = _bounds(relaxed.take([k]))[0]
        found = _search(one, relaxed.take([k]), bounds[k], tol, _deadline(began, time_limit), max_nodes)
        best.marginals[k], best.joint[k], value, bound = found.u, found.joint, found.value, found.bound
        best.objective[k] = value
        bounds[k] = max(min(bounds[k], bound), value)
        if value < bound and bounds[k] - value > tol * min(sizes[k], abs(value)):
            losses[k], after_nodes[k] = bounds[k] - value, found.after_nodes
        if bound == -np.inf:
            _refuse(one, relaxed.take([k]))
        if value > -np.inf and found.relaxed_bound - value <= tol * abs(value):
            # The relaxation is integral, although its solver did not reach its solution.
            integral[k], relaxed.marginals[k] = True, found.u
    return relaxed, best, integral, bounds, losses, after_nodes


def _are_proven(problems, u, values, gaps, sizes):
    """Tell which assignments satisfy all rules, and are the best ones by the gap of the relaxation.

    The gap has the rounding errors of the largest score. If other scores are far smaller, it proves nothing.
    """
    if problems.layout.has_scored_parts:
        proven = np.ones(len(sizes), bool)
    else:
        proven = (gaps <= _TOL * np.abs(values)) & (sizes <= _FAR * _smallest(problems.scores))
        if problems.layout.n_additional:
            proven &= sizes <= _FAR * _smallest(problems.additional)
    return proven & ~problems.layout.whole_rows.violated(u.T).any(axis=0)


def _smallest(rows):
    """Return the smallest nonzero absolute value of each row, forbidden ones excluded."""
    sizes = np.abs(rows)
    smallest = sizes.min(axis=1, initial=np.inf)
    if (smallest > 0.0).all() and (sizes < -0.5 * FORBIDDEN).all():
        return smallest
    return np.where((sizes > 0.0) & (sizes < -0.5 * FORBIDDEN), sizes, np.inf).min(axis=1, initial=np.inf)


def _relax_large(problems, sizes, tol, n_jobs, deadline):
    """Solve the linear relaxation of samples; in a large graph of rules, those first whose relaxation is integral.

    Its value is then that of an assignment, which `assign_exactly` finds in about the time of sorting the scores. The
    proximal point method needs many steps if scores are close to each other.
    """
    layout = problems.layout
    n = len(problems.scores)
    if layout.n_variables < _LARGE or len(layout.arrays.pairs) or layout.has_scored_parts:
        return relax(problems, tol, n_jobs, deadline=deadline, sizes=sizes)
    out = empty_solutions(layout, n)
    solved = np.zeros(n, bool)
    for k in range(n):
        program = AssignmentProgram(
            problems.take([k]), np.zeros(layout.n_variables), np.zeros(layout.n_variables, bool)
        )
        operations = _EASY * (layout.n_variables + len(layout.arrays.row_vars))
        found = best_zero_one(program.zero_one, 1, operations, deadline)
        solved[k] = len(found.values) and found.root_bound - found.values[0] <= _TOL * abs(found.values[0])
        if solved[k]:
            out.marginals[k] = found.assignments[0]
            out.statistics[k, OBJECTIVE] = found.values[0]
    if not solved.all():
        out.put(~solved, relax(problems.take(~solved), tol, n_jobs, deadline=deadline))
    return out


def _deadline(began, time_limit, fraction=1.0):
    """Return the `working_time` at which a fraction of the time limit is over; None without a limit."""
    return None if time_limit is None else began + fraction * time_limit


def _bounds(solutions):
    """Return upper bounds of the scores of all assignments; infinite if the relaxation was not solved."""
    solved = np.isfinite(solutions.gap)
    return np.add(solutions.objective, solutions.gap, out=np.full(len(solved), np.inf), where=solved)


def _refuse(problem, relaxed):
    """Raise ValueError for a sample without a feasible assignment; `relaxed` holds the solution of its relaxation."""
    layout, message = problem.layout, ""
    # Without scores, the solver of the relaxation tells which rules contradict each other.
    check_feasible(problem, solve_graph(problem.scaled([0.0]), _TOL_OF_RULES, _MAX_ITER))
    if np.isfinite(relaxed.gap[0]):
        of_link = np.repeat(np.arange(len(layout.arrays.factor_types)), np.diff(layout.arrays.link_ptr))
        numbers = np.unique(of_link[fractional(relaxed.marginals[0])[layout.arrays.links]])
        if layout.tables is not None:
            # Variables with one value each are not at fault.
            numbers = numbers[layout.of_tables[numbers]]
        factors = layout.factors_of(numbers)
        message = list_rules(factors[:_MAX_SHOWN])
        message += f" and {len(factors) - _MAX_SHOWN} more" if len(factors) > _MAX_SHOWN else ""
        message = f", although marginals between 0 and 1 do; these factors have fractional variables: {message}"
    raise infeasible(problem, 0, f"no assignment satisfies all factors{message}")


def _sizes(problems):
    """Return the magnitude of the scores of each sample, except those of variables that are certain."""
    scores = np.where(problems.certain(), 0.0, problems.scores)
    return np.maximum(problems._replace(scores=scores).sizes(), _MIN_SIZE)


def relax(problems, tol=1e-9, n_jobs=None, keep="all", deadline=None, sizes=None):
    """Solve the linear relaxation of samples that are laid out for the kernels, by the proximal point method.

    Parameters
    ----------
    problems : GraphBatch
    keep : {"all", "marginals"}, default="all"
        See `GraphSolver`; ``"marginals"`` leaves out `joint`.
    deadline : float or None, default=None
        The `working_time` at which the method ends.
    sizes : array of shape (n_samples,), default=None
        The magnitudes of the scores, if they are known; see `_sizes`.

    Returns
    -------
    solutions : GraphSolutions
        Their objective is the value of the relaxation, and the gap an upper bound of its error: infinite if it was not
        solved, NaN if nothing is feasible.
    """
    sizes = _sizes(problems) if sizes is None else sizes
    sharpness = _SHARPNESS[choose_solver(problems.layout)] / sizes
    sharp = problems.scaled(sharpness)
    sharp.scales[:, 1] = tol * sizes * sharpness
    solver = GraphSolver(choose_solver(problems.layout), tol, _MAX_ITER, n_jobs, keep, deadline)
    if problems.layout.tables is None:
        out = solver.solve(sharp, None, sizes * sharpness)
    else:
        out = _solve_consistent(solver, sharp, sizes * sharpness)
    u, statistics = out.marginals, out.statistics
    statistics[:, GAP] /= sharpness
    statistics[statistics[:, RESIDUAL] > _MAX_RESIDUAL, GAP] = np.inf
    statistics[statistics[:, STATUS] == INFEASIBLE, GAP] = np.nan
    if keep == "all":
        statistics[:, OBJECTIVE] = problems.values(u, out.joint)
    else:
        statistics[:, OBJECTIVE] = (statistics[:, OBJECTIVE] + 0.5 * (u * u).sum(axis=1)) / sharpness
    return out


def _solve_consistent(solver, problems, sizes):
    """Solve samples of tables by a `GraphSolver`, except those that single tables show to be infeasible."""
    problems, contradicted, guilty = rule_out(problems)
    if not contradicted.any():
        return solver.solve(problems, None, sizes)
    out = empty_solutions(problems.layout, len(sizes), solver.keep)
    consistent = ~contradicted
    out.statistics[contradicted, STATUS] = INFEASIBLE
    if solver.keep == "all":
        out.links[contradicted] = guilty[contradicted]
    if consistent.any():
        out.put(consistent, solver.solve(problems.take(consistent), None, sizes[consistent]))
    return out


def search_together(problem, k, tol, deadline):
    """Return the `k` best assignments of one sample of rules and pairs, found by one search.

    Parameters
    ----------
    problem : GraphBatch
        A single sample.
    k : int
    tol : float
    deadline : float or None

    Returns
    -------
    found : list of (assignment, value), or None
        None if the search is not complete.
    """
    relaxed = relax(problem, tol, deadline=deadline)
    check_feasible(problem, relaxed)
    known = np.zeros(problem.layout.n_variables, bool)
    program = AssignmentProgram(problem, relaxed.marginals[0] > 0.5, known, _multipliers(problem, relaxed))
    found = best_zero_one(program.zero_one, k, _MAX_TOGETHER, deadline)
    if not found.is_complete or not len(found.values):
        return None
    return list(zip(found.assignments > 0, found.values.tolist()))


def _multipliers(problem, relaxed):
    """Return the multipliers of the linear relaxation of one sample."""
    return relaxed.multipliers[0] / (_SHARPNESS[choose_solver(problem.layout)] / _sizes(problem)[0])


def _search(problem, relaxed, bound, tol, deadline, max_nodes):
    """Find the best assignment of one sample whose relaxation does not tell; see `assign_exactly` and `branch`.

    Parameters
    ----------
    problem : GraphBatch
        A single sample.
    relaxed : GraphSolutions
        The solution of its relaxation.
    bound : float
        Upper bound of the scores of all assignments.
    tol : float
    deadline : float or None
    max_nodes : int or None

    Returns
    -------
    found : Assignment
    """
    layout, u, gap = problem.layout, relaxed.marginals[0], relaxed.gap[0]
    if layout.has_scored_parts:
        size = max(problem.sizes()[0], _MIN_SIZE)
        *found, after_nodes = branch(problem, u, relaxed.joint[0], bound, tol, size, relax, deadline)
        return Assignment(*found, np.inf, after_nodes)
    known = problem.certain()[0]
    scores = problem.scores[0]
    start = np.where(known, scores > 0.0, u > 0.5).astype(np.float64)
    if layout.only_pairs and gap <= INTEGRAL * np.abs(scores[~known]).min(initial=np.inf):
        # Roof duality: if all factors are pairs, an optimal assignment agrees with the integral values of the
        # relaxation.
        known |= ~fractional(u)
    return assign_exactly(problem, start, known, deadline, max_nodes, _multipliers(problem, relaxed))
