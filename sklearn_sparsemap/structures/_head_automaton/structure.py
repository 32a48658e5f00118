"""HeadAutomaton: the modifiers of one head on one side."""

from __future__ import annotations

import numpy as np

from ..._core.annotations import Any, Mapping, NDArray, Sequence
from .._base import Lengths, Structure, as_bools, as_flag, as_parts
from .entering import modifier_marginals, ways_of_modifiers
from .map import best_modifiers


class HeadAutomaton(Structure):
    """The modifiers of one head on one side in a dependency tree, with scores of consecutive siblings.

    Any of n words can be modifiers. They are given nearest to the head first. The structures of all heads, and a
    `DependencyTree` over the same arcs, are the factors of a parser of second order.

    Without grandparents, scores have shape (n,), one for each word, and a structure is a bool array (n,), True for
    modifiers. Additional scores, optional:

    - `siblings`, shape (n + 1, n + 1): ``siblings[i, j]`` if modifier j is the next one after modifier i - 1. Row 0 is
      the start, so that ``siblings[0, j]`` is for the modifier nearest to the head. Column n is the end, so that
      ``siblings[i, n]`` is for the last modifier, and ``siblings[0, n]`` for a head without modifiers on this side.
      Entries with j < i are never used.

    Parameters
    ----------
    grandparents : bool, default=False
        Whether the structure also has the head's own head. Exactly one of several candidates is chosen. Scores and
        structures then have shape (n_candidates + n,), the candidates first, then the modifiers. `grandparents`, shape
        (n_candidates, n), is then an additional score that must be given: ``grandparents[g, j]`` if candidate g is the
        head's head, and word j a modifier. The root of a tree has no candidates.

    Notes
    -----
    -inf forbids a word, two siblings, a candidate, or a candidate and a modifier. MAP and marginals take O(n^2) by the
    automata of [1]_, and O(n_candidates n^2) with grandparents [2]_. See `Structure` for the conventions, [3]_ for
    SparseMAP over a structure.

    References
    ----------
    .. [1] Smith and Eisner. Dependency Parsing by Belief Propagation. EMNLP 2008.
    .. [2] Koo, Rush, Collins, Jaakkola and Sontag. Dual Decomposition for Parsing with Non-Projective Head Automata.
       EMNLP 2010.
    .. [3] Niculae, Martins, Blondel and Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import map_inference, sparsemap
    >>> from sklearn_sparsemap.structures import HeadAutomaton
    >>> siblings = np.zeros((4, 4))
    >>> siblings[1, 1] = -1.0  # word 1 should not follow word 0
    >>> modifiers, value = map_inference(HeadAutomaton(), [1.0, 0.5, 0.25], siblings=siblings)
    >>> modifiers.tolist(), value
    ([True, False, True], 1.25)
    >>> sparsemap(HeadAutomaton(), [1.0, 0.5, 0.25], siblings=siblings).marginals.round(3).tolist()
    [0.75, 0.25, 0.25]
    >>> best, value = map_inference(
    ...     HeadAutomaton(grandparents=True), [0.5, 0.4, 1.0, 0.5], grandparents=[[0.0, 0.0], [0.3, 0.3]]
    ... )
    >>> best.tolist(), round(value, 6)  # the second of two candidates, and both words
    ([False, True, True, True], 2.5)
    """

    score_ndim = 1
    decodes_stacks = True
    oracle = best_modifiers
    entering = ways_of_modifiers
    marginal_oracle = modifier_marginals
    sums_for_entering = True
    strict_encode = True
    _rows_of_samples = "a head automaton has one row for each candidate and each word"

    def __init__(self, grandparents: bool = False) -> None:
        self.grandparents = as_flag("grandparents", grandparents)

    @property
    def additional_names(self) -> tuple[str, ...]:
        return ("siblings", "grandparents") if self.grandparents else ("siblings",)

    def additional_shapes(self, shape: tuple[int, ...]) -> dict[str, tuple[tuple[int, ...], ...]]:
        size = shape[0]
        if not self.grandparents:
            return {"siblings": ((size + 1, size + 1),)}
        # The number of candidates is known from the additional scores only.
        return {
            "siblings": tuple((n + 1, n + 1) for n in (*range(size - 1, 0, -1), size)),
            "grandparents": tuple((size - n, n) for n in (*range(size - 1, 0, -1), size)),
        }

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        if not self.grandparents:
            return shape[0], 0, int("siblings" in given), 0
        if "grandparents" not in given:
            raise ValueError("pass grandparents, shape (n_candidates, n), which tell how many scores are of candidates")
        n_candidates, n = given["grandparents"]
        siblings = given.get("siblings", (n + 1, n + 1))
        if siblings != (n + 1, n + 1):
            raise ValueError(
                f"grandparents of shape {(n_candidates, n)} are for {n} words, whose siblings have shape "
                f"{(n + 1, n + 1)}; got {siblings}"
            )
        return n, n_candidates, int("siblings" in given), int(n_candidates > 0)

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        n, n_candidates, siblings, grandparents = dims
        return n_candidates + n, (n + 1) * siblings + n * grandparents, max(n_candidates, 1) * (n + 1)

    def marginal_work(self, dims: NDArray[np.int64]) -> int:
        n, n_candidates, siblings, grandparents = (int(d) for d in dims)
        n_keys = n_candidates + n + (n + 1) ** 2 * siblings + n_candidates * n * grandparents
        return n_keys + 2 * max(n_candidates, 1) * (n + 1) + 1

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        n, n_candidates, siblings, grandparents = (int(d) for d in dims)
        what = f"{n_candidates} candidates and {n} words" if n_candidates else f"{n} words"
        chosen = as_bools(
            structure, n_candidates + n, f"the modifiers of a head are {n_candidates + n} bools, for {what}"
        )
        parts = np.where(chosen, np.arange(n_candidates + n), -1)
        heads = np.flatnonzero(chosen[:n_candidates])
        modifiers = np.flatnonzero(chosen[n_candidates:])
        if n_candidates and len(heads) != 1:
            raise ValueError(f"a head has exactly one of {n_candidates} candidates as its own; got {len(heads)}")
        additional = np.full((n + 1) * siblings + n * grandparents, -1)
        if siblings:
            after = np.append(modifiers, n)
            additional[after] = np.append(0, modifiers + 1) * (n + 1) + after
        if grandparents:
            first = (n + 1) * siblings
            additional[first + modifiers] = first * (n + 1) + heads[0] * n + modifiers
        return as_parts(parts), as_parts(additional)

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        return slots >= 0

    @property
    def lengths(self) -> Lengths:
        if self.grandparents:
            return Lengths("a length does not tell how many parts are candidates; pass mask, which forbids words", (0,))
        return super().lengths

    def example_shapes(self) -> Sequence[tuple[int, ...]]:
        return ((2,), (3,), (4,)) if self.grandparents else super().example_shapes()
