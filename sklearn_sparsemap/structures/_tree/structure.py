"""DependencyTree: a head for each word, optionally with a label; projective (Eisner) or not (Chu-Liu/Edmonds)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..._core.annotations import Any, Mapping, NDArray, Sequence
from ..._core.jit import as_oracle
from ..._core.validation import check_positive
from .._base import InEstimators, Lengths, Structure, as_ints, as_parts, known_entries, solver_in_tensors
from .cuts import CUTS, LABELLED_CUTS
from .edmonds import chu_liu_edmonds
from .eisner import eisner, eisner_work
from .entering import ways_of_tree
from .labels import (
    best_labelled_projective_tree,
    best_labelled_tree,
    labelled_marginal_work,
    labelled_tree_marginals,
)
from .matrix_tree import tree_marginal_work, tree_marginals
from .repair import make_fit, misfits_of, words_in_cycles

if TYPE_CHECKING:
    from ..._numerics.polytope_solver import PolytopeSolver

# In messages about trees that the parameters of the structure forbid.
_REMEDY = "leave such trees out, or repair them by `DependencyTree.repair`"


@as_oracle
def best_tree(scores, additional, dims, work, slots, additional_slots):
    """Find the best non-projective tree; dims is (n words, projective, single_root)."""
    return chu_liu_edmonds(scores, dims[0], dims[2] != 0, work, slots)


@as_oracle
def best_projective_tree(scores, additional, dims, work, slots, additional_slots):
    """Find the best projective tree; dims as above."""
    return eisner(scores, dims[0], dims[2] != 0, work, slots)


class _TreesInEstimators(InEstimators):
    """Gold trees that the structure does not allow can be repaired."""

    def misfits(self, structure: Any, gold: Any) -> tuple[str, ...]:
        return structure.misfits(gold)

    def repair(self, structure: Any, gold: Any) -> Any:
        return structure.repair(gold)


class DependencyTree(Structure):
    """A dependency tree over the n words of a sentence: every word has one head, another word or the root.

    Scores have shape (n + 1, n): ``scores[h, m - 1]`` is the score of the arc from head h to modifier m, where 0 is the
    root and words count from 1. Entries with h = m are ignored. A structure is an int array of shape (n,), the head of
    each word, 0 for the root (as in CoNLL-U). -inf forbids an arc. See `Structure` for the conventions, [1]_ for
    SparseMAP over it.

    Parameters
    ----------
    projective : bool, default=False
        Whether to forbid arcs that cross when drawn above the sentence. MAP is then Eisner's algorithm, O(n^3), else
        Chu-Liu/Edmonds, O(n^2).
    single_root : bool, default=False
        Whether exactly one word has the root as its head, as in most treebanks. It is a constraint, not a penalty.
    n_labels : int, default=None
        Number of labels of arcs. Scores then have shape (n + 1, n, n_labels), and a structure is an int array of shape
        (n, 2): the head of each word and the label of its arc, from 0. A linear model has one output for each label,
        and a row of features for each arc. SparseMAP with labels always uses the active set.
    labels : sequence of hashable, default=None
        Names of the labels, such as relations, instead of `n_labels`. A structure is then an object array of shape
        (n, 2), or any sequence of pairs ``(head, name)``. In a true tree that is only compared with a prediction, as in
        `score` of an estimator, other names are wrong labels.

    Notes
    -----
    Many treebanks have trees with several roots, or with arcs that cross. If the structure forbids them, training
    refuses them. ``misfits(heads)`` names the reasons, and ``repair(heads)`` returns a tree that is allowed: roots
    after the first become modifiers of the first, and arcs that cross others are lifted to the head's head, the
    shortest first [2]_. It returns other trees as they are.

    References
    ----------
    .. [1] Niculae, Martins, Blondel and Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.
    .. [2] Nivre and Nilsson. Pseudo-Projective Dependency Parsing. ACL 2005.

    Examples
    --------
    >>> from sklearn_sparsemap import map_inference
    >>> from sklearn_sparsemap.structures import DependencyTree
    >>> DependencyTree(single_root=True).repair([0, 0, 2]).tolist()
    [0, 1, 2]
    >>> scores = [[1.0, 1.5], [0.0, 2.0], [1.2, 0.0]]
    >>> heads, value = map_inference(DependencyTree(), scores)
    >>> heads.tolist(), value
    ([0, 1], 3.0)
    >>> labelled = [[[1.0, 0.0], [1.5, 0.0]], [[0.0, 0.0], [0.5, 2.0]], [[1.2, 0.0], [0.0, 0.0]]]
    >>> tree, value = map_inference(DependencyTree(n_labels=2), labelled)
    >>> tree.tolist(), value
    ([[0, 0], [1, 1]], 3.0)
    >>> map_inference(DependencyTree(labels=["root", "obj"]), labelled).structure.tolist()
    [[0, 'root'], [1, 'obj']]
    """

    decodes_stacks = True
    tensor_solver = solver_in_tensors(__package__)
    fixed_size = True
    strict_encode = True
    # Set only if given, like the index of each of them.
    labels = None

    def __init__(
        self,
        projective: bool = False,
        single_root: bool = False,
        n_labels: int | None = None,
        labels: Sequence[Any] | None = None,
    ) -> None:
        if labels is not None:
            if not hasattr(labels, "__iter__"):
                raise ValueError(
                    f"labels must be a list of names; for a number of labels pass n_labels; got {labels!r}"
                )
            self.labels = tuple(labels)
            if not self.labels or len(set(self.labels)) < len(self.labels) or n_labels not in (None, len(self.labels)):
                raise ValueError(f"labels must be different names, and are given instead of n_labels; got {labels!r}")
            n_labels = len(self.labels)
        if n_labels is not None:
            check_positive("n_labels", n_labels, integer=True)
            n_labels = int(n_labels)
        self.projective = bool(projective)
        self.single_root = bool(single_root)
        self.n_labels = n_labels

    @property
    def score_ndim(self) -> int:
        return 2 if self.n_labels is None else 3

    @property
    def in_estimators(self) -> InEstimators:
        return _TreesInEstimators(row_outputs=self.n_labels)

    @property
    def polytope_solver(self) -> PolytopeSolver | None:
        if self.projective:
            return None
        return CUTS if self.n_labels is None else LABELLED_CUTS

    @property
    def oracle(self) -> Any:
        if self.n_labels is not None:
            return best_labelled_projective_tree if self.projective else best_labelled_tree
        return best_projective_tree if self.projective else best_tree

    @property
    def entering(self) -> Any:
        return ways_of_tree if self.projective else None

    @property
    def marginal_oracle(self) -> Any:
        return tree_marginals if self.n_labels is None else labelled_tree_marginals

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        n = shape[1]
        if shape[0] != n + 1:
            raise ValueError(f"scores of a tree over n words have shape (n + 1, n), row 0 for the root; got {shape}")
        if self.n_labels not in (None, shape[-1]):
            raise ValueError(f"n_labels={self.n_labels}, but the scores of arcs have {shape[-1]} labels: {shape}")
        labels = () if self.n_labels is None else (self.n_labels,)
        return n, int(self.projective), int(self.single_root), *labels

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        n, projective = dims[:2]
        reduced = 0 if self.n_labels is None else n * (n + 1)
        if projective:
            return n, 0, reduced + eisner_work(n)
        return n, 0, reduced + 2 * n * (n + 1) + 10 * n + 8

    def marginal_work(self, dims: NDArray[np.int64]) -> int:
        return tree_marginal_work(dims) if self.n_labels is None else labelled_marginal_work(dims)

    def exclusive_parts(self, dims: NDArray[np.int64]) -> NDArray[np.int64]:
        n = int(dims[0])
        if self.n_labels is None:
            return np.arange((n + 1) * n).reshape(n + 1, n).T
        n_labels = int(dims[3])
        return np.arange((n + 1) * n * n_labels).reshape(n + 1, n, n_labels).swapaxes(0, 1).reshape(n, -1)

    def forbidden_by(self, known: Sequence[Any], shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
        if self.n_labels is not None:
            return None
        n_words = shape[1]
        forbidden = np.zeros(shape, bool)
        for word, head in known_entries(known, n_words, "words", "the head of a word", 0, n_words):
            forbidden[:, word] = np.arange(n_words + 1) != head
        return forbidden

    def misfits(self, structure: Any) -> tuple[str, ...]:
        """Return the reasons why a tree is not allowed: crossing arcs, or several roots."""
        return misfits_of(self._heads(self._as_array(structure)), self.projective, self.single_root)

    def repair(self, structure: Any) -> Any:
        """Return an allowed tree close to a tree that has `misfits`; other trees as they are."""
        tree = self._as_array(structure)
        if not self.misfits(tree):
            return tree
        heads = make_fit(self._heads(tree).astype(np.int64), self.projective, self.single_root)
        return heads if tree.ndim == 1 else np.column_stack([heads, tree[:, 1]])

    def _heads(self, tree):
        """Return the heads of a tree, without the second column of labels if there is one."""
        if self.n_labels is None or tree.ndim != 2:
            return tree
        return np.asarray(tree[:, 0].tolist()) if self.labels is not None else tree[:, 0]

    def _as_array(self, structure):
        """Return a tree in the user's form as an array, of objects if its labels have names."""
        return np.asarray(structure) if self.labels is None else np.array([tuple(pair) for pair in structure], object)

    @property
    def lengths(self) -> Lengths:
        return Lengths("the words of each sentence", (1,), extra_rows=1)

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        n, projective, single_root = (int(d) for d in dims[:3])
        heads, labels = self._split(structure, n)
        if labels is not None and (labels.min() < 0 or labels.max() >= self.n_labels):
            if self.labels is None:
                raise ValueError(f"labels of arcs are ints from 0 to {self.n_labels - 1}; got {labels.tolist()}")
            word = int(np.argmin(labels))
            raise ValueError(f"word {word + 1} has the label {structure[word][1]!r}, which is not in labels")
        remedy = "; write heads as ints: [int(head) for head in heads]" if heads.dtype.kind in "fUSO" else ""
        heads = as_ints(heads, (n,), 0, n, f"a tree is {n} ints from 0 (root) to {n}, the head of each word{remedy}")
        own = np.flatnonzero(heads == np.arange(1, n + 1))
        if len(own):
            raise ValueError(f"word {own[0] + 1} is its own head: {heads.tolist()}; the head of a sentence's root is 0")
        cycle = words_in_cycles(heads)
        if len(cycle):
            raise ValueError(f"these heads form a cycle at word {int(cycle[0])}: {heads.tolist()}")
        if single_root and np.count_nonzero(heads == 0) > 1:
            raise ValueError(
                f"more than one word has the root as its head, but single_root=True: {heads.tolist()}; {_REMEDY}"
            )
        if projective and not is_projective(heads):
            raise ValueError(f"arcs cross, but projective=True: {heads.tolist()}; {_REMEDY}")
        arcs = heads * n + np.arange(n)
        return as_parts(arcs if labels is None else arcs * self.n_labels + labels), as_parts([])

    def _split(self, structure, n):
        """Return the heads, not checked yet, and the labels of arcs or None."""
        if self.labels is not None:
            return self._split_names(structure, n)
        given = np.asarray(structure)
        if self.n_labels is None:
            return given, None
        if given.shape != (n, 2) or given.dtype.kind not in "iu":
            raise ValueError(
                f"a labelled tree is an int array of shape ({n}, 2), with the head and the label of each word; got "
                f"shape {given.shape}"
            )
        return given[:, 0], given[:, 1].astype(np.int64)

    def _split_names(self, structure, n):
        """Implement `_split` for labels with names; unknown names are -1."""
        try:
            pairs = [(head, label) for head, label in structure]
        except (TypeError, ValueError):
            pairs = []
        if len(pairs) != n:
            raise ValueError(f"a tree with names of labels has {n} pairs (head, name), one for each word")
        number_of = {label: number for number, label in enumerate(self.labels)}
        return np.asarray([head for head, _ in pairs]), np.array([number_of.get(label, -1) for _, label in pairs])

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        n = int(dims[0])
        parts = slots.astype(np.int64)
        if self.n_labels is None:
            return parts // n
        heads, labels = parts // (n * self.n_labels), parts % self.n_labels
        if self.labels is None:
            return np.stack([heads, labels], axis=-1)
        tree = np.empty((*heads.shape, 2), object)
        names = np.empty(self.n_labels, object)
        names[:] = self.labels
        tree[..., 0], tree[..., 1] = heads, names[labels]
        return tree

    def agreement(self, structure: Any, predicted: Any, dims: NDArray[np.int64]) -> tuple[int, int, int]:
        # Any heads can be compared, including those that a projective tree cannot have.
        n = int(dims[0])
        heads, labels = self._split(structure, n)
        is_valid = heads.shape == (n,) and heads.dtype.kind in "iu" and heads.min() >= 0 and heads.max() <= n
        if not is_valid:
            raise ValueError(f"there are {n} words, whose heads are {n} ints from 0 to {n}; got {structure!r}")
        found, found_labels = self._split(predicted, n)
        correct = heads == found if labels is None else (heads == found) & (labels == found_labels)
        return int(np.count_nonzero(correct)), n, n

    def scores_shape(self, rows: tuple[int, ...], n_outputs: int) -> tuple[int, ...]:
        if len(rows) == 1:
            n = int(np.sqrt(rows[0]))
            rows = (n + 1, n) if n * (n + 1) == rows[0] else rows
        if len(rows) != 2 or rows[0] != rows[1] + 1:
            raise ValueError(
                f"a sample of a tree over n words has one row for each arc, (n + 1) * n rows or shape (n + 1, n, "
                f"n_features); got {' x '.join(map(str, rows))} rows"
            )
        return rows if self.n_labels is None else (*rows, n_outputs)

    def example_shapes(self) -> Sequence[tuple[int, ...]]:
        labels = () if self.n_labels is None else (self.n_labels,)
        return tuple((n + 1, n, *labels) for n in (1, 2, 3))


def is_projective(heads):
    """Return whether no two arcs of a tree cross, with the root to the left of all words.

    Parameters
    ----------
    heads : int array of shape (n,)
        Head of each word, 0 for the root.
    """
    ends = np.stack([np.arange(1, len(heads) + 1), heads])
    low = ends.min(axis=0)
    high = ends.max(axis=0)
    inside = (low[:, None] < low) & (low < high[:, None])
    return not (inside & (high > high[:, None])).any()
