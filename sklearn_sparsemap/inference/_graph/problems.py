"""Inference in factor graphs: the user's input, checked and laid out for the kernels, and the public functions.

Used by `_layers`, `_training`, `inference` and `losses`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ..._core.errors import Place, SampleError, error_at, part_of
from ..._core.validation import (
    LARGEST_SCORE,
    check_choice,
    check_n_jobs,
    check_numbers,
    check_positive,
    check_scores,
)
from ..._graphs.arrays import FORBIDDEN, PAIR, STRUCTURE
from ..._graphs.batch import GRAPH_SOLVERS
from ...factors._graph import FactorGraph
from ...factors._variable_arrays import check_finite
from .._problems import check_additional
from .._results import LPSparseMAPBatch
from .._results.graph import LPSparseMAPResult
from .exact import Late, warn_of_time_limit
from .map import MAP_TIME_LIMIT, GraphMAPResult, best_assignments, relax
from .n_best import best_of_groups
from .solve import GraphSolver, check_feasible, choose_solver, solve_again, solve_graph, start_of

_SINGLE = np.array([-1])  # the index of a sample that is not in a list


# Scores of one sample, and of many. Nested lists of numbers may be either.
OneOfGraph = NDArray[Any] | dict[str, Any]
ManyOfGraph = list[NDArray[Any]] | list[dict[str, Any]]
GraphSolverName = Literal["auto", "newton", "block", "admm", "pairwise", "tables"]


@overload
def lp_sparsemap(
    graph: FactorGraph | Sequence[FactorGraph],
    scores: ManyOfGraph,
    *,
    additional: Any = None,
    solver: GraphSolverName = "auto",
    tol: float = 1e-6,
    max_iter: int = 1000,
    n_jobs: int | None = None,
    warm_start: Any = None,
) -> LPSparseMAPBatch: ...
@overload
def lp_sparsemap(
    graph: FactorGraph,
    scores: OneOfGraph,
    *,
    additional: Any = None,
    solver: GraphSolverName = "auto",
    tol: float = 1e-6,
    max_iter: int = 1000,
    n_jobs: int | None = None,
    warm_start: Any = None,
) -> LPSparseMAPResult: ...
@overload
def lp_sparsemap(
    graph: FactorGraph | Sequence[FactorGraph],
    scores: Any,
    *,
    additional: Any = None,
    solver: GraphSolverName = "auto",
    tol: float = 1e-6,
    max_iter: int = 1000,
    n_jobs: int | None = None,
    warm_start: Any = None,
) -> Any: ...
def lp_sparsemap(
    graph: FactorGraph | Sequence[FactorGraph],
    scores: Any,
    *,
    additional: Any = None,
    solver: GraphSolverName = "auto",
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
    batches, many = problems_by_graph(graph, scores, additional)
    n = sum(len(problems.scores) for problems in batches)
    if warm_start is not None:
        warm_start = _check_warm_start(warm_start, n)
    solved = []
    again = partial(solve_again, solver=solver)
    for problems in batches:
        warm = None if warm_start is None else _warm(warm_start, problems)
        method = choose_solver(problems.layout, solver)
        solutions = GraphSolver(method, tol, max_iter, n_jobs).solve(problems, warm)
        check_feasible(problems, solutions)
        solved.append((problems.numbers, problems, solutions))
    if not many:
        return LPSparseMAPResult(problems, solutions, tol, again)
    return LPSparseMAPBatch(solved, n, isinstance(additional, list | tuple), again, tol, n_jobs)


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


def _warm(results, problems):
    """Check the results for a warm start of these samples; return their multipliers and link variables."""
    layout = problems.layout
    numbers = [max(i, 0) for i in problems.numbers.tolist()]
    results = [results[i] for i in numbers]
    for i, result in zip(numbers, results):
        same = isinstance(result, LPSparseMAPResult) and result._layout.graph is layout.graph
        if not same or not _fits(result, layout):
            raise SampleError("warm_start", i, " is not a result of this graph; solve the graph once without it")
    links = np.array([r._links for r in results])
    # Results without tables may be for different additional scores.
    joint = None if layout.tables is None else np.array([r._joint for r in results])
    return np.array([r._multipliers for r in results]), start_of(layout, links, joint)


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
    batches, many = problems_by_graph(graph, scores, additional)
    results = [None] * sum(len(problems.scores) for problems in batches)
    late = {}
    for problems in batches:
        best = problems.map(n_jobs, tol, map_time_limit)
        shape = problems.layout.shape_variables
        late |= problems.late_of(best)
        for i, structure, value, integral, bound, u, *_ in zip(problems.numbers, *best):
            results[i] = GraphMAPResult(shape(structure), float(value), bool(integral), float(bound), shape(u))
    warn_of_time_limit(late, map_time_limit)
    return results if many else results[0]


def n_best_of_graph(graph, scores, k, *, additional=None, n_jobs=None, tol=1e-9, map_time_limit=MAP_TIME_LIMIT):
    """Find the `k` best assignments of each sample: a list of lists, and whether a list of samples was given."""
    batches, many = problems_by_graph(graph, scores, additional)
    results = [None] * sum(len(problems.scores) for problems in batches)
    groups = [(problems.numbers, problems) for problems in batches]
    for i, layout, best in best_of_groups(groups, k, n_jobs, map_time_limit, tol):
        results[i] = [(layout.shape_variables(assignment), value) for assignment, value in best]
    return results, many


class GraphBatch(NamedTuple):
    """Samples of one factor graph, checked and laid out for the kernels.

    Attributes
    ----------
    layout : Layout
    scores : array of shape (n_samples, n_variables)
        Scores, in which FORBIDDEN replaces -inf.
    additional : array of shape (n_samples, n_additional) or (1, n_additional)
        Scores of the pairs and additional scores of the structures; see `Layout`. A single row applies to all samples.
    scales : array of shape (n_samples, 3), or None
        Factors of the additional scores; the accuracy of the linear relaxation, see `next_step`; and reference values:
        for tables, gaps are relative to the objective minus the reference value.
    numbers : int array of shape (n_samples,), or None
        Indices of the samples in the user's list, for messages; -1 for a sample that is not in a list. By default, they
        count from 0.

    Layers, tasks of graphs and label graphs make batches, too, by the order of these.
    """

    layout: Any
    scores: np.ndarray
    additional: np.ndarray
    scales: Any = None
    numbers: Any = None

    def take(self, rows):
        """Return some of the samples."""
        additional = self.additional if len(self.additional) == 1 else self.additional[rows]
        scales = None if self.scales is None else self.scales[rows]
        numbers = np.arange(len(self.scores)) if self.numbers is None else self.numbers
        return GraphBatch(self.layout, self.scores[rows], additional, scales, numbers[rows])

    def number_of(self, i):
        """Return the index of a sample in the user's list; 0 if there is no list."""
        return i if self.numbers is None else max(int(self.numbers[i]), 0)

    def position_of(self, i):
        """Return the index of a sample in the user's list; None if there is no list."""
        return None if self.numbers is not None and self.numbers[i] < 0 else self.number_of(i)

    def sparsemap(self, tol, max_iter, **options):
        """Solve LP-SparseMAP; return `GraphSolutions`, or raise ValueError for an infeasible sample.

        For the parameters see `GraphSolver`.
        """
        solutions = solve_graph(self, tol, max_iter, **options)
        check_feasible(self, solutions)
        return solutions

    def relaxed_map(self, tol=1e-9, n_jobs=None):
        """Solve the linear relaxation of MAP; return `GraphSolutions`, or raise ValueError for an infeasible sample."""
        solutions = relax(self, tol, n_jobs)
        check_feasible(self, solutions)
        return solutions

    def map(self, n_jobs=None, tol=1e-9, map_time_limit=MAP_TIME_LIMIT):
        """Find the best assignments; return `Assignments`, or raise ValueError for an infeasible sample."""
        return best_assignments(self, n_jobs, tol, map_time_limit)

    def late_of(self, best):
        """Return how the search ended of each sample for which it is not complete: dict of int -> `Late`."""
        late = np.flatnonzero(best.loss).tolist()
        return {self.number_of(k): Late(float(best.loss[k]), bool(best.after_nodes[k])) for k in late}

    def sizes(self):
        """Return the largest absolute score of each sample."""
        unary = _largest(self.scores, -0.5 * FORBIDDEN)
        if not self.additional.shape[1]:
            return unary
        additional = _largest(self.additional, np.inf)
        return np.maximum(unary, additional if self.scales is None else self.scales[:, 0] * additional)

    def certain(self):
        """Tell which variables are certain: they are only in pairs, and their score outweighs all these pairs.

        Returns
        -------
        certain : bool array of shape (n_samples, n_variables)
        """
        arrays = self.layout.arrays
        size = np.abs(self.additional[:, arrays.additional_ptr[arrays.pairs]])
        total = np.array([np.bincount(arrays.pair_ends.ravel(), s.repeat(2), self.scores.shape[1]) for s in size])
        return (np.abs(self.scores) > total) & (arrays.degrees == np.diff(arrays.slot_ptr))

    def scaled(self, factors):
        """Return the samples with scores multiplied by a factor for each sample; forbidden variables remain so."""
        factors = np.asarray(factors)[:, None]
        scores = np.where(self.scores > 0.5 * FORBIDDEN, factors * self.scores, FORBIDDEN)
        return self._replace(scores=scores, scales=factors * ([1.0, 0.0, 0.0] if self.scales is None else self.scales))

    def values(self, u, joint):
        """Return the total score of marginals of the variables and the additional scores, one row for each sample.

        It is -inf for an assignment in which a forbidden variable is on.
        """
        additional = np.broadcast_to(self.additional, joint.shape)
        allowed = self.scores > 0.5 * FORBIDDEN
        used = joint != 0.0
        rows = zip(self.scores, additional, u, joint, allowed, used)
        values = np.array([s[a] @ p[a] + t[b] @ v[b] for s, t, p, v, a, b in rows])
        # Marginals of solutions are exactly 0 there, or nearly so.
        values[(~allowed & (u > 0.5)).any(axis=1)] = -np.inf
        return values


def _largest(rows, bound):
    """Return the largest absolute value below a bound in each row."""
    sizes = np.abs(rows)
    largest = sizes.max(axis=1, initial=0.0)
    if not (largest < bound).all():
        largest = np.where(sizes < bound, sizes, 0.0).max(axis=1, initial=0.0)
    return largest


def is_many(graph, scores):
    """Tell whether `scores` holds many samples."""
    if isinstance(scores, dict):
        return False
    if isinstance(scores, np.ndarray) and scores.dtype != object:
        return scores.ndim > len(next(iter(graph.shapes.values())))
    if not hasattr(scores, "__len__"):
        raise ValueError(
            f"scores must be an array in the shape of the variables, a dict of these by name, or a list; got {scores!r}"
        )
    if isinstance(scores, list | tuple) and len(scores) and isinstance(scores[0], dict):
        return True
    try:
        return np.ndim(scores) > len(next(iter(graph.shapes.values()))) or len(scores) == 0
    except ValueError:
        # A list of arrays with different shapes is a list of samples, or a malformed sample.
        return True


def as_graph_problems(graph, scores, additional, numbers=None):
    """Check scores and additional scores; return `GraphBatch`, and whether there were many samples.

    `numbers` are the indices of the samples in the user's list; if given, there are many samples.

    Raises
    ------
    ValueError
        If the scores do not fit the graph; the message names the sample and the fault.
    """
    if not isinstance(graph, FactorGraph):
        raise ValueError(f"graph must be a FactorGraph; got {graph!r}")
    if not graph.shapes:
        raise ValueError("the graph has no variables; make some with graph.variables(shape)")
    many = numbers is not None or is_many(graph, scores)
    if many and len(scores) == 0:
        raise ValueError("scores is empty; there must be at least one sample")
    samples = scores if many else [scores]
    numbers = np.array(numbers) if numbers is not None else np.arange(len(samples)) if many else _SINGLE
    if isinstance(additional, list | tuple):
        if not many or len(additional) != len(samples):
            n = len(samples) if many else "one sample"
            raise ValueError(f"additional is a list of {len(additional)} for {n}; pass one dict, or one for each")
        given = [_check_additional(graph, one, Place("additional", i)) for i, one in zip(numbers, additional)]
    else:
        given = [_check_additional(graph, additional, "additional")]
    shapes = [_shapes_of(arrays) for arrays in given]
    for i, shape in zip(numbers.tolist(), shapes):
        if shape != shapes[0]:
            first = f"additional[{numbers[0]}]"
            raise SampleError("additional", i, f" has shapes {shape}, but {first} has {shapes[0]}; make all alike")
    layout = graph.layout(shapes[0])
    rows = np.empty((len(samples), layout.n_variables))
    for row, i, sample in zip(rows, numbers, samples):
        row[:] = layout.join_variables(sample, Place("scores", i if many else None), check_scores)
    np.maximum(rows, FORBIDDEN, out=rows)
    flat = [layout.join_additional(arrays) for arrays in given] if layout.n_additional else np.zeros((1, 0))
    return GraphBatch(layout, rows, np.array(flat), numbers=numbers), many


def problems_by_graph(graphs, scores, additional):
    """Check samples of one graph, or of a list with one graph for each sample.

    Returns
    -------
    batches : list of GraphBatch
        The samples of each graph.
    many : bool
        Whether a list was given.
    """
    if isinstance(graphs, FactorGraph):
        problems, many = as_graph_problems(graphs, scores, additional)
        return [problems], many
    if not isinstance(graphs, Sequence | np.ndarray) or isinstance(graphs, str):
        raise ValueError(f"graph must be a FactorGraph, or a list with one for each sample; got {graphs!r}")
    for i, graph in enumerate(graphs):
        if not isinstance(graph, FactorGraph):
            raise SampleError("graph", i, f" must be a FactorGraph; got {graph!r}")
    if not hasattr(scores, "__len__") or isinstance(scores, dict) or len(scores) != len(graphs) or not len(graphs):
        raise ValueError(f"with a list of {len(graphs)} graphs, scores must be a list with one sample for each")
    is_each = isinstance(additional, list | tuple)
    if is_each and len(additional) != len(graphs):
        raise ValueError(f"additional is a list of {len(additional)} for {len(graphs)} samples; pass one dict for each")
    numbers_of = {}
    for i, graph in enumerate(graphs):
        numbers_of.setdefault(id(graph), []).append(i)
    batches = []
    for numbers in numbers_of.values():
        given = [additional[i] for i in numbers] if is_each else additional
        problems, _ = as_graph_problems(graphs[numbers[0]], [scores[i] for i in numbers], given, numbers)
        batches.append(problems)
    return batches, True


def _shapes_of(given):
    return {
        name: {n: a.shape for n, a in value.items()} if isinstance(value, dict) else value.shape
        for name, value in given.items()
    }


def _check_additional(graph, additional, label):
    """Check additional scores; return them as float64 arrays by name, for structures as a dict by name."""
    additional = {} if additional is None else additional
    if not isinstance(additional, dict):
        raise error_at(label, f" must be a dict by the names of factors; got {type(additional).__name__}")
    scored = graph.scored
    named = {factor.name for factor in scored}
    unknown = sorted(additional.keys() - named, key=str)
    if unknown:
        raise error_at(label, f" names {unknown[0]!r}, but the named factors are {sorted(named)}")
    given = {}
    for factor in scored:
        name = factor.name
        what = part_of(label, name)
        if factor.type != STRUCTURE:
            if name not in additional and factor.count == 0:
                # There are no pairs, such as vertical ones in a grid with one row.
                given.setdefault(name, np.zeros(factor.accepted_shapes[None][-1]))
                continue
            if name not in additional:
                raise error_at(label, f": the pairs named {name!r} need scores; pass {{{name!r}: ...}}")
            scores_of = _pair_scores if factor.type == PAIR else _table_scores
            given[name] = scores_of(additional[name], factor, what)
        else:
            arrays = _structure_scores(additional.get(name, {}), factor, what, graph.features.get(name, {}))
            if arrays:
                given[name] = arrays
    return given


def _pair_scores(value, factor, what):
    array = check_numbers(value, what).copy()
    wanted = factor.accepted_shapes[None]
    if array.shape not in wanted:
        shapes = " or ".join(map(str, dict.fromkeys(wanted)))
        raise error_at(what, f" has shape {array.shape}; there must be {shapes} pair scores")
    if not np.isfinite(array).all():
        bad = array.ravel()[np.argmin(np.isfinite(array.ravel()))]
        raise error_at(what, f" contains {bad}; pair scores must be finite. To forbid a pair use AtMostOne")
    if np.abs(array).max(initial=0.0) > LARGEST_SCORE:
        raise error_at(what, f" has values beyond {LARGEST_SCORE:g}, with which sums overflow; rescale all scores")
    return array


def _table_scores(value, factor, what):
    # There may be no pairs, such as vertical ones in a grid with one row.
    array = check_scores(value, np.ndim(value), what) if np.size(value) else np.zeros(np.shape(value))
    wanted = factor.accepted_shapes[None]
    if array.shape not in wanted:
        shapes = " or ".join(map(str, dict.fromkeys(wanted)))
        raise error_at(what, f" has shape {array.shape}; there must be tables of {shapes}")
    if factor.features is not None and not np.isfinite(array).all():
        raise error_at(what, " contains -inf; tables that are summed with features must be finite")
    return array


def _structure_scores(value, factor, what, features):
    if not isinstance(value, dict):
        raise error_at(what, f" must be a dict of the structure's additional scores; got {type(value).__name__}")
    structure = factor.structure
    unknown = sorted(set(value) - set(structure.additional_names), key=str)
    if unknown:
        takes = ", ".join(structure.additional_names) or "none"
        raise error_at(what, f": {structure!r} has no additional scores named {unknown[0]!r}; it takes: {takes}")
    names = [name for name in structure.additional_names if value.get(name) is not None]
    arrays = {}
    for name in names:
        label = part_of(what, name)
        if name in features:
            arrays[name] = check_finite(value[name], 1, label)
            if arrays[name].shape != features[name].shape[1:]:
                n_features = features[name].shape[1]
                raise error_at(label, f" has shape {arrays[name].shape}; there are {n_features} features")
        else:
            arrays[name] = check_additional(label, value[name], structure, factor.shape, name)
    return arrays
