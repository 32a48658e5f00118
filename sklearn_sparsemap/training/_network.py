"""A multilayer perceptron with ReLU and dropout, whose outputs are scores of labels; and the scores of their pairs."""

from itertools import pairwise

import numpy as np
from scipy import sparse


class LabelModel:
    """Weights of a network, and scores of the pairs of its outputs.

    Attributes
    ----------
    coefs : list of arrays of shape (n_inputs, n_outputs)
        One for each layer.
    intercepts : list of arrays of shape (n_outputs,)
    edge_scores : array of shape (n_edges,)
    """

    def __init__(self, coefs, intercepts, edge_scores):
        self.coefs, self.intercepts, self.edge_scores = coefs, intercepts, edge_scores

    @classmethod
    def initial(cls, sizes, n_edges, rng):
        """Draw weights as Glorot and Bengio do; `sizes` are those of all layers. Without hidden ones all are zero."""
        coefs, intercepts = [], []
        for n_in, n_out in pairwise(sizes):
            bound = np.sqrt(6.0 / (n_in + n_out)) if len(sizes) > 2 else 0.0
            coefs.append(rng.uniform(-bound, bound, (n_in, n_out)) if bound else np.zeros((n_in, n_out)))
            intercepts.append(np.zeros(n_out))
        return cls(coefs, intercepts, np.zeros(n_edges))

    @property
    def arrays(self):
        """All weights: coefs, intercepts, edge scores."""
        return [*self.coefs, *self.intercepts, self.edge_scores]

    def copy(self):
        return LabelModel([c.copy() for c in self.coefs], [b.copy() for b in self.intercepts], self.edge_scores.copy())

    def penalty(self, alpha, edge_alpha):
        """Return ``alpha / 2 * |coefs|^2 + edge_alpha / 2 * |edge_scores|^2``."""
        squares = sum(float(np.vdot(c, c)) for c in self.coefs)
        return 0.5 * alpha * squares + 0.5 * edge_alpha * float(self.edge_scores @ self.edge_scores)

    def forward(self, X, dropout=0.0, rng=None):
        """Compute the scores of all labels.

        Returns
        -------
        layers : list of arrays
            The inputs of each layer, and the scores last.
        masks : list of arrays
            What dropout multiplied each hidden layer by; empty without dropout.
        """
        layers, masks = [X], []
        for depth, (coef, intercept) in enumerate(zip(self.coefs, self.intercepts)):
            values = layers[-1] @ coef
            values += intercept
            if depth < len(self.coefs) - 1:
                np.maximum(values, 0.0, out=values)
                if dropout and rng is not None:
                    masks.append((rng.random_sample(values.shape) >= dropout) / (1.0 - dropout))
                    values *= masks[-1]
            layers.append(values)
        return layers, masks

    def scores(self, X):
        """Compute the scores of all labels: array of shape (n_samples, n_labels)."""
        return self.forward(X)[0][-1]

    def backward(self, layers, masks, residuals):
        """Return the gradients of `arrays`, but for the edge scores, from those of the scores.

        The first is a tuple ``(features, residuals)`` where the features are sparse.
        """
        coefs, intercepts = [], []
        for depth in range(len(self.coefs) - 1, -1, -1):
            inputs = layers[depth]
            intercepts.append(residuals.sum(axis=0))
            if sparse.issparse(inputs):
                coefs.append((inputs, np.ascontiguousarray(residuals)))
            else:
                coefs.append(inputs.T @ residuals)
            if depth:
                residuals = residuals @ self.coefs[depth].T
                if masks:
                    residuals *= masks[depth - 1]
                residuals *= inputs > 0.0
        return coefs[::-1] + intercepts[::-1]

