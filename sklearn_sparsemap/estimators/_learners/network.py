"""The learner of networks: epochs of Adam on mini-batches of samples.

Used by `estimators/_structured`.
"""

from sklearn.utils import check_random_state

from ..._training._minibatch import MinibatchOptimizer
from ..._training._network import NetworkModel
from ...score_models import Network
from .epochs import OnlineLearner, make_epoch
from .score_model import continues, initial_model, new_learner, stream_optimizer

# Maximum number of epochs. Training of letters ends after 60 by the rule of `tol`.
_MAX_ITER = 100
# Learning rate of the additional scores, as a multiple of that of the network. Adam moves each weight by about the rate
# in a step, and transitions have a longer way than the weights of many features. With 1, letters lose 1.2 points in as
# many epochs; with 3 and 30 as with 10.
_ADDITIONAL = 10.0
# Number of epochs that count as one for the rule by which training stops. Dropout makes the loss noisy, and held-out
# scores still rise when it hardly falls. With 1, letters and digits lose up to .6 points; 3 takes 1.4 times as long.
_PATIENCE = 2.0


@new_learner.register
def _(description: Network, estimator, task, X, rng, start=None):
    network = _initial(description, task, X.values, rng) if start is None else start
    optimizer = _configured(description, estimator, MinibatchOptimizer(network, rng))
    run_epoch = make_epoch(estimator, optimizer, task, X, rng)
    max_iter = description.max_iter or estimator.max_iter or _MAX_ITER
    return OnlineLearner(optimizer, run_epoch, max_iter, patience=_PATIENCE * task.length_factor)


@continues.register
def _(description: Network, model):
    return isinstance(model, NetworkModel) and model.hidden_layer_sizes == tuple(description.hidden_layer_sizes)


@initial_model.register
def _(description: Network, estimator, task, X):
    return _initial(description, task, X, check_random_state(estimator.random_state))


@stream_optimizer.register
def _(description: Network, estimator, model, optimizer=None):
    if optimizer is None:
        optimizer = MinibatchOptimizer(model.copy(), check_random_state(estimator.random_state))
    return _configured(description, estimator, optimizer)


def _initial(description, task, X, rng):
    """Return a network with random weights for the rows of X, of the type of X."""
    if not len(description.hidden_layer_sizes):
        raise ValueError("hidden_layer_sizes is empty, so the scores would be linear; use score_model='linear'")
    sizes = [X.shape[1], *description.hidden_layer_sizes, task.n_outputs]
    return NetworkModel.initial(sizes, task.n_additional, rng, X.dtype)


def _configured(description, estimator, optimizer):
    """Set the parameters of an optimiser; return it."""
    # `get_training_state` makes an optimiser of a fitted model, also if the strength has not been set.
    alpha = getattr(estimator, "alpha_", 0.0)
    optimizer.configure(
        rates=(description.eta0, _ADDITIONAL * description.eta0),
        alphas=(alpha, alpha),
        batch_size=description.batch_size,
        n_jobs=estimator.n_jobs,
        dropout=description.dropout,
        by_presence=True,
    )
    return optimizer
