"""The configuration of Adam for label sets: the number of epochs, steps and their sizes, and penalties.

Functions read the parameters `alpha`, `edge_alpha`, `eta0`, `edge_eta0`, `batch_size`, `max_iter` and `n_jobs` of an
estimator. A network has step sizes of its own.

Used by `classifier.py` and `epochs.py`.
"""

import numpy as np

from ..._training._network import NetworkModel

_MAX_EPOCHS = 200
_BATCH_SIZE = 64
# Strength of the penalty if alpha="auto".
_ALPHA = 1e-3
# Smallest and largest learning rate of linear scores; the largest one is for at most `_FEW_STEPS` steps in an epoch.
# Without hidden layers, weights start at zero and have a longer way. Epochs of few steps need long steps; with many
# steps, long ones make the final weights noisy.
_LINEAR_RATES, _FEW_STEPS = (0.003, 0.01), 2
# In streams: the largest number of samples in a step, the learning rate of linear scores, and the factor of that of
# networks. Smaller steps of more samples learn too little from one visit. Chosen by the prequential accuracy on the
# development streams of benchmarks/streams.py; see doc/notes/streams.md.
_STREAM_BATCH_SIZE, _STREAM_RATE, _STREAM_FACTOR = 8, 0.015, 10.0


def initial_network(network, n_features, task, rng):
    """Return the initial weights of a `Network` for the samples of a task; of linear scores if `network` is None."""
    hidden = [] if network is None else list(network.hidden_layer_sizes)
    return NetworkModel.initial([n_features, *hidden, task.n_outputs], task.n_additional, rng)


def max_epochs(estimator, network=None):
    """Return the maximum number of epochs; `network` is the description of the score model, None for linear scores."""
    given = estimator.max_iter if network is None or network.max_iter is None else network.max_iter
    return _MAX_EPOCHS if given is None else given


def configure(estimator, optimizer, n_samples, network=None, stream=False, fraction=1.0):
    """Set an optimiser's parameters, which may have changed since it was made; return it.

    Parameters
    ----------
    estimator : MultilabelLPSparseMAP
    optimizer : MinibatchOptimizer
    n_samples : int
        Number of samples in an epoch.
    network : Network, default=None
        The description of the score model. By default, scores are linear.
    stream : bool, default=False
        Whether samples are visited once or a few times, which needs more and longer steps.
    fraction : float, default=1.0
        Factor of the learning rate in streams, unless the estimator gives that of linear scores.
    """
    if network is not None:
        batch_size = min(network.batch_size, _STREAM_BATCH_SIZE) if stream else network.batch_size
        rate = network.eta0 * (fraction * _STREAM_FACTOR if stream else 1.0)
    else:
        usual = _STREAM_BATCH_SIZE if stream else _BATCH_SIZE
        batch_size = usual if estimator.batch_size is None else estimator.batch_size
        rate = estimator.eta0
    batch_size = min(n_samples, batch_size)
    if rate is None:
        n_steps = n_samples / batch_size
        of_epochs = float(np.clip(_LINEAR_RATES[1] * np.sqrt(_FEW_STEPS / n_steps), *_LINEAR_RATES))
        rate = fraction * _STREAM_RATE if stream else of_epochs
    optimizer.configure(
        rates=(rate, rate if estimator.edge_eta0 is None else estimator.edge_eta0),
        alphas=(_ALPHA if estimator.alpha == "auto" else estimator.alpha, estimator.edge_alpha),
        batch_size=batch_size,
        n_jobs=estimator.n_jobs,
        dropout=0.0 if network is None else network.dropout,
    )
    return optimizer
