"""`n_best`: the k structures with the highest scores.

Used by `_training`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from .._core.threads import over_ranges
from .._core.validation import check_n_jobs, check_positive
from ..factors import FactorGraph
from ._batch import check_feasible
from ._graph.problems import check_graph_options, n_best_of_graph
from ._problems import batch_of

if TYPE_CHECKING:
    from .._core.annotations import AdditionalScores, NDArray
    from ..structures import Structure
    from ._public import Many

_LARGEST_K = np.iinfo(np.int64).max // 4  # so that sums of numbers of structures do not overflow


@overload
def n_best(
    structure: Structure,
    scores: Many,
    k: int,
    *,
    margin: float | None = None,
    n_jobs: int | None = None,
    **additional: AdditionalScores,
) -> list[list[tuple[Any, float]]]: ...
@overload
def n_best(
    structure: Structure,
    scores: NDArray[Any],
    k: int,
    *,
    margin: float | None = None,
    n_jobs: int | None = None,
    **additional: AdditionalScores,
) -> list[tuple[Any, float]]: ...
@overload
def n_best(
    structure: Structure,
    scores: Any,
    k: int,
    *,
    margin: float | None = None,
    n_jobs: int | None = None,
    **additional: AdditionalScores,
) -> list[Any]: ...
@overload
def n_best(
    structure: FactorGraph,
    scores: Any,
    k: int,
    *,
    margin: float | None = None,
    n_jobs: int | None = None,
    additional: Any = None,
    tol: float = 1e-9,
    map_time_limit: float | None = 10.0,
) -> list[Any]: ...
def n_best(
    structure: Structure | FactorGraph,
    scores: Any,
    k: int,
    *,
    margin: float | None = None,
    n_jobs: int | None = None,
    **additional: Any,
) -> list[Any]:
    """Find the `k` structures with the highest scores, the best first.

    The result is exact, and ties are in a fixed order. If the MAP oracle is a dynamic program (chains, segmentations,
    alignments, paths, projective trees), a search in its table finds each further structure in about the time of a MAP
    [1]_. For subsets and rankings, it is a search over sorted scores. For all other structures, the remaining ones are
    partitioned by the first part of the best one that they lack, and the MAP oracle searches each of these sets [2]_.
    In a factor graph, each assignment is the best one under factors that exclude the previous ones.

    Parameters
    ----------
    structure : Structure or FactorGraph
        The structure, for example ``LinearChain()``.
    scores : array-like, or a list of them
        As in `map_inference`.
    k : int
        Number of structures. Fewer are returned if fewer are allowed, or, with a warning, if the search in a graph
        ends without one.
    margin : float, default=None
        Largest difference between the score of the best structure and that of a returned one. By default, all `k` are
        returned. The search takes the same time.
    n_jobs : int, default=None
        Number of threads over the samples of a list; -1 uses all cores. The results do not depend on it.
    **additional : array-like
        Additional scores by name, as in `map_inference`; for a graph `additional`, `tol` and `map_time_limit`, the
        limit of the `k` searches together.

    Returns
    -------
    best : list of (structure, value)
        The structures and their scores. For a list of samples, a list of such lists.

    Raises
    ------
    ValueError
        If scores are empty, of the wrong shape, NaN or +inf, or forbid every structure, or `margin` is negative.

    Notes
    -----
    Structures are identified by their unary parts. If structures of a `CustomStructure` differ only in additional
    parts, only one of them is returned.

    References
    ----------
    .. [1] Eppstein. Finding the k Shortest Paths. SIAM Journal on Computing, 1998. Huang and Chiang. Better k-best
       Parsing. IWPT 2005.
    .. [2] Lawler. A Procedure for Computing the K Best Solutions to Discrete Optimization Problems. Management Science,
       1972.

    Examples
    --------
    >>> from sklearn_sparsemap import n_best
    >>> from sklearn_sparsemap.structures import Matching
    >>> [(columns.tolist(), value) for columns, value in n_best(Matching(), [[2.0, 1.5], [2.0, 0.0]], 2)]
    [([1, 0], 3.5), ([0, 1], 2.0)]
    """
    check_positive("k", k, integer=True)
    check_n_jobs(n_jobs)
    if margin is not None:
        check_positive("margin", margin, zero=True)
    if isinstance(structure, FactorGraph):
        lists, many = n_best_of_graph(structure, scores, int(k), n_jobs=n_jobs, **check_graph_options(additional))
    else:
        batch, many, _ = batch_of(structure, scores, additional)
        given = batch.problems
        rescaled = batch.rescale_masks()
        lists = n_best_of_problems(structure, rescaled, k, n_jobs, many, given if batch.mask_offsets else None)
    if margin is not None:
        lists = [[pair for pair in own if pair[1] >= own[0][1] - margin] for own in lists]
    return lists if many else lists[0]


def n_best_of_problems(structure, problems, k, n_jobs=None, many=True, given=None):
    """Find the `k` best structures of problems that are laid out for the kernels: list of lists of (structure, score).

    Parameters
    ----------
    structure : Structure
    problems : Problems
    k : int
    n_jobs : int or None
    many : bool, default=True
        Whether error messages contain the index of the sample.
    given : Problems, default=None
        Problems with the scores that are returned. By default `problems`.
    """
    counts = np.zeros(len(problems.sizes), np.int64)
    limit = np.array([min(int(k), _LARGEST_K)])
    search = partial(structure.n_best, problems, limit, counts)
    n_parts = np.diff(problems.score_ptr)
    pools = over_ranges(search, n_parts, n_jobs, limit=limit)
    check_feasible(counts > 0, many, structure, problems)
    slots, values = pools[0] if len(pools) == 1 else map(np.concatenate, zip(*pools))
    lists, first, at = [], 0, 0
    for i, (n, n_slots) in enumerate(zip(counts.tolist(), problems.sizes[:, 0].tolist())):
        own = values[first : first + n]
        rows = slots[at : at + n * n_slots].reshape(n, n_slots)
        dims = problems.dims[i]
        first += n
        at += n * n_slots
        stacked = structure.decodes_stacks
        decoded = structure.decode(rows, dims) if stacked else [structure.decode(row, dims) for row in rows]
        if given is not None:
            own = _scores_of(structure, given, i, rows, decoded)
        lists.append(list(zip(decoded, own.tolist())))
    return lists


def _scores_of(structure, problems, i, rows, structures):
    """Return the scores of structures of problem i, given their slots, one structure a row, and their decoded form."""
    scores = problems.scores[problems.score_ptr[i] : problems.score_ptr[i + 1]]
    additional = problems.additional[problems.additional_start[i] : problems.additional_stop[i]]
    values = np.where(rows >= 0, scores[rows], 0.0).sum(axis=1)
    for s in range(len(rows) if len(additional) else 0):
        parts = structure.encode(structures[s], problems.dims[i])[1]
        values[s] += additional[parts[parts >= 0]].sum()
    # Rounding must not reverse the order.
    return np.minimum.accumulate(values)
