"""The configuration of Adam for label sets: the number of epochs, steps and their sizes, and penalties.

Functions read the parameters `eta0`, `edge_eta0`, `alpha`, `edge_alpha`, `batch_size`, `hidden_layer_sizes`, `dropout`,
`max_iter` and `n_jobs` of an estimator.
"""

import numpy as np

# The network that hidden_layer_sizes="auto" compares with linear scores: its hidden layers, and its dropout. Of 100 and
# 300 units, and dropout of 0 and 0.3, it has the lowest log loss in cross-validation on ImCLEF07A.
AUTO_HIDDEN, AUTO_DROPOUT = [300], 0.3
_MAX_EPOCHS = 200
_BATCH_SIZE = 64
# Strength of the penalty if alpha="auto".
_ALPHA = 1e-3
_NETWORK_RATE = 0.001
# Smallest and largest learning rate of linear scores; the largest one is for at most `_FEW_STEPS` steps in an epoch.
# Without hidden layers, weights start at zero and have a longer way. Epochs of few steps need long steps; with many
# steps, long ones make the final weights noisy.
_LINEAR_RATES, _FEW_STEPS = (0.003, 0.01), 2
# In streams: the number of samples in a step, and the learning rates of linear scores and of networks. Smaller steps of
# more samples learn too little from one visit. Chosen by the prequential accuracy on the development streams of
# benchmarks/streams.py; see doc/notes/streams.md.
_STREAM_BATCH_SIZE, _STREAM_RATES = 8, (0.015, 0.01)


def max_epochs(estimator):
    """Return the maximum number of epochs."""
    return _MAX_EPOCHS if estimator.max_iter is None else estimator.max_iter


def configure(estimator, optimizer, n_samples, stream=False, fraction=1.0):
    """Set an optimiser's parameters, which may have changed since it was made; return it.

    Parameters
    ----------
    estimator : MultilabelLPSparseMAP
    optimizer : MinibatchOptimizer
    n_samples : int
        Number of samples in an epoch.
    stream : bool, default=False
        Whether samples are visited once or a few times, which needs more and longer steps.
    fraction : float, default=1.0
        Factor of the learning rate by default.
    """
    usual = _STREAM_BATCH_SIZE if stream else _BATCH_SIZE
    batch_size = min(n_samples, usual if estimator.batch_size is None else estimator.batch_size)
    rate = estimator.eta0
    if rate is None:
        is_network = len(optimizer.network.coefs) > 1
        if stream:
            rate = fraction * _STREAM_RATES[is_network]
        elif is_network:
            rate = _NETWORK_RATE
        else:
            n_steps = n_samples / batch_size
            rate = float(np.clip(_LINEAR_RATES[1] * np.sqrt(_FEW_STEPS / n_steps), *_LINEAR_RATES))
    dropout = AUTO_DROPOUT if isinstance(estimator.hidden_layer_sizes, str) else 0.0
    optimizer.configure(
        rates=(rate, rate if estimator.edge_eta0 is None else estimator.edge_eta0),
        alphas=(_ALPHA if estimator.alpha == "auto" else estimator.alpha, estimator.edge_alpha),
        batch_size=batch_size,
        n_jobs=estimator.n_jobs,
        dropout=dropout if estimator.dropout is None else estimator.dropout,
    )
    return optimizer
