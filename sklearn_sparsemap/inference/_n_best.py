"""`n_best`: the k structures with the highest scores."""

from __future__ import annotations

import heapq
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.threads import over_ranges
from .._core.validation import check_n_jobs, check_positive
from ..factors import FactorGraph
from ..numerics.derivations import best_derivations
from ._batch import check_feasible, map_where_feasible
from ._graph.map import check_graph_options
from ._graph.n_best import n_best_of_graph
from ._places import bonus_for, require
from ._problems import lay_out, problems_of

if TYPE_CHECKING:
    from ..structures import Structure

_LARGEST_K = np.iinfo(np.int64).max // 4  # so that sums of numbers of structures do not overflow
# Number of scores that are searched at once, which bounds the memory of large samples.
_MOST_SCORES = 1 << 22


def n_best(
    structure: Structure | FactorGraph,
    scores: Any,
    k: int,
    *,
    n_jobs: int | None = None,
    **additional: Any,
) -> list[Any]:
    """Find the `k` structures with the highest scores, the best first.

    The result is exact. Chains use the k-best Viterbi algorithm, all other structures a partition [1]_ (rankings a
    partition of the matchings of items and places): the remaining structures are partitioned by the first part of the
    best structure that they lack, and the MAP oracle searches each of these sets. In a factor graph, each assignment is
    the best one under factors that exclude the previous ones.

    Parameters
    ----------
    structure : Structure or FactorGraph
        The structure, for example ``LinearChain()``.
    scores : array-like, or a list of them
        As in `map_inference`.
    k : int
        Number of structures. Fewer are returned if fewer are allowed, or, with a warning, if the search in a graph
        ends without one.
    n_jobs : int, default=None
        Number of threads over the searches of one partition.
    **additional : array-like
        Additional scores by name, as in `map_inference`; for a graph `additional`, `tol` and `map_time_limit`, the
        limit of each of the `k` searches.

    Returns
    -------
    best : list of (structure, value)
        The structures and their scores. For a list of samples, a list of such lists.

    Raises
    ------
    ValueError
        If scores are empty, of the wrong shape, NaN or +inf, or forbid every structure.

    Notes
    -----
    Structures are identified by their unary parts. If structures of a `CustomStructure` differ only in additional
    parts, only one of them is returned.

    References
    ----------
    .. [1] Lawler. A Procedure for Computing the K Best Solutions to Discrete Optimization Problems. Management Science,
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
    if isinstance(structure, FactorGraph):
        return n_best_of_graph(structure, scores, int(k), n_jobs=n_jobs, **check_graph_options(additional))
    samples, many, _ = lay_out(structure, scores, additional)
    if structure.entering is not None:
        found = n_best_of_problems(structure, samples.problems, k, n_jobs, many)
        return found if many else found[0]
    found = []
    for i, sample in enumerate(samples):
        best = _best_of(structure, sample, int(k), n_jobs)
        if not best:
            check_feasible(np.arange(len(samples)) != i, many, structure, samples.problems)
        found.append([(structure.decode(slots, sample.dims), value) for slots, value in best])
    return found if many else found[0]


def n_best_of_problems(structure, problems, k, n_jobs=None, many=True):
    """Find the `k` best structures of problems that are laid out for the kernels: list of lists of (structure, score).

    `many` says whether error messages contain the index of the sample.
    """
    counts, limit = np.zeros(len(problems.sizes), np.int64), np.array([min(int(k), _LARGEST_K)])
    found = over_ranges(
        partial(best_derivations, structure.oracle, structure.entering, problems, limit, counts),
        np.diff(problems.score_ptr),
        n_jobs,
        limit=limit,
    )
    check_feasible(counts > 0, many, structure, problems)
    slots, values = found[0] if len(found) == 1 else map(np.concatenate, zip(*found))
    lists, values, at = [], iter(values.tolist()), 0
    for n, n_slots, dims in zip(counts.tolist(), problems.sizes[:, 0].tolist(), problems.dims):
        rows, at = slots[at : at + n * n_slots].reshape(n, n_slots), at + n * n_slots
        decoded = (
            structure.decode(rows, dims) if structure._decodes_stacks else (structure.decode(r, dims) for r in rows)
        )
        # Structures come first, so that no value is lost at the end of a list.
        lists.append(list(zip(decoded, values)))
    return lists


def _best_of(structure, sample, k, n_jobs):
    """Return the slots and values of the `k` best structures, by a specialised algorithm or by partition."""
    best, other = structure.n_best(sample, k), structure.n_best_by(sample)
    if best is not None:
        return best
    if other is None:
        return partition(structure, sample, k, n_jobs)
    searched, scores, read = other
    samples, _, _ = lay_out(searched, scores, {})
    return [(read(slots), value) for slots, value in partition(searched, samples[0], k, n_jobs)]


def partition(structure, sample, k, n_jobs=None):
    """Return the slots and values of the `k` best structures by partition (Lawler 1972; Murty 1968 for matchings)."""
    search, found = _Search(structure, sample, n_jobs), []
    search.add([((), ())], k)
    while search.heap and len(found) < k:
        value, _, slots, required, forbidden = heapq.heappop(search.heap)
        found.append((slots, -value))
        if len(found) < k:
            own = slots[slots >= 0].tolist()
            parts = [part for part in own if part not in required]
            others = []
            if not structure.fixed_size:
                # Also partition the structures that contain all of its parts and further ones.
                known = {*own, *forbidden}
                others = [part for part in range(sample.n_parts) if part not in known]
            search.add(_below(parts, others, required, forbidden), k - len(found))
    return found


def _below(parts, others, required, forbidden):
    """Yield the required and the forbidden parts of the sets that partition the structures below one."""
    for i, part in enumerate(parts):
        yield (*required, *parts[:i]), (*forbidden, part)
    for i, part in enumerate(others):
        yield (*required, *parts, part), (*forbidden, *others[:i])


class _Search:
    """A heap with the best structure of each set of a partition. A set is given by required and forbidden parts."""

    def __init__(self, structure, sample, n_jobs):
        self.structure, self.sample, self.n_jobs, self.heap = structure, sample, n_jobs, []
        self.places, self.bonus = structure.places(sample.dims), bonus_for(sample)
        self._ties = count()

    def add(self, sets, k):
        """Push the best structure of each set that is not empty onto the heap; the `k` best ones are needed."""
        sets, size = iter(sets), max(_MOST_SCORES // self.sample.n_parts, 1)
        while some := list(islice(sets, size)):
            self._add_some(some)
            if len(self.heap) > 2 * k + size:
                self.heap = heapq.nsmallest(k, self.heap)

    def _add_some(self, sets):
        sample, n, scores = self.sample, len(sets), np.tile(self.sample.scores, (len(sets), 1))
        for own, (required, forbidden) in zip(scores, sets):
            own[list(forbidden)] = -np.inf
            require(own, self.places, required, self.bonus)
        stop = np.full(n, len(sample.additional))
        problems = problems_of([sample.plan], np.zeros(n, np.int64), scores.ravel(), sample.additional, stop)
        slots, slot_ptr, values = map_where_feasible(self.structure, problems, self.n_jobs)
        for i, (required, forbidden) in enumerate(sets):
            own = slots[slot_ptr[i] : slot_ptr[i + 1]].copy()
            # With bonuses, the oracle returns a structure even for an empty set; it then lacks a required part.
            if values[i] > -np.inf and set(required) <= set(own.tolist()):
                value = self._value(own, values[i], len(required))
                heapq.heappush(self.heap, (-value, next(self._ties), own, required, forbidden))

    def _value(self, slots, value, n_required):
        """Return the score of a structure, without the bonus."""
        if len(self.sample.additional):
            return float(value) - (self.bonus * n_required if self.places is None else 0.0)
        return float(self.sample.scores[slots[slots >= 0]].sum())
