"""Samples that decide by predicted values as a task."""

import numpy as np

from ._task import Task


class DecisionTask(Task):
    """Samples whose predicted values are judged by the decisions they lead to.

    Scores are added to `base`. A sample has either one row and an output for each part, or a row for each part.

    Parameters
    ----------
    problems : StructureDecisions or another one of inference/_decisions.py
    loss : callable
        Maps problems, predicted values, true values, gold decisions and `n_jobs` to the losses and their gradients.
    base, values, gold : arrays of shape (n_samples, n_parts)
        Predicted values without the model, true values, and the best decisions for these.
    is_shared : bool
        Whether each part has one row, so that parts share weights.
    """

    has_kinks = False
    additional_shapes = {}

    def __init__(self, problems, loss, base, values, gold, is_shared):
        n, n_parts = values.shape
        self.problems, self.loss, self.base, self.values, self.gold = problems, loss, base, values, gold
        self.n_outputs, self.weights = 1 if is_shared else n_parts, np.ones(n)
        self.row_ptr = np.arange(n + 1) * (n_parts if is_shared else 1)

    def take(self, places):
        found = super().take(places)
        for name in ("base", "values", "gold"):
            setattr(found, name, getattr(self, name)[places])
        found.problems = self.problems.take(places)
        return found

    def over(self, problems):
        """Return the task with decisions over other problems."""
        found = self.copy()
        found.problems = problems
        return found

    def predicted(self, scores):
        """Return the predicted values of all samples: array of shape (n_samples, n_parts)."""
        return self.base + scores.reshape(self.base.shape)

    def loss_gradient(self, scores, additional, n_jobs, mean=False):
        losses, gradient = self.loss(self.problems, self.predicted(scores), self.values, self.gold, n_jobs)
        residuals = gradient.reshape(scores.shape)
        return losses.sum(), residuals / len(losses) if mean else residuals, np.zeros(0), 0
