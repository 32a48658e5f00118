"""LP-SparseMAP of samples of one factor graph that are laid out for the kernels.

Used by `_layers`, `inference`, `losses`, `map.py` and `problems.py`.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from ..._core.errors import SampleError
from ..._core.jit import readonly
from ..._core.threads import ends_at, over_ranges
from ..._graphs.batch import BY_MULTIPLIERS
from ..._graphs.choice import graph_solver, small_solver
from ..._graphs.matchings import matching_multipliers_range
from ..._graphs.rows import CONVERGED, INFEASIBLE, TOO_LARGE
from ..._graphs.samples import N_ITER, STATUS, GraphSolutions, SampleArrays
from ..._numerics.solver import MAX_STRUCTURE_CALLS
from ...structures import Simplex
from .clipping import LARGE, MAX_SIZE, Clipping
from .contradictions import least_contradiction, list_rules
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
_NO_START = np.zeros((0, 0))
_NO_SCALES = np.zeros((0, 3))


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


def solve_graph(problems, tol, max_iter, *, solver="auto", n_jobs=None, warm=None, keep="all"):
    """Solve samples by a solver with these options; see `GraphSolver`."""
    solver = GraphSolver(choose_solver(problems.layout, solver), tol, max_iter, n_jobs, keep)
    return solver.solve(problems, warm)


class GraphSolver(NamedTuple):
    """A solver of the dual problem with its options.

    Attributes
    ----------
    method : str
        A name in `GRAPH_SOLVERS`.
    tol, max_iter, n_jobs
        As in `lp_sparsemap`.
    keep : {"all", "marginals"}
        The contents of the solutions. ``"marginals"`` requires a graph of pairs only.
    deadline : float or None
        The `working_time` at which the solver ends.

    `_layers/graphs.py` makes one, too, by the order of these.
    """

    method: str
    tol: float
    max_iter: int
    n_jobs: int | None = None
    keep: str = "all"
    deadline: float | None = None

    def solve(self, problems, warm=None, sizes=None):
        """Solve samples that are laid out for the kernels; return `GraphSolutions`.

        Samples with scores of very different magnitudes are clipped. Others are solved as they are. Those that do not
        converge then start from smaller scores.

        Parameters
        ----------
        problems : GraphBatch
        warm : (multipliers, links), default=None
            Warm start, one row for each sample; see `start_of`.
        sizes : array of shape (n_samples,), default=None
            Magnitudes of the scores, if no sample is to be clipped.
        """
        if sizes is None:
            sizes = problems.sizes()
            if (sizes > LARGE).any():
                return self._solve_clipped(problems, warm, sizes)
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

    def _solve_clipped(self, problems, warm, sizes):
        """Solve samples, some of which have large scores."""
        out = empty_solutions(problems.layout, len(sizes), self.keep)
        ordinary = sizes <= LARGE
        if ordinary.any():
            start = None if warm is None else [array[ordinary] for array in warm]
            out.put(ordinary, self.solve(problems.take(ordinary), start, sizes[ordinary]))
        # Clipping reads all parts of the solutions.
        solve_reduced(Clipping(problems, sizes, warm, self.tol), self._replace(keep="all").solve, out)
        return out

    def run(self, problems, warm=None, use_small=True):
        """Solve samples by the kernels, from a warm start or from zero; `use_small` allows those of small graphs."""
        layout = problems.layout
        n = len(problems.scores)
        arrays = layout.arrays
        out = empty_solutions(layout, n, self.keep)
        start = _NO_START if warm is None else warm[0] if self.method in BY_MULTIPLIERS else warm[1]
        if warm is not None and self.method not in (*BY_MULTIPLIERS, "tables"):
            start = start[:, : len(arrays.links)]
        aim = self.tol * _AIM["pairwise" if self.method == "newton" and layout.only_pairs else self.method]
        if self.method == "newton" and len(arrays.structures):
            aim = max(aim, min(self.tol, _MIN_AIM))
        limits = np.array([min(int(self.max_iter), np.iinfo(np.int64).max), MAX_STRUCTURE_CALLS])
        # If links are not kept, the time of a sample depends on its fractional pairs.
        n_links = len(arrays.links) if self.keep == "all" else len(arrays.pairs) // 10
        costs = np.full(n, layout.n_variables + n_links)
        n_steps = None
        with ends_at(self.deadline, limits):
            if self.method == "newton" and layout.matching is not None:
                # Newton's method then only verifies the multipliers, or detects infeasibility.
                start, n_steps = _matching_multipliers(layout, problems.scores, start, limits, costs, self.n_jobs)
            scales = _NO_SCALES if problems.scales is None else problems.scales
            samples = SampleArrays(*map(readonly, (problems.scores, problems.additional, start, scales)))
            use_small = use_small and problems.scales is None
            small = small_solver(layout, self.method, Simplex.oracle, samples) if use_small else None
            kernel, first = small or graph_solver(layout, self.method, Simplex.oracle)
            over_ranges(partial(kernel, *first, samples, aim, limits, out), costs, self.n_jobs, limit=limits)
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
    scores = readonly(scores)
    warm = readonly(warm)
    multipliers = np.zeros((len(scores), len(layout.arrays.row_bounds)))
    n_steps = np.zeros((len(scores), 1))
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
    arrays = layout.arrays
    everything = keep == "all"
    dual = len(arrays.row_bounds) + len(arrays.pairs), len(arrays.links)
    sizes = layout.n_variables, *(everything * size for size in (layout.n_additional, *dual)), 5
    return GraphSolutions(*(np.zeros((n, size)) for size in sizes))


def check_feasible(problems, solutions):
    """Raise `SampleError` for the first sample that is infeasible, or whose marginals are lost in rounding.

    The message lists factors that contradict each other, each of which is needed for that.
    """
    statistics = solutions.statistics
    if not (statistics[:, STATUS] >= INFEASIBLE).any():
        return
    too_large = np.flatnonzero(statistics[:, STATUS] == TOO_LARGE)
    if len(too_large):
        raise SampleError(
            "scores",
            problems.position_of(too_large[0]),
            f"{with_additional(problems)} are so large, above {MAX_SIZE:g}, that rounding leaves no digits of the "
            "marginals. ",
            remedy="Divide them by a number; to forbid a variable use -inf",
            model_remedy="Scale the features",
        )
    i = np.flatnonzero(statistics[:, STATUS] == INFEASIBLE)[0]
    # The certificate of infeasibility: multipliers of rows or, if these are zero, variables of links.
    layout = problems.layout
    arrays = layout.arrays
    strength = np.zeros(len(arrays.factor_types))
    np.maximum.at(strength, arrays.row_factors, np.abs(solutions.multipliers[i, : len(arrays.row_factors)]))
    if not strength.any():
        of_link = np.repeat(np.arange(len(strength)), np.diff(arrays.link_ptr))
        np.maximum.at(strength, of_link, np.abs(solutions.links[i]))
    message = "no marginals satisfy all factors"
    if strength.any():
        order = np.argsort(-strength, kind="stable")
        factors = [int(f) for f in order if strength[f] > 1e-6 * strength.max()]
        needed = map(layout.factor_of, least_contradiction(layout, problems.scores[i], factors))
        message += f"; these contradict each other: {list_rules(needed)}"
    raise infeasible(problems, i, message)


def infeasible(problems, i, message):
    """Return the error for a sample that is infeasible; people who give scores can also change these."""
    message = f"{with_additional(problems)} {message}. Remove a factor"
    remedy = ", or allow more variables by scores above -inf"
    place = "scores", problems.position_of(i)
    return SampleError(*place, "infeasible: under ", message, infeasible=True, remedy=remedy)


def with_additional(problems):
    """Return the words of messages about scores that mention the additional scores, if the graph has any."""
    return " (with the additional scores)" if problems.layout.n_additional else ""
