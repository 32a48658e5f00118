"""The slow twin of batch group lasso: the objective term by term, and accelerated proximal gradient."""

import numpy as np

from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.structures import LinearChain

NAMES = "transitions", "start", "end"
INTERCEPT_RIDGE, ADDITIONAL_RIDGE = 1e-8, 1e-4


class NaiveGroupLasso:
    """The objective of group lasso, on lists of samples in the shape of their scores.

    Parameters
    ----------
    structure : Structure
    X : list of arrays of shape (n_rows, n_features)
    y : list of structures
    n_outputs : int
    parameters : dict
        Those of `StructuredGroupLasso` that the objective depends on: loss, temperature, alpha, l1_ratio.
    groups : list of int arrays
    weights : array of shape (n_groups,)
    """

    def __init__(self, structure, X, y, n_outputs, groups, weights, *, loss, alpha, temperature=1.0, l1_ratio=0.0):
        self.loss = FenchelYoungLoss(structure, loss, temperature=temperature, tol=1e-13)
        self.X, self.y, self.n_outputs, self.groups, self.weights = X, y, n_outputs, groups, weights
        self.alpha, self.l1_ratio = alpha, l1_ratio
        self.is_chain = isinstance(structure, LinearChain)
        self.labelled = structure.labelled
        self.shape = structure

    def zeros(self):
        m = self.n_outputs
        free = [np.zeros((m, m)), np.zeros(m), np.zeros(m)] if self.is_chain else []
        return [np.zeros((self.X[0].shape[-1], m)), np.zeros(m), *free]

    def loss_gradient(self, model):
        coef, intercept, *free = model
        scores = [x @ coef + intercept for x in self.X]
        if not self.labelled:
            scores = [s[..., 0] for s in scores]
        elif not self.is_chain:
            scores = [s[0] for s in scores]
        pairs = self.loss.loss_gradient(scores, self.y, **dict(zip(NAMES, free)))
        n = len(self.X)
        gradient = [np.zeros_like(each) for each in model]
        for x, (_, found) in zip(self.X, pairs, strict=True):
            rows = x.reshape(-1, x.shape[-1])
            residual = found["scores"].reshape(len(rows), -1)
            gradient[0] += rows.T @ residual / n
            gradient[1] += residual.sum(axis=0) / n
            for name, out in zip(NAMES, gradient[2:]):
                out += found[name] / n
        value = sum(loss for loss, _ in pairs) / n
        for k, free in enumerate(model[1:], 1):
            ridge = INTERCEPT_RIDGE if k == 1 else ADDITIONAL_RIDGE
            value += 0.5 * ridge * (free**2).sum()
            gradient[k] += ridge * free
        return value, gradient

    def penalty(self, coef):
        norms = sum(w * np.linalg.norm(coef[g]) for g, w in zip(self.groups, self.weights, strict=True))
        return self.alpha * ((1 - self.l1_ratio) * norms + self.l1_ratio * np.abs(coef).sum())

    def objective(self, model):
        return self.loss_gradient(model)[0] + self.penalty(model[0])

    def prox(self, coef, step):
        """Soft thresholding, then shrinkage of each group, the inner ones first."""
        coef = np.sign(coef) * np.maximum(np.abs(coef) - step * self.alpha * self.l1_ratio, 0.0)
        for g in sorted(range(len(self.groups)), key=lambda g: len(self.groups[g])):
            rows = self.groups[g]
            norm = np.linalg.norm(coef[rows])
            strength = step * self.alpha * (1 - self.l1_ratio) * self.weights[g]
            coef[rows] *= max(0.0, 1.0 - strength / norm) if norm > 0 else 0.0
        return coef

    def minimise(self, model, n_iter):
        """Accelerated proximal gradient with backtracking and restarts; return the model and its objective."""
        step, ahead, momentum = 1.0, model, 1.0
        value = self.objective(model)
        for _ in range(n_iter):
            loss, gradient = self.loss_gradient(ahead)
            while True:
                new = [a - step * g for a, g in zip(ahead, gradient)]
                new[0] = self.prox(new[0], step)
                moved = [b - a for a, b in zip(ahead, new)]
                square = sum((m**2).sum() for m in moved)
                bound = loss + sum((g * m).sum() for g, m in zip(gradient, moved)) + 0.5 / step * square
                new_loss = self.loss_gradient(new)[0]
                if new_loss <= bound + 1e-14:
                    break
                step *= 0.5
            new_value = new_loss + self.penalty(new[0])
            if new_value > value:
                ahead, momentum = model, 1.0
                if square == 0.0:
                    break
                continue
            next_momentum = 0.5 + np.sqrt(0.25 + momentum**2)
            ahead = [b + (momentum - 1.0) / next_momentum * (b - a) for a, b in zip(model, new)]
            model, value, momentum, step = new, new_value, next_momentum, 1.2 * step
        return model, value
