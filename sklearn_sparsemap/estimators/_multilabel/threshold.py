"""Thresholds on probabilities: tuned for example F1 and subset accuracy, or optimal for each sample."""

import numpy as np
from scipy.special import expit, logit

# Labels with a probability above the threshold are predicted.
GRID = np.linspace(0.0, 0.99, 100)
# Thresholds that are tried with seen sets.
SEEN_GRID = np.linspace(0.2, 0.65, 10)
# Decrease of example F1 that is accepted for a higher subset accuracy, if seen sets can be chosen. In cross-validation
# on the training parts of ten data sets, 0.01 loses 0.2 points of F1, and gains two points of subset accuracy.
SPARED_F1 = 0.01


def expected_cuts(probabilities, threshold=0.5):
    """Return the threshold of each sample that gives its best label set, if labels are independent.

    The best set has the highest sum of expected example F1 and probability. It consists of the most probable labels.
    The expected F1 of k labels is approximated by twice the expected number of correct labels, divided by k plus the
    expected number of gold labels [1]_.

    Parameters
    ----------
    probabilities : array of shape (n_samples, n_labels)
        Strictly between 0 and 1.
    threshold : float
        Probability at which a label is neither favoured nor penalised.

    Returns
    -------
    cuts : array of shape (n_samples,)

    References
    ----------
    .. [1] Jansche. A maximum expected utility framework for binary sequence labeling. ACL 2007.
    """
    ordered = -np.sort(-probabilities, axis=1)
    odds = logit(ordered) - logit(max(threshold, np.finfo(np.float64).tiny))
    shifted = expit(odds)
    expected = np.cumsum(shifted, axis=1)
    sizes = np.arange(1, probabilities.shape[1] + 1)
    f1 = 2.0 * expected / (sizes + expected[:, -1:])
    empty = -np.logaddexp(0.0, odds).sum(axis=1)[:, None]
    values = np.concatenate([2.0 * np.exp(empty), f1 + np.exp(empty + np.cumsum(odds, axis=1))], axis=1)
    bounds = np.pad(ordered, ((0, 0), (1, 1)), constant_values=((0, 0), (1.0, 0.0)))
    size, rows = values.argmax(axis=1), np.arange(len(probabilities))
    return 0.5 * (bounds[rows, size] + bounds[rows, size + 1])


def threshold_scores(probabilities, gold, weights):
    """Sum the example F1 of samples, and their exact matches, at each threshold of the grid.

    The F1 of a sample with neither gold nor predicted labels is 1.

    Parameters
    ----------
    probabilities, gold : arrays of shape (n_samples, n_labels)
    weights : array of shape (n_samples,)

    Returns
    -------
    totals : array of shape (2, n_thresholds)
    """
    hits, predicted = _count_above(probabilities, gold)
    counts = gold.sum(axis=1)[:, None]
    right = (hits == predicted) & (hits == counts)
    return np.stack([weights @ example_f1(hits, predicted + counts), weights @ right])


def _count_above(probabilities, gold):
    """Count the gold labels, and all labels, above each threshold of the grid."""
    n, n_thresholds = len(probabilities), len(GRID)
    rows, columns = np.nonzero(probabilities > 0.0)
    # A probability exceeds the first `above` thresholds.
    above = np.searchsorted(GRID, probabilities[rows, columns], side="left")
    place = rows * (n_thresholds + 1) + above
    right = gold[rows, columns]

    def count(weights):
        counts = np.bincount(place, weights, minlength=n * (n_thresholds + 1)).reshape(n, n_thresholds + 1)
        # Entry k counts the probabilities that exceed more than k thresholds.
        return counts[:, :0:-1].cumsum(axis=1)[:, ::-1]

    return count(right), count(None)


def example_f1(n_hits, n_labels):
    """Return the F1 of two label sets, given the size of their intersection and the sum of their sizes."""
    return np.where(n_labels > 0.0, 2.0 * n_hits / np.maximum(n_labels, 1.0), 1.0)


def best_threshold(scores, thresholds=GRID):
    """Return the threshold with the best mean score; of several that tie, the middle one."""
    best = np.flatnonzero(scores >= scores.max() - 1e-12)
    return float(thresholds[best[len(best) // 2]])


class Tuning:
    """Comparison of thresholds on held-out samples, by the rules "threshold" and "seen".

    The criterion is the example F1. If seen sets can be chosen, it is the subset accuracy among thresholds within a
    point of the highest F1.

    Parameters
    ----------
    plain, seen : bool
        Whether the rules "threshold" and "seen" can be chosen. Without seen sets, the rule is always "threshold".
    decay : float, default=1.0
        Factor by which the weights of earlier samples are multiplied when samples are added; below 1 for streams.
    """

    def __init__(self, plain, seen, decay=1.0):
        self._is_plain, self._is_seen, self._decay = plain, seen, decay
        self._plain, self._seen, self._weight = np.zeros((2, len(GRID))), None, 0.0

    def add(self, probabilities, gold, weights, sets=None):
        """Add samples; `sets` are a `SeenSets` of other samples, or None."""
        self._weight = self._decay * self._weight + weights.sum()
        self._plain = self._decay * self._plain + threshold_scores(probabilities, gold, weights)
        if self._is_seen and sets is not None:
            before = 0.0 if self._seen is None else self._decay * self._seen
            self._seen = before + sets.threshold_scores(probabilities, gold, weights)

    def best(self):
        """Return the best threshold, the rule, and the mean example F1. Ties go to the seen sets."""
        totals = {} if self._seen is None else {"seen": self._seen}
        if self._is_plain or not totals:
            totals["threshold"] = self._plain
        lowest = max(f1.max() for f1, _ in totals.values()) / self._weight - SPARED_F1
        found = []
        for rule in totals:
            (f1, whole), thresholds = totals[rule] / self._weight, SEEN_GRID if rule == "seen" else GRID
            scores = np.where(f1 >= lowest, whole + 1e-6 * f1, f1 - 2.0) if self._is_seen else f1
            threshold = best_threshold(scores, thresholds)
            place = int(np.flatnonzero(thresholds == threshold)[0])
            found.append((scores[place], threshold, rule, float(f1[place])))
        return max(found, key=lambda each: each[0])[1:]
