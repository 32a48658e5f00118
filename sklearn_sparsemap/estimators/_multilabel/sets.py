"""Label sets observed in training, as candidates for prediction."""

import numpy as np
from scipy import sparse
from scipy.special import expit, logit, softmax

from ..._core.blocks import blocks
from .data import row_words
from .threshold import SET_GRID, example_f1, summed_scores

# Fraction of a set's lift that is added to its log odds. It is below 1 because the probabilities of the labels already
# contain a part of their dependence. On development splits of nine data sets, the subset accuracy is 0.2 points lower
# with 1/3, and 0.5 points lower with 3/4.
LIFT = 0.5
# Number of the most probable sets that are compared with each other; all sets if there are at most twice as many.
N_LIKELY = 32
# Maximum number of entries of the sets for which a dense copy is stored, which is faster.
_MOST_DENSE = 2**14
# Maximum discount: the number that is subtracted from the count of a set.
_MOST_DISCOUNT = 0.98
# Maximum number of sets; the most frequent ones are kept.
_MOST_SETS = 10_000
# Decimals of the values that are compared. Of sets that tie up to rounding, the first one is the best.
_DECIMALS = 10
# Smallest threshold, at which all labels are predicted.
_LEAST = np.finfo(np.float64).tiny
# Number of values in a block of samples; maximum number of sets that are compared with each other; number of samples in
# a comparison; number of values that fit into the processor's cache.
_BLOCK, _MOST_COMPARED, _AT_ONCE, _CACHED = 2**22, 3072, 64, 2**17


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
        self._dense = sets.toarray() if np.prod(sets.shape) <= _MOST_DENSE else None
        self._mutual = None
        if len(self.sizes) <= 2 * N_LIKELY:
            self._mutual = example_f1((sets @ sets.T).toarray(), self.sizes[:, None] + self.sizes)
        # Number of samples that are compared at the same time.
        self._block_size = max(1, _BLOCK // max(*sets.shape, N_LIKELY**2))
        if sets.shape[0] > _MOST_COMPARED:
            self._block_size = min(self._block_size, _MOST_COMPARED // N_LIKELY)

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
        chosen = chosen[np.lexsort((chosen, np.diff(gold.indptr)[first[chosen]], -frequency[chosen]))[:_MOST_SETS]]
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
            sums, hits, n_gold = self._sums(logit(probabilities[rows])), self._sums(right), right.sum(axis=1)
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
        best, unsure, likely = np.empty(len(sums), np.int64), [], []
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
        which, indices = np.flatnonzero(is_likely), (np.cumsum(is_likely) - 1)[likely]
        sets, sizes, best = self.sets[which].astype(np.float32), self.sizes[which], np.empty(len(indices), np.int64)
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
    total, once, twice = frequencies.sum(), (frequencies <= 1.0 + 1e-9).sum(), (frequencies <= 2.0 + 1e-9).sum()
    # The leave-one-out estimate of the discount, n1 / (n1 + 2 n2).
    discount = min(once / max(2.0 * twice - once, 1.0), _MOST_DISCOUNT)
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
    left, numbers = np.full((len(values), counts.max()), -np.inf), np.zeros((len(values), counts.max()), np.int64)
    left[rows, offsets], numbers[rows, offsets] = values[rows, columns], columns
    return np.take_along_axis(numbers, np.sort(np.argpartition(left, -n, axis=1)[:, -n:], axis=1), axis=1)
