"""Label sets that were seen in training, as candidates of a decision."""

import numpy as np
from scipy import sparse

from .data import row_words
from .threshold import example_f1

# Marginals less threshold that a seen set may lack to the best set of all. What lacks more is not drawn to what was
# seen: of thousands of labels, no set may have been seen near.
SLACK = 2.0
# Where fewer of the samples share their set with another one, what is to come has not been seen: decision="auto" does
# not draw to seen sets.
_LEAST_SHARED = 0.1
# The most frequent sets are kept.
_MOST_SETS = 10_000
# Thresholds that are tried with seen sets.
_THRESHOLDS = np.linspace(0.05, 0.95, 19)
# Scores of sets that are held at once.
_BLOCK = 2**22


class SeenSets:
    """The different rows of an indicator matrix, the most frequent first.

    Parameters
    ----------
    gold : CSR of shape (n_samples, n_labels)
        0 and 1; in canonical form.
    weights : array of shape (n_samples,)
        As repetitions of samples.

    Attributes
    ----------
    recur : bool
        Whether a new sample may well have a set that was seen.
    """

    def __init__(self, gold, weights):
        _, first, which = np.unique(row_words(gold), return_index=True, return_inverse=True)
        frequency = np.bincount(which, weights)
        chosen = np.flatnonzero(frequency > 0.0)
        # Good and Turing: what was seen once is as much as was not seen at all.
        once = frequency[frequency <= 1.0 + 1e-9].sum()
        self.recur = bool(once <= (1.0 - _LEAST_SHARED) * frequency.sum())
        # Of equally frequent ones the smaller first, then by what they are: not by the order of the samples.
        chosen = chosen[np.lexsort((chosen, np.diff(gold.indptr)[first[chosen]], -frequency[chosen]))[:_MOST_SETS]]
        self.sets = sparse.csr_array(gold[first[chosen]])
        self.sizes = np.diff(self.sets.indptr).astype(np.float64)

    def choose(self, marginals, threshold, slack=SLACK):
        """Return the seen set of the highest sum of marginals less threshold, where none is better by far.

        Parameters
        ----------
        marginals : array of shape (n_samples, n_labels)
        threshold, slack : float

        Returns
        -------
        chosen : bool array of shape (n_samples, n_labels)
            What is above the threshold, where all seen sets lack more than `slack` to that.
        """
        chosen = marginals > threshold
        for rows in self._blocks(len(marginals)):
            own = marginals[rows]
            best, values = self._best(self._sums(own), threshold)
            near = np.maximum(own - threshold, 0.0).sum(axis=1) - values <= slack
            chosen[np.flatnonzero(near) + rows.start] = self.sets[best[near]].toarray() > 0.0
        return chosen

    def threshold_f1(self, marginals, gold, weights):
        """Return the sum of the samples' example F1 at each of `thresholds`."""
        total = np.zeros(len(_THRESHOLDS))
        for rows in self._blocks(len(marginals)):
            own, right = marginals[rows], gold[rows]
            sums, hits, counts = self._sums(own), self._sums(right), right.sum(axis=1)
            numbers = np.arange(len(own))
            for k, threshold in enumerate(_THRESHOLDS):
                best, values = self._best(sums, threshold)
                above = own > threshold
                near = np.maximum(own - threshold, 0.0).sum(axis=1) - values <= SLACK
                n_hits = np.where(near, hits[numbers, best], (above * right).sum(axis=1))
                n_found = np.where(near, self.sizes[best], above.sum(axis=1))
                total[k] += weights[rows] @ example_f1(n_hits, n_found + counts)
        return total

    thresholds = _THRESHOLDS

    def _sums(self, values):
        return np.ascontiguousarray((self.sets @ values.T).T)

    def _best(self, sums, threshold):
        values = sums - threshold * self.sizes
        best = values.argmax(axis=1)
        return best, values[np.arange(len(best)), best]

    def _blocks(self, n):
        size = max(1, _BLOCK // max(self.sets.shape))
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]
