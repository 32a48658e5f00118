"""A multilayer perceptron with ReLU and dropout that computes scores, with additional scores.

Used by `estimators`.
"""

from itertools import pairwise

import numpy as np
from scipy import sparse

from .._core.blocks import blocks
from .score_models import ScoreModel

# Maximum number of hidden units of all rows that are scored together (32 MiB in float64).
_CELLS = 2**22


class NetworkModel(ScoreModel):
    """Weights of a network, and additional scores, which are the same for all samples.

    Attributes
    ----------
    coefs : list of arrays of shape (n_inputs, n_outputs)
        Weights of each layer.
    intercepts : list of arrays of shape (n_outputs,)
    additional : array of shape (n_additional,)

    Files hold it by these names; see `estimators/_state/plain.py`.
    """

    def __init__(self, coefs, intercepts, additional):
        self.coefs, self.intercepts, self.additional = coefs, intercepts, additional

    @classmethod
    def initial(cls, sizes, n_additional, rng, dtype=np.float64):
        """Draw initial weights (Glorot and Bengio) for layers of these sizes; zeros if there is no hidden layer."""
        coefs, intercepts = [], []
        for n_in, n_out in pairwise(sizes):
            bound = np.sqrt(6.0 / (n_in + n_out)) if len(sizes) > 2 else 0.0
            coefs.append(rng.uniform(-bound, bound, (n_in, n_out)) if bound else np.zeros((n_in, n_out)))
            intercepts.append(np.zeros(n_out))
        return cls(coefs, intercepts, np.zeros(n_additional)).astype(dtype)

    def check(self, n_features, n_outputs, n_additional):
        """Raise ValueError unless the weights have consistent shapes and the additional scores are finite.

        Users may have assigned or edited them, and kernels rely on the number of additional scores.
        """
        if self._found_sizes() != (n_features, n_outputs, n_additional):
            shapes = [np.shape(array) for array in self.arrays]
            raise ValueError(
                f"coefs_, intercepts_ and edge_scores_ have shapes {shapes}, which do not lead from {n_features} "
                f"features to {n_outputs} labels with {n_additional} edges; fit again"
            )
        if not np.isfinite(self.additional).all():
            raise ValueError("edge_scores_ contains NaN or infinity; make them finite")

    @property
    def arrays(self):
        """All weights: coefs, intercepts, additional scores."""
        return [*self.coefs, *self.intercepts, self.additional]

    def copy(self):
        return NetworkModel([c.copy() for c in self.coefs], [b.copy() for b in self.intercepts], self.additional.copy())

    def astype(self, dtype):
        """Return the model with weights of a type; the model itself if it already has this type."""
        if self.dtype == dtype:
            return self
        layers = ([array.astype(dtype) for array in arrays] for arrays in (self.coefs, self.intercepts))
        return NetworkModel(*layers, self.additional.astype(dtype))

    def penalty(self, alpha, additional_alpha):
        """Return ``alpha / 2 * |coefs|^2 + additional_alpha / 2 * |additional|^2``."""
        squares = sum(float(np.vdot(c, c)) for c in self.coefs)
        return 0.5 * alpha * squares + 0.5 * additional_alpha * float(self.additional @ self.additional)

    def forward(self, X, dropout=0.0, rng=None):
        """Compute the scores.

        Returns
        -------
        layers : list of arrays
            The inputs of each layer, and the scores last.
        masks : list of arrays
            The factors of dropout for each hidden layer; empty without dropout.
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

    @property
    def supports(self):
        # A hidden layer mixes the features.
        return frozenset({"partial_fit"} if len(self.coefs) > 1 else {"partial_fit", "explain"})

    @property
    def hidden_layer_sizes(self):
        """Numbers of units of the hidden layers: tuple of int."""
        return tuple(np.size(intercept) for intercept in self.intercepts[:-1])

    @property
    def sizes(self):
        """Numbers of features, of outputs and of additional scores.

        Raises
        ------
        ValueError
            If the layers do not follow one another, because of an edit or a damaged file.
        """
        found = self._found_sizes()
        if found is None:
            shapes = [np.shape(array) for array in self.arrays]
            raise ValueError(
                f"the layers of the network have shapes {shapes}, which do not follow one another; fit again"
            )
        return found

    def _found_sizes(self):
        """Return the `sizes`, or None if the layers do not follow one another."""
        shapes = [np.shape(array) for array in self.arrays]
        outputs = [np.size(intercept) for intercept in self.intercepts]
        inputs = [*(n for shape in shapes[:1] for n in shape[:1]), *outputs[:-1]]
        if not outputs or shapes != [*zip(inputs, outputs), *((n,) for n in outputs), (np.size(self.additional),)]:
            return None
        return inputs[0], outputs[-1], np.size(self.additional)

    def scores(self, X, n_jobs=None):
        """Compute the scores of rows; see `ScoreModel`. Blocks of rows limit the memory of hidden layers."""
        scores = np.empty((X.shape[0], np.size(self.intercepts[-1])))
        if not sparse.issparse(X):
            X = X.astype(self.dtype, copy=False)
        widest = max(map(np.size, self.intercepts))
        for rows in blocks(X.shape[0], widest, _CELLS):
            scores[rows] = self.forward(X[rows])[0][-1]
        return scores

    def backward(self, layers, masks, residuals):
        """Return the gradients of `arrays`, except of the additional scores, given the gradients of the scores.

        If the features are sparse, the first one is a pair ``(features, residuals)``.
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
