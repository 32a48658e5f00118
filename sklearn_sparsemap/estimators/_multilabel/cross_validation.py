"""The samples of a fit of label sets in folds, and the choices on their held-out scores.

Used by `comparison.py`, `linear.py`, `out_of_fold.py`, `trees.py` and `trials.py`.
"""

import numpy as np

from ..._core.blocks import dense
from .calibration import Calibration
from .data import in_folds
from .decisions import ObservedLabelSets


class CrossValidation:
    """The solver of a score model whose folds give held-out scores of all samples.

    Probabilities are calibrated on these scores, and rule and threshold are chosen on them. A subclass has
    `cross_validate`, which sets `learner` and `evidence`, and returns the solver that trains.

    Parameters
    ----------
    estimator : MultilabelLPSparseMAP
    inference : LabelInference
    X : RaggedArray
    task : LabelTask

    Attributes
    ----------
    X, task : RaggedArray, LabelTask
        The samples of positive weight, in the order of their folds.
    folds : list of (train, held)
        Empty if there are too few samples.
    training_part : LabelTask
        The samples that are learned from.
    evidence : array of shape (n_samples, n_labels), or None
        Held-out scores.
    alpha : float
        Strength of the penalty.
    learner : Learner
        Learns from all samples.
    watch : dict
        Arguments of the monitor.
    chosen : tuple or None
        As in `fitted_description`.
    """

    alpha = 0.0
    chosen = evidence = None

    def __init__(self, estimator, inference, X, task):
        self.estimator, self.inference, self.watch = estimator, inference, {}
        self.data = X, task
        self.X, self.task, self.folds = in_folds(X, task)
        self.gold = self.task.gold
        self.task.gold = self.task.gold.astype(bool).toarray()
        self.training_part = self.task
        # The rows of samples with unknown labels are not their label sets.
        self._keeps_sets = task.varies and task.known is None

    def finish(self, model):
        """Choose the rule of decision="auto" and, if it is "auto", the threshold of the fitted model."""
        inference = self.inference
        if inference.tunes_threshold or (self.folds and self._keeps_sets):
            all_samples = [] if self.folds else [(inference.evidence(model, self.X.values), self.task, None)]
            inference.cut, inference.rule, _ = inference.choose_rule(all_samples or self.held_out_folds())

    def held_out_folds(self):
        """Yield the held-out samples of each fold, as `LabelInference.choose_rule` takes them."""
        for k, (_, held) in enumerate(self.folds):
            yield self.evidence[held], self.task.take(held), self.label_sets(k)

    def label_sets(self, k):
        """Return the label sets of the samples that fold k does not hold out, or None."""
        train, _ = self.folds[k]
        return ObservedLabelSets.of_samples(self.gold[train], self.task.weights[train]) if self._keeps_sets else None


class GivenScores:
    """A score model for rows that are scores themselves.

    Parameters
    ----------
    additional : array of shape (n_additional,)
    """

    def __init__(self, additional):
        self.additional = additional

    def scores(self, X, n_jobs=None):
        """Return a copy of the scores."""
        return np.array(X)


def calibrated_losses(inference, evidence, task):
    """Return the log loss of each held-out sample, calibrated on the other half of them.

    Parameters
    ----------
    inference : LabelInference
    evidence : array of shape (n_samples, n_labels)
        Held-out scores.
    task : LabelTask
        The held-out samples.

    Returns
    -------
    losses : array of shape (n_samples,)
    """
    gold = dense(task.gold)
    weights = task.label_weights
    losses = np.empty(len(evidence))
    halves = slice(0, None, 2), slice(1, None, 2)
    for half, other in (halves, halves[::-1]):
        unfitted = Calibration.unfitted(inference.loss, gold.shape[1], inference.calibration.single)
        calibration = unfitted.fit(evidence[other], gold[other], weights[other])
        losses[half] = calibration.losses(evidence[half], gold[half], weights[half])
    return losses
