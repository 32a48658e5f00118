"""Labels that imply their parents: inference in linear time, with derivatives.

Used by `_labels.py`.
"""

import numpy as np

from .._core.jit import readonly
from .._core.threads import over_ranges
from .._graphs.pair_forest import best_range, project_range
from ..factors._label_constraints import implication_of

# Number of labels in a call on a single thread, which takes some milliseconds.
_COST_PER_CALL = 2**17


class Forest:
    """Trees of labels, each of which implies its parent. Estimators of label sets call `pool` and `contradicted`, too.

    Parameters
    ----------
    parents : int array of shape (n_labels,)
        The index of each label's parent, -1 for roots.

    Raises
    ------
    ValueError
        If the parents have a cycle.
    """

    def __init__(self, parents):
        self.parents = readonly(parents, np.int64)
        depths = np.zeros(len(parents), np.int64)
        above = np.array(parents)
        while (above >= 0).any():
            depths[above >= 0] += 1
            if depths.max() > len(parents):
                raise ValueError(f"label {int(depths.argmax())} is above itself")
            above = np.where(above >= 0, np.asarray(parents)[above], -1)
        self.order = readonly(np.argsort(depths, kind="stable"), np.int64)

    def project(self, scores, known=None, n_jobs=None, keep_blocks=True):
        """Project scores onto the points in [0, 1] at which no label exceeds its parent.

        Parameters
        ----------
        scores : array of shape (n_samples, n_labels)
        known : array of shape (n_samples, n_labels), default=None
            1.0 and 0.0 for known labels, -1.0 for others. Labels that follow from known ones are fixed, too.
        n_jobs : int or None
        keep_blocks : bool, default=True
            Whether to return the blocks.

        Returns
        -------
        marginals : array of shape (n_samples, n_labels)
        blocks : int array of shape (n_samples, n_labels)
            For each label, the first label of its block. Before the bounds, the labels of a block have the same value,
            their mean. Without `keep_blocks` there are no rows.
        """
        scores = readonly(scores, np.float64)
        known = readonly(np.zeros((0, scores.shape[1])) if known is None else known, np.float64)
        out = np.empty(scores.shape)
        blocks = np.empty((len(scores) * keep_blocks, scores.shape[1]), np.int64)
        costs = np.full(len(scores), float(scores.shape[1]))
        over_ranges(lambda start, stop: project_range(
            self.order, self.parents, scores, known, start, stop, out, blocks
        ), costs, n_jobs, _COST_PER_CALL)  # fmt: skip
        return out, blocks

    def pool(self, scores, n_jobs=None):
        """Return the nearest scores such that no label exceeds its parent, without the bounds of `project`."""
        # Scores in a small interval around 1/2 do not reach the bounds.
        scale = 4.0 * max(1.0, np.abs(scores).max(initial=0.0))
        return (self.project(scores / scale + 0.5, n_jobs=n_jobs, keep_blocks=False)[0] - 0.5) * scale

    @staticmethod
    def vjp(marginals, blocks, v):
        """Return the product of vectors with the derivative of `project`, which is symmetric.

        The product is the mean over a block whose value is neither 0 nor 1, else zero.
        """
        n_labels = marginals.shape[1]
        cells = (blocks + n_labels * np.arange(len(blocks))[:, None]).ravel()
        sums = np.bincount(cells, np.asarray(v, np.float64).ravel(), minlength=marginals.size)
        counts = np.maximum(np.bincount(cells, minlength=marginals.size), 1)
        inside = (marginals > 0.0) & (marginals < 1.0)
        return np.where(inside, (sums / counts)[cells].reshape(marginals.shape), 0.0)

    def best(self, scores, n_jobs=None):
        """Return the best sets that contain the parents of all their labels: array of 1.0 and 0.0."""
        scores = readonly(scores, np.float64)
        out = np.empty(scores.shape)
        costs = np.full(len(scores), float(scores.shape[1]))
        over_ranges(lambda start, stop: best_range(
            self.order, self.parents, scores, start, stop, out
        ), costs, n_jobs, _COST_PER_CALL)  # fmt: skip
        return out

    def log_partitions(self, scores):
        """Return the logarithms of the sums of ``exp(score)`` over the sets that contain the parents of their labels.

        The recursion goes from the leaves up. Either a label is off with all labels below it, or it is on and the
        labels below it are free.
        """
        below = np.zeros(scores.shape)
        total = np.zeros(len(scores))
        for label in self.order[::-1].tolist():
            log_sum = np.logaddexp(0.0, scores[:, label] + below[:, label])
            parent = int(self.parents[label])
            if parent < 0:
                total += log_sum
            else:
                below[:, parent] += log_sum
        return total

    def violated(self, labels):
        """Tell which rows of a dense indicator matrix have a label without its parent."""
        children = np.flatnonzero(self.parents >= 0)
        return (labels[:, children] > labels[:, self.parents[children]]).any(axis=1)

    def contradicted(self, labels, known):
        """Tell which rows have `known` labels that contradict each other."""
        implied = labels & known
        for child in self.order[::-1]:
            if self.parents[child] >= 0:
                implied[:, self.parents[child]] |= implied[:, child]
        return (implied & known & ~labels).any(axis=1)


def n_best_in_forest(scores, forest, k):
    """Find the `k` best sets that contain the parents of all their labels.

    From the leaves up, each label gets a list of the best sets of the labels in its subtree. Lists of siblings are
    joined.

    Parameters
    ----------
    scores : array of shape (n_labels,)
    forest : Forest
    k : int

    Returns
    -------
    sets : bool array of shape (n_keys, n_labels)
        The best first; fewer than `k` if fewer exist.
    """
    n_labels = len(scores)
    root = len(scores)
    nothing = np.zeros(1), np.zeros((1, n_labels), bool)
    best = [nothing] * (n_labels + 1)
    for label in forest.order[::-1].tolist():
        values, sets = best[label]
        sets = np.concatenate([sets, nothing[1]])
        sets[:-1, label] = True
        with_label = _ordered(np.concatenate([values + scores[label], nothing[0]]), sets, k)
        parent = int(forest.parents[label]) if forest.parents[label] >= 0 else root
        best[parent] = _joined(best[parent], with_label, k)
        # Free the memory.
        best[label] = None
    return best[root][1]


def _joined(first, second, k):
    """Return the `k` best unions of a set of the first list and a set of the second list."""
    # At least (i + 1) (j + 1) - 1 unions are as good as that of set i and set j.
    n_seconds = np.minimum(len(second[0]), k // np.arange(1, min(len(first[0]), k) + 1))
    i = np.repeat(np.arange(len(n_seconds)), n_seconds)
    j = np.arange(len(i)) - np.repeat(np.cumsum(n_seconds) - n_seconds, n_seconds)
    values = first[0][i] + second[0][j]
    order = np.argsort(-values, kind="stable")[:k]
    return values[order], first[1][i[order]] | second[1][j[order]]


def _ordered(values, sets, k):
    """Return the `k` best sets, the best first."""
    order = np.argsort(-values, kind="stable")[:k]
    return values[order], sets[order]


def forest_of(n_labels, constraints):
    """Return the `Forest` of resolved constraints; None unless each label implies at most one other label."""
    parents = np.full(n_labels, -1)
    for _, resolved in constraints:
        pair = implication_of(resolved)
        if pair is None:
            return None
        child, parent = pair
        if parents[child] not in (-1, parent):
            return None
        parents[child] = parent
    try:
        return Forest(parents)
    except ValueError:
        return None
