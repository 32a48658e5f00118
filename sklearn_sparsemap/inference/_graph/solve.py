"""`lp_sparsemap`: SparseMAP in factor graphs, for one sample or for many."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..._jit import readonly
from ..._threads import over_ranges
from ..._validation import check_choice, check_n_jobs, check_positive
from ...factors import FactorGraph
from ...graphs._arrays import FORBIDDEN, PAIR
from ...solvers import LPSparseMAPBatch
from ...solvers._graph.batch import (
    BY_MULTIPLIERS,
    GAP,
    GRAPH_SOLVERS,
    LOGIC_SOLVERS,
    N_ITER,
    OBJECTIVE,
    RESIDUAL,
    STATUS,
)
from ...solvers._graph.result import LPSparseMAPResult
from ...solvers._graph.rows import CONVERGED, INFEASIBLE, NOT_CONVERGED, TOO_LARGE
from ...solvers._polytope.active_set import active_set
from ...solvers._polytope.argmax import map_argmax
from ...solvers._polytope.protocol import MOST_STRUCTURE_CALLS
from ...structures import Simplex
from .problems import as_graph_samples
from .sizes import clipped_samples

# Solvers aim below the tolerance asked for: what is left of the marginals' error depends on the graph. Newton's method
# is exact in the end, and it would be a waste to stop it before; but for the sweeps over pairs, which are short of it.
_AIM = {"newton": 1e-5, "pairwise": 1e-2, "block": 1e-1, "admm": 1e-3}

# Scores of this size are easy; from there they grow by this factor. Those above the third get few iterations at once.
_EASY, _GROWTH, _FAR, _FEW = 10.0, 10.0, 101.0, 50
# Where scores are larger than this, rounding is above 1e-6.
_MOST_SIZE = 1e9


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
    """Solve LP-SparseMAP: sparse marginals that satisfy all factors of a graph (L 3).

    Maximises ``scores.u + additional.v - 1/2 |u|^2`` over marginals u of the variables, and v of the additional parts,
    that lie in the polytope of every factor.

    Parameters
    ----------
    graph : FactorGraph, or a list of these
        One for all samples, or one for each; samples that share a graph are solved together.
    scores : array-like, dict of str -> array-like, or a list of these
        Scores of the variables, in their shape: one array if the graph has one array of variables, else a dict by name;
        or a list with those of many samples. Arrays that a dict leaves out are zero. -inf switches a variable off; if a
        structure has its negation as a part, every structure must have that part.
    additional : dict, or list of dict, default=None
        Additional scores by the name of the factor: for `Pair` an array with one score a pair (or one number for all),
        for `StructureFactor` a dict such as ``{"transitions": ...}``. With many samples: one dict for all, or one for
        each.
    solver : {"auto", "newton", "block", "admm", "pairwise"}, default="auto"
        - ``"newton"``: semismooth Newton on the multipliers of the factors' inequalities, exact once the faces have
          settled; where no variable is in two structures.
        - ``"block"``: block coordinate ascent on the dual, one factor after the other, with Anderson acceleration.
        - ``"admm"``: the alternating directions of L Alg. 1.
        - ``"pairwise"``: coordinate ascent on the pairs; for graphs with no other factors.
        - ``"auto"``: newton where it is possible, else block.
    tol : float, default=1e-6
        For the residual and the duality gap. Newton's method usually ends far below.
    max_iter : int, default=1000
        Most sweeps and Newton steps.
    n_jobs : int, default=None
        Number of threads over the samples of a list; -1 uses all cores.
    warm_start : LPSparseMAPResult or list of these, default=None
        Earlier results of this graph to start from, one for each sample.

    Returns
    -------
    result : LPSparseMAPResult or LPSparseMAPBatch
        Where a list came in, a sequence with one result for each sample, made when it is asked for, with `marginals`,
        `gap`, `objective`, `residual`, `n_iter` and `converged` of all samples as arrays.

    Raises
    ------
    ValueError
        If scores do not fit the graph, are NaN or +inf, or if no marginals satisfy all factors: the factors that
        contradict each other are named. If scores are so large, above 1e9, that rounding leaves no digits of marginals
        between 0 and 1; large negative scores that keep variables off, as -inf does, are no matter.

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
    if isinstance(graph, FactorGraph):
        groups = [(graph, slice(None), *as_graph_samples(graph, scores, additional))]
        many, n = groups[0][-1], len(groups[0][-2])
    else:
        groups, many, n = _by_graph(graph, scores, additional), True, len(scores)
    warm_start = _check_warm_start(warm_start, n)
    solved = []
    for own_graph, places, layout, samples, _ in groups:
        numbers = np.arange(n)[places]
        method = choose_solver(layout, solver)
        warm = None if warm_start is None else _warm([warm_start[i] for i in numbers], samples, numbers)
        arrays, statistics = solve_graph(layout, method, samples, tol, max_iter, n_jobs, warm)
        check_feasible(own_graph, layout, arrays, statistics, many, numbers)
        solved.append((numbers, samples, arrays, statistics))
    own_additional = isinstance(additional, list | tuple)
    batch = LPSparseMAPBatch(solved, n, own_additional, partial(_as_result, tol=tol, solver=solver), tol, n_jobs)
    return batch if many else batch[0]


def _by_graph(graphs, scores, additional):
    """Check a list of graphs with one sample of each; return groups of samples that share a graph."""
    if not isinstance(graphs, Sequence | np.ndarray) or isinstance(graphs, str):
        raise ValueError(f"graph must be a FactorGraph, or a list with one for each sample; got {graphs!r}")
    for i, graph in enumerate(graphs):
        if not isinstance(graph, FactorGraph):
            raise ValueError(f"graph[{i}] must be a FactorGraph; got {graph!r}")
    if not hasattr(scores, "__len__") or isinstance(scores, dict) or len(scores) != len(graphs) or not len(graphs):
        raise ValueError(f"with a list of {len(graphs)} graphs, scores must be a list with one sample for each")
    own = isinstance(additional, list | tuple)
    if own and len(additional) != len(graphs):
        raise ValueError(f"additional is a list of {len(additional)} for {len(graphs)} samples; pass one dict for each")
    places = {}
    for i, graph in enumerate(graphs):
        places.setdefault(id(graph), []).append(i)
    groups = []
    for chosen in places.values():
        graph = graphs[chosen[0]]
        given = [additional[i] for i in chosen] if own else additional
        groups.append((graph, chosen, *as_graph_samples(graph, [scores[i] for i in chosen], given, chosen)))
    return groups


def _as_result(sample, arrays, row, tol, solver):
    """Make the result of one sample."""
    return LPSparseMAPResult(
        sample._graph, sample._layout, sample, arrays, row, tol, partial(_solve_on, solver)
    )


def _solve_on(solver, result, tol):
    """Solve a sample again from where a result ended, more exactly."""
    sample, warm = result._sample, (result._multipliers[None], result._links[None])
    layout = sample._layout
    arrays, statistics = solve_graph(layout, choose_solver(layout, solver), [sample], tol, 10_000, None, warm)
    return _as_result(sample, [array[0] for array in arrays], statistics[0], tol, solver)


def structure_solver(layout):
    """Return the solver of the graph's structures; where there are none, any other one, that is compiled sooner."""
    return active_set if len(layout.arrays.structures) else map_argmax


def choose_solver(layout, solver):
    """Return the name of the solver that serves a graph."""
    arrays = layout.arrays
    shared = bool((arrays.owners == -2).any())
    if solver == "auto":
        return "block" if shared else "newton"
    if solver == "newton" and shared:
        raise ValueError("solver='newton' needs graphs in which no variable is in two structures; use 'block'")
    if solver == "pairwise" and (arrays.kinds != PAIR).any():
        raise ValueError("solver='pairwise' is for graphs with no factors but Pair; use 'auto'")
    return solver


def solve_graph(layout, method, samples, tol, max_iter, n_jobs, warm=None, clip=True):
    """Solve samples that are laid out for the kernels.

    Parameters
    ----------
    warm : (multipliers, links), default=None
        To start from, one row a sample.
    clip : bool, default=True
        Whether to solve scores of very different sizes by clipping; see `clipped_samples`.

    Returns
    -------
    arrays : tuple of arrays with one row a sample
        Marginals, marginals of the additional scores, multipliers of rows and pairs, dual variables of the links.
    statistics : array of shape (n_samples, 5)
        Columns as in solvers/_graph_batch.py.
    """
    sizes = np.array([size_of(sample) for sample in samples])
    trials = [clipped_samples(layout, sample, size) if clip else [] for sample, size in zip(samples, sizes)]
    if not any(trials):
        return _solve_easy_first(layout, method, samples, sizes, tol, max_iter, n_jobs, warm)
    out, statistics = _empty(layout, len(samples))
    plain = [i for i, own in enumerate(trials) if not own]
    if plain:
        own_warm = None if warm is None else [array[plain] for array in warm]
        some = [samples[i] for i in plain]
        solved = _solve_easy_first(layout, method, some, sizes[plain], tol, max_iter, n_jobs, own_warm)
        _put(out, statistics, plain, *solved)
    left = [i for i, own in enumerate(trials) if own]
    while left:
        current = [trials[i].pop(0) for i in left]
        offsets = [np.array(own) for own in zip(*(trial.offsets() for trial in current))]
        own_warm = None if warm is None else [array[left] - own for array, own in zip(warm, offsets)]
        some = [trial.sample for trial in current]
        own_sizes = np.array([size_of(sample) for sample in some])
        found, own = _solve_easy_first(layout, method, some, own_sizes, tol, max_iter, n_jobs, own_warm)
        own[:, N_ITER] += statistics[left, N_ITER]
        for k, (i, trial) in enumerate(zip(left, current)):
            u, joint = found[0][k], found[1][k]
            if own[k, STATUS] == INFEASIBLE:
                # Scores have no part in that.
                trials[i] = []
            elif not trials[i] or trial.accepts(u, joint):
                trials[i] = []
                own[k, RESIDUAL] += trial.snap(u)
                own[k, OBJECTIVE] += trial.value(u, joint)
                if _is_rounded(size_of(trial.sample), u, own[k], tol):
                    own[k, STATUS] = TOO_LARGE
        # Where nothing is feasible, they hold the proof.
        solved = own[:, STATUS] != INFEASIBLE
        for array, offset in zip(found[2:], offsets):
            array[solved] += offset[solved]
        _put(out, statistics, left, found, own)
        left = [i for i in left if trials[i]]
    return out, statistics


def _is_rounded(size, u, statistics, tol):
    """Tell whether rounding leaves no digits to marginals under scores of a size, unless they are 0 or 1."""
    if size <= _MOST_SIZE:
        return False
    solved = statistics[STATUS] == CONVERGED and statistics[RESIDUAL] <= tol and statistics[GAP] <= 1e-13 * size
    return not solved or bool((np.minimum(u, 1.0 - u) > 1e-9).any())


def _put(out, statistics, chosen, found, own):
    """Write solutions of some samples into the arrays of all."""
    for array, new in zip(out, found):
        array[chosen] = new
    statistics[chosen] = own


def _solve_easy_first(layout, method, samples, sizes, tol, max_iter, n_jobs, warm):
    """Solve samples; those with large scores, and those that do not converge, by way of smaller scores."""
    far = sizes > _FAR if warm is None else np.zeros(len(samples), bool)
    if not far.any():
        out, statistics = _solve_once(layout, method, samples, tol, max_iter, n_jobs, warm)
    else:
        out, statistics = _empty(layout, len(samples))
        for chosen, most in ((~far, max_iter), (far, min(max_iter, _FEW))):
            if chosen.any():
                own_samples = [samples[i] for i in np.flatnonzero(chosen)]
                _put(out, statistics, chosen, *_solve_once(layout, method, own_samples, tol, most, n_jobs))
    left = np.flatnonzero((statistics[:, STATUS] == NOT_CONVERGED) & ~far)
    if len(left):
        # Which scores there are says nothing of feasibility, and without them it is found out soonest.
        none = [_scaled(samples[i], 0.0) for i in left]
        found, own = _solve_once(layout, method, none, 1e-6, max_iter, n_jobs)
        _replace(out, statistics, found, own, left, own[:, STATUS] == INFEASIBLE)
    left = np.flatnonzero((statistics[:, STATUS] == NOT_CONVERGED) & (sizes > _EASY))
    # Where scores are large, multipliers have far to go.
    scale, start = _EASY / sizes[left], None
    while len(left):
        trial = [_scaled(samples[i], s) for i, s in zip(left, scale)]
        found, own = _solve_once(layout, method, trial, tol, max_iter, n_jobs, start)
        done = (scale >= 1.0) | (own[:, STATUS] == INFEASIBLE)
        better = done & ((own[:, STATUS] != NOT_CONVERGED) | far[left])
        _replace(out, statistics, found, own, left, better)
        statistics[left[~better], N_ITER] += own[~better, N_ITER]
        growth = np.minimum(_GROWTH, 1.0 / scale)
        start = tuple((growth[:, None] * array)[~done] for array in found[2:])
        left, scale = left[~done], np.minimum(scale * _GROWTH, 1.0)[~done]
    return out, statistics


def size_of(sample):
    """Return the largest score of a sample."""
    allowed = sample.scores[sample.scores > 0.5 * FORBIDDEN]
    finite = sample.additional[np.isfinite(sample.additional)]
    return max(np.abs(allowed).max(initial=0.0), np.abs(finite).max(initial=0.0))


def _scaled(sample, factor):
    """Return a sample with the same things forbidden, and its other scores times a factor."""
    scores = np.where(sample.scores > 0.5 * FORBIDDEN, factor * sample.scores, FORBIDDEN)
    forbidden = sample.additional == -np.inf
    additional = factor * np.where(forbidden, 0.0, sample.additional)
    additional[forbidden] = -np.inf
    return sample.like(scores, additional)


def _replace(out, statistics, found, own, left, chosen):
    """Put the chosen ones of new solutions in the place of the old ones."""
    for array, new in zip(out, found):
        array[left[chosen]] = new[chosen]
    before = statistics[left[chosen], N_ITER]
    statistics[left[chosen]] = own[chosen]
    statistics[left[chosen], N_ITER] += before


def _empty(layout, n):
    """Return arrays and statistics of `n` samples, as `solve_graph` does."""
    arrays = layout.arrays
    n_multipliers = len(arrays.row_bounds) + len(arrays.pairs)
    sizes = layout.n_variables, layout.n_additional, n_multipliers, len(arrays.links)
    return tuple(np.zeros((n, size)) for size in sizes), np.zeros((n, 5))


def _solve_once(layout, method, samples, tol, max_iter, n_jobs, warm=None):
    """Solve samples; see `solve_graph`."""
    arrays, n = layout.arrays, len(samples)
    scores = readonly([sample.scores for sample in samples])
    shared = all(sample.additional is samples[0].additional for sample in samples)
    additional = readonly([sample.additional for sample in (samples[:1] if shared else samples)])
    out, statistics = _empty(layout, n)
    none = readonly(np.zeros((0, 0)))
    if warm is not None:
        warm = readonly(warm[0] if method in BY_MULTIPLIERS else warm[1])
    solver, functions = GRAPH_SOLVERS[method], (*layout.all_oracles(Simplex.oracle), structure_solver(layout))
    if not len(arrays.structures) and method in LOGIC_SOLVERS:
        solver, functions = LOGIC_SOLVERS[method], ()
    only_pairs = len(arrays.pairs) == len(arrays.kinds)
    aim = tol * _AIM["pairwise" if method == "newton" and only_pairs else method]
    limits = np.array([max_iter, MOST_STRUCTURE_CALLS])
    over_ranges(
        lambda start, stop: solver(
            arrays, *functions, scores, additional, none if warm is None else warm, aim, limits, start, stop, *out,
            statistics
        ),
        np.full(n, len(arrays.links) + layout.n_variables),
        n_jobs,
        limit=limits,
    )  # fmt: skip
    return out, statistics


def check_feasible(graph, layout, arrays, statistics, many, numbers=None):
    """Raise ValueError for the first sample in which no marginals satisfy all factors, or rounding hides which do.

    `numbers` are those of the samples, where they are not counted from 0.
    """
    too_large = np.flatnonzero(statistics[:, STATUS] == TOO_LARGE)
    if len(too_large):
        which = _name(too_large[0], many, numbers)
        raise ValueError(
            f"{which} (with the additional scores) are so large, above {_MOST_SIZE:g}, that rounding leaves no digits "
            "of the marginals. Divide them by a number; to forbid a variable use -inf"
        )
    infeasible = np.flatnonzero(statistics[:, STATUS] == INFEASIBLE)
    if not len(infeasible):
        return
    i = infeasible[0]
    # What proves it: multipliers of rows, or variables of links.
    strength = np.zeros(len(layout.arrays.kinds))
    np.maximum.at(strength, layout.arrays.row_factors, np.abs(arrays[2][i][: len(layout.arrays.row_factors)]))
    if not strength.any():
        of_link = np.repeat(np.arange(len(strength)), np.diff(layout.arrays.link_ptr))
        np.maximum.at(strength, of_link, np.abs(arrays[3][i]))
    which = _name(i, many, numbers)
    message = f"infeasible: under {which} (with the additional scores) no marginals satisfy all factors"
    if strength.any():
        order = np.argsort(-strength, kind="stable")
        numbers = [f for f in order if strength[f] > 1e-6 * strength.max()]
        message += "; these contradict each other: " + ", ".join(repr(graph.factor_of(f)) for f in numbers[:4])
        message += f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
    raise ValueError(f"{message}. Remove a factor, or allow more variables by scores above -inf")


def _name(i, many, numbers):
    return f"scores[{i if numbers is None else numbers[i]}]" if many else "scores"


def _check_warm_start(warm_start, n):
    """Return earlier results to start from as a sequence with one for each sample, or None."""
    if warm_start is None:
        return None
    results = [warm_start] if isinstance(warm_start, LPSparseMAPResult) else warm_start
    if not isinstance(results, Sequence | np.ndarray):
        raise ValueError(f"warm_start must be a result of lp_sparsemap, or a list of these; got {warm_start!r}")
    if len(results) != n:
        raise ValueError(f"warm_start holds {len(results)} results for {n} samples; pass one for each")
    return results


def _warm(results, samples, numbers):
    """Check results to start from; return their multipliers and link variables."""
    for i, result, sample in zip(numbers, results, samples):
        same = isinstance(result, LPSparseMAPResult) and result._graph is sample._graph
        if not same or len(result._links) != len(sample._layout.arrays.links):
            raise ValueError(f"warm_start[{i}] is no result of this graph; solve the graph once without it")
    return np.array([r._multipliers for r in results]), np.array([r._links for r in results])
