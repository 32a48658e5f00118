"""Labels of which each implies its parent: the nearest point, by isotonic regression on a forest, and the best set.

Where the children of a node pull higher than it, they are averaged with it. From the leaves up, each node takes in the
child block of the highest mean while that is above its own; blocks below a node are held in a skew heap, so that all of
it takes O(n log n) steps for n nodes. Bounds are met by clipping, which keeps the order.

References: Pardalos and Xue, Algorithms for a class of isotonic regression problems. Algorithmica 23, 1999. Sleator and
Tarjan, Self-adjusting heaps. SIAM Journal on Computing 15, 1986.
"""

import numpy as np
from numba import types

from .._jit import FLOATS_2D, FLOATS_2D_OUT, INTS, INTS_2D_OUT, entry, kernel


@kernel
def _meld(first, second, keys, left, right):
    """Join two skew heaps, by their roots; -1 is an empty one. Returns the root."""
    if first < 0:
        return second
    if second < 0:
        return first
    if keys[first] < keys[second]:
        first, second = second, first
    root, node = first, first
    while True:
        other = right[node]
        right[node] = left[node]
        if other < 0:
            left[node] = second
            return root
        if keys[other] < keys[second]:
            other, second = second, other
        left[node] = other
        node = other


@kernel
def _close(order, parents, known, states):
    """Write what follows from known labels: 1.0 and 0.0, and -1.0 where a label is free."""
    n = order.shape[0]
    for i in range(n):
        states[i] = known[i] if known.shape[0] > 0 else -1.0
    if known.shape[0] == 0:
        return
    for k in range(n):
        node = order[n - 1 - k]
        if states[node] == 1.0 and parents[node] >= 0:
            states[parents[node]] = 1.0
    for k in range(n):
        node = order[k]
        if parents[node] >= 0 and states[parents[node]] == 0.0:
            states[node] = 0.0


@entry(
    types.void(
        INTS, INTS, FLOATS_2D, FLOATS_2D, types.int64, types.int64, FLOATS_2D_OUT, INTS_2D_OUT
    )
)  # fmt: skip
def project_range(order, parents, scores, known, start, stop, out, blocks):
    """Project samples start..stop onto the points of the unit cube where no label exceeds its parent.

    `order` lists parents before children, `parents` are -1 for roots. `known` has a row a sample, of 1.0 and 0.0 for
    labels that are fixed and -1.0 for others, or no rows. `blocks` is filled with the first label of each label's
    block; fixed labels are blocks by themselves, and what ends at zero need not be in one.
    """
    n = order.shape[0]
    keys, sums, counts, states = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    left, right = np.empty(n, np.int64), np.empty(n, np.int64)
    heaps, into = np.empty(n, np.int64), np.empty(n, np.int64)
    for row in range(start, stop):
        _close(order, parents, known[row] if known.shape[0] > 0 else scores[row, :0], states)
        for i in range(n):
            sums[i], counts[i], into[i] = scores[row, i], 1.0, i
            left[i], right[i], heaps[i] = -1, -1, -1
        for k in range(n):
            node = order[n - 1 - k]
            keys[node] = sums[node]
            if states[node] >= 0.0:
                continue
            while heaps[node] >= 0 and keys[heaps[node]] > keys[node]:
                child = heaps[node]
                others = _meld(left[child], right[child], keys, left, right)
                heaps[node] = _meld(others, heaps[child], keys, left, right)
                sums[node] += sums[child]
                counts[node] += counts[child]
                keys[node] = sums[node] / counts[node]
                into[child] = node
            left[node], right[node] = -1, -1
            parent = parents[node]
            # What is not above zero ends there, whatever it is averaged with: a block that takes in such a child is not
            # above zero, either, before and after.
            if parent >= 0 and states[parent] < 0.0 and keys[node] > 0.0:
                heaps[parent] = _meld(heaps[parent], node, keys, left, right)
        for k in range(n):
            node = order[k]
            top = node if into[node] == node else blocks[row, into[node]]
            blocks[row, node] = top
            out[row, node] = states[node] if states[node] >= 0.0 else min(max(keys[top], 0.0), 1.0)


@entry(types.void(INTS, INTS, FLOATS_2D, types.int64, types.int64, FLOATS_2D_OUT))
def best_range(order, parents, scores, start, stop, out):
    """Find the best sets of samples start..stop that have with each label its parent: 1.0 and 0.0 into `out`."""
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
