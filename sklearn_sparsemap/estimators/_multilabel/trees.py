"""Boosted trees of label sets, whose number of rounds is chosen by cross-validation.

Used by `comparison.py` and `solvers.py`.
"""

import numpy as np
from sklearn.utils import check_random_state

from .cross_validation import CrossValidation
from .trials import Trials, learner_of


class TreesTraining(CrossValidation):
    """Boosted trees. The number of rounds, the calibration and the threshold are chosen by cross-validation.

    Parameters
    ----------
    estimator : MultilabelLPSparseMAP
    inference : LabelInference
    X : RaggedArray
    task : LabelTask
    description : Trees
    trials : Trials, default=None
        Those of the first folds, if there were any.
    """

    def __init__(self, estimator, inference, X, task, description, trials=None):
        super().__init__(estimator, inference, X, task)
        self.description = description
        self._trials = trials
        self.chosen = None if trials is None else trials.chosen

    def cross_validate(self):
        """Choose the number of rounds, and calibrate the estimator; return this solver."""
        n_rounds = None
        if self.folds:
            trials = (self._trials or Trials(self, self.description)).complete()
            # Many samples need fewer folds.
            self.folds = self.folds[: len(trials.trials)]
            self.evidence = np.zeros(self.task.gold.shape)
            for (_, held), evidence in zip(self.folds, trials.evidence, strict=True):
                self.evidence[held] = evidence
            scored = np.concatenate([held for _, held in self.folds])
            self.inference.calibrate(self.evidence[scored], self.task.take(scored))
            n_rounds = trials.n_steps
        rng = check_random_state(self.estimator.random_state)
        self.learner = learner_of(self.estimator, self.description, self.X, self.task, rng, n_rounds)
        return self
