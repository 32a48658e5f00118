"""Hyperpath: the derivation of a node in a directed acyclic hypergraph."""

from __future__ import annotations

from functools import partial
from numbers import Integral

import numpy as np

from ..._core.annotations import Any, ArrayLike, Callable, Mapping, NDArray, Sequence
from ..._core.jit import readonly
from ..._core.keys import as_key
from ..._core.tables import refuse_names
from ..._core.validation import check_not_masked
from .._base import InEstimators, Structure, as_bools, as_parts, check_fits, solver_in_tensors
from .arcs import reaches, usable_arcs
from .entering import ways_of_hyperpath
from .gibbs import hyperpath_marginals
from .map import OTHER, PART, SLOT, TAIL, best_hyperpath

_SINGLE = InEstimators(predicts_arrays=True)
_solver_in_tensors = solver_in_tensors(__package__)


class Hyperpath(Structure):
    """A derivation in a directed acyclic hypergraph: your own dynamic program, in two arrays.

    A node is an entry of the table of a dynamic program, such as a phrase from one word to another. A hyperarc is one
    way to make its head from up to two tails. A derivation of a node is one hyperarc with this head, and a derivation
    of each of its tails. Its score is the sum of the scores of its hyperarcs. Nodes that are the head of no hyperarc
    are given; they have nothing to derive. If all hyperarcs have one tail, derivations are paths, as those of `Path`.

    Scores have shape (n_arcs,), one for each hyperarc; -inf forbids it. A structure is a bool array of shape (n_arcs,),
    also given as 0 and 1; `predict` of an estimator returns an array (n_samples, n_arcs). Hyperarcs that no derivation
    of the target has are never used.

    Parameters
    ----------
    heads : array-like of shape (n_arcs,), or callable
        The head of each hyperarc, ints that are not negative. A callable is for samples of several sizes:
        ``heads(shape)`` takes the shape of the scores, ``(n_arcs,)``, and returns two arrays ``heads, tails``. It must
        return equal arrays for equal shapes. `predict` then returns a list of arrays.
    tails : array-like of shape (n_arcs, 2), default=None
        The tails of each hyperarc, with -1 for none. None if `heads` is a callable.
    target : int, default=None
        The node that is derived, the head of some hyperarc. By default, the node with the largest number.

    Attributes
    ----------
    fixed_size : bool
        Whether all derivations have the same number of hyperarcs; see `Structure`. False if `heads` is a callable.

    Raises
    ------
    ValueError
        If nodes are not as described, if the hypergraph has a cycle, or if a derivation could have a node twice,
        because both tails of a hyperarc lead to it. Give each of the tails a copy of the node then.

    See Also
    --------
    Path : Derivations with one tail.
    CustomStructure : Structures that are given by a MAP oracle.

    Notes
    -----
    Each call of an oracle takes a time proportional to the number of hyperarcs. Gibbs marginals are those of the
    inside-outside algorithm [1]_. In an estimator, `known` has one entry for each hyperarc: True if it is used, False
    if it is not, None if that is unknown. See `Structure` for the conventions, [2]_ for hypergraphs, [3]_ for SparseMAP
    over a structure.

    References
    ----------
    .. [1] Eisner. Inside-Outside and Forward-Backward Algorithms Are Just Backprop. Workshop on Structured Prediction
       for NLP, 2016.
    .. [2] Huang. Advanced Dynamic Programming in Semiring and Hypergraph Frameworks. COLING 2008 (tutorial).
    .. [3] Niculae, Martins, Blondel and Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

    Examples
    --------
    A grammar that brackets n words: a phrase is a word, or consists of two phrases.

    >>> from sklearn_sparsemap import map_inference, marginal_inference, sparsemap
    >>> from sklearn_sparsemap.structures import Hyperpath
    >>> def bracketings(n):
    ...     number, heads, tails, phrases = {}, [], [], []
    ...     for length in range(1, n + 1):
    ...         for first in range(n - length + 1):
    ...             stop = first + length
    ...             number[first, stop] = len(number)
    ...             for middle in range(first + 1, stop):
    ...                 heads.append(number[first, stop])
    ...                 tails.append([number[first, middle], number[middle, stop]])
    ...                 phrases.append((first, middle, stop))
    ...     return heads, tails, phrases
    >>> heads, tails, phrases = bracketings(3)
    >>> phrases
    [(0, 1, 2), (1, 2, 3), (0, 1, 3), (0, 2, 3)]
    >>> brackets = Hyperpath(heads, tails)
    >>> used, value = map_inference(brackets, [1.0, 0.8, 0.0, 0.0])
    >>> used.tolist(), value
    ([True, False, False, True], 1.0)
    >>> sparsemap(brackets, [1.0, 0.8, 0.0, 0.0]).marginals.round(3).tolist()
    [0.55, 0.45, 0.45, 0.55]
    >>> marginal_inference(brackets, [1.0, 0.8, 0.0, 0.0]).marginals.round(3).tolist()
    [0.55, 0.45, 0.45, 0.55]
    """

    oracle = best_hyperpath
    entering = ways_of_hyperpath
    marginal_oracle = hyperpath_marginals
    sums_for_entering = True
    strict_encode = True
    # An instance attribute here, which follows from the hypergraph.
    fixed_size = False
    _rows_of_samples = "a hyperpath has one row for each hyperarc"

    def __init__(
        self,
        heads: ArrayLike | Callable[[tuple[int, ...]], Any],
        tails: ArrayLike | None = None,
        target: int | None = None,
    ) -> None:
        if target is not None and (isinstance(target, bool) or not isinstance(target, Integral)):
            raise ValueError(f"target must be a node, the head of a hyperarc, or None; got {target!r}")
        self.target = None if target is None else int(target)
        self._layouts = {}
        if callable(heads):
            if tails is not None:
                raise ValueError("heads is a function, which returns heads and tails; omit tails")
            self.heads, self.tails = heads, None
            return
        self.heads, self.tails = _checked(heads, tails)
        self.fixed_size = self._layout(len(self.heads))[0].is_fixed

    @property
    def _by_shape(self):
        return callable(self.heads)

    @property
    def in_estimators(self) -> InEstimators:
        return Structure.in_estimators if self._by_shape else _SINGLE

    @property
    def tensor_solver(self) -> Any:
        """Hypergraphs by shape are left to the compiled solver, because those of a padded batch differ."""
        return None if self._by_shape else partial(_solver_in_tensors, self)

    def _layout(self, n_arcs):
        """Return the `UsableArcs` of the hypergraph with this number of hyperarcs, and its `dims`."""
        found = self._layouts.get(n_arcs)
        if found is None:
            heads, tails = self._arrays(n_arcs)
            layout = usable_arcs(heads, tails, _target_of(heads, tails, self.target))
            counts = [n_arcs, len(layout.nodes), layout.n_slots]
            dims = readonly(np.concatenate([counts, layout.begins, layout.arcs.ravel()]), np.int64)
            found = self._layouts[n_arcs] = layout, dims
        return found

    def _arrays(self, n_arcs):
        if not self._by_shape:
            if n_arcs != len(self.heads):
                raise ValueError(f"this hypergraph has {len(self.heads)} hyperarcs, but there are {n_arcs} scores")
            return self.heads, self.tails
        given = self.heads((n_arcs,))
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise ValueError(f"the function of a shape must return two arrays, heads and tails; got {given!r:.80}")
        heads, tails = _checked(*given)
        if len(heads) != n_arcs:
            raise ValueError(f"the function returned {len(heads)} hyperarcs for the shape {(n_arcs,)} of the scores")
        return heads, tails

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        return self._layout(int(shape[0]))[1]

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        return int(dims[2]), 0, 3 * int(dims[1]) + 2

    def marginal_work(self, dims: NDArray[np.int64]) -> int:
        return int(2 * dims[0] + 2 * dims[1] + 2)

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        n = int(dims[0])
        layout, _ = self._layout(n)
        used = as_bools(structure, n, f"a derivation is {n} bools, or 0 and 1, one for each hyperarc")
        places = layout.place_of[np.flatnonzero(used)]
        arcs = layout.arcs[places[places >= 0]]
        heads = np.sort(np.searchsorted(layout.begins, places, side="right") - 1)
        tails = arcs[:, TAIL:SLOT]
        # A derivation has one hyperarc for the target and for each tail, and no other ones.
        needed = np.sort(np.append(tails[tails < len(layout.nodes)], 0))
        if not np.array_equal(heads, needed):
            raise ValueError(
                f"the hyperarcs {np.flatnonzero(used).tolist()} are no derivation of node {layout.nodes[0]}"
            )
        slots = np.full(int(dims[2]), -1)
        slots[arcs[:, SLOT]] = arcs[:, PART]
        return as_parts(slots), as_parts([])

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        used = np.zeros(int(dims[0]), bool)
        used[slots[slots >= 0]] = True
        return used

    def forbidden_by(self, known: Sequence[Any], shape: tuple[int, ...]) -> NDArray[np.bool_]:
        layout, _ = self._layout(int(shape[0]))
        if len(known) != shape[0]:
            raise ValueError(f"there are {shape[0]} hyperarcs; got {len(known)} entries")
        heads = layout.heads()
        forbidden = np.zeros(shape[0], bool)
        for part, entry in enumerate(known):
            if entry is None:
                continue
            if entry not in (0, 1):
                raise ValueError(f"a hyperarc is True, False or None; got {entry!r}")
            place = layout.place_of[part]
            if not entry:
                forbidden[part] = True
            elif place < 0:
                raise ValueError(f"hyperarc {part} is in no derivation of node {layout.nodes[0]}")
            else:
                # From nodes that lead to the head, derivations keep leading to it. No node has both tails lead to it.
                leads = reaches(layout, heads[place])
                passes_by = leads[heads] & ~(leads[layout.arcs[:, TAIL]] | leads[layout.arcs[:, OTHER]])
                passes_by[place] = False
                forbidden[layout.arcs[passes_by, PART]] = True
        return forbidden

    def example_shapes(self) -> Sequence[tuple[int, ...]]:
        if not self._by_shape:
            return ((len(self.heads),),)
        # Small shapes for which the function has a hypergraph.
        found = []
        for n_arcs in range(1, 30):
            try:
                self._layout(n_arcs)
            except Exception:
                # A user's function may raise any error for a shape that it does not know.
                continue
            found.append((n_arcs,))
        return tuple(found[:3])

    def _params(self):
        arrays = self.heads if self._by_shape else self.heads.tolist()
        return {"heads": arrays, "tails": None if self._by_shape else self.tails.tolist(), "target": self.target}

    def content(self) -> Any:
        return as_key(self.heads), as_key(self.tails), self.target

    def __getstate__(self):
        return {**vars(self), "_layouts": {}}

    def __repr__(self):
        what = repr(self.heads) if self._by_shape else f"{len(self.heads)} hyperarcs"
        return f"Hyperpath({what})" if self.target is None else f"Hyperpath({what}, target={self.target})"


def _checked(heads, tails):
    """Return heads and tails as int arrays; raise ValueError if they are no hyperarcs."""
    for name, array in (("heads", heads), ("tails", tails)):
        refuse_names(array, name)
        check_not_masked(array, name)
    given = np.asarray(heads)
    if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given):
        raise ValueError(
            f"heads must be ints of shape (n_arcs,), one for each hyperarc; got shape {given.shape} of {given.dtype}"
        )
    own = np.asarray(tails)
    if own.shape != (len(given), 2) or own.dtype.kind not in "iu":
        raise ValueError(
            f"tails must be ints of shape ({len(given)}, 2), two for each hyperarc, -1 for none; got shape {own.shape} "
            f"of {own.dtype}"
        )
    if given.min() < 0:
        raise ValueError(f"heads[{int(given.argmin())}] is negative; number the nodes from 0")
    if own.min() < -1:
        arc, column = np.unravel_index(own.argmin(), own.shape)
        raise ValueError(f"tails[{arc}, {column}] is {own.min()}; a tail is a node, or -1 for none")
    for name, array in (("heads", given), ("tails", own)):
        check_fits(array, name)
    # The layouts follow from them.
    return readonly(given.astype(np.int64), np.int64), readonly(own.astype(np.int64), np.int64)


def _target_of(heads, tails, target):
    """Return the node that is derived."""
    last = int(max(heads.max(), tails.max()))
    node = last if target is None else target
    if not (heads == node).any():
        by_default = ", the last node, which is the target by default;" if target is None else " as target;"
        raise ValueError(f"no hyperarc has the head {node}{by_default} the target must be the head of a hyperarc")
    return node
