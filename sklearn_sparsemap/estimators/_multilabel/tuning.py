"""Choice of the threshold and the decision rule of `MultilabelLPSparseMAP`, and validation, on held-out samples."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..._core.blocks import blocks, dense
from ..._core.indicators import read_known
from .calibration import Calibration
from .data import close_gold
from .sets import SeenSets
from .threshold import Tuning

# Rules that decision="auto" chooses from, in the order of preference if they tie.
RULES = ("seen", "expected", "threshold")
# Factor by which the threshold scores of earlier mini-batches of a stream are multiplied at each new one.
_DECAY = 0.95
# Maximum number of held-out samples of a fold on which decision rules are compared.
_MOST_HELD = 1000


class TuningMixin:
    """Tunes the threshold, stores the label sets of the training data, and scores models on held-out samples.

    A subclass has the parameters `decision` and `threshold`, and is a `LabelSetClassifier`.
    """

    def _tunes_threshold(self):
        return self.threshold == "auto" and self.decision != "map" and not self._single

    def _tuned(self, parts):
        """Return the best threshold, the rule, and the mean example F1 on held-out samples; see `Tuning`.

        With a fixed threshold, all rules are compared, on at most 1,000 samples of each part.

        Parameters
        ----------
        parts : iterable of (evidence, LabelTask, SeenSets or None)
            Held-out samples, and the label sets of the samples that were not held out.
        """
        is_tuned = self._tunes_threshold()
        rules = [self.decision] if is_tuned and self.decision != "auto" else RULES
        tuning = Tuning.of_rules(rules, "auto" if is_tuned else self.threshold_)
        for evidence, task, sets in parts:
            if not is_tuned:
                evidence, task = evidence[:_MOST_HELD], task.take(np.arange(min(len(evidence), _MOST_HELD)))
            self._tune(tuning, evidence, task, sets)
        return tuning.best()

    def _tune(self, tuning, evidence, task, sets):
        """Add samples to a comparison. Unknown labels do not count.

        Parameters
        ----------
        tuning : Tuning
        evidence : array of shape (n_samples, n_labels)
            As `_evidence` returns.
        task : LabelTask
        sets : SeenSets or None
            Label sets of other samples.
        """
        for rows, part in _parts(task):
            probabilities = self._probabilities(evidence[rows])
            if part.known is not None:
                probabilities = np.where(part.known, probabilities, np.finfo(np.float64).tiny)
            tuning.add(probabilities, dense(part.gold), part.weights, sets)

    def _calibrate(self, evidence, task):
        """Calibrate probabilities on the evidence of held-out samples; return their log loss."""
        gold, weights = dense(task.gold), task.label_weights
        if weights.any():
            self._calibration = self._calibrated(evidence, gold, weights)
        return float(self._calibration.losses(evidence, gold, weights).sum())

    def _calibrated(self, evidence, gold, weights):
        """Return the `Calibration` that fits held-out samples."""
        return Calibration.unfitted(self._loss, gold.shape[1], self._single).fit(evidence, gold, weights)

    def _tune_along(self, task, X):
        """Tune the threshold on samples of a stream before training on them."""
        if self.threshold != "auto":
            self.threshold_ = float(self.threshold)
        elif self._tunes_threshold():
            if self._running is None:
                self._running = Tuning.of_rules(["threshold"], decay=_DECAY)
            self._tune(self._running, self._evidence(self._learned.model, X.values), task, None)
            self.threshold_, *_ = self._running.best()

    def _watch_sets(self, task, rule=None):
        """Store the label sets of fully known training samples, and the rule of decision="auto"."""
        gold, weights = sparse.csr_array(task.gold, dtype=np.float64), task.weights
        if task.known is not None:
            whole = np.flatnonzero(task.known.all(axis=1))
            gold, weights = gold[whole], weights[whole]
        self._sets = None if self._single or not weights.any() else SeenSets(gold, weights)
        if rule is None:
            # With unknown labels, the fully known samples are few and not representative.
            rule = "expected" if self._sets is None or task.known is not None else "seen"
        self._rule = rule

    def _end_partitions(self, held):
        self.threshold_ = 0.5 if self.threshold == "auto" else float(self.threshold)
        task, X = self._held_out(*held.read_first())
        evidence = self._evidence(self._learned.model, X.values)
        self._calibrate(evidence, task)
        if self._tunes_threshold():
            self.threshold_, self._rule, _ = self._tuned([(evidence, task, self._sets)])

    def _held_out(self, X, y):
        y, known = read_known(self._in_order(y))
        X, gold, _, _ = self._check_data(X, y, reset=False, has_unknown=known is not None)
        gold, known = close_gold(gold, self._graph.constraints, known)
        return self._task(gold=gold, weights=np.ones(len(X)), known=known), X

    def _validation_score(self, X, y):
        task, X = self._held_out(X, y)
        return self._validate(self._learned.model, X.values, task)

    def _validate(self, model, X, task):
        """Score a model on held-out samples."""
        if self._tunes_threshold():
            return self._tuned([(self._evidence(model, X), task, self._sets)])[2]
        chosen = self._choose(model, X, marginals=self._marginals(model, X) if len(self._graph.edges) else None)
        chosen = chosen if task.known is None else chosen & task.known
        return task.agreement(dense(task.gold) > 0.5, chosen, task.weights)

    def _held_out_loss(self, model, X, task):
        """Return the mean loss on held-out samples."""
        total = sum(
            part.loss_gradient(model.scores(X[rows]), model.additional, self.n_jobs)[0] for rows, part in _parts(task)
        )
        return total / task.weights.sum()


def _parts(task):
    """Split a task into blocks of samples: iterator of (slice, LabelTask)."""
    for rows in blocks(len(task.weights), task.n_outputs):
        yield rows, task.take(np.arange(rows.start, rows.stop))
