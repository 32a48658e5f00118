"""Label sets seen in training, as candidates for prediction."""

import numpy as np
from scipy import sparse
from scipy.special import expit, logit, softmax

from ..._core.blocks import blocks
from .data import row_words
from .threshold import SEEN_GRID, example_f1

# Fraction of a set's lift that is added to its log odds. Part of the dependence between labels is in their
# probabilities already, hence less than 1. On development splits of nine data sets, 1/3 has 0.2 points fewer whole
# sets, and 3/4 has 0.5 points fewer.
LIFT = 0.5
# Number of the likeliest sets that are compared with each other; if there are fewer than twice as many sets, all are.
N_LIKELY = 32
# Sets with at most this many entries are also stored as a dense array, which is faster.
_MOST_DENSE = 2**14
# Maximum number that is subtracted from the number of samples with a set.
_MOST_DISCOUNT = 0.98
# Maximum number of sets; the most frequent ones are kept, and others are not considered.
_MOST_SETS = 10_000
# Smallest threshold: all labels are then on.
_LEAST = np.finfo(np.float64).tiny
# Numbers in a block of samples; maximum number of sets that are compared with each other; samples in a comparison;
# numbers that fit into the processor's cache.
_BLOCK, _MOST_COMPARED, _AT_ONCE, _CACHED = 2**22, 3072, 64, 2**17


class SeenSets:
    """The distinct rows of an indicator matrix, the most frequent first.

    Parameters
    ----------
    gold : CSR of shape (n_samples, n_labels)
        0 and 1; in canonical form.
    weights : array of shape (n_samples,)
        Equivalent to repetitions of samples.

    Attributes
    ----------
    lifts : array of shape (n_sets,)
        Log of a set's probability divided by its probability if labels were independent. The probability is the
        frequency with absolute discounting [1]_: a set seen once counts less than one, and the rest is for sets that
        were not seen, as if labels were independent.

    References
    ----------
    .. [1] Ney, Essen and Kneser. On structuring probabilistic dependences in stochastic language modelling. Computer
       Speech and Language 1994.
    """

    def __init__(self, gold, weights):
        _, first, which = np.unique(row_words(gold), return_index=True, return_inverse=True)
        frequency = np.bincount(which, weights)
        chosen = np.flatnonzero(frequency > 0.0)
        # Ties in frequency: smaller sets first, then by content. The order of the samples has no effect.
        chosen = chosen[np.lexsort((chosen, np.diff(gold.indptr)[first[chosen]], -frequency[chosen]))[:_MOST_SETS]]
        sets = sparse.csr_array(gold[first[chosen]])
        odds = logit((weights @ gold + 0.5) / (frequency.sum() + 1.0))
        independent = sets @ odds + np.log(expit(-odds)).sum()
        self._set(sets, _lifts(frequency[frequency > 0.0], frequency[chosen], independent))

    @classmethod
    def of_sets(cls, sets, lifts):
        """Make them again from their attributes."""
        if np.shape(lifts) != (sets.shape[0],):
            raise ValueError(f"there are {sets.shape[0]} label sets, but lifts has shape {np.shape(lifts)}")
        found = object.__new__(cls)
        found._set(sets, lifts)
        return found

    def _set(self, sets, lifts):
        self.sets, self.lifts = sets, lifts
        self.sizes = np.diff(self.sets.indptr).astype(np.float64)
        self._dense = self.sets.toarray() if np.prod(self.sets.shape) <= _MOST_DENSE else None
        self._mutual = None
        if len(self.sizes) <= 2 * N_LIKELY:
            self._mutual = example_f1((self.sets @ self.sets.T).toarray(), self.sizes[:, None] + self.sizes)

    def choose(self, probabilities, threshold):
        """Return the best seen set for each sample: bool array of shape (n_samples, n_labels).

        The set with the highest expected F1 plus probability is chosen, among the likeliest ones.

        Parameters
        ----------
        probabilities : array of shape (n_samples, n_labels)
            Strictly between 0 and 1.
        threshold : float
            The probability that counts as even.
        """
        chosen = np.empty(probabilities.shape, bool)
        for rows in self._blocks(len(probabilities)):
            best = self._best(self._sums(logit(probabilities[rows])), threshold)
            found = self.sets[best].toarray() if self._dense is None else self._dense[best]
            chosen[rows] = found > 0.0
        return chosen

    def likeliest(self, probabilities, threshold, n):
        """Return the likeliest sets of each sample: list of lists of (int array, float), the likeliest first."""
        found = []
        for rows in self._blocks(len(probabilities)):
            shares = softmax(self._values(self._sums(logit(probabilities[rows])), threshold), axis=1)
            order = np.argsort(-shares, axis=1, kind="stable")[:, :n]
            for own, numbers in zip(shares, order, strict=True):
                sets = self.sets[numbers].toarray().astype(np.int64)
                found.append(list(zip(sets, own[numbers].tolist(), strict=True)))
        return found

    def threshold_scores(self, probabilities, gold, weights):
        """Return sums of the samples' example F1, and of their exact matches, at each threshold of `SEEN_GRID`."""
        total = np.zeros((2, len(SEEN_GRID)))
        for rows in self._blocks(len(probabilities)):
            right = gold[rows]
            sums, hits, counts = self._sums(logit(probabilities[rows])), self._sums(right), right.sum(axis=1)
            for k, threshold in enumerate(SEEN_GRID):
                best = self._best(sums, threshold)
                n_hits, n_found = hits[np.arange(len(best)), best], self.sizes[best]
                total[0, k] += weights[rows] @ example_f1(n_hits, n_found + counts)
                total[1, k] += weights[rows] @ ((n_hits == n_found) & (n_hits == counts))
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
            own = best[start : start + size] = values.argmax(axis=1)
            values -= values[np.arange(len(own)), own][:, None]
            # A set with probability p >= 2/3 is optimal: its value is at least 2 p, and that of any other set at most p
            # + 2 (1 - p).
            open_rows = np.flatnonzero(np.exp(values).sum(axis=1) > 1.5)
            if self._mutual is not None:
                shares = softmax(values[open_rows], axis=1)
                best[start + open_rows] = _most_worth(shares @ self._mutual + shares)
            elif len(open_rows):
                values = values[open_rows]
                columns = _highest(values, N_LIKELY)
                unsure.append(start + open_rows)
                likely.append((columns, softmax(np.take_along_axis(values, columns, axis=1), axis=1)))
        if unsure:
            best[np.concatenate(unsure)] = self._worthiest(*map(np.concatenate, zip(*likely)))
        return best

    def _worthiest(self, likely, shares):
        """Return the set with the highest expected F1 plus probability, among likely ones for each sample."""
        is_likely = np.zeros(len(self.sizes), bool)
        is_likely[likely] = True
        which, places = np.flatnonzero(is_likely), (np.cumsum(is_likely) - 1)[likely]
        sets, sizes, found = self.sets[which].astype(np.float32), self.sizes[which], np.empty(len(places), np.int64)
        # Counts are exact in float32, in half of the memory.
        hits = (sets @ sets.T).toarray()
        for start in range(0, len(places), _AT_ONCE):
            own, here = places[start : start + _AT_ONCE], shares[start : start + _AT_ONCE]
            size = sizes[own]
            both = hits.take(own[:, :, None] * len(which) + own[:, None, :])
            mutual = example_f1(both, size[:, :, None] + size[:, None])
            found[start : start + _AT_ONCE] = _most_worth(np.matmul(here[:, None], mutual)[:, 0] + here)
        return likely[np.arange(len(likely)), found]

    def _blocks(self, n):
        size = max(1, _BLOCK // max(*self.sets.shape, N_LIKELY**2))
        if self.sets.shape[0] > _MOST_COMPARED:
            size = min(size, _MOST_COMPARED // N_LIKELY)
        return blocks(n, 1, size)


def _lifts(frequencies, frequency, independent):
    """Return the lifts of sets, from the frequencies of all, their own, and their log probabilities if independent."""
    total, once, twice = frequencies.sum(), (frequencies <= 1.0 + 1e-9).sum(), (frequencies <= 2.0 + 1e-9).sum()
    # The estimate n1 / (n1 + 2 n2) of the discount by leaving out one sample; never all of a sample.
    discount = min(once / max(2.0 * twice - once, 1.0), _MOST_DISCOUNT)
    left = discount * np.minimum(frequencies, 1.0).sum() / total
    kept = np.log((frequency - discount * np.minimum(frequency, 1.0)) / total) - independent
    return kept if left == 0.0 else np.logaddexp(kept, np.log(left))


def _most_worth(worth):
    """Return the best column of each row. Ties, up to rounding, go to the first one."""
    return np.round(worth, 10).argmax(axis=1)


def _highest(values, n):
    """Return the columns of the `n` highest values of each row, in ascending order."""
    # A lower bound is the lowest of the maxima of n groups. Each group mixes frequent and rare sets, so few candidates
    # remain.
    highest = values[:, :n].copy()
    for start in range(n, values.shape[1] - n + 1, n):
        np.maximum(highest, values[:, start : start + n], out=highest)
    rows, columns = np.nonzero(values >= highest.min(axis=1)[:, None])
    counts = np.bincount(rows, minlength=len(values))
    places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    left, numbers = np.full((len(values), counts.max()), -np.inf), np.zeros((len(values), counts.max()), np.int64)
    left[rows, places], numbers[rows, places] = values[rows, columns], columns
    return np.take_along_axis(numbers, np.sort(np.argpartition(left, -n, axis=1)[:, -n:], axis=1), axis=1)
