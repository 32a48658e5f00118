"""Decision rules of label sets: thresholds, observed label sets, and the choice among them on held-out samples.

Used by `estimators/_state`, `base.py`, `cross_validation.py`, `epochs.py`, `inference.py` and `new_labels.py`.
"""

import numpy as np
from scipy import sparse
from scipy.special import expit, logit, softmax

from ..._core.blocks import blocks
from ..._core.folds import row_words

# Names of decision rules in files that were written before these names changed.
OLD_RULES = {"seen": "observed_sets", "expected": "expected_f1"}
# Labels with a probability above the threshold are predicted. Early files have a sum for each of these thresholds.
GRID = np.linspace(0.0, 0.99, 100)
# Thresholds that are tried with label sets: those observed in training, and those of the highest expectation.
SET_GRID = np.linspace(0.2, 0.65, 10)
# Decrease of F1 that is accepted for a higher subset accuracy: of example F1 between the thresholds of observed sets,
# and of the mean of example F1 and micro F1 between rules. In cross-validation on the training parts of ten data sets,
# a rule within 0.01 is within 0.02 of the best rule on all test parts. With 0.02, the decrease is 0.05 on one of them.
SPARED_F1 = 0.01
# Decrease of subset accuracy, compared with the labels above one half, that a rule need not make up for by example F1.
SPARED_SETS = 0.02
# Fraction of a set's lift that is added to its log odds. It is below 1 because the probabilities of the labels already
# contain a part of their dependence. On development splits of nine data sets, the subset accuracy is 0.2 points lower
# with 1/3, and 0.5 points lower with 3/4.
LIFT = 0.5
# Number of the most probable sets that are compared with each other; all sets if there are at most twice as many.
N_LIKELY = 32
# Maximum number of entries of the sets for which a dense copy is stored, which is faster.
_MAX_DENSE = 2**14
_TIED = 1e-12  # difference between mean scores of thresholds that is rounding
# Maximum discount: the number that is subtracted from the count of a set.
_MAX_DISCOUNT = 0.98
# Maximum number of sets; the most frequent ones are kept.
_MAX_SETS = 10_000
# Decimals of the values that are compared. Of sets that tie up to rounding, the first one is the best.
_DECIMALS = 10
# Smallest threshold, at which all labels are predicted.
_LEAST = np.finfo(np.float64).tiny
# Number of values in a block of samples.
_BLOCK = 2**22
# Maximum number of sets that are compared with each other, and number of samples in a comparison.
_MAX_COMPARED = 3072
_AT_ONCE = 64
# Number of values that fit into the processor's cache.
_CACHED = 2**17


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
    odds = logit(ordered) - logit(max(threshold, _LEAST))
    shifted = expit(odds)
    expected = np.cumsum(shifted, axis=1)
    sizes = np.arange(1, probabilities.shape[1] + 1)
    f1 = 2.0 * expected / (sizes + expected[:, -1:])
    empty = -np.logaddexp(0.0, odds).sum(axis=1)[:, None]
    values = np.concatenate([2.0 * np.exp(empty), f1 + np.exp(empty + np.cumsum(odds, axis=1))], axis=1)
    bounds = np.pad(ordered, ((0, 0), (1, 1)), constant_values=((0, 0), (1.0, 0.0)))
    size = values.argmax(axis=1)
    rows = np.arange(len(probabilities))
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
    n_labels = n_predicted + n_gold
    right = (n_hits == n_predicted) & (n_hits == n_gold)
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
    n = len(probabilities)
    n_thresholds = len(thresholds)
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
    totals = np.empty((4, len(thresholds)))
    n_gold = gold.sum(axis=1)
    for k, threshold in enumerate(thresholds):
        chosen = probabilities > expected_cuts(probabilities, threshold)[:, None]
        totals[:, k] = summed_scores((chosen * gold).sum(axis=1), chosen.sum(axis=1), n_gold, weights)
    return totals


def example_f1(n_hits, n_labels):
    """Return the F1 of two label sets, given the size of their intersection and the sum of their sizes."""
    return np.where(n_labels > 0.0, 2.0 * n_hits / np.maximum(n_labels, 1.0), 1.0)


class ObservedLabelSets:
    """The distinct label sets of training samples, the most frequent first.

    Parameters
    ----------
    sets : CSR of shape (n_sets, n_labels)
        The sets: 0 and 1.
    lifts : array of shape (n_sets,)
        Logarithm of the ratio of a set's probability to its probability under independent labels. The probability is
        the relative frequency with absolute discounting [1]_: a discount is subtracted from each count, and the
        discounted mass is distributed over all sets as if labels were independent.

    Files hold it by these names; see `estimators/_state/plain.py`.

    References
    ----------
    .. [1] Ney, Essen and Kneser. On structuring probabilistic dependences in stochastic language modelling. Computer
       Speech and Language 1994.
    """

    def __init__(self, sets, lifts):
        if np.shape(lifts) != (sets.shape[0],):
            raise ValueError(f"there are {sets.shape[0]} label sets, but lifts has shape {np.shape(lifts)}")
        self.sets, self.lifts = sets, lifts
        self.sizes = np.diff(sets.indptr).astype(np.float64)
        self._dense = sets.toarray() if np.prod(sets.shape) <= _MAX_DENSE else None
        self._mutual = None
        if len(self.sizes) <= 2 * N_LIKELY:
            self._mutual = example_f1((sets @ sets.T).toarray(), self.sizes[:, None] + self.sizes)
        # Number of samples that are compared at the same time.
        self._block_size = max(1, _BLOCK // max(*sets.shape, N_LIKELY**2))
        if sets.shape[0] > _MAX_COMPARED:
            self._block_size = min(self._block_size, _MAX_COMPARED // N_LIKELY)

    @classmethod
    def of_samples(cls, gold, weights):
        """Return the sets of samples.

        Parameters
        ----------
        gold : CSR of shape (n_samples, n_labels)
            0 and 1; in canonical form.
        weights : array of shape (n_samples,)
            Equivalent to repetitions of samples.
        """
        _, first, which = np.unique(row_words(gold), return_index=True, return_inverse=True)
        frequency = np.bincount(which, weights)
        chosen = np.flatnonzero(frequency > 0.0)
        # Ties in frequency: smaller sets first, then by content, so that the order of samples has no effect.
        chosen = chosen[np.lexsort((chosen, np.diff(gold.indptr)[first[chosen]], -frequency[chosen]))[:_MAX_SETS]]
        sets = sparse.csr_array(gold[first[chosen]])
        odds = logit((weights @ gold + 0.5) / (frequency.sum() + 1.0))
        independent = sets @ odds + np.log(expit(-odds)).sum()
        return cls(sets, _lifts(frequency[frequency > 0.0], frequency[chosen], independent))

    def choose(self, probabilities, threshold):
        """Return the best observed set for each sample: bool array of shape (n_samples, n_labels).

        It has the highest sum of expected F1 and probability, among the most probable sets.

        Parameters
        ----------
        probabilities : array of shape (n_samples, n_labels)
            Strictly between 0 and 1.
        threshold : float
            Probability at which a label is neither favoured nor penalised.
        """
        chosen = np.empty(probabilities.shape, bool)
        for rows in blocks(len(probabilities), 1, self._block_size):
            best = self._best(self._sums(logit(probabilities[rows])), threshold)
            best_sets = self.sets[best].toarray() if self._dense is None else self._dense[best]
            chosen[rows] = best_sets > 0.0
        return chosen

    def likeliest(self, probabilities, threshold, n):
        """Return the `n` most probable sets of each sample: list of lists of (int array, float), in this order."""
        likeliest = []
        for rows in blocks(len(probabilities), 1, self._block_size):
            p = softmax(self._values(self._sums(logit(probabilities[rows])), threshold), axis=1)
            order = np.argsort(-p, axis=1, kind="stable")[:, :n]
            for of_sample, numbers in zip(p, order, strict=True):
                sets = self.sets[numbers].toarray().astype(np.int64)
                likeliest.append(list(zip(sets, of_sample[numbers].tolist(), strict=True)))
        return likeliest

    def threshold_scores(self, probabilities, gold, weights, thresholds=SET_GRID):
        """Sum the scores of the best observed sets at each threshold, as `summed_scores` does: (4, n_thresholds)."""
        total = np.zeros((4, len(thresholds)))
        for rows in blocks(len(probabilities), 1, self._block_size):
            right = gold[rows]
            sums = self._sums(logit(probabilities[rows]))
            hits = self._sums(right)
            n_gold = right.sum(axis=1)
            for k, threshold in enumerate(thresholds):
                best = self._best(sums, threshold)
                n_hits = hits[np.arange(len(best)), best]
                total[:, k] += summed_scores(n_hits, self.sizes[best], n_gold, weights[rows])
        return total

    def _sums(self, values):
        return np.ascontiguousarray((self.sets @ values.T).T) if self._dense is None else values @ self._dense.T

    def _values(self, sums, threshold):
        """Return the log probabilities of all sets, up to a constant for each sample."""
        return sums - logit(max(threshold, _LEAST)) * self.sizes + LIFT * self.lifts

    def _best(self, sums, threshold):
        """Return the best set for each sample, from the sums of the log odds of its labels."""
        best = np.empty(len(sums), np.int64)
        unsure = []
        likely = []
        # Blocks of this size fit into the processor's cache.
        size = max(_AT_ONCE, _CACHED // len(self.sizes))
        for start in range(0, len(sums), size):
            values = self._values(sums[start : start + size], threshold)
            highest = best[start : start + size] = values.argmax(axis=1)
            values -= values[np.arange(len(highest)), highest][:, None]
            # A set of probability p >= 2/3 is optimal: its value is at least 2 p, that of any other set at most
            # p + 2 (1 - p).
            open_rows = np.flatnonzero(np.exp(values).sum(axis=1) > 1.5)
            if self._mutual is not None:
                p = softmax(values[open_rows], axis=1)
                best[start + open_rows] = np.round(p @ self._mutual + p, _DECIMALS).argmax(axis=1)
            elif len(open_rows):
                values = values[open_rows]
                columns = _highest(values, N_LIKELY)
                unsure.append(start + open_rows)
                likely.append((columns, softmax(np.take_along_axis(values, columns, axis=1), axis=1)))
        if unsure:
            best[np.concatenate(unsure)] = self._best_likely(*map(np.concatenate, zip(*likely)))
        return best

    def _best_likely(self, likely, probabilities):
        """Return the set with the highest sum of expected F1 and probability, among the likely sets of each sample."""
        is_likely = np.zeros(len(self.sizes), bool)
        is_likely[likely] = True
        which = np.flatnonzero(is_likely)
        indices = (np.cumsum(is_likely) - 1)[likely]
        sets = self.sets[which].astype(np.float32)
        sizes = self.sizes[which]
        best = np.empty(len(indices), np.int64)
        # Counts are exact in float32, in half of the memory.
        hits = (sets @ sets.T).toarray()
        for start in range(0, len(indices), _AT_ONCE):
            candidates, p = indices[start : start + _AT_ONCE], probabilities[start : start + _AT_ONCE]
            size = sizes[candidates]
            both = hits.take(candidates[:, :, None] * len(which) + candidates[:, None, :])
            mutual = example_f1(both, size[:, :, None] + size[:, None])
            values = np.matmul(p[:, None], mutual)[:, 0] + p
            best[start : start + _AT_ONCE] = np.round(values, _DECIMALS).argmax(axis=1)
        return likely[np.arange(len(likely)), best]


def _lifts(frequencies, frequency, independent):
    """Return the lifts of sets.

    Parameters
    ----------
    frequencies : array
        Counts of all sets.
    frequency, independent : arrays of shape (n_sets,)
        Counts of the sets that are kept, and their log probabilities under independent labels.
    """
    total = frequencies.sum()
    once = (frequencies <= 1.0 + 1e-9).sum()
    twice = (frequencies <= 2.0 + 1e-9).sum()
    # The leave-one-out estimate of the discount, n1 / (n1 + 2 n2).
    discount = min(once / max(2.0 * twice - once, 1.0), _MAX_DISCOUNT)
    left = discount * np.minimum(frequencies, 1.0).sum() / total
    kept = np.log((frequency - discount * np.minimum(frequency, 1.0)) / total) - independent
    return kept if left == 0.0 else np.logaddexp(kept, np.log(left))


def _highest(values, n):
    """Return the columns of the `n` highest values of each row, in ascending order."""
    # The lowest of the maxima of n groups is a lower bound of the n-th highest value. Each group contains frequent and
    # rare sets, so few candidates remain.
    highest = values[:, :n].copy()
    for start in range(n, values.shape[1] - n + 1, n):
        np.maximum(highest, values[:, start : start + n], out=highest)
    rows, columns = np.nonzero(values >= highest.min(axis=1)[:, None])
    counts = np.bincount(rows, minlength=len(values))
    offsets = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    left = np.full((len(values), counts.max()), -np.inf)
    numbers = np.zeros((len(values), counts.max()), np.int64)
    left[rows, offsets], numbers[rows, offsets] = values[rows, columns], columns
    return np.take_along_axis(numbers, np.sort(np.argpartition(left, -n, axis=1)[:, -n:], axis=1), axis=1)


class Tuning:
    """Comparison of decision rules and their thresholds on held-out samples.

    Each rule has the threshold that is best for it: the one with the highest example F1 or, for "observed_sets", with
    the highest subset accuracy within a point of the highest F1. Of the rules within a point of the highest mean of
    example F1 and micro F1, the one with the highest subset accuracy is chosen.

    Several rules are also compared with the labels above one half. A rule at a threshold is left out if its subset
    accuracy is more than two points lower, and its example F1 is not higher by more than this difference.

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
    at_half : array of shape (4,)
        With several rules, the sums for the labels above one half.

    Files hold these and `decay` by their names, except `at_half`, because they hold the comparisons of streams only,
    which are of one rule. `estimators/_state/plain.py` sets them.
    """

    def __init__(self, rules, threshold="auto", decay=1.0):
        self.thresholds = {rule: GRID if rule == "threshold" else SET_GRID for rule in rules}
        if threshold != "auto":
            self.thresholds = dict.fromkeys(self.thresholds, np.array([threshold], float))
        self.decay = decay
        self.totals = {}
        self.weight = 0.0
        self.at_half = np.zeros(4)

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
        if len(self.thresholds) > 1:
            added = threshold_scores(probabilities, gold, weights, np.array([0.5]))[:, 0]
            self.at_half = self.decay * self.at_half + added
        self.weight = self.decay * self.weight + weights.sum()

    def best(self):
        """Return the best threshold, the rule, and the mean example F1. Ties go to the first rule."""
        choices, means, values, kept = [], [], [], []
        for rule in (rule for rule in self.thresholds if rule in self.totals):
            thresholds, (f1, whole, hits, n_labels) = self.thresholds[rule], self.totals[rule] / self.weight
            allowed = self._allowed(f1, whole)
            scores = np.where(allowed, f1, -1.0) if allowed.any() else f1
            if rule == "observed_sets":
                scores = np.where(scores >= scores.max() - SPARED_F1, whole + 1e-6 * f1, -1.0)
            best = np.flatnonzero(scores >= scores.max() - _TIED)
            # The middle one of several thresholds that tie.
            k = int(best[len(best) // 2])
            mean = 0.5 * (f1[k] + float(example_f1(hits[k], n_labels[k])))
            choices.append((float(thresholds[k]), rule, float(f1[k])))
            means.append(mean)
            values.append(float(whole[k]) + 1e-6 * mean)
            kept.append(bool(allowed[k]))
        # With a threshold far from one half, all rules may be left out, and then none is.
        means = np.where(kept if any(kept) else True, means, -np.inf)
        near = means >= means.max() - SPARED_F1
        return choices[int(np.argmax(np.where(near, values, -np.inf)))]

    def _allowed(self, f1, whole):
        """Return the thresholds of a rule, given its mean scores, at which it may be chosen: bool array."""
        if len(self.thresholds) == 1:
            return np.ones(len(f1), bool)
        f1_at_half, whole_at_half = self.at_half[:2] / self.weight
        loss = whole_at_half - whole
        return (loss <= SPARED_SETS) | (f1 - f1_at_half > loss)
