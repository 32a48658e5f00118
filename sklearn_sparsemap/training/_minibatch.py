"""Mini-batch learning of a network with additional scores, for any task and update rule."""

from copy import deepcopy
from functools import partial

import numpy as np

from .._core.threads import interruptible
from ._data import LinearModel
from ._network import Network

# Keeps the first steps of AdaGrad finite.
_FIRST_SQUARE = 1e-6
# Samples in a mini-batch of a linear model.
_BATCH_SIZE = 16


class MinibatchOptimizer:
    """Mini-batches of a task, with a separate learning rate and penalty for the additional scores.

    Parameters
    ----------
    network : Network
        The initial network, modified in place.
    rule : Adam or AdaGrad
    rng : RandomState, default=None
        For dropout.
    """

    def __init__(self, network, rule, rng=None):
        self.network, self.rule, self.rng = network, rule, rng
        self.unconverged = 0

    def configure(self, *, rates, alphas, batch_size, n_jobs, dropout=0.0, fit_intercept=True):
        """Set options that can change between epochs.

        Parameters
        ----------
        rates, alphas : (float, float)
            Learning rates, and strengths of the penalties, for the network and for the additional scores.
        """
        if not all(array.flags.writeable for array in self.network.arrays):
            # Arrays loaded from a memory map are read-only.
            self.network, self.rule = self.network.copy(), deepcopy(self.rule)
        self.rates, self.alphas, self.batch_size = rates, alphas, batch_size
        self.n_jobs, self.dropout, self.fit_intercept = n_jobs, dropout, fit_intercept

    @property
    def n_steps(self):
        """Number of mini-batches visited."""
        return self.rule.n_steps

    def model(self):
        """Return the network itself, which further training modifies."""
        return self.network

    def penalty(self):
        """Return the penalty of the current weights."""
        return self.network.penalty(*self.alphas)

    def epoch(self, task, X, order):
        """Visit samples, rows of a `RaggedArray`, once in this order; return the weighted sum of their losses."""
        network, total, n_layers = self.network, 0.0, len(self.network.coefs)
        rates = [self.rates[0]] * (2 * n_layers) + [self.rates[1]]
        # Intercepts are not penalised.
        alphas = [self.alphas[0]] * n_layers + [0.0] * n_layers + [self.alphas[1]]
        for start in range(0, len(order), self.batch_size):
            chosen = order[start : start + self.batch_size]
            batch = task.take(chosen)
            if not batch.weights.any():
                continue
            # If each sample is a single row, index the rows directly.
            features = X.values[chosen] if X.values.shape[0] == len(X) else X[chosen].values
            layers, masks = network.forward(features, self.dropout, self.rng)
            # Inference is in float64 for all types of weights.
            scores, additional = (a.astype(np.float64, copy=False) for a in (layers[-1], network.additional))
            loss, residuals, joined, n_inexact = batch.loss_gradient(scores, additional, self.n_jobs, mean=True)
            residuals = residuals.astype(layers[-1].dtype, copy=False)
            gradients = [*network.backward(layers, masks, residuals), joined]
            if not self.fit_intercept:
                gradients[n_layers : 2 * n_layers] = map(np.zeros_like, network.intercepts)
            self.unconverged += n_inexact
            total += loss
            # Complete the step before Ctrl-C takes effect.
            interruptible(partial(self.rule.step, network.arrays, gradients, rates, alphas, self.n_jobs), lambda: None)
        return total


class LinearMinibatchOptimizer(MinibatchOptimizer):
    """AdaGrad on mini-batches for a linear model.

    Parameters
    ----------
    model : LinearModel
        The initial model.
    average : bool
        Whether `model` returns the average of the weights after each step.
    """

    def __init__(self, model, *, average):
        model, self.average = model.copy(), average
        network = Network([model.coef], [model.intercept], model.additional)
        super().__init__(network, AdaGrad(network.arrays, average))

    def configure(self, *, alpha, eta0, fit_intercept, n_jobs, batch_size=_BATCH_SIZE):
        """Set options that can change between epochs."""
        super().configure(
            rates=(eta0, eta0), alphas=(alpha, alpha), batch_size=batch_size, n_jobs=n_jobs,
            fit_intercept=fit_intercept,
        )  # fmt: skip

    def model(self):
        """Return the current model, averaged over the steps if `average`."""
        return LinearModel(*self.rule.weights(self.network.arrays))

    @property
    def sizes(self):
        """Numbers of features, of outputs and of additional scores."""
        return LinearModel(*self.network.arrays).sizes

    @property
    def dtype(self):
        """The name of the type of the weights."""
        return str(self.network.additional.dtype)

    def penalty(self):
        return LinearModel(*self.network.arrays).penalty(self.alphas[0])


class AdaGrad:
    """AdaGrad's state for some arrays of weights, which are modified in place, with a proximal step of the penalty.

    Parameters
    ----------
    arrays : list of arrays
    average : bool
        Whether `weights` are averaged over all steps.
    """

    def __init__(self, arrays, average):
        self.squares = [np.full_like(a, _FIRST_SQUARE) for a in arrays]
        self.sums = [np.zeros_like(a) for a in arrays] if average else None
        self.n_steps = 0

    def step(self, arrays, gradients, rates, alphas, n_jobs=None):
        """Update all arrays; see `Adam.step`."""
        self.n_steps += 1
        for k, (weights, gradient, rate, alpha) in enumerate(zip(arrays, gradients, rates, alphas)):
            if isinstance(gradient, tuple):
                features, residuals = gradient
                gradient = features.T @ residuals
            self.squares[k] += gradient * gradient
            own = rate / np.sqrt(self.squares[k])
            weights -= own * gradient
            weights /= 1.0 + own * alpha
            if self.sums is not None:
                self.sums[k] += weights

    def weights(self, arrays):
        """Return copies of the arrays, averaged over the steps if `average`."""
        if self.sums is None or not self.n_steps:
            return [array.copy() for array in arrays]
        return [total / self.n_steps for total in self.sums]
