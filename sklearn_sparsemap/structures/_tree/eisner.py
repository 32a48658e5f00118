"""The best projective tree: dynamic programming over spans (Eisner 1996).

`tables_of` and `eisner_work` say how `work` is divided. `entering.py` reads the tables afterwards.

Used by `entering.py`, `labels.py` and `structure.py`.
"""

import numpy as np

from ..._core.jit import kernel
from .._sums import highest_sum, where_highest


def eisner_work(n):
    """Return the length of `work` for n words: six tables, and three ints for each of 2n + 2 spans."""
    return 6 * (n + 1) ** 2 + 3 * (2 * n + 2)


@kernel
def tables_of(work, n):
    """Divide `work` into the tables of spans i..j, of shape (n + 1, n + 1), and the stack.

    Returns
    -------
    right, right_t : tables
        ``[i, j]``, complete and headed by i; and its transpose.
    left, left_t : tables
        ``[i, j]``, complete and headed by j; and its transpose.
    to_right : table
        ``[i, j]``, incomplete, with an arc from i to j.
    to_left_t : table
        ``[j, i]``, incomplete, with an arc from j to i.
    stack : int64 array
    """
    size = n + 1
    area = size * size
    return (
        work[:area].reshape((size, size)), work[area : 2 * area].reshape((size, size)),
        work[2 * area : 3 * area].reshape((size, size)), work[3 * area : 4 * area].reshape((size, size)),
        work[4 * area : 5 * area].reshape((size, size)), work[5 * area : 6 * area].reshape((size, size)),
        work[6 * area : 6 * area + 3 * (2 * n + 2)].view(np.int64),
    )  # fmt: skip


@kernel
def eisner(scores, n, single_root, work, slots):
    """Find the best projective tree by dynamic programming over spans, in O(n^3) (Eisner 1996).

    A span i..j of the nodes (0 is the root, left of all words) is headed by its left or right end, and is complete or
    incomplete. Tables are stored in the order of the inner loops. The best splits are recomputed in the backward pass,
    for the spans of the best tree only.
    """
    size = n + 1
    # The stack holds the spans to expand: (i, j), and whether headed by i.
    right, right_t, left, left_t, to_right, to_left_t, stack = tables_of(work, n)
    first = 1 if single_root else 0
    for i in range(size):
        right[i, i] = right_t[i, i] = left[i, i] = left_t[i, i] = 0.0
    for width in range(1, size - first):
        for i in range(first, size - width):
            j = i + width
            inner = highest_sum(right[i, i:j], left_t[j, i + 1 : j + 1])
            to_right[i, j] = inner + scores[i * n + j - 1]
            to_left_t[j, i] = inner + scores[j * n + i - 1] if i > 0 else -np.inf
            right[i, j] = right_t[j, i] = highest_sum(to_right[i, i + 1 : j + 1], right_t[j, i + 1 : j + 1])
            left[i, j] = left_t[j, i] = highest_sum(left[i, i:j], to_left_t[j, i:j])

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
        # First the arc that completed the span, from its head to k, then the span between the two.
        if headed_left:
            k = i + 1 + where_highest(to_right[i, i + 1 : j + 1], right_t[j, i + 1 : j + 1])
            slots[k - 1] = i * n + k - 1
            stack[3 * depth], stack[3 * depth + 1], stack[3 * depth + 2] = k, j, 1
            a, b = i, k
        else:
            k = i + where_highest(left[i, i:j], to_left_t[j, i:j])
            slots[k - 1] = j * n + k - 1
            stack[3 * depth], stack[3 * depth + 1], stack[3 * depth + 2] = i, k, 0
            a, b = k, j
        split = a + where_highest(right[a, a:b], left_t[b, a + 1 : b + 1])
        stack[3 * depth + 3], stack[3 * depth + 4], stack[3 * depth + 5] = a, split, 1
        stack[3 * depth + 6], stack[3 * depth + 7], stack[3 * depth + 8] = split + 1, b, 0
        depth += 3
    return value
