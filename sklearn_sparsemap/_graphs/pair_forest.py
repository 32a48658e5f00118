"""Labels that imply their parents: projection by isotonic regression on a forest, and the best set of labels.

From the leaves to the roots, each node is merged with the child block of the highest mean as long as that exceeds its
own mean. The blocks below a node are in a pairing heap, so that n nodes take O(n log n) steps. The result is clipped to
[0, 1], which preserves the order.

References: Pardalos and Xue, Algorithms for a class of isotonic regression problems. Algorithmica 23, 1999. Fredman,
Sedgewick, Sleator and Tarjan, The pairing heap: a new form of self-adjusting heap. Algorithmica 1, 1986.

Used by `inference`.
"""

import numpy as np
from numba import types

from .._core.jit import FLOATS_2D, FLOATS_2D_OUT, INTS, INTS_2D_OUT, entry, kernel


@kernel
def _meld(first, second, keys, below, sibling):
    """Merge two pairing heaps, given by their roots (-1 if empty); return the root."""
    if first < 0:
        return second
    if second < 0:
        return first
    if keys[first] < keys[second]:
        first, second = second, first
    sibling[second] = below[first]
    below[first] = second
    return first


@kernel
def _without_root(root, keys, below, sibling):
    """Remove the root of a heap: merge its children in pairs, then the pairs. Return the new root."""
    node = below[root]
    pairs = np.int64(-1)
    joined = np.int64(-1)
    while node >= 0:
        other = sibling[node]
        after = sibling[other] if other >= 0 else np.int64(-1)
        pair = _meld(node, other, keys, below, sibling)
        sibling[pair] = pairs
        pairs, node = pair, after
    while pairs >= 0:
        after = sibling[pairs]
        joined = _meld(joined, pairs, keys, below, sibling)
        pairs = after
    return joined


@kernel
def _close(order, above, known, states):
    """Write the states of all labels that follow from known ones, by position: 1.0, 0.0, or -1.0 for free labels."""
    n = order.shape[0]
    for k in range(n):
        states[k] = known[order[k]]
    for i in range(n):
        k = n - 1 - i
        if states[k] == 1.0 and above[k] >= 0:
            states[above[k]] = 1.0
    for k in range(n):
        if above[k] >= 0 and states[above[k]] == 0.0:
            states[k] = 0.0


@kernel
def _parent_positions(order, parents):
    """Return the position in the order of each label's parent, by positions; -1 for roots."""
    n = order.shape[0]
    positions = np.empty(n, np.int64)
    above = np.empty(n, np.int64)
    for k in range(n):
        positions[order[k]] = k
    for k in range(n):
        parent = parents[order[k]]
        above[k] = positions[parent] if parent >= 0 else -1
    return above


@entry(
    types.void(
        INTS, INTS, FLOATS_2D, FLOATS_2D, types.int64, types.int64, FLOATS_2D_OUT, INTS_2D_OUT
    )
)  # fmt: skip
def project_range(order, parents, scores, known, start, stop, out, blocks):
    """Project samples onto the points of the unit cube at which no label exceeds its parent.

    Parameters
    ----------
    order : int array of shape (n_labels,)
        The labels, parents before children.
    parents : int array of shape (n_labels,)
        The parent of each label; -1 for roots.
    scores : array of shape (n_samples, n_labels)
    known : array of shape (n_samples, n_labels) or (0, n_labels)
        1.0 or 0.0 for labels that are fixed, -1.0 for others.
    start, stop : int
        The range of samples.
    out : array of shape (n_samples, n_labels)
        Gets the marginals.
    blocks : int array of shape (n_samples, n_labels) or (0, n_labels)
        Gets the first label of each label's block. A fixed label is a block of its own. The block of a label with
        marginal 0 is not defined.
    """
    # Labels are numbered by their positions in the order, so that neighbours are close in memory.
    n = order.shape[0]
    has_known = known.shape[0] > 0
    has_blocks = blocks.shape[0] > 0
    above = _parent_positions(order, parents)
    keys = np.empty(n)
    sums = np.empty(n)
    counts = np.empty(n)
    states = np.empty(n if has_known else 0)
    below = np.empty(n, np.int64)
    sibling = np.empty(n, np.int64)
    heaps = np.empty(n, np.int64)
    into = np.empty(n, np.int64)
    for k in range(n):
        heaps[k] = -1
    for row in range(start, stop):
        if has_known:
            _close(order, above, known[row], states)
        for i in range(n):
            node = n - 1 - i
            key, child = scores[row, order[node]], heaps[node]
            into[node], keys[node], heaps[node] = node, key, -1
            if has_known and states[node] >= 0.0:
                continue
            total, count = key, 1.0
            while child >= 0 and keys[child] > key:
                others = _meld(_without_root(child, keys, below, sibling), heaps[child], keys, below, sibling)
                total += sums[child]
                count += counts[child]
                key = total / count
                into[child], heaps[child] = node, -1
                child = others
            keys[node] = key
            # A block with a mean of at most 0 is final: a parent merges it only if its own mean is lower, and the mean
            # of the merged block is then also at most 0.
            parent = above[node]
            if key > 0.0 and parent >= 0 and not (has_known and states[parent] >= 0.0):
                sums[node], counts[node], below[node] = total, count, -1
                heaps[node] = child
                heaps[parent] = _meld(heaps[parent], node, keys, below, sibling)
        for node in range(n):
            # Ancestors were processed before, so their blocks are known.
            top = node if into[node] == node else into[into[node]]
            into[node], heaps[node] = top, -1
            value = min(max(keys[top], 0.0), 1.0)
            out[row, order[node]] = states[node] if has_known and states[node] >= 0.0 else value
        for node in range(n if has_blocks else 0):
            blocks[row, order[node]] = order[into[node]]


@entry(types.void(INTS, INTS, FLOATS_2D, types.int64, types.int64, FLOATS_2D_OUT))
def best_range(order, parents, scores, start, stop, out):
    """Write the best sets of labels that include the parent of each label, as 1.0 and 0.0, into `out`.

    For the parameters see `project_range`.
    """
    n = order.shape[0]
    for row in range(start, stop):
        gains = out[row]
        for i in range(n):
            gains[i] = scores[row, i]
        for k in range(n):
            node = order[n - 1 - k]
            if parents[node] >= 0 and gains[node] > 0.0:
                gains[parents[node]] += gains[node]
        for k in range(n):
            node = order[k]
            parent = parents[node]
            gains[node] = 1.0 if gains[node] > 0.0 and (parent < 0 or gains[parent] == 1.0) else 0.0
