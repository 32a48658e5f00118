"""The learner of networks: epochs of Adam on mini-batches of samples.

Used by `estimators/_structured`.
"""

from sklearn.utils import check_random_state

from ..._training._minibatch import MinibatchOptimizer
from ..._training._network import NetworkModel
from ...score_models import Network
from .epochs import OnlineLearner, make_epoch
from .score_model import continues, initial_model, new_learner, stream_optimizer

_MAX_ITER = 100  # epochs


@new_learner.register
def _(description: Network, estimator, task, X, rng, start=None):
    network = _initial(description, task, X.values, rng) if start is None else start
    optimizer = _configured(description, estimator, MinibatchOptimizer(network, rng))
    run_epoch = make_epoch(estimator, optimizer, task, X, rng)
    max_iter = description.max_iter or estimator.max_iter or _MAX_ITER
    return OnlineLearner(optimizer, run_epoch, max_iter, patience=task.length_factor)


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
    sizes = [X.shape[1], *description.hidden_layer_sizes, task.n_outputs]
    return NetworkModel.initial(sizes, task.n_additional, rng, X.dtype)


def _configured(description, estimator, optimizer):
    """Set the parameters of an optimiser; return it."""
    # `get_training_state` makes an optimiser of a fitted model, also if the strength has not been set.
    alpha = getattr(estimator, "alpha_", 0.0)
    optimizer.configure(
        rates=(description.eta0, description.eta0),
        alphas=(alpha, alpha),
        batch_size=description.batch_size,
        n_jobs=estimator.n_jobs,
        dropout=description.dropout,
    )
    return optimizer
