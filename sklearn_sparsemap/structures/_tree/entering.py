"""The ways to build a span of words, from which the k best projective trees are found; see `_numerics/derivations.py`.

Spans are those of `eisner.py`, whose tables `work` holds. A node is a span i..j, by its kind:

- RIGHT, LEFT: the span, complete, headed by i or by j;
- TO_RIGHT, TO_LEFT: with the arc between its ends. One hyperarc enters it, from INSIDE and LABEL;
- INSIDE: the two spans below such an arc;
- LABEL: the labels of the arc from i to j; one if arcs have none;
- ROOT: the spans to the left and to the right of word j, the single root. There i is 0.

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import kernel
from ..._numerics.derivations import NONE, SINK, entering_arcs, put_arc
from .eisner import tables_of

_RIGHT, _LEFT, _TO_RIGHT, _TO_LEFT, _INSIDE, _LABEL, _ROOT = range(7)


@kernel
def _node(size, span_type, i, j):
    """Return the number of a node; NONE for a complete span of one word, which is empty."""
    return np.int64(NONE) if i == j and span_type <= _LEFT else (span_type * size + i) * size + j + 1


@kernel
def _ways_to_roots(n, scores, work, arcs, totals):
    """List the words that can be the single root; `scores` has the best label of each arc."""
    right, _, left, _, _, _, _ = tables_of(work, n)
    for r in range(1, n + 1):
        put_arc(arcs, r - 1, _node(n + 1, _ROOT, np.int64(0), r), _node(n + 1, _LABEL, np.int64(0), r), NONE, NONE)
        totals[r - 1] = scores[r - 1] + left[1, r] + right[r, n]
    return n


@kernel
def _ways_to_span(n, span_type, i, j, work, arcs, totals):
    """List the ways to build a span that has parts: RIGHT, LEFT or INSIDE."""
    size = n + 1
    right, _, left, _, to_right, to_left_t, _ = tables_of(work, n)
    for split in range(i, j):
        a = split - i
        if span_type == _RIGHT:
            tail = _node(size, _TO_RIGHT, i, split + 1)
            other = _node(size, _RIGHT, split + 1, j)
            totals[a] = to_right[i, split + 1] + right[split + 1, j]
        elif span_type == _LEFT:
            tail = _node(size, _TO_LEFT, split, j)
            other = _node(size, _LEFT, i, split)
            totals[a] = left[i, split] + to_left_t[j, split]
        else:
            tail = _node(size, _RIGHT, i, split)
            other = _node(size, _LEFT, split + 1, j)
            totals[a] = right[i, split] + left[split + 1, j]
        put_arc(arcs, a, tail, other, NONE, NONE)
    return j - i


@entering_arcs
def ways_of_tree(scores, additional, dims, work, node, arcs, totals):
    """List the ways to build a node."""
    n = dims[0]
    n_labels = np.int64(1)
    first = np.int64(0)
    size = dims[0] + 1
    best = scores
    if dims.shape[0] > 3:
        # Labelled oracles keep the best score of each arc before the tables.
        n_labels, first, best = dims[3], n * size, work[: n * size]
    tables = work[first:]
    if node == SINK and dims[2]:
        return _ways_to_roots(n, best, tables, arcs, totals)
    totals[0] = 0.0
    if node == SINK:
        put_arc(arcs, np.int64(0), _node(size, _RIGHT, np.int64(0), n), NONE, NONE, NONE)
        return np.int64(1)
    kind, i, j = (node - 1) // size // size, (node - 1) // size % size, (node - 1) % size
    if kind == _LABEL:
        arc = (i * n + j - 1) * n_labels
        for label in range(n_labels):
            put_arc(arcs, label, NONE, NONE, j - 1, arc + label)
            totals[label] = scores[arc + label]
        return n_labels
    if kind == _ROOT:
        put_arc(arcs, np.int64(0), _node(size, _LEFT, np.int64(1), j), _node(size, _RIGHT, j, n), NONE, NONE)
        return np.int64(1)
    if kind in (_TO_RIGHT, _TO_LEFT):
        label = _node(size, _LABEL, i, j) if kind == _TO_RIGHT else _node(size, _LABEL, j, i)
        put_arc(arcs, np.int64(0), _node(size, _INSIDE, i, j), label, NONE, NONE)
        return np.int64(1)
    return _ways_to_span(n, kind, i, j, tables, arcs, totals)
