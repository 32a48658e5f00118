"""Decision rules and thresholds on probabilities: scores on held-out samples, and the choice among them."""

import numpy as np
from scipy.special import expit, logit

# Names of decision rules in files that were written before these names changed.
OLD_RULES = {"seen": "observed_sets", "expected": "expected_f1"}
# Labels with a probability above the threshold are predicted.
GRID = np.linspace(0.0, 0.99, 100)
# Thresholds that are tried with label sets: those observed in training, and those of the highest expectation.
SET_GRID = np.linspace(0.2, 0.65, 10)
# Decrease of F1 that is accepted for a higher subset accuracy: of example F1 between the thresholds of observed sets,
# and of the mean of example F1 and micro F1 between rules. In cross-validation on the training parts of ten data sets,
# a rule within 0.01 is within 0.02 of the best rule on all test parts. With 0.02, the decrease is 0.05 on one of them.
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


def summed_scores(n_hits, n_predicted, n_gold, weights):
    """Sum the scores of samples from the sizes of their label sets.

    Parameters
    ----------
    n_hits, n_predicted : arrays of shape (n_samples,) or (n_samples, n_thresholds)
        Numbers of correct labels, and of predicted ones.
    n_gold : array that broadcasts to them
    weights : array of shape (n_samples,)

    Returns
    -------
    totals : array of shape (4,) or (4, n_thresholds)
        Example F1, exact matches, correct labels, and predicted labels plus gold labels. The F1 of a sample with
        neither gold nor predicted labels is 1.
    """
    n_labels, right = n_predicted + n_gold, (n_hits == n_predicted) & (n_hits == n_gold)
    return np.stack([weights @ values for values in (example_f1(n_hits, n_labels), right, n_hits, n_labels)])


def threshold_scores(probabilities, gold, weights, thresholds=GRID):
    """Sum the scores of the labels above each threshold, as `summed_scores` does.

    Parameters
    ----------
    probabilities, gold : arrays of shape (n_samples, n_labels)
    weights : array of shape (n_samples,)
    thresholds : array of shape (n_thresholds,)
        Ascending.

    Returns
    -------
    totals : array of shape (4, n_thresholds)
    """
    n, n_thresholds = len(probabilities), len(thresholds)
    rows, columns = np.nonzero(probabilities > 0.0)
    # A probability exceeds the first `above` thresholds.
    above = np.searchsorted(thresholds, probabilities[rows, columns], side="left")
    cells = rows * (n_thresholds + 1) + above
    exactly = [
        np.bincount(cells, correct, minlength=n * (n_thresholds + 1)).reshape(n, n_thresholds + 1)
        for correct in (gold[rows, columns], None)
    ]
    # Entry k counts the probabilities that exceed more than k thresholds.
    hits, predicted = (counts[:, :0:-1].cumsum(axis=1)[:, ::-1] for counts in exactly)
    return summed_scores(hits, predicted, gold.sum(axis=1)[:, None], weights)


def expected_scores(probabilities, gold, weights, thresholds=SET_GRID):
    """Sum the scores of the sets of the highest expectation at each threshold; see `threshold_scores`."""
    totals, n_gold = np.empty((4, len(thresholds))), gold.sum(axis=1)
    for k, threshold in enumerate(thresholds):
        chosen = probabilities > expected_cuts(probabilities, threshold)[:, None]
        totals[:, k] = summed_scores((chosen * gold).sum(axis=1), chosen.sum(axis=1), n_gold, weights)
    return totals


def example_f1(n_hits, n_labels):
    """Return the F1 of two label sets, given the size of their intersection and the sum of their sizes."""
    return np.where(n_labels > 0.0, 2.0 * n_hits / np.maximum(n_labels, 1.0), 1.0)


def best_threshold(scores, thresholds=GRID):
    """Return the threshold with the best mean score; of several that tie, the middle one."""
    best = np.flatnonzero(scores >= scores.max() - 1e-12)
    return float(thresholds[best[len(best) // 2]])


class Tuning:
    """Comparison of decision rules and their thresholds on held-out samples.

    Each rule has the threshold that is best for it: the one with the highest example F1 or, for "observed_sets", with
    the highest subset accuracy within a point of the highest F1. Of the rules within a point of the highest mean of
    example F1 and micro F1, the one with the highest subset accuracy is chosen.

    Parameters
    ----------
    rules : iterable of {"observed_sets", "expected_f1", "threshold"}
    threshold : float or "auto", default="auto"
        A fixed threshold; with "auto", those of the grid of each rule are compared.
    decay : float, default=1.0
        Factor by which the weights of earlier samples are multiplied when samples are added; below 1 for streams.

    Attributes
    ----------
    thresholds : dict of str -> array
        The thresholds that are tried with each rule, ascending.
    totals : dict of str -> array of shape (4, n_thresholds)
        Weighted sums of the scores so far, as `summed_scores` returns.
    weight : float
        Weight of the samples so far.
    """

    def __init__(self, rules, threshold="auto", decay=1.0):
        self.thresholds = {rule: GRID if rule == "threshold" else SET_GRID for rule in rules}
        if threshold != "auto":
            self.thresholds = dict.fromkeys(self.thresholds, np.array([threshold], float))
        self.decay, self.totals, self.weight = decay, {}, 0.0

    def add(self, probabilities, gold, weights, sets=None):
        """Add samples; `sets` are the `ObservedLabelSets` of other samples.

        Without them, "observed_sets" cannot be chosen among several rules and, if it is the only one, its threshold is
        that of "threshold".
        """
        scores_of = {"expected_f1": expected_scores, "threshold": threshold_scores}
        scores_of["observed_sets"] = threshold_scores if sets is None else sets.threshold_scores
        for rule, thresholds in self.thresholds.items():
            if rule == "observed_sets" and sets is None and len(self.thresholds) > 1:
                continue
            added = scores_of[rule](probabilities, gold, weights, thresholds)
            self.totals[rule] = self.decay * self.totals.get(rule, 0.0) + added
        self.weight = self.decay * self.weight + weights.sum()

    def best(self):
        """Return the best threshold, the rule, and the mean example F1. Ties go to the first rule."""
        choices, means, values = [], [], []
        for rule in (rule for rule in self.thresholds if rule in self.totals):
            thresholds, (f1, whole, hits, n_labels) = self.thresholds[rule], self.totals[rule] / self.weight
            scores = f1
            if rule == "observed_sets":
                scores = np.where(f1 >= f1.max() - SPARED_F1, whole + 1e-6 * f1, -1.0)
            threshold = best_threshold(scores, thresholds)
            k = int(np.flatnonzero(thresholds == threshold)[0])
            mean = 0.5 * (f1[k] + float(example_f1(hits[k], n_labels[k])))
            choices.append((threshold, rule, float(f1[k])))
            means.append(mean)
            values.append(float(whole[k]) + 1e-6 * mean)
        near = np.asarray(means) >= max(means) - SPARED_F1
        return choices[int(np.argmax(np.where(near, values, -np.inf)))]
