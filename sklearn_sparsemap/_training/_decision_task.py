"""The task of decisions by predicted values.

Used by `estimators`.
"""

import numpy as np

from ._task import Task


class DecisionTask(Task):
    """Samples with predicted values, and a loss of the decisions that follow from them.

    The model learns the difference of the predicted values from `base`. A sample has either one row, with an output for
    each part, or one row for each part.

    Parameters
    ----------
    problems : StructureDecisions or another one of inference/_decisions.py
    loss : callable
        Maps problems, predicted values, true values, gold decisions and `n_jobs` to the losses and their gradients.
    base, values, gold : arrays of shape (n_samples, n_parts)
        Predicted values of the zero model, true values, and optimal decisions for the true values.
    weights : array of shape (n_samples,)
    is_shared : bool
        Whether each part has one row, so that parts share weights.
    """

    has_kinks = False
    additional_shapes = {}
    per_sample = "base", "values", "gold"

    def __init__(self, problems, loss, base, values, gold, weights, is_shared):
        n, n_parts = values.shape
        self.problems, self.loss, self.base, self.values, self.gold = problems, loss, base, values, gold
        self.n_outputs = 1 if is_shared else n_parts
        self.weights = weights
        self.row_ptr = np.arange(n + 1) * (n_parts if is_shared else 1)

    def take(self, indices):
        return super().take(indices).over(self.problems.take(indices))

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
        residuals = (gradient * self.weights[:, None]).reshape(scores.shape)
        loss = (losses * self.weights).sum()
        return loss, residuals / self.weights.sum() if mean else residuals, np.zeros(0), 0
