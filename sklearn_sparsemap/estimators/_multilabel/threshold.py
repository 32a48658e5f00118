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
    return example_f1(hits, predicted + gold.sum(axis=1)[:, None])


def example_f1(n_hits, n_labels):
    """Return the F1 of sets from how many labels are right, and how many there are in both sets together."""
    return np.where(n_labels > 0.0, 2.0 * n_hits / np.maximum(n_labels, 1.0), 1.0)


def best_threshold(scores, thresholds=GRID):
    """Return the threshold of the best mean score, in the middle of its neighbours if these are as good."""
    best = np.flatnonzero(scores >= scores.max() - 1e-12)
    return float(thresholds[best[len(best) // 2]])


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


class Tuning:
    """Thresholds compared by the example F1 on held-out samples, without and with sets that were seen.

    Parameters
    ----------
    plain, seen : bool
        Which of the two decisions may be chosen.
    """

    def __init__(self, plain, seen):
        self._is_plain, self._is_seen = plain, seen
        self._plain, self._seen, self._thresholds, self._weight = np.zeros(len(GRID)), None, None, 0.0

    def add(self, marginals, gold, weights, sets):
        """Take samples into account; `sets` are a `SeenSets` of others, or None where there are none."""
        self._weight += weights.sum()
        self._plain += weights @ threshold_f1(marginals, gold)
        if self._is_seen and sets is not None:
            own = sets.threshold_f1(marginals, gold, weights)
            self._seen, self._thresholds = own if self._seen is None else self._seen + own, sets.thresholds

    def highest(self):
        """Return the mean example F1 at the best threshold."""
        return max(float(scores.max()) for _, scores in self._kinds()) / self._weight

    def best(self):
        """Return the best threshold, and whether to draw to the sets that were seen."""
        (draws, scores), *others = self._kinds()
        for other, compared in others:
            if compared.max() >= scores.max():
                draws, scores = other, compared
        return best_threshold(scores / self._weight, self._thresholds if draws else GRID), draws

    def _kinds(self):
        found = [(True, self._seen)] if self._seen is not None else []
        return [(False, self._plain), *found] if self._is_plain or not found else found
