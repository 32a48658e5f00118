"""`map_inference`, `sparsemap` and `marginal_inference`, for one sample or for many."""

import numpy as np

from .._validation import check_choice, check_positive
from ..factors import FactorGraph
from ..solvers import MAPResult, MarginalResult, SparseMAPResult
from ..solvers._batch import N_STRUCTURES, SOLVERS
from ._batch import map_problems, marginal_oracle_of, marginal_problems, sparsemap_problems
from ._graph_map import map_graph
from ._problems import as_samples, check_structure, join_problems


def map_inference(structure, scores, *, n_jobs=None, **additional):
    """Find the structure of highest score.

    Parameters
    ----------
    structure : Structure or FactorGraph
        What to predict, for example ``LinearChain()``; its class documents the shapes below. For a graph `scores` and
        `additional` are as in `lp_sparsemap`; the linear relaxation is solved, and rounded where it is fractional.
    scores : array-like, or a list of them
        Scores of the unary parts of one sample; or of many samples. -inf forbids a part.
    n_jobs : int, default=None
        Number of threads over the samples of a list; -1 uses all cores.
    **additional : array-like
        Additional scores by name, for example `transitions`. With a list of samples: one array for all of them, or
        a list (or tuple) with one array for each.

    Returns
    -------
    result : MAPResult or list of MAPResult
        A named tuple ``(structure, value)``; one for each sample where a list came in. For graphs a longer one,
        ``(structure, value, integral, bound, marginals)``: `integral` tells whether no assignment can be better.

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
    if isinstance(structure, FactorGraph):
        unknown = sorted(set(additional) - {"additional", "tol"})
        if unknown:
            raise TypeError(f"with a FactorGraph, additional scores go by factor: additional={{{unknown[0]!r}: ...}}")
        return map_graph(structure, scores, n_jobs=n_jobs, **additional)
    samples, many = as_samples(structure, scores, additional)
    structures, values = map_problems(structure, join_problems(samples), n_jobs=n_jobs, many=many)
    results = [MAPResult(s, v) for s, v in zip(structures, values.tolist())]
    return results if many else results[0]


def sparsemap(structure, scores, *, solver="active_set", tol=1e-9, max_iter=None, n_jobs=None, **additional):
    """Solve SparseMAP: marginals that are a mixture of a few structures (S 3).

    Maximises ``scores.u + additional.v - 1/2 |u|^2`` over the marginals u and additional marginals v of mixtures of
    structures. The marginals are unique; the solution says which structures they are made of.

    Parameters
    ----------
    structure : Structure
        What to predict, for example ``LinearChain()``; its class documents the shapes below.
    scores : array-like, or a list of them
        Scores of the unary parts of one sample; or of many samples. -inf forbids a part.
    solver : {"active_set", "cg", "away_step", "pairwise"}, default="active_set"
        ``"active_set"`` is exact and finite; structures with a closed form (`Simplex`) use that instead. The others are
        conditional gradient, for comparison: vanilla, which converges slowly, and with away steps or pairwise steps.
    tol : float, default=1e-9
        Largest duality gap at which a solution counts as converged. The solver aims lower, as far as rounding lets it.
        Where scores are so large that rounding exceeds `tol`, rounding decides.
    max_iter : int, default=None
        Most calls of the MAP oracle for a sample, but at least 2 are made. None is ``10_000 + 100 * n_parts``, far
        more than usual; where scores are close to zero and additional scores still smaller, it can fall short. A
        result says whether it has converged; no warning is given.
    n_jobs : int, default=None
        Number of threads over the samples of a list; -1 uses all cores. The results do not depend on it.
    **additional : array-like
        Additional scores by name, for example `transitions`. With a list of samples: one array for all of them, or
        a list (or tuple) with one array for each.

    Returns
    -------
    result : SparseMAPResult or list of SparseMAPResult
        One for each sample where a list came in.

    Raises
    ------
    ValueError
        If scores are empty, of the wrong shape, NaN or +inf, or forbid every structure.

    References
    ----------
    Niculae, Martins, Blondel, Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

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
    check_choice("solver", solver, SOLVERS)
    check_positive("tol", tol)
    if max_iter is not None:
        check_positive("max_iter", max_iter, integer=True)
    samples, many = as_samples(structure, scores, additional)
    problems = join_problems(samples)
    marginals, statistics, (slots, additional_slots, weights) = sparsemap_problems(
        structure, problems, solver=solver, tol=tol, max_iter=max_iter, n_jobs=n_jobs, many=many
    )
    n_structures = statistics[:, N_STRUCTURES].astype(np.int64)
    sizes = problems.sizes
    ends = [np.cumsum(n_structures * n).tolist() for n in (sizes[:, 0], sizes[:, 1], 1)]
    first, first_additional, first_weight = 0, 0, 0
    results = []
    for i, sample in enumerate(samples):
        k = n_structures[i]
        support = (
            slots[first : ends[0][i]].reshape(k, -1 if sizes[i, 0] else 0),
            additional_slots[first_additional : ends[1][i]].reshape(k, sizes[i, 1]),
            weights[first_weight : ends[2][i]],
        )
        first, first_additional, first_weight = (e[i] for e in ends)
        u = marginals[problems.score_ptr[i] : problems.score_ptr[i + 1]]
        results.append(SparseMAPResult(structure, sample, u, support, statistics[i], tol))
    return results if many else results[0]


def marginal_inference(structure, scores, *, n_jobs=None, **additional):
    """Compute the marginals of the Gibbs distribution ``p(s) = exp(score(s)) / Z`` over all structures.

    By forward-backward (chains), the Matrix-Tree theorem and inside-outside (trees), elementary symmetric polynomials
    (subsets) or softmax.

    Parameters
    ----------
    structure : Structure
        What to predict, for example ``LinearChain()``; its class documents the shapes below.
    scores : array-like, or a list of them
        Scores of the unary parts of one sample; or of many samples. -inf forbids a part.
    n_jobs : int, default=None
        Number of threads over the samples of a list; -1 uses all cores. The results do not depend on it.
    **additional : array-like
        Additional scores by name, as in `sparsemap`.

    Returns
    -------
    result : MarginalResult or list of MarginalResult
        With `marginals`, `additional_marginals` and `log_partition`; one for each sample where a list came in.

    Raises
    ------
    ValueError
        If scores are empty, of the wrong shape, NaN or +inf, or forbid every structure; or if the structure has no
        marginals that can be computed: those of matchings are #P-complete.

    Examples
    --------
    >>> from sklearn_sparsemap import marginal_inference
    >>> from sklearn_sparsemap.structures import LinearChain
    >>> result = marginal_inference(LinearChain(), [[1.0, 0.9], [0.0, 0.5]], transitions=[[0.5, 0.0], [0.0, 0.5]])
    >>> result.marginals.round(3).tolist(), round(result.log_partition, 3)
    ([[0.495, 0.505], [0.383, 0.617]], 2.896)
    """
    check_structure(structure)
    oracle = marginal_oracle_of(structure, "marginal_inference")
    samples, many = as_samples(structure, scores, additional)
    problems = join_problems(samples)
    marginals, log_partition, expected = marginal_problems(oracle, problems, n_jobs=n_jobs, many=many)
    first, results = 0, []
    for i, sample in enumerate(samples):
        u = marginals[problems.score_ptr[i] : problems.score_ptr[i + 1]].reshape(sample.shape)
        last = first + len(sample.additional)
        results.append(MarginalResult(u, sample.split_additional(expected[first:last]), float(log_partition[i])))
        first = last
    return results if many else results[0]
