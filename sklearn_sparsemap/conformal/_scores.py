"""Nonconformity of structures: an offset minus a sum of scores of parts, so n-best lists are in its order.

Used by `_conformal.py`.
"""

import numpy as np

from .._core.errors import SampleError, naming
from .._core.validation import check_same_length

_ROUNDING = 1e-12  # relative to the offset; smaller nonconformities are rounding errors, and are set to zero


class Nonconformity:
    """Nonconformity of all structures of some samples: `offsets` minus the total of `scores`.

    Parameters
    ----------
    face : Face
    batch : Batch
        Its scores of additional parts are used, those of unary parts are not.
    scores : array of shape (n_rows, n_outputs)
        Scores of the unary parts.
    offsets : array of shape (n_samples,)
        The nonconformity of a structure with a total score of zero.
    """

    def __init__(self, face, batch, scores, offsets):
        self.face, self.batch, self.scores, self.offsets = face, batch, scores, offsets
        self._flat = scores.ravel()
        self._ends = batch.task.row_ptr * batch.task.n_outputs

    def __len__(self):
        return len(self.offsets)

    def of_gold(self, y):
        """Return the nonconformity of one structure for each sample; infinite if the model cannot predict it."""
        task = self.batch.task
        found = np.full(len(self), np.inf)
        for i, parts in enumerate(task.parts(self.face.gold(task, y))):
            if parts is not None:
                total = task.value(i, self._scores_of(i), self.batch.additional, parts)
                found[i] = self._of_totals(i, total)
        return found

    def of_parts(self, y):
        """Return the least nonconformity of any structure with a part of the gold structure: list of arrays.

        For each sample, the array has an entry for each unary part. It is infinite, one entry, if the model cannot
        predict the gold structure.
        """
        task = self.batch.task
        if task.repeats:
            raise ValueError("parts are counted for structures that have each part once; use risk='structure'")
        structures = task.parts(self.face.gold(task, y))
        gold = [np.zeros(0, np.int64) if parts is None else parts[0] for parts in structures]
        costs = self._of_unary([parts[parts >= 0] for parts in gold])
        return [np.full(1, np.inf) if parts is None else own for parts, own in zip(structures, costs)]

    def of_all_parts(self):
        """Return the least nonconformity of any structure with a part, for each unary part: sequence of arrays.

        The arrays have the shape of the scores. A part that no structure has is infinite.
        """
        costs = self._of_unary([np.arange(n) for n in np.diff(self._ends).tolist()])
        return self.batch.task.in_shapes(np.concatenate(costs).reshape(self.scores.shape))

    def _of_unary(self, parts):
        """Return the least nonconformity of any structure with a part, for some unary parts of each sample.

        A part gets a bonus that is larger than the difference of any two totals, so that the best structure has it.
        """
        task = self.batch.task
        additional = self.batch.additional
        n_jobs = self.face.n_jobs
        costs = [np.empty(len(own)) for own in parts]
        with self.face.named_errors(self.batch):
            highest = task.maxima(self.scores, additional, n_jobs)
            lowest = -task.maxima(_negated(self.scores), _negated(additional), n_jobs)
            bonuses = 1.0 + highest - lowest
            for k in range(max(map(len, parts), default=0)):
                rows = [i for i, own in enumerate(parts) if k < len(own)]
                raised = self._flat.copy()
                for i in rows:
                    raised[self._ends[i] + parts[i][k]] += bonuses[i]
                maxima = task.maxima(raised.reshape(self.scores.shape), additional, n_jobs) - bonuses
                distances = self.offsets - maxima
                distances[distances <= _ROUNDING * (bonuses + np.abs(self.offsets))] = 0.0
                # The best structure has the part unless none has.
                distances[maxima < lowest - 0.5] = np.inf
                for i in rows:
                    costs[i][k] = distances[i]
        return costs

    def n_best(self, chosen, k):
        """Return the `k` structures of each chosen sample with the smallest nonconformity: lists of (structure, float).

        `chosen` are the indices of the samples.
        """
        task = self.batch.task
        additional = self.batch.additional
        found = []
        for i, own in zip(chosen, task.n_best(self.scores, additional, k, self.face.n_jobs, chosen)):
            structures = [structure for structure, _ in own]
            totals = task.values(i, self._scores_of(i), additional, structures)
            nonconformity = self._of_totals(i, np.array(totals, np.float64))
            shown = self.face.decode(structures)
            order = np.argsort(nonconformity, kind="stable").tolist()
            values = nonconformity.tolist()
            found.append([(shown[place], values[place]) for place in order])
        return found

    def _scores_of(self, i):
        """Return the flat scores of sample i."""
        return self._flat[self._ends[i] : self._ends[i + 1]]

    def _of_totals(self, i, totals):
        """Return the nonconformity of structures of sample i with some total scores."""
        offset = self.offsets[i]
        found = offset - totals
        return np.where(found > _ROUNDING * (1.0 + abs(offset)), found, 0.0)


def _negated(scores):
    """Return scores whose highest totals are the lowest ones of the given scores; forbidden parts stay forbidden."""
    return np.where(np.isneginf(scores), -np.inf, -scores)


class NonconformityWithEmpty:
    """Nonconformity of samples of which some have no steps. Their only structure has a nonconformity of zero.

    Parameters
    ----------
    face : Face
    batch : Batch
    nonempty : Nonconformity or None
        That of the samples that have steps; None if there are none.
    """

    def __init__(self, face, batch, nonempty):
        self.face, self.batch, self._nonempty = face, batch, nonempty
        # The place of each sample among those that have steps.
        self._rows = np.cumsum(~batch.is_empty) - 1

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
        none = np.zeros((0, self.batch.task.n_outputs))
        return [none if is_empty else next(costs) for is_empty in self.batch.is_empty]

    def n_best(self, chosen, k):
        is_empty = self.batch.is_empty
        places = [self._rows[i] for i in chosen if not is_empty[i]]
        lists = iter(self._nonempty.n_best(places, k) if places else [])
        (nothing,) = self.face.decode([np.zeros(0, np.int64)])
        return [[(nothing, 0.0)] if is_empty[i] else next(lists) for i in chosen]

    def _fill(self, results, y, method):
        """Write the results for the samples that have steps; a ValueError names one without steps that has labels."""
        check_same_length(results, y)
        # By position, also if it is a Series.
        y = list(y)
        for i in np.flatnonzero(self.batch.is_empty):
            if len(y[i]):
                message = "", " has 0 steps, but ", f" has {len(y[i])} labels; give one for each step"
                raise SampleError("y", i, *message, names=("X", None))
        places = np.flatnonzero(~self.batch.is_empty)
        with naming(places):
            found = getattr(self._nonempty, method)([y[i] for i in places]) if len(places) else []
        for place, own in zip(places, found):
            results[place] = own


def reduced_costs(face, batch):
    """Return the reduced costs under the scores minus half of the marginals.

    Under the scores minus the marginals, all structures of SparseMAP's face are optimal. Under the scores themselves,
    these ties are broken. The mean of both is used. If structures differ in their number of parts, the regulariser,
    which is 1/2 for each part, is included.
    """
    task = batch.task
    marginals, _, _ = task.marginals(batch.scores, batch.additional, face.n_jobs)
    scores = batch.scores - 0.5 * (marginals + 0.5 * task.varies)
    return Nonconformity(face, batch, scores, task.maxima(scores, batch.additional, face.n_jobs))


def log_losses(face, batch):
    """Return minus the logarithms of Gibbs probabilities."""
    offsets = batch.task.log_partitions(batch.scores, batch.additional, face.n_jobs)
    return Nonconformity(face, batch, batch.scores, offsets)


# Nonconformity by name: the kind of inference for which scores are computed, and the function of the samples.
SCORES = {"reduced_cost": ("sparsemap", reduced_costs), "log_loss": ("gibbs", log_losses)}
