"""Trees with labelled arcs: the oracles of trees, applied to the maximum or the log-sum over the labels of each arc.

In the scores of labelled arcs, label l of the arc from h to m is at ``(h * n + m - 1) * n_labels + l``.

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, kernel
from .edmonds import chu_liu_edmonds
from .eisner import eisner
from .inside_outside import inside_outside
from .matrix_tree import matrix_tree, tree_marginal_work


@kernel(no_nans=True)
def _take_best(scores, n_labels, best):
    """Fill in the maximum score over the labels of each arc."""
    for arc in range(best.shape[0]):
        highest = -np.inf
        for score in scores[arc * n_labels : (arc + 1) * n_labels]:
            highest = score if score > highest else highest
        best[arc] = highest


@kernel
def _put_labels(scores, n_labels, slots):
    """Replace the arcs of a tree by their best labelled arcs."""
    for m in range(slots.shape[0]):
        first, label = slots[m] * n_labels, 0
        for other in range(1, n_labels):
            label = other if scores[first + other] > scores[first + label] else label
        slots[m] = first + label


def _labelled_oracle(name, find_tree):
    """Make the MAP oracle of labelled trees from the kernel that finds the best tree."""

    def best_tree(scores, additional, dims, work, slots, additional_slots):
        """Find the best labelled tree; dims is (n words, projective, single_root, n_labels)."""
        n, n_arcs = dims[0], dims[0] * (dims[0] + 1)
        _take_best(scores, dims[3], work[:n_arcs])
        value = find_tree(work[:n_arcs], n, dims[2] != 0, work[n_arcs:], slots)
        if value > -np.inf:
            _put_labels(scores, dims[3], slots)
        return value

    best_tree.__name__ = name
    return as_oracle(best_tree)


best_labelled_tree = _labelled_oracle("best_labelled_tree", chu_liu_edmonds)
best_labelled_projective_tree = _labelled_oracle("best_labelled_projective_tree", eisner)


@kernel
def _sum_labels(scores, n_labels, sums):
    """Fill in the log-sum-exp of scores over the labels of each arc."""
    _take_best(scores, n_labels, sums)
    for arc in range(sums.shape[0]):
        if sums[arc] > -np.inf:
            total = 0.0
            for score in scores[arc * n_labels : (arc + 1) * n_labels]:
                total += np.exp(score - sums[arc])
            sums[arc] += np.log(total)


@as_oracle
def labelled_tree_marginals(scores, additional, dims, work, slots, additional_slots):
    """Compute the marginals of the labelled arcs; return the log-partition."""
    n = dims[0]
    n_labels = dims[3]
    n_arcs = n * (n + 1)
    # `work` holds the marginals, then the log-sums of the arcs, and the work of the trees over arcs.
    size = scores.shape[0]
    sums = work[size : size + n_arcs]
    rest = work[size + n_arcs :]
    _sum_labels(scores, n_labels, sums)
    if dims[1]:
        log_partition = inside_outside(sums, n, dims[2], rest)
    else:
        log_partition = matrix_tree(sums, n, dims[2], rest)
    if log_partition > -np.inf:
        for arc in range(n_arcs):
            for i in range(arc * n_labels, (arc + 1) * n_labels):
                work[i] = rest[arc] * np.exp(scores[i] - sums[arc]) if rest[arc] > 0.0 else 0.0
    return log_partition


def labelled_marginal_work(dims):
    """Return the length of `work` that `labelled_tree_marginals` needs."""
    n = int(dims[0])
    n_labels = int(dims[3])
    return n * (n + 1) * (n_labels + 1) + tree_marginal_work(dims[:3])
