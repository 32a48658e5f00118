"""Nonconformity of structures: an offset minus a sum of scores of parts, so n-best lists are in its order."""

import numpy as np

from .._core.errors import SampleError, naming
from .._core.validation import check_same_length

_ROUNDING = 1e-12  # relative to the offset; smaller nonconformities are rounding errors, and are set to zero


class Nonconformity:
    """Nonconformity of all structures of some samples: `offsets` minus the total of `scores`.

    Parameters
    ----------
    samples : ScoredStructures, ScoredGraphs or ScoredLabelSets
    scores : list of flat arrays
        Scores of the unary parts of each sample. Scores of additional parts are those of `samples`.
    offsets : array of shape (n_samples,)
        The nonconformity of a structure with a total score of zero.
    """

    def __init__(self, samples, scores, offsets):
        self.samples, self.scores, self.offsets = samples, scores, offsets

    def __len__(self):
        return len(self.scores)

    def of_gold(self, y):
        """Return the nonconformity of one structure for each sample; infinite if the model cannot predict it."""
        found = [np.inf if parts is None else self._of(i, parts) for i, parts in enumerate(self.samples.parts(y))]
        return np.array(found)

    def of_parts(self, y):
        """Return the least nonconformity of any structure with a part of the gold structure: list of arrays.

        For each sample, the array has an entry for each unary part. It is infinite, one entry, if the model cannot
        predict the gold structure.
        """
        structures = self.samples.parts(y)
        gold = [None if parts is None else self.samples.unary_parts(parts) for parts in structures]
        costs = self._of_unary([[] if parts is None else parts for parts in gold])
        return [np.full(1, np.inf) if parts is None else own for parts, own in zip(gold, costs)]

    def of_all_parts(self):
        """Return the least nonconformity of any structure with a part, for each unary part: list of arrays.

        The arrays have the shape of the scores. A part that no structure has is infinite.
        """
        costs = self._of_unary([np.arange(len(own)) for own in self.scores])
        return [self.samples.in_shape(i, own) for i, own in enumerate(costs)]

    def _of_unary(self, parts):
        """Return the least nonconformity of any structure with a part, for some unary parts of each sample.

        A part gets a bonus that is larger than the difference of any two totals, so that the best structure has it.
        """
        finite = [np.abs(own[np.isfinite(own)]).sum() for own in self.scores]
        totals = np.array([total + self.samples.additional_bound(i) for i, total in enumerate(finite)])
        bonuses = 1.0 + 2.0 * totals
        costs = [np.empty(len(own)) for own in parts]
        for k in range(max(map(len, parts), default=0)):
            rows = [i for i, own in enumerate(parts) if k < len(own)]
            raised = list(self.scores)
            for i in rows:
                raised[i] = raised[i].copy()
                raised[i][parts[i][k]] += bonuses[i]
            maxima = self.samples.maxima(raised) - bonuses
            distances = self.offsets - maxima
            distances[distances <= _ROUNDING * (bonuses + np.abs(self.offsets))] = 0.0
            # The best structure has the part unless none has.
            distances[maxima < -totals - 0.5] = np.inf
            for i in rows:
                costs[i][k] = distances[i]
        return costs

    def n_best(self, chosen, k):
        """Return the `k` structures of each chosen sample with the smallest nonconformity: lists of (structure, float).

        `chosen` are the indices of the samples.
        """
        found = []
        for i, (structures, totals) in zip(chosen, self.samples.n_best(chosen, self.scores, k)):
            nonconformity = self._of_totals(i, np.array(totals, np.float64))
            order = np.argsort(nonconformity, kind="stable").tolist()
            values = nonconformity.tolist()
            found.append([(structures[place], values[place]) for place in order])
        return found

    def _of(self, i, parts):
        return float(self._of_totals(i, np.float64(self.samples.value(i, self.scores[i], parts))))

    def _of_totals(self, i, totals):
        """Return the nonconformity of structures of sample i with some total scores."""
        offset = self.offsets[i]
        found = offset - totals
        return np.where(found > _ROUNDING * (1.0 + abs(offset)), found, 0.0)


class NonconformityWithEmpty:
    """Nonconformity of samples of which some have no steps. Their only structure has a nonconformity of zero.

    Parameters
    ----------
    samples : ScoredStructures
    found : Nonconformity or None
        That of the samples that have steps; None if there are none.
    """

    def __init__(self, samples, nonempty):
        self.samples, self._nonempty = samples, nonempty
        # The place of each sample among those that have steps.
        self._rows = np.cumsum(~samples.is_empty) - 1

    def __len__(self):
        return len(self._rows)

    def of_gold(self, y):
        found = np.zeros(len(self))
        self._fill(found, y, "of_gold")
        return found

    def of_parts(self, y):
        found = np.empty(len(self), object)
        found[:] = [np.zeros(0)] * len(self)
        self._fill(found, y, "of_parts")
        return list(found)

    def of_all_parts(self):
        costs = iter([] if self._nonempty is None else self._nonempty.of_all_parts())
        none = np.zeros((0, len(self.samples.model._current.intercept)))
        return [none if is_empty else next(costs) for is_empty in self.samples.is_empty]

    def n_best(self, chosen, k):
        places = [self._rows[i] for i in chosen if not self.samples.is_empty[i]]
        lists = iter(self._nonempty.n_best(places, k) if places else [])
        nothing = [(self.samples.model._no_labels(), 0.0)]
        return [nothing if self.samples.is_empty[i] else next(lists) for i in chosen]

    def _fill(self, results, y, method):
        """Write the results for the samples that have steps; a ValueError names one without steps that has labels."""
        check_same_length(results, y)
        for i in np.flatnonzero(self.samples.is_empty):
            if len(y[i]):
                message = "", " has 0 steps, but ", f" has {len(y[i])} labels; give one for each step"
                raise SampleError("y", i, *message, names=("X", None))
        places = np.flatnonzero(~self.samples.is_empty)
        with naming(places):
            found = getattr(self._nonempty, method)([y[i] for i in places]) if len(places) else []
        for place, own in zip(places, found):
            results[place] = own


def reduced_costs(samples):
    """Return the reduced costs under the scores minus half of the marginals.

    Under the scores minus the marginals, all structures of SparseMAP's face are optimal. Under the scores themselves,
    these ties are broken. The mean of both is used. If structures differ in their number of parts, the regulariser,
    which is 1/2 for each part, is included.
    """
    rows = zip(samples.scores, samples.marginals(), samples.varies)
    scores = [own - 0.5 * (u + 0.5 * varies) for own, u, varies in rows]
    return Nonconformity(samples, scores, samples.maxima(scores))


def log_losses(samples):
    """Return minus the logarithms of Gibbs probabilities."""
    return Nonconformity(samples, samples.scores, samples.log_partitions())


# Nonconformity by name: the kind of inference for which scores are computed, and the function of the samples.
SCORES = {"reduced_cost": ("sparsemap", reduced_costs), "log_loss": ("gibbs", log_losses)}
