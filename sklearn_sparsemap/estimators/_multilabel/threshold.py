"""The decision rule of label sets: which marginals are high enough, tuned for example F1."""

import numpy as np

# Labels with a marginal above the threshold are predicted.
GRID = np.linspace(0.0, 0.99, 100)
# Weight of the threshold scores of earlier mini-batches, at each new one.
_DECAY = 0.95


def threshold_f1(marginals, gold):
    """Return the example F1 of each sample at each threshold of the grid.

    A sample without labels for which none are predicted counts 1.

    Parameters
    ----------
    marginals, gold : arrays of shape (n_samples, n_labels)

    Returns
    -------
    scores : array of shape (n_samples, n_thresholds)
    """
    n, n_thresholds = len(marginals), len(GRID)
    rows, columns = np.nonzero(marginals > 0.0)
    # A marginal is above the first so many thresholds.
    above = np.searchsorted(GRID, marginals[rows, columns], side="left")
    place = rows * (n_thresholds + 1) + above
    right = gold[rows, columns]

    def count(weights):
        counts = np.bincount(place, weights, minlength=n * (n_thresholds + 1)).reshape(n, n_thresholds + 1)
        # Of those above more than k thresholds.
        return counts[:, :0:-1].cumsum(axis=1)[:, ::-1]

    hits, predicted = count(right), count(None)
    total = predicted + gold.sum(axis=1)[:, None]
    return np.where(total > 0.0, 2.0 * hits / np.maximum(total, 1.0), 1.0)


def best_threshold(scores):
    """Return the threshold of the best mean score, in the middle of its neighbours if these are as good."""
    best = np.flatnonzero(scores >= scores.max() - 1e-12)
    return float(GRID[best[len(best) // 2]])


class RunningThreshold:
    """A threshold tuned on a stream: each mini-batch is predicted before it is learned from."""

    def __init__(self):
        self.total, self.weight = np.zeros(len(GRID)), 0.0

    def update(self, marginals, gold, weights):
        """Take a mini-batch into account; earlier ones fade."""
        self.total = _DECAY * self.total + weights @ threshold_f1(marginals, gold)
        self.weight = _DECAY * self.weight + weights.sum()

    @property
    def threshold(self):
        return best_threshold(self.total / self.weight) if self.weight > 0.0 else 0.5
