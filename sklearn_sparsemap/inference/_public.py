"""`map_inference`, `sparsemap` and `marginal_inference`, for one sample or for many.

Used by `_n_best.py` and `_sampling.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from .._core.annotations import AdditionalScores, Any, NDArray, Sequence
from .._core.offsets import offsets
from .._core.ragged import RaggedArray
from .._core.validation import check_choice, check_n_jobs, check_positive
from .._numerics.loops import SOLVERS_BY_NAME
from ..factors import FactorGraph
from ..structures._base import check_structure
from ._batch import SPECIALISED_SOLVERS, argmax_problems, map_problems, marginal_oracle_of, marginal_problems
from ._graph.problems import ManyOfGraph, OneOfGraph, check_graph_options, map_graph
from ._problems import batch_of
from ._results import MAPBatch, MAPResult, MarginalBatch, MarginalResult, SparseMAPBatch, SparseMAPResult

if TYPE_CHECKING:
    from ..structures import (
        Alignment,
        HeadAutomaton,
        Hyperpath,
        LinearChain,
        LinearProgram,
        Matching,
        Path,
        Ranking,
        Segmentation,
        SequenceBudget,
        Structure,
        Subset,
    )
    from ._graph.map import GraphMAPResult

    # Their structures are arrays, whatever their parameters.
    ArrayStructure = (
        Alignment
        | HeadAutomaton
        | Hyperpath
        | LinearChain
        | LinearProgram
        | Matching
        | Path
        | Ranking
        | Segmentation
        | SequenceBudget
        | Subset
    )
    # A list of arrays, or of graphs, is many samples.
    Many = list[NDArray[Any]] | RaggedArray
    SolverName = Literal["auto", "active_set", "facets", "flow", "cg", "away_step", "pairwise"]

# For type checkers, an array or nested lists of numbers are one sample. To get the type of a batch, pass a list of
# arrays.


@overload
def map_inference(
    structure: ArrayStructure, scores: Many, *, n_jobs: int | None = None, **additional: AdditionalScores
) -> MAPBatch[NDArray[Any]]: ...
@overload
def map_inference(
    structure: ArrayStructure, scores: Any, *, n_jobs: int | None = None, **additional: AdditionalScores
) -> MAPResult[NDArray[Any]]: ...
@overload
def map_inference(
    structure: Structure, scores: Many, *, n_jobs: int | None = None, **additional: AdditionalScores
) -> MAPBatch[Any]: ...
@overload
def map_inference(
    structure: Structure, scores: Any, *, n_jobs: int | None = None, **additional: AdditionalScores
) -> MAPResult[Any]: ...
@overload
def map_inference(
    structure: FactorGraph | Sequence[FactorGraph],
    scores: ManyOfGraph,
    *,
    n_jobs: int | None = None,
    additional: Any = None,
    tol: float = 1e-9,
    map_time_limit: float | None = 10.0,
) -> list[GraphMAPResult]: ...
@overload
def map_inference(
    structure: FactorGraph,
    scores: OneOfGraph,
    *,
    n_jobs: int | None = None,
    additional: Any = None,
    tol: float = 1e-9,
    map_time_limit: float | None = 10.0,
) -> GraphMAPResult: ...
@overload
def map_inference(
    structure: FactorGraph | Sequence[FactorGraph],
    scores: Any,
    *,
    n_jobs: int | None = None,
    additional: Any = None,
    tol: float = 1e-9,
    map_time_limit: float | None = 10.0,
) -> Any: ...
def map_inference(
    structure: Structure | FactorGraph | Sequence[FactorGraph],
    scores: Any,
    *,
    n_jobs: int | None = None,
    **additional: Any,
) -> Any:
    """Find the structure with the highest score.

    Parameters
    ----------
    structure : Structure, FactorGraph, or a list of FactorGraph
        The structure, for example ``LinearChain()``; its class documents the shapes below. For a graph, or a list with
        one graph for each sample, `scores` and `additional` are as in `lp_sparsemap`. The linear relaxation is solved
        and, if it is fractional, followed by a search for the best assignment.
    scores : array-like, or a list of them
        Scores of the unary parts of one sample, or of many samples. -inf forbids a part.
    n_jobs : int, default=None
        Number of threads over the samples of a list; -1 uses all cores.
    **additional : array-like
        Additional scores by name, for example `transitions`. With a list of samples: one array for all samples, or a
        list (or tuple) with one array for each. For graphs: `additional`; `tol` (default=1e-9), the tolerance of the
        relaxation; and `map_time_limit` (default=10.0), the maximum number of seconds for a sample, relaxation and
        search together. If time runs out, the best assignment found is returned, with a ConvergenceWarning that names
        the samples and says what ended the search. It is at least as good as the rounded relaxation if that satisfies
        all factors. With structure factors, the search continues until an assignment is found. It ends after 500
        relaxations at the latest. If none is found, the value is -inf and `structure` violates factors. None sets no
        limit.

    Returns
    -------
    result : MAPResult or MAPBatch
        A named tuple ``(structure, value)``. For a list, a sequence of such tuples, each made on demand, with
        ``values`` as an array and ``structures`` as a list. For graphs the tuple is ``(structure, value, integral,
        bound, marginals)``; `integral` tells whether the relaxation proves that no assignment is better.

    Raises
    ------
    ValueError
        If scores are empty, of the wrong shape, NaN or +inf, or forbid every structure.

    Examples
    --------
    >>> from sklearn_sparsemap import map_inference
    >>> from sklearn_sparsemap.structures import Simplex
    >>> map_inference(Simplex(), [0.5, 2.0, 1.0])
    MAPResult(structure=1, value=2.0)
    """
    check_n_jobs(n_jobs)
    if isinstance(structure, FactorGraph | list | tuple):
        return map_graph(structure, scores, n_jobs=n_jobs, **check_graph_options(additional))
    batch, many, _ = batch_of(structure, scores, additional)
    problems = batch.rescale_masks()
    # `rescale_masks` sets the offsets, if it reduces a mask.
    if batch.mask_offsets is None:
        slots, slot_ptr, values = map_problems(structure, problems, n_jobs=n_jobs, many=many)
    else:
        # Values under the original scores depend on additional parts, which only `argmax_problems` returns.
        solution = argmax_problems(structure, problems, "map", n_jobs=n_jobs, many=many)
        values = SparseMAPBatch(batch, solution, 0.0).objective
        _, _, (slots, *_) = solution
        slot_ptr = offsets(problems.sizes[:, 0])
    if many:
        return MAPBatch(batch, slots, slot_ptr, values)
    return MAPResult(structure.decode(slots, batch.dims), float(values[0]))


@overload
def sparsemap(
    structure: Structure,
    scores: Many,
    *,
    solver: SolverName = "auto",
    tol: float = 1e-9,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    **additional: AdditionalScores,
) -> SparseMAPBatch: ...
@overload
def sparsemap(
    structure: Structure,
    scores: Any,
    *,
    solver: SolverName = "auto",
    tol: float = 1e-9,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    **additional: AdditionalScores,
) -> SparseMAPResult: ...
def sparsemap(
    structure: Structure,
    scores: Any,
    *,
    solver: SolverName = "auto",
    tol: float = 1e-9,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    **additional: Any,
) -> Any:
    """Solve SparseMAP: marginals of a sparse mixture of structures.

    Maximises ``scores.u + additional.v - 1/2 |u|^2`` over the marginals u and additional marginals v of mixtures of
    structures ([1]_, section 3). The marginals u are unique. The result also contains the structures of the mixture and
    their weights.

    Parameters
    ----------
    structure : Structure
        The structure, for example ``LinearChain()``; its class documents the shapes below.
    scores : array-like, or a list of them
        Scores of the unary parts of one sample, or of many samples. -inf forbids a part.
    solver : {"auto", "active_set", "facets", "flow", "cg", "away_step", "pairwise"}, default="auto"
        All except the last three are exact. ``"active_set"`` solves over the structures, and is fast if the support is
        small, as for large scores. ``"facets"`` (non-projective trees, matchings, subsets, rankings, `Simplex`) solves
        over the inequalities of the marginal polytope, and ``"flow"`` (chains) over its flows. Both are 10 to
        400 times faster if scores are small, or hundreds of structures tie. They compute structures and weights on
        demand. ``"auto"`` takes the active set for chains of at most 60 scores, trees of 20 and matchings of 12, so
        that their first use compiles no other solver. For larger ones it chooses by the scores. The choice depends on
        the problem alone, not on the batch or on what is compiled. ``"cg"`` (vanilla), ``"away_step"`` and
        ``"pairwise"`` are conditional gradient methods, for comparison.
    tol : float, default=1e-9
        Largest duality gap of a converged solution. Solvers usually end below it. For scores so large that rounding
        errors exceed `tol`, the gap must be within rounding.
    max_iter : int, default=None
        Maximum number of calls of the MAP oracle for a sample; at least 2 are made. For ``"facets"``, the maximum
        number of Newton steps, and then of calls for `structures`. Default: ``10_000 + 100 * n_parts``, which is rarely
        reached. There is no warning; see `converged` of the result.
    n_jobs : int, default=None
        Number of threads over the samples of a list; -1 uses all cores. The results do not depend on it.
    **additional : array-like
        Additional scores by name, for example `transitions`. With a list of samples: one array for all samples, or a
        list (or tuple) with one array for each. One array of three axes is refused as the `transitions` of a list,
        because these can be scores of each step or of each sample.

    Returns
    -------
    result : SparseMAPResult or SparseMAPBatch
        For a list, a sequence of results, each made on demand. It has `marginals`, `gap`, `objective`, `n_iter` and
        `converged` of all samples as arrays, and its `vjp`, `jvp` and `weights_vjp` process all samples in one compiled
        call.

    Raises
    ------
    ValueError
        If scores are empty, of the wrong shape, NaN or +inf, or forbid every structure.

    References
    ----------
    .. [1] Niculae, Martins, Blondel and Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

    Examples
    --------
    >>> from sklearn_sparsemap import sparsemap
    >>> from sklearn_sparsemap.structures import LinearChain
    >>> result = sparsemap(LinearChain(), [[1.0, 0.9], [0.0, 0.5]], transitions=[[0.5, 0.0], [0.0, 0.5]])
    >>> [path.tolist() for path in result.structures], result.weights.round(3).tolist()
    ([[1, 1], [0, 0]], [0.6, 0.4])
    >>> result.marginals.round(3).tolist()
    [[0.4, 0.6], [0.4, 0.6]]
    """
    check_choice("solver", solver, ("auto", *SPECIALISED_SOLVERS, *SOLVERS_BY_NAME))
    check_n_jobs(n_jobs)
    check_positive("tol", tol)
    if max_iter is not None:
        check_positive("max_iter", max_iter, integer=True)
    batch, many, per_sample = batch_of(structure, scores, additional)
    problems = batch.rescale_masks()
    solution = argmax_problems(structure, problems, solver=solver, tol=tol, max_iter=max_iter, n_jobs=n_jobs, many=many)
    return (SparseMAPBatch if many else SparseMAPResult)(batch, solution, tol, n_jobs, max_iter, per_sample)


@overload
def marginal_inference(
    structure: Structure, scores: Many, *, n_jobs: int | None = None, **additional: AdditionalScores
) -> MarginalBatch: ...
@overload
def marginal_inference(
    structure: Structure, scores: Any, *, n_jobs: int | None = None, **additional: AdditionalScores
) -> MarginalResult: ...
def marginal_inference(structure: Structure, scores: Any, *, n_jobs: int | None = None, **additional: Any) -> Any:
    """Compute the marginals of the Gibbs distribution ``p(s) = exp(score(s)) / Z`` over all structures.

    Methods: forward-backward (chains), the Matrix-Tree theorem (trees), inside-outside (projective trees), elementary
    symmetric polynomials (subsets), softmax (`Simplex`).

    Parameters
    ----------
    structure : Structure
        The structure, for example ``LinearChain()``; its class documents the shapes below.
    scores : array-like, or a list of them
        Scores of the unary parts of one sample, or of many samples. -inf forbids a part.
    n_jobs : int, default=None
        Number of threads over the samples of a list; -1 uses all cores. The results do not depend on it.
    **additional : array-like
        Additional scores by name, as in `sparsemap`.

    Returns
    -------
    result : MarginalResult or MarginalBatch
        It has `marginals`, `additional_marginals` and `log_partition`. For a list, a sequence of results, each made on
        demand, with `marginals` and `log_partition` of all samples as arrays.

    Raises
    ------
    ValueError
        If scores are empty, of the wrong shape, NaN or +inf, or forbid every structure; or if the marginals of the
        structure are intractable, such as those of matchings, which are #P-complete.

    Examples
    --------
    >>> from sklearn_sparsemap import marginal_inference
    >>> from sklearn_sparsemap.structures import LinearChain
    >>> result = marginal_inference(LinearChain(), [[1.0, 0.9], [0.0, 0.5]], transitions=[[0.5, 0.0], [0.0, 0.5]])
    >>> result.marginals.round(3).tolist(), round(result.log_partition, 3)
    ([[0.495, 0.505], [0.383, 0.617]], 2.896)
    """
    check_n_jobs(n_jobs)
    check_structure(structure)
    marginal_oracle_of(structure, "marginal_inference")
    batch, many, _ = batch_of(structure, scores, additional)
    problems = batch.rescale_masks()
    marginals, log_partition, expected = marginal_problems(structure, problems, n_jobs=n_jobs, many=many)
    if batch.mask_offsets is not None:
        batch.restore(log_partition, marginals, expected)
    if many:
        return MarginalBatch(batch, marginals, expected, log_partition)
    return MarginalResult(marginals.reshape(batch.shape), batch.split_additional(expected), float(log_partition[0]))
