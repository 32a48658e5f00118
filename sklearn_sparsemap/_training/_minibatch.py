"""Mini-batch learning for any task: of a network with additional scores, and of a linear model.

Used by `estimators`.
"""

from functools import partial

import numpy as np
from scipy import sparse

from .._core.jit import readonly
from .._core.threads import count_threads, interruptible
from ._adam import Adam
from ._online.dense import UNCONVERGED
from ._online.optimizer import OnlineOptimizer
from ._online.rules import STEPS_OF_BATCHES
from .score_models import used_columns

# Number of weights from which on a step runs in another thread. That takes 40 us, as long as a copy of these weights.
_MANY_WEIGHTS = 2**14


class GradientSteps:
    """Epochs of steps, one for each mini-batch, by the gradient of the mean loss with respect to the scores.

    A subclass has `batch_size`, `n_jobs` and two methods: `forward(X)` returns the scores of rows, the additional
    scores, and the inputs from which `update(inputs, gradient, additional_gradient, n_inexact)` takes a step. The
    latter also counts the samples whose inference did not converge.

    Attributes
    ----------
    by_batches : bool
        Whether an epoch takes a task and features, from which it makes mini-batches. (`Task.epochs` asks for it.)
    gap : float
        Duality gap at which the inference of structures ends; the scores are divided by the temperature.
    """

    by_batches = True
    gap = 1e-8

    def accept_gap(self, tol):
        """Set the duality gap of inference in the next epochs."""
        self.gap = tol

    def epoch(self, task, X, order):
        """Visit samples, rows of a `RaggedArray`, once in this order; return the weighted sum of their losses."""
        total = 0.0
        for batch, features in task.batches(X, order, self.batch_size, self.gap):
            scores, additional, inputs = self.forward(features)
            loss, *gradients = batch.loss_gradient(scores, additional, self.n_jobs, mean=True)
            self.update(inputs, *gradients)
            total += loss
        return total


class MinibatchOptimizer(GradientSteps):
    """Adam on mini-batches, with a separate learning rate and penalty for the additional scores.

    Parameters
    ----------
    network : NetworkModel
        The initial network, which may be modified in place.
    rng : RandomState, default=None
        Source of randomness for dropout.

    `estimators/_state/optimizers.py` reads and sets the attributes, also those of the rule.
    """

    state_name, name = "adam", "Adam"

    def __init__(self, network, rng=None):
        self.network = network
        self.rule = Adam(network.arrays)
        self.rng = rng
        self.unconverged = 0

    def configure(self, *, rates, alphas, batch_size, n_jobs, dropout=0.0, by_presence=False):
        """Set options that can change between epochs.

        Parameters
        ----------
        rates, alphas : (float, float)
            Learning rates, and strengths of the penalties, for the network and for the additional scores.
        batch_size : int
        n_jobs : int or None
        dropout : float
            Fraction of the hidden units that are dropped.
        by_presence : bool, default=False
            Whether the weights of a feature change only in mini-batches in which it is not zero. Then rare features
            keep their weights in other steps, and steps for many sparse features take far less time.
        """
        if not all(array.flags.writeable for array in self.network.arrays):
            # Arrays loaded from a memory map are read-only.
            self.network = self.network.copy()
            self.rule = self.rule.copy()
        self.rates, self.alphas, self.batch_size = rates, alphas, batch_size
        self.n_jobs, self.dropout, self.by_presence = n_jobs, dropout, by_presence

    @property
    def n_steps(self):
        """Number of mini-batches visited."""
        return self.rule.n_steps

    @property
    def sizes(self):
        """Numbers of features, of outputs and of additional scores."""
        return self.network.sizes

    def follow(self, task, X):
        """Prepare for a mini-batch of a stream: nothing, because weights are not averaged."""

    def model(self):
        """Return a copy of the network."""
        return self.network.copy()

    def penalty(self):
        """Return the penalty of the current weights."""
        return self.network.penalty(*self.alphas)

    def forward(self, X):
        layers, masks = self.network.forward(X, self.dropout, self.rng)
        # Inference is in float64 for all types of weights.
        scores = layers[-1].astype(np.float64, copy=False)
        return scores, self.network.additional.astype(np.float64, copy=False), (layers, masks)

    def update(self, inputs, gradient, additional_gradient, n_inexact):
        n_layers = len(self.network.coefs)
        dtype = self.network.dtype
        gradient = gradient.astype(dtype, copy=False)
        gradients = [*self.network.backward(*inputs, gradient), additional_gradient.astype(dtype, copy=False)]
        rates = [self.rates[0]] * (2 * n_layers) + [self.rates[1]]
        # Intercepts are not penalised.
        alphas = [self.alphas[0]] * n_layers + [0.0] * n_layers + [self.alphas[1]]
        self.unconverged += n_inexact
        if self.by_presence:
            gradients[0] = _of_present(inputs[0][0], gradients[0])
        self._step(gradients, rates, alphas, count_threads(self.n_jobs))

    def _step(self, *arguments):
        """Change the weights as `Adam.step` does: after an exception of a signal handler, all of them or none."""
        if sum(array.size for array in self.network.arrays) >= _MANY_WEIGHTS:
            interruptible(partial(self.rule.step, self.network.arrays, *arguments), lambda: None)
            return
        network = self.network.copy()
        rule = self.rule.copy()
        rule.step(network.arrays, *arguments)
        # No handler runs within this call.
        vars(self).update(network=network, rule=rule)


def _of_present(X, gradient):
    """Return the gradient of the weights of the features of a mini-batch that are not zero, as `Adam.step` takes it.

    Parameters
    ----------
    X : array or CSR of shape (n_rows, n_features)
    gradient : array, or (X, residuals)
        The gradient of the weights of all features.
    """
    if isinstance(gradient, tuple):
        used, columns = used_columns(X)
        return columns, gradient[1], used
    is_present = X.any(axis=0)
    if is_present.all():
        return gradient
    used = np.flatnonzero(is_present)
    # The gradient is its product with the identity.
    return sparse.eye_array(len(used), format="csr"), np.ascontiguousarray(gradient[used]), used


class LinearMinibatchOptimizer(GradientSteps, OnlineOptimizer):
    """AdaGrad for a linear model, with one step for each mini-batch; its methods are those of `OnlineOptimizer`."""

    state_name = "minibatch"
    _default_batch_size = 16

    def __init__(self, model, *, average, columns=None):
        super().__init__(model.dense(), average=average, columns=columns)

    def _count_steps(self, task):
        return -(-len(task.weights) // self.batch_size)

    def forward(self, X):
        intercept, additional, coef = np.split(self.store.values, [self.n_outputs, self.store.n_dense])
        scores = X @ coef.reshape(-1, self.n_outputs) + intercept
        # Inference is in float64 for all types of weights.
        return scores.astype(np.float64, copy=False), additional.astype(np.float64), X

    def update(self, X, gradient, additional_gradient, n_inexact):
        intercepts = gradient.sum(axis=0) * self.rule.fit_intercept
        joined = np.concatenate([intercepts, additional_gradient, (X.T @ gradient).ravel()])
        STEPS_OF_BATCHES[self.dtype](self.rule, self.store, self.counters, readonly(joined))
        self.counters[UNCONVERGED] += n_inexact
