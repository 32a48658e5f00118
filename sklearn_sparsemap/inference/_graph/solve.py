"""`lp_sparsemap`: SparseMAP in factor graphs, for one sample or for many."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..._core.jit import readonly
from ..._core.threads import ends_at, over_ranges
from ..._core.validation import check_choice, check_n_jobs, check_positive
from ...factors import FactorGraph
from ...graphs.batch import BY_MULTIPLIERS, GRAPH_SOLVERS
from ...graphs.choice import graph_solver, small_solver
from ...graphs.matchings import matching_multipliers_range
from ...graphs.rows import CONVERGED, INFEASIBLE, TOO_LARGE
from ...graphs.samples import N_ITER, STATUS, GraphSamples, GraphSolutions
from ...numerics.solver import MOST_STRUCTURE_CALLS
from ...structures import Simplex
from .._results import LPSparseMAPBatch
from .._results.graph import LPSparseMAPResult
from .clipping import LARGE, MAX_SIZE, Clipping
from .contradictions import least_contradiction, list_rules
from .problems import problems_by_graph
from .reductions import GrowingScores, OtherSolver, ZeroScores, solve_reduced

# Fraction of the requested tolerance at which solvers aim, because the error of marginals also depends on the graph.
# Newton's method is exact at the end, so a larger fraction saves nothing. "pairwise" is also for its sweeps over pairs.
_AIM = {"newton": 1e-5, "pairwise": 1e-2, "block": 1e-1, "admm": 1e-3, "tables": 1.0}
# Smallest residual at which Newton's method aims in a graph with structures. Marginals of a mixture of hundreds of
# structures are not more exact, and each further step solves the structures several times.
_MIN_AIM = 1e-12

# Largest magnitude of scores at which a cold start gets `max_iter` iterations. Samples with larger scores get at most
# `_MAX_FIRST` iterations before `GrowingScores`.
_MAX_DIRECT, _MAX_FIRST = 101.0, 50
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
    if warm_start is not None:
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
        solved by `Clipping`.
    keep : {"all", "marginals"}, default="all"
        The contents of the solutions. ``"marginals"`` requires a graph of pairs only.
    deadline : float or None, default=None
        The `working_time` at which solvers end.

    Returns
    -------
    solutions : GraphSolutions
    """
    method = choose_solver(problems.layout, solver)
    solver = GraphSolver(method, tol, max_iter, n_jobs, keep, deadline)
    if sizes is not None:
        return solver.solve(problems, warm, sizes)
    sizes = problems.sizes()
    ordinary = sizes <= LARGE
    if ordinary.all():
        return solver.solve(problems, warm, sizes)
    out = empty_solutions(problems.layout, len(sizes), keep)
    if ordinary.any():
        start = None if warm is None else [array[ordinary] for array in warm]
        out.put(ordinary, solver.solve(problems.take(ordinary), start, sizes[ordinary]))
    solve_reduced(Clipping(problems, sizes, warm, tol), solver.solve, out)
    return out


class GraphSolver(NamedTuple):
    """A solver of the dual problem with its options; see `solve_graph`."""

    method: str
    tol: float
    max_iter: int
    n_jobs: object = None
    keep: str = "all"
    deadline: object = None

    def solve(self, problems, warm=None, sizes=None):
        """Solve samples with scores of these magnitudes; those that do not converge get easier scores first."""
        sizes = problems.sizes() if sizes is None else sizes
        far = sizes > _MAX_DIRECT if warm is None else np.zeros(len(sizes), bool)
        if not far.any():
            out = self.run(problems, warm)
            if not (out.statistics[:, STATUS] != CONVERGED).any():
                return out
        else:
            out = empty_solutions(problems.layout, len(sizes), self.keep)
            for rows, max_iter in ((~far, self.max_iter), (far, min(self.max_iter, _MAX_FIRST))):
                if rows.any():
                    out.put(rows, self._replace(max_iter=max_iter).run(problems.take(rows)))
        solve_reduced(ZeroScores(problems, far), self._replace(tol=1e-6).run, out)
        solve_reduced(GrowingScores(problems, sizes, far), self.run, out)
        return out

    def run(self, problems, warm=None, use_small=True):
        """Solve samples by the kernels, from a warm start or from zero; `use_small` allows those of small graphs."""
        layout, n = problems.layout, len(problems.scores)
        arrays, out = layout.arrays, empty_solutions(layout, n, self.keep)
        start = _NO_START if warm is None else warm[0] if self.method in BY_MULTIPLIERS else warm[1]
        if warm is not None and self.method not in (*BY_MULTIPLIERS, "tables"):
            start = start[:, : len(arrays.links)]
        aim = self.tol * _AIM["pairwise" if self.method == "newton" and layout.only_pairs else self.method]
        if self.method == "newton" and len(arrays.structures):
            aim = max(aim, min(self.tol, _MIN_AIM))
        limits = np.array([min(int(self.max_iter), np.iinfo(np.int64).max), MOST_STRUCTURE_CALLS])
        # If links are not kept, the time of a sample depends on its fractional pairs.
        n_links = len(arrays.links) if self.keep == "all" else len(arrays.pairs) // 10
        costs, n_steps = np.full(n, layout.n_variables + n_links), None
        with ends_at(self.deadline, limits):
            if self.method == "newton" and layout.matching is not None:
                # Newton's method then only verifies the multipliers, or detects infeasibility.
                start, n_steps = _matching_multipliers(layout, problems.scores, start, limits, costs, self.n_jobs)
            scales = _NO_SCALES if problems.scales is None else problems.scales
            samples = GraphSamples(*map(readonly, (problems.scores, problems.additional, start, scales)))
            use_small = use_small and problems.scales is None
            small = small_solver(layout, self.method, Simplex.oracle, samples) if use_small else None
            kernel, first = small or graph_solver(layout, self.method, Simplex.oracle)
            over_ranges(
                lambda begin, end: kernel(*first, samples, aim, limits, begin, end, out),
                costs,
                self.n_jobs,
                limit=limits,
            )
        if n_steps is not None:
            out.statistics[:, N_ITER] += n_steps
        if small is not None and (out.statistics[:, STATUS] != CONVERGED).any():
            left = np.flatnonzero(out.statistics[:, STATUS] != CONVERGED)
            start = None if warm is None else [array[left] for array in warm]
            out.put(left, self.run(problems.take(left), start, use_small=False))
        if self.method == "tables" and self.deadline is None:
            # Forbidden or masked cells can make the solver of tables fail. Block coordinate ascent detects
            # infeasibility, and does not depend on the magnitude of scores.
            solve_reduced(OtherSolver(problems), self._replace(method="block").run, out)
        return out


def _matching_multipliers(layout, scores, warm, limits, costs, n_jobs):
    """Solve samples of a graph that is one matching; return their multipliers and numbers of Newton steps."""
    scores, warm = readonly(scores), readonly(warm)
    multipliers, n_steps = np.zeros((len(scores), len(layout.arrays.row_bounds))), np.zeros((len(scores), 1))
    over_ranges(
        lambda begin, end: matching_multipliers_range(
            layout.matching, scores, warm, limits, begin, end, multipliers, n_steps
        ),
        costs,
        n_jobs,
        limit=limits,
    )
    return multipliers, n_steps[:, 0]


def empty_solutions(layout, n, keep="all"):
    """Allocate solutions of `n` samples."""
    arrays, everything = layout.arrays, keep == "all"
    dual = len(arrays.row_bounds) + len(arrays.pairs), len(arrays.links)
    sizes = layout.n_variables, *(everything * size for size in (layout.n_additional, *dual)), 5
    return GraphSolutions(*(np.zeros((n, size)) for size in sizes))


def solve_once(problems, warm, max_iter, *, method, tol, n_jobs):
    """Solve samples by the kernels alone, without reductions; see `solve_graph`."""
    return GraphSolver(method, tol, max_iter, n_jobs).run(problems, warm)


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
            f"{which} (with the additional scores) are so large, above {MAX_SIZE:g}, that rounding leaves no digits "
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
    """Return the argument `warm_start` as a sequence with one result for each sample."""
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
