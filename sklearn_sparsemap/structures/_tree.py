"""DependencyTree: a head for each word of a sentence; projective (Eisner) or not (Chu-Liu/Edmonds)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._jit import as_oracle, kernel
from ._base import Structure, as_parts
from ._gibbs_tree import tree_marginal_work, tree_marginals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

# What a slot of the contraction algorithm is: not yet looked at, on the present path, known to hang on the root, or
# merged into another one.
_NEW, _ON_PATH, _DONE, _MERGED = 0, 1, 2, 3


@kernel
def _best_heads(scores, n, single_root, best, heads):
    """Find each word's best head by itself; with `single_root` the root only where no word can be the head."""
    for m in range(n):
        best[m] = -np.inf if single_root else scores[m]
        heads[m] = 0
    for h in range(1, n + 1):
        row = scores[h * n : (h + 1) * n]
        # The word itself is no head, and is put right afterwards, so that the loop is vectorised.
        before, head_before = best[h - 1], heads[h - 1]
        for m in range(n):
            if row[m] > best[m]:
                heads[m] = h
                best[m] = row[m]
        best[h - 1], heads[h - 1] = before, head_before
    if single_root:
        for m in range(n):
            if best[m] == -np.inf:
                best[m], heads[m] = scores[m], 0


@kernel
def _is_tree(heads, n, single_root, mark):
    """Tell whether no cycle (and with `single_root` a single word at the root) is among the heads."""
    n_roots = 0
    for m in range(n):
        mark[m] = 0
        n_roots += heads[m] == 0
    if single_root and n_roots > 1:
        return False
    for start in range(1, n + 1):
        v = start
        while v != 0 and mark[v - 1] == 0:
            mark[v - 1] = start
            v = heads[v - 1]
        if v != 0 and mark[v - 1] == start:
            return False
    return True


@kernel
def _enter_fresh(scores, n, c, offset, entering, modifiers):
    """Raise what it is worth to enter a cycle from each head by the arcs into word `c`."""
    for h in range(n + 1):
        weight = scores[h * n + c - 1] - offset
        if weight > entering[h]:
            modifiers[h] = c
            entering[h] = weight


@kernel
def _enter_merged(inner, inner_modifiers, offset, entering, modifiers):
    """Raise what it is worth to enter a cycle from each head by the arcs into an inner cycle."""
    for h in range(inner.shape[0]):
        weight = inner[h] - offset
        if weight > entering[h]:
            modifiers[h] = inner_modifiers[h]
            entering[h] = weight


@kernel
def _best_entry(entering, owner, u, single_root):
    """Return the best head of what slot `u` stands for; with `single_root` the root only if there is no other."""
    head, best = np.int64(0), -np.inf if single_root else entering[0]
    for h in range(1, entering.shape[0]):
        if entering[h] > best and owner[h] != u:
            head, best = h, entering[h]
    return (head, best) if best > -np.inf else (np.int64(0), entering[0])


@kernel
def _chu_liu_edmonds(scores, n, single_root, work, slots):
    """Find the best non-projective tree by contraction of cycles, in O(n^2) for dense scores (Tarjan 1977).

    Entering a cycle at word m replaces the arc that m has within it. So what a cycle stands for in later rounds is, for
    each head outside, the weight of its best arc into the cycle less that of the arc replaced. Heads stay words
    throughout; `owner` says into which slot a word was merged.

    A single root is exact: an arc from the root is taken only where no other head is left, so that the number of such
    arcs is the smallest possible. (They are at a level of their own, below all others; weights of the two levels are
    never mixed, because an arc from the root is part of no cycle.)
    """
    best, heads = work[:n], work[n : 2 * n].view(np.int64)
    state = work[2 * n : 3 * n + 1].view(np.int64)
    _best_heads(scores, n, single_root, best, heads)
    for m in range(n):
        if best[m] == -np.inf:
            return -np.inf
        slots[m] = heads[m] * n + m
    if not _is_tree(heads, n, single_root, state):
        size = n + 1
        rest = work[3 * n + 1 :]
        entering = rest[: n * size].reshape((n, size))
        modifiers = rest[n * size : 2 * n * size].view(np.int64).reshape((n, size))
        ints = rest[2 * n * size :].view(np.int64)
        # Nodes 1..n are words, later ones are cycles; `node_of` says which one a slot stands for.
        owner, node_of, path = ints[:size], ints[size : 2 * size], ints[2 * size : 3 * size]
        parent, entry_arc = ints[3 * size : 5 * size], ints[5 * size : 7 * size]
        for v in range(size):
            state[v], node_of[v], owner[v] = _NEW, v, v
        state[0] = _DONE
        for v in range(2 * size):
            parent[v] = -1
        for m in range(n):
            entry_arc[m + 1] = slots[m]
        n_nodes = size
        for start in range(1, size):
            if state[start] != _NEW:
                continue
            length, v = 1, start
            path[0] = start
            state[start] = _ON_PATH
            while True:
                u = owner[heads[v - 1]]
                if state[u] == _DONE:
                    break
                if state[u] == _NEW:
                    state[u] = _ON_PATH
                    path[length] = u
                    length += 1
                    v = u
                    continue
                # A cycle, from `u` to the end of the path. It is merged into slot `u`.
                first = length
                into, into_modifiers = entering[u - 1], modifiers[u - 1]
                if node_of[u] == u:
                    for h in range(size):
                        into[h] = -np.inf
                    _enter_fresh(scores, n, u, best[u - 1], into, into_modifiers)
                else:
                    for h in range(size):
                        into[h] -= best[u - 1]
                c = -1
                while c != u:
                    first -= 1
                    c = path[first]
                    parent[node_of[c]] = n_nodes
                    if c != u:
                        state[c] = _MERGED
                        if node_of[c] == c:
                            _enter_fresh(scores, n, c, best[c - 1], into, into_modifiers)
                        else:
                            _enter_merged(entering[c - 1], modifiers[c - 1], best[c - 1], into, into_modifiers)
                node_of[u] = n_nodes
                for h in range(size):
                    owner[h] = u if state[owner[h]] == _MERGED else owner[h]
                heads[u - 1], best[u - 1] = _best_entry(into, owner, u, single_root)
                if best[u - 1] == -np.inf:
                    return -np.inf
                entry_arc[n_nodes] = heads[u - 1] * n + into_modifiers[heads[u - 1]] - 1
                n_nodes += 1
                length = first + 1
                v = u
            for p in range(length):
                state[path[p]] = _DONE
        # From the outermost cycles inwards: where a cycle is entered, that arc replaces the one within it.
        for node in range(n_nodes - 1, n, -1):
            inside = entry_arc[node] % n + 1
            while parent[inside] != node:
                inside = parent[inside]
            entry_arc[inside] = entry_arc[node]
        for m in range(n):
            slots[m] = entry_arc[m + 1]
    value, n_roots = 0.0, 0
    for m in range(n):
        value += scores[slots[m]]
        n_roots += slots[m] < n
    return -np.inf if single_root and n_roots > 1 else value


@kernel(no_nans=True)
def _highest_sum(a, b):
    """Return the largest ``a[k] + b[k]``."""
    best = -np.inf
    for k in range(a.shape[0]):
        total = a[k] + b[k]
        best = total if total > best else best
    return best


@kernel
def _where_highest(a, b):
    """Return the first place of the largest ``a[k] + b[k]``."""
    place, best = 0, -np.inf
    for k in range(a.shape[0]):
        total = a[k] + b[k]
        if total > best:
            place, best = k, total
    return place


@kernel
def _eisner(scores, n, single_root, work, slots):
    """Find the best projective tree by dynamic programming over spans, in O(n^3) (Eisner 1996).

    A span i..j of the nodes (0 is the root, left of all words) is headed by its left or right end, and is complete
    or still waits for the arc's other side. Tables are held in the order in which the inner loops run; the best
    split is found again on the way back, for the spans of the best tree alone.
    """
    size = n + 1
    area = size * size
    # [i, j], headed by i; and the same as [j, i]
    right, right_t = work[:area].reshape((size, size)), work[area : 2 * area].reshape((size, size))
    # [i, j], headed by j; and the same as [j, i]
    left, left_t = work[2 * area : 3 * area].reshape((size, size)), work[3 * area : 4 * area].reshape((size, size))
    # [i, j] with an arc from i to j; [j, i] with an arc from j to i
    to_right = work[4 * area : 5 * area].reshape((size, size))
    to_left_t = work[5 * area : 6 * area].reshape((size, size))
    first = 1 if single_root else 0
    for i in range(size):
        right[i, i] = right_t[i, i] = left[i, i] = left_t[i, i] = 0.0
    for width in range(1, size - first):
        for i in range(first, size - width):
            j = i + width
            inner = _highest_sum(right[i, i:j], left_t[j, i + 1 : j + 1])
            to_right[i, j] = inner + scores[i * n + j - 1]
            to_left_t[j, i] = inner + scores[j * n + i - 1] if i > 0 else -np.inf
            right[i, j] = right_t[j, i] = _highest_sum(to_right[i, i + 1 : j + 1], right_t[j, i + 1 : j + 1])
            left[i, j] = left_t[j, i] = _highest_sum(left[i, i:j], to_left_t[j, i:j])

    # Spans to take apart: (i, j), and whether headed by i.
    stack = work[6 * area : 6 * area + 3 * (2 * n + 2)].view(np.int64)
    if single_root:
        value, top = -np.inf, 0
        for r in range(1, size):
            total = scores[r - 1] + left[1, r] + right[r, n]
            if total > value:
                value, top = total, r
        if value == -np.inf:
            return value
        slots[top - 1] = top - 1
        stack[0], stack[1], stack[2], stack[3], stack[4], stack[5] = 1, top, 0, top, n, 1
        depth = 2
    else:
        value = right[0, n]
        if value == -np.inf:
            return value
        stack[0], stack[1], stack[2] = 0, n, 1
        depth = 1
    while depth > 0:
        depth -= 1
        i, j, headed_left = stack[3 * depth], stack[3 * depth + 1], stack[3 * depth + 2]
        if i == j:
            continue
        # The arc that completed the span goes from its head to k; then what lies between the two.
        if headed_left:
            k = i + 1 + _where_highest(to_right[i, i + 1 : j + 1], right_t[j, i + 1 : j + 1])
            slots[k - 1] = i * n + k - 1
            stack[3 * depth], stack[3 * depth + 1], stack[3 * depth + 2] = k, j, 1
            a, b = i, k
        else:
            k = i + _where_highest(left[i, i:j], to_left_t[j, i:j])
            slots[k - 1] = j * n + k - 1
            stack[3 * depth], stack[3 * depth + 1], stack[3 * depth + 2] = i, k, 0
            a, b = k, j
        split = a + _where_highest(right[a, a:b], left_t[b, a + 1 : b + 1])
        stack[3 * depth + 3], stack[3 * depth + 4], stack[3 * depth + 5] = a, split, 1
        stack[3 * depth + 6], stack[3 * depth + 7], stack[3 * depth + 8] = split + 1, b, 0
        depth += 3
    return value


@as_oracle
def best_tree(scores, additional, dims, work, slots, additional_slots):
    """Find the tree of highest score; dims is (n words, projective, single_root)."""
    n, projective, single_root = dims[0], dims[1], dims[2] != 0
    if projective:
        return _eisner(scores, n, single_root, work, slots)
    return _chu_liu_edmonds(scores, n, single_root, work, slots)


class DependencyTree(Structure):
    """A dependency tree over the n words of a sentence: every word has one head, another word or the root (S 3).

    Scores have shape (n + 1, n): ``scores[h, m - 1]`` is that of the arc from head h to modifier m, where 0 is the
    root and words count from 1. What stands at h = m is ignored. A structure is an int array of shape (n,), the head
    of each word, 0 for the root (as in CoNLL-U). -inf forbids an arc. See `Structure` for the conventions.

    Parameters
    ----------
    projective : bool, default=False
        Whether arcs must not cross when drawn above the sentence. MAP is then Eisner's algorithm, O(n^3), else
        Chu-Liu/Edmonds, O(n^2).
    single_root : bool, default=False
        Whether exactly one word has the root as its head, as in most treebanks. A true constraint, not a penalty.

    Examples
    --------
    >>> from sklearn_sparsemap import map_inference
    >>> from sklearn_sparsemap.structures import DependencyTree
    >>> scores = [[1.0, 1.5], [0.0, 2.0], [1.2, 0.0]]
    >>> heads, value = map_inference(DependencyTree(), scores)
    >>> heads.tolist(), value
    ([0, 1], 3.0)
    """

    score_ndim = 2
    oracle = best_tree
    marginal_oracle = tree_marginals
    fixed_size = True
    strict_encode = True

    def __init__(self, projective: bool = False, single_root: bool = False) -> None:
        self.projective = bool(projective)
        self.single_root = bool(single_root)

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        n = shape[1]
        if shape[0] != n + 1:
            raise ValueError(f"scores of a tree over n words have shape (n + 1, n), row 0 for the root; got {shape}")
        return n, int(self.projective), int(self.single_root)

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        n, projective, _ = dims
        if projective:
            return n, 0, 6 * (n + 1) ** 2 + 6 * (n + 1)
        return n, 0, 2 * n * (n + 1) + 10 * n + 8

    def marginal_work(self, dims: NDArray[np.int64]) -> int:
        return tree_marginal_work(dims)

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        n, projective, single_root = (int(d) for d in dims)
        heads = np.asarray(structure)
        if heads.shape != (n,) or heads.dtype.kind not in "iu" or heads.min() < 0 or heads.max() > n:
            raise ValueError(f"a tree is {n} ints from 0 (root) to {n}, the head of each word; got {structure!r}")
        heads = heads.astype(np.int64)
        # After k doublings `above` is the ancestor 2^k steps up, which for all words is the root in the end.
        above = np.concatenate([[0], heads])
        for _ in range(n.bit_length()):
            above = above[above]
        if above.any():
            raise ValueError(f"these heads form a cycle at word {int(np.flatnonzero(above)[0])}: {heads.tolist()}")
        if single_root and np.count_nonzero(heads == 0) > 1:
            raise ValueError(f"more than one word has the root as its head, but single_root=True: {heads.tolist()}")
        if projective and not is_projective(heads):
            raise ValueError(f"arcs cross, but projective=True: {heads.tolist()}")
        return as_parts(heads * n + np.arange(n)), as_parts([])

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        return slots.astype(np.int64) // int(dims[0])

    def agreement(self, structure: Any, predicted: Any, dims: NDArray[np.int64]) -> NDArray[np.bool_]:
        # Any heads may be compared, also those that a projective tree cannot have.
        heads = np.asarray(structure)
        n = int(dims[0])
        if heads.shape != (n,) or heads.min() < 0 or heads.max() > n:
            raise ValueError(f"there are {n} words, whose heads are {n} ints from 0 to {n}; got {structure!r}")
        return heads == predicted

    def scores_shape(self, rows: tuple[int, ...], n_outputs: int) -> tuple[int, ...]:
        if len(rows) == 1:
            n = int(np.sqrt(rows[0]))
            rows = (n + 1, n) if n * (n + 1) == rows[0] else rows
        if len(rows) != 2 or rows[0] != rows[1] + 1:
            raise ValueError(
                f"a sample of a tree over n words has one row for each arc, (n + 1) * n rows or shape (n + 1, n, "
                f"n_features); got {_times(rows)} rows"
            )
        return rows

    def example_shapes(self) -> Sequence[tuple[int, ...]]:
        return (2, 1), (3, 2), (4, 3)


def is_projective(heads):
    """Tell whether no two arcs of a tree cross, the root being left of all words.

    Parameters
    ----------
    heads : int array of shape (n,)
        Head of each word, 0 for the root.
    """
    ends = np.stack([np.arange(1, len(heads) + 1), heads])
    low, high = ends.min(axis=0), ends.max(axis=0)
    inside = (low[:, None] < low) & (low < high[:, None])
    return not (inside & (high > high[:, None])).any()


def _times(rows):
    return " x ".join(map(str, rows))
