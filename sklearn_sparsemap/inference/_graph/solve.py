"""`lp_sparsemap`: SparseMAP in factor graphs, for one sample or for many."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..._core.jit import readonly
from ..._core.threads import ends_at, over_ranges
from ..._core.validation import check_choice, check_n_jobs, check_positive
from ...factors import FactorGraph
from ...graphs.batch import BY_MULTIPLIERS, GRAPH_SOLVERS
from ...graphs.choice import graph_solver, small_solver
from ...graphs.matchings import matching_multipliers_range
from ...graphs.rows import CONVERGED, INFEASIBLE, NOT_CONVERGED, TOO_LARGE
from ...graphs.samples import GAP, N_ITER, OBJECTIVE, RESIDUAL, STATUS, GraphSamples, GraphSolutions
from ...numerics.solver import MOST_STRUCTURE_CALLS
from ...structures import Simplex
from .._results import LPSparseMAPBatch
from .._results.graph import LPSparseMAPResult
from .contradictions import least_contradiction, list_rules
from .problems import problems_by_graph
from .sizes import LARGE, clipped_samples, with_trials

# Fraction of the requested tolerance at which solvers aim, because the error of marginals also depends on the graph.
# Newton's method is exact at the end, so a larger fraction saves nothing. "pairwise" is also for its sweeps over pairs.
_AIM = {"newton": 1e-5, "pairwise": 1e-2, "block": 1e-1, "admm": 1e-3, "tables": 1.0}
# Smallest residual at which Newton's method aims in a graph with structures. Marginals of a mixture of hundreds of
# structures are not more exact, and each further step solves the structures several times.
_FINEST = 1e-12

# Continuation over the magnitude of scores: `_EASY` is the first magnitude, `_GROWTH` the factor to the next one.
# Samples with scores above `_FAR` are first tried with only `_FEW` iterations.
_EASY, _GROWTH, _FAR, _FEW = 10.0, 10.0, 101.0, 50
# Largest magnitude of scores; beyond it, the rounding error of marginals exceeds 1e-6.
_MOST_SIZE = 1e9
# Arguments of solvers for a cold start and for unscaled problems.
_NO_START, _NO_SCALES = np.zeros((0, 0)), np.zeros((0, 3))


def lp_sparsemap(
    graph: FactorGraph | Sequence[FactorGraph],
    scores: Any,
    *,
    additional: Any = None,
    solver: str = "auto",
    tol: float = 1e-6,
    max_iter: int = 1000,
    n_jobs: int | None = None,
    warm_start: Any = None,
) -> Any:
    """Solve LP-SparseMAP: sparse marginals that satisfy all factors of a graph.

    Maximises ``scores.u + additional.v - 1/2 |u|^2`` over marginals u of the variables, and v of the additional parts,
    that lie in the polytope of every factor ([1]_, section 3).

    Parameters
    ----------
    graph : FactorGraph, or a list of these
        The graph of all samples, or a list with that of each sample. Samples of one graph are solved together.
    scores : array-like, dict of str -> array-like, or a list of these
        Scores of the variables, in their shape: one array if the graph has one array of variables, else a dict by name.
        A list holds the scores of many samples. Arrays that are missing in a dict are zero. -inf switches a variable
        off. If its negation is a part of a structure factor, the structure must then have this part.
    additional : dict, or list of dict, default=None
        Additional scores by the name of the factor: for `Pair` an array with one score for each pair (or one number for
        all pairs), for `StructureFactor` a dict such as ``{"transitions": ...}``. With many samples: one dict for all,
        or a list with one for each sample.
    solver : {"auto", "newton", "block", "admm", "pairwise", "tables"}, default="auto"
        Solver of the dual problem.

        - ``"newton"``: semismooth Newton on the multipliers of the factors' inequalities, which is exact once the
          active faces no longer change. For graphs in which no variable is in two structures.
        - ``"block"``: block coordinate ascent, one factor after the other, with Anderson acceleration.
        - ``"admm"``: the alternating direction method of multipliers of [1]_, algorithm 1.
        - ``"pairwise"``: coordinate ascent over pairs. For graphs whose factors are all `Pair`.
        - ``"tables"``: the method of multipliers with Newton steps. For graphs of variables with several values whose
          factors are all `PairTable`.
        - ``"auto"``: tables if possible, else newton if possible, else block.

        A solver is compiled at its first use. Graphs without pairs and with at most 1000 links of factors with
        variables have a shorter ``"newton"`` and ``"block"``, with the steps that nearly all samples need. The complete
        solver takes over, from the start, for samples on which these do not converge, and for structures that prefer
        facets. So results depend neither on what is compiled nor on the other samples.
    tol : float, default=1e-6
        Tolerance of the residual and the duality gap. Newton's method usually ends far below it.
    max_iter : int, default=1000
        Maximum number of sweeps and Newton steps.
    n_jobs : int, default=None
        Number of threads over the samples of a list; -1 uses all cores.
    warm_start : LPSparseMAPResult or list of these, default=None
        Earlier results of this graph, one for each sample, from which the solver starts.

    Returns
    -------
    result : LPSparseMAPResult or LPSparseMAPBatch
        For a list, a sequence with one result for each sample, made on demand, with `marginals`, `gap`, `objective`,
        `residual`, `n_iter` and `converged` of all samples as arrays.

    Raises
    ------
    ValueError
        If scores do not fit the graph, are NaN or +inf, or if no marginals satisfy all factors; the message names the
        factors that contradict each other. Also if scores exceed 1e9, because marginals between 0 and 1 would be lost
        in rounding. Large negative scores that switch variables off, as -inf does, are allowed.

    References
    ----------
    .. [1] Niculae and Martins. LP-SparseMAP: Differentiable Relaxed Optimization for Sparse Structured Prediction. ICML
       2020.

    Examples
    --------
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import Budget, FactorGraph, Imply
    >>> graph = FactorGraph()
    >>> u = graph.variables(3)
    >>> graph.add(Imply([u[0], u[1]]), Budget(u, 2))
    >>> result = lp_sparsemap(graph, [0.75, 0.25, 0.75])
    >>> result.marginals
    array([0.5 , 0.5 , 0.75])
    >>> result.vjp([1.0, 0.0, 0.0])["scores"]
    array([0.5, 0.5, 0. ])
    """
    check_choice("solver", solver, ("auto", *GRAPH_SOLVERS))
    check_n_jobs(n_jobs)
    check_positive("tol", tol)
    check_positive("max_iter", max_iter, integer=True)
    groups, many = problems_by_graph(graph, scores, additional)
    n = sum(len(places) for places, _ in groups)
    warm_start = _check_warm_start(warm_start, n)
    solved, again = [], partial(solve_again, solver=solver)
    for places, problems in groups:
        warm = None if warm_start is None else _warm([warm_start[i] for i in places], problems, places)
        solutions = solve_graph(problems, tol, max_iter, solver=solver, n_jobs=n_jobs, warm=warm)
        check_feasible(problems, solutions, many, places)
        solved.append((places, problems, solutions))
    if not many:
        return LPSparseMAPResult(problems, solutions, tol, again)
    return LPSparseMAPBatch(solved, n, isinstance(additional, list | tuple), again, tol, n_jobs)


def solve_again(problems, solutions, tol, n_jobs, solver="auto"):
    """Solve samples more accurately, starting from earlier solutions."""
    warm = solutions.multipliers, start_of(problems.layout, solutions.links, solutions.joint)
    return solve_graph(problems, tol, 10_000, solver=solver, n_jobs=n_jobs, warm=warm)


def start_of(layout, links, joint):
    """Return the start of solvers over dual variables of links, one row for each sample; tables also need `joint`."""
    return np.hstack([links, joint]) if layout.tables is not None else links


def choose_solver(layout, solver="auto"):
    """Return the name of the solver for a graph."""
    if solver == "auto" and layout.tables is not None:
        return "tables"
    if solver == "auto":
        return "block" if layout.shares_variables else "newton"
    if solver == "tables" and layout.tables is None:
        raise ValueError(
            "solver='tables' is for graphs of variables with several values whose factors are all PairTable; use 'auto'"
        )
    if solver == "newton" and layout.shares_variables:
        raise ValueError("solver='newton' needs graphs in which no variable is in two structures; use 'block'")
    if solver == "pairwise" and not layout.only_pairs:
        raise ValueError("solver='pairwise' is for graphs whose factors are all Pair; use 'auto'")
    return solver


def solve_graph(
    problems, tol, max_iter, *, solver="auto", n_jobs=None, warm=None, sizes=None, keep="all", deadline=None
):
    """Solve samples that are laid out for the kernels.

    Parameters
    ----------
    problems : GraphProblems
    warm : (multipliers, links), default=None
        Warm start, one row for each sample; see `start_of`.
    sizes : array of shape (n_samples,), default=None
        Magnitudes of the relevant scores, if known. By default, scores of very different magnitudes are detected, and
        solved by clipping; see `clipped_samples`.
    keep : {"all", "marginals"}, default="all"
        The contents of the solutions. ``"marginals"`` requires a graph of pairs only.
    deadline : float or None, default=None
        The `working_time` at which solvers end.

    Returns
    -------
    solutions : GraphSolutions
    """
    method = choose_solver(problems.layout, solver)
    options = {"method": method, "tol": tol, "n_jobs": n_jobs, "keep": keep, "deadline": deadline}
    solve = partial(_solve_easy_first, max_iter=max_iter, options=options)
    if sizes is not None:
        return solve(problems, sizes, warm)
    sizes = problems.sizes()
    large = sizes > LARGE
    if not large.any():
        return solve(problems, sizes, warm)
    out = empty_solutions(problems.layout, len(sizes), keep)
    if not large.all():
        own_warm = None if warm is None else [array[~large] for array in warm]
        out.put(~large, solve(problems.take(~large), sizes[~large], own_warm))
    _solve_clipped(problems, np.flatnonzero(large), warm, solve, tol, out)
    return out


def _solve_clipped(problems, left, warm, solve, tol, out):
    """Solve samples with large scores by samples with smaller scores; see `clipped_samples`.

    Parameters
    ----------
    problems : GraphProblems
    left : int array
        Indices of the samples with large scores.
    warm : (multipliers, links) or None
        As in `solve_graph`, for all samples.
    solve : callable
        ``solve(problems, sizes, warm)`` solves samples.
    tol : float
        The accuracy of `solve`.
    out : GraphSolutions
        Solutions of all samples. The solutions of `left` are overwritten.
    """
    trials = clipped_samples(problems, left)
    while len(left):
        current = {i: trials[i].pop(0) for i in left.tolist()}
        offsets = [np.array(own) for own in zip(*(trial.offsets() for trial in current.values()))]
        own_warm = None if warm is None else [array[left] for array in warm]
        for array, offset in zip(own_warm or (), offsets):
            # Joint marginals after the links are not shifted.
            array[:, : offset.shape[1]] -= offset
        own = with_trials(problems, left, current)
        own_sizes = own.sizes()
        found = solve(own, own_sizes, own_warm)
        found.statistics[:, N_ITER] += out.statistics[left, N_ITER]
        for k, (i, trial) in enumerate(current.items()):
            u, joint, statistics = found.marginals[k], found.joint[k], found.statistics[k]
            if statistics[STATUS] == INFEASIBLE:
                # Infeasibility does not depend on the scores, and the solution contains its certificate.
                trials[i] = []
                continue
            if not trials[i] or trial.accepts(u, joint):
                trials[i] = []
                statistics[RESIDUAL] += trial.snap(u, joint)
                # Compute the objective from the original scores, because a difference of large numbers would be
                # inexact.
                statistics[OBJECTIVE] = problems.take([i]).values(u[None], joint[None])[0] - 0.5 * (u @ u)
                if _is_rounded(own_sizes[k], u, statistics, tol):
                    statistics[STATUS] = TOO_LARGE
            for array, offset in zip((found.multipliers, found.links), offsets):
                array[k] += offset[k]
        out.put(left, found)
        left = np.array([i for i in left.tolist() if trials[i]], np.int64)


def _is_rounded(size, u, statistics, tol):
    """Tell whether scores are so large that rounding leaves no digits of marginals between 0 and 1."""
    if size <= _MOST_SIZE:
        return False
    solved = statistics[STATUS] == CONVERGED and statistics[RESIDUAL] <= tol and statistics[GAP] <= 1e-13 * size
    return not solved or bool((np.minimum(u, 1.0 - u) > 1e-9).any())


def _solve_easy_first(problems, sizes, warm, *, max_iter, options):
    """Solve samples; start with smaller scores if scores are large, or if the solver does not converge."""
    far = sizes > _FAR if warm is None else np.zeros(len(sizes), bool)
    if not far.any():
        out = solve_once(problems, warm, max_iter, **options)
        if not (out.statistics[:, STATUS] != CONVERGED).any():
            return out
    else:
        out = empty_solutions(problems.layout, len(sizes), options["keep"])
        for chosen, most in ((~far, max_iter), (far, min(max_iter, _FEW))):
            if chosen.any():
                out.put(chosen, solve_once(problems.take(chosen), None, most, **options))
    status = out.statistics[:, STATUS]
    left = np.flatnonzero((status == NOT_CONVERGED) & ~far)
    if len(left):
        # Feasibility does not depend on the scores. Zero scores decide it fastest.
        none = problems.take(left).scaled(np.zeros(len(left)))
        found = solve_once(none, None, max_iter, **options | {"tol": 1e-6})
        _replace(out, found, left, found.statistics[:, STATUS] == INFEASIBLE)
    left = np.flatnonzero((status == NOT_CONVERGED) & (sizes > _EASY))
    # Large scores need large multipliers. Each scale of the scores starts from the solution at the previous one.
    scale, start = _EASY / sizes[left], None
    while len(left):
        found = solve_once(problems.take(left).scaled(scale), start, max_iter, **options)
        own = found.statistics
        done = (scale >= 1.0) | (own[:, STATUS] == INFEASIBLE)
        better = done & ((own[:, STATUS] != NOT_CONVERGED) | far[left])
        _replace(out, found, left, better)
        out.statistics[left[~better], N_ITER] += own[~better, N_ITER]
        growth = np.minimum(_GROWTH, 1.0 / scale)[:, None]
        start = tuple((growth * array)[~done] for array in (found.multipliers, found.links))
        left, scale = left[~done], np.minimum(scale * _GROWTH, 1.0)[~done]
    return out


def _replace(out, found, left, chosen):
    """Replace the solutions of the chosen samples; the numbers of iterations add up."""
    before = out.statistics[left[chosen], N_ITER]
    out.put(left[chosen], found.take(chosen))
    out.statistics[left[chosen], N_ITER] += before


def empty_solutions(layout, n, keep):
    """Allocate solutions of `n` samples."""
    arrays, everything = layout.arrays, keep == "all"
    dual = len(arrays.row_bounds) + len(arrays.pairs), len(arrays.links)
    sizes = layout.n_variables, *(everything * size for size in (layout.n_additional, *dual)), 5
    return GraphSolutions(*(np.zeros((n, size)) for size in sizes))


def solve_once(problems, warm, max_iter, *, method, tol, n_jobs, keep="all", deadline=None):
    """Solve samples; see `solve_graph`."""
    layout, n = problems.layout, len(problems.scores)
    arrays, out = layout.arrays, empty_solutions(layout, n, keep)
    start = _NO_START if warm is None else warm[0] if method in BY_MULTIPLIERS else warm[1]
    if warm is not None and method not in (*BY_MULTIPLIERS, "tables"):
        start = start[:, : len(arrays.links)]
    scales = _NO_SCALES if problems.scales is None else problems.scales
    aim = tol * _AIM["pairwise" if method == "newton" and layout.only_pairs else method]
    if method == "newton" and len(arrays.structures):
        aim = max(aim, min(tol, _FINEST))
    limits, n_steps = np.array([min(int(max_iter), np.iinfo(np.int64).max), MOST_STRUCTURE_CALLS]), None
    # If links are not kept, the time of a sample depends on its fractional pairs.
    costs = np.full(n, layout.n_variables + (len(arrays.links) if keep == "all" else len(arrays.pairs) // 10))
    with ends_at(deadline, limits):
        if method == "newton" and layout.matching is not None:
            # The combinatorial solver computes multipliers. Newton's method then only verifies them, or detects
            # infeasibility.
            scores, before, start = readonly(problems.scores), readonly(start), np.zeros((n, len(arrays.row_bounds)))
            n_steps = np.zeros((n, 1))
            over_ranges(
                lambda begin, end: matching_multipliers_range(
                    layout.matching, scores, before, limits, begin, end, start, n_steps
                ),
                costs,
                n_jobs,
                limit=limits,
            )
        samples = GraphSamples(*map(readonly, (problems.scores, problems.additional, start, scales)))
        run = partial(_run, aim=aim, limits=limits, costs=costs, n_jobs=n_jobs)
        small = None
        if problems.scales is None:
            small = small_solver(layout, method, Simplex.oracle, samples)
        if small is None:
            run(*graph_solver(layout, method, Simplex.oracle), samples, out)
        else:
            run(*small, samples, out)
            left = np.flatnonzero(out.statistics[:, STATUS] != CONVERGED)
            if len(left) == n:
                out.statistics[:] = 0.0
                run(*graph_solver(layout, method, Simplex.oracle), samples, out)
            elif len(left):
                found = empty_solutions(layout, len(left), keep)
                run(*graph_solver(layout, method, Simplex.oracle), samples.take(left), found)
                out.put(left, found)
    if n_steps is not None:
        out.statistics[:, N_ITER] += n_steps[:, 0]
    if method == "tables" and deadline is None:
        _solve_by_block(problems, out, max_iter, tol, n_jobs)
    return out


def _run(kernel, own, samples, out, *, aim, limits, costs, n_jobs):
    """Solve samples with a kernel whose first arguments are `own`; `costs` has at least one entry for each sample."""
    over_ranges(
        lambda begin, end: kernel(*own, samples, aim, limits, begin, end, out),
        costs[: len(samples.scores)],
        n_jobs,
        limit=limits,
    )


def _solve_by_block(problems, out, max_iter, tol, n_jobs):
    """Solve samples by block coordinate ascent if the solver of tables failed because of forbidden or masked cells.

    Block coordinate ascent detects infeasibility, and does not depend on the magnitude of scores.
    """
    left = np.flatnonzero(out.statistics[:, STATUS] == NOT_CONVERGED)
    if len(left):
        found = solve_once(problems.take(left), None, max_iter, method="block", tol=tol, n_jobs=n_jobs)
        _replace(out, found, left, found.statistics[:, STATUS] != NOT_CONVERGED)


def check_feasible(problems, solutions, many=True, numbers=None):
    """Raise ValueError for the first sample that is infeasible, or whose marginals are lost in rounding.

    The message lists factors that contradict each other, each of which is needed for that. `problems` are the samples,
    and `numbers` are the indices of the samples in the user's list, if they do not count from 0.
    """
    statistics = solutions.statistics
    if not (statistics[:, STATUS] >= INFEASIBLE).any():
        return
    too_large = np.flatnonzero(statistics[:, STATUS] == TOO_LARGE)
    if len(too_large):
        which = _name(too_large[0], many, numbers)
        raise ValueError(
            f"{which} (with the additional scores) are so large, above {_MOST_SIZE:g}, that rounding leaves no digits "
            "of the marginals. Divide them by a number; to forbid a variable use -inf"
        )
    i = np.flatnonzero(statistics[:, STATUS] == INFEASIBLE)[0]
    # The certificate of infeasibility: multipliers of rows or, if these are zero, variables of links.
    layout = problems.layout
    arrays = layout.arrays
    strength = np.zeros(len(arrays.kinds))
    np.maximum.at(strength, arrays.row_factors, np.abs(solutions.multipliers[i, : len(arrays.row_factors)]))
    if not strength.any():
        of_link = np.repeat(np.arange(len(strength)), np.diff(arrays.link_ptr))
        np.maximum.at(strength, of_link, np.abs(solutions.links[i]))
    which = _name(i, many, numbers)
    message = f"infeasible: under {which} (with the additional scores) no marginals satisfy all factors"
    if strength.any():
        order = np.argsort(-strength, kind="stable")
        factors = [int(f) for f in order if strength[f] > 1e-6 * strength.max()]
        needed = map(layout.factor_of, least_contradiction(layout, problems.scores[i], factors))
        message += f"; these contradict each other: {list_rules(needed)}"
    raise ValueError(f"{message}. Remove a factor, or allow more variables by scores above -inf")


def _name(i, many, numbers):
    return f"scores[{i if numbers is None else numbers[i]}]" if many else "scores"


def _check_warm_start(warm_start, n):
    """Return the argument `warm_start` as a sequence with one result for each sample, or None."""
    if warm_start is None:
        return None
    results = [warm_start] if isinstance(warm_start, LPSparseMAPResult) else warm_start
    if not isinstance(results, Sequence | np.ndarray):
        raise ValueError(f"warm_start must be a result of lp_sparsemap, or a list of these; got {warm_start!r}")
    if len(results) != n:
        raise ValueError(f"warm_start holds {len(results)} results for {n} samples; pass one for each")
    return results


def _fits(result, layout):
    """Tell whether the arrays of an earlier result of the graph have the lengths that kernels expect.

    The graph may have grown since then, and the result may be for different additional scores.
    """
    rows, links = (len(getattr(layout.arrays, name)) for name in ("row_bounds", "links"))
    same_joint = layout.tables is None or len(result._joint) == layout.n_additional
    return len(result._links) == links and len(result._layout.arrays.row_bounds) == rows and same_joint


def _warm(results, problems, numbers):
    """Check results for a warm start; return their multipliers and link variables."""
    layout = problems.layout
    for i, result in zip(numbers, results):
        same = isinstance(result, LPSparseMAPResult) and result._layout.graph is layout.graph
        if not same or not _fits(result, layout):
            raise ValueError(f"warm_start[{i}] is not a result of this graph; solve the graph once without it")
    links, joint = np.array([r._links for r in results]), np.array([r._joint for r in results])
    return np.array([r._multipliers for r in results]), start_of(layout, links, joint)
