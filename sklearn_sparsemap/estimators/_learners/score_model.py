"""From the parameter `score_model` of an estimator to the learner that trains such a model.

Each kind of score model that is not linear registers its learner here, in a file of its own. Those whose training can
continue from a model also register `initial_model`, `stream_optimizer` and `continues`.

Used by `estimators/_multilabel`, `estimators/_structured`, `boosting.py`, `network.py` and `out_of_fold.py`.
"""

from functools import singledispatch

from sklearn.base import clone

from ..._training.score_models import LinearModel
from ...score_models import Network, Trees

_WORDS = {"network": Network, "trees": Trees}
# Parameters of estimators that only linear scores have, with their defaults.
_OF_LINEAR = {"solver": "auto", "eta0": None, "batch_size": None, "fit_intercept": True}


def description_of(score_model):
    """Return the description of a score model: a `Network`, `Trees`, or an estimator; None for a linear model.

    Raises
    ------
    ValueError
        If `score_model` is no such object, or has invalid parameters.
    """
    if isinstance(score_model, str):
        if score_model in ("linear", "auto"):
            return None
        if score_model in _WORDS:
            return _WORDS[score_model]()
    elif isinstance(score_model, Network | Trees):
        score_model.check()
        return clone(score_model)
    elif hasattr(score_model, "fit") and not isinstance(score_model, type):
        return score_model
    raise ValueError(
        f"score_model={score_model!r}; it must be 'linear', 'network', 'trees', 'auto', a Network, Trees, or an "
        "estimator of scikit-learn"
    )


def check_no_linear_parameters(estimator):
    """Raise ValueError if a parameter that only linear scores have is not its default."""
    given = [name for name, default in _OF_LINEAR.items() if getattr(estimator, name) != default]
    given += ["alpha"] if isinstance(estimator.alpha, str) else []
    if given:
        name = given[0]
        raise ValueError(
            f"{name}={getattr(estimator, name)!r} is for score_model='linear', and score_model is "
            f"{estimator.score_model!r}; leave {name} at its default, and set parameters of the score model, such as "
            "those of score_models.Network"
        )


@singledispatch
def new_learner(description, estimator, task, X, rng):
    """Return the `Learner` of a score model that is not linear.

    Parameters
    ----------
    description : Network, Trees or estimator
    estimator : estimator
        Learners read its parameters `n_jobs`, `verbose`, `shuffle` and `max_iter`, and its attribute `alpha_`, the
        strength of the penalty.
    task : Task
        Samples with gold structures and a loss.
    X : RaggedArray
        Features.
    rng : RandomState
    start : ScoreModel
        With ``warm_start=True``, the model of the last fit. Only kinds of models whose training can continue have this
        parameter.

    Returns
    -------
    learner : Learner
        Its models are score models; see `_training/score_models.py`.
    """
    raise ValueError(f"score_model={description!r} is no score model")


@singledispatch
def continues(description, model):
    """Tell whether training with a description, or None for linear scores, can continue from a score model."""
    return False


@continues.register
def _(description: None, model):
    return isinstance(model, LinearModel)


def reason_against_streams(estimator):
    """Return why the score model of an estimator, fitted or not, cannot learn from mini-batches; None if it can.

    A parameter `score_model` that is no score model at all has its own message, when it is checked.
    """
    learned = estimator._learned
    # An optimiser is there because it can learn from mini-batches. Asking it for its model would take time.
    model = learned.model if learned.optimizer is None and estimator.__sklearn_is_fitted__() else None
    if model is not None and "partial_fit" not in model.supports:
        return (
            "the fitted score model needs all samples at once; call fit again, or partial_fit of a clone with "
            "score_model='linear' or 'network'"
        )
    try:
        description = description_of(estimator.score_model)
    except ValueError:
        return None
    has_initial_model = initial_model.dispatch(type(description)) is not initial_model.dispatch(object)
    return None if description is None or has_initial_model else _needs_all_samples(estimator)


def check_learns_from_streams(estimator):
    """Raise AttributeError if the score model of an estimator cannot learn from mini-batches."""
    reason = reason_against_streams(estimator)
    if reason is not None:
        raise AttributeError(reason)


def _needs_all_samples(estimator):
    return (
        "partial_fit, fit_partitions and distributed training are for score_model='linear' and 'network'; "
        f"score_model={estimator.score_model!r} needs all samples at once; call fit"
    )


@singledispatch
def initial_model(description, estimator, task, X):
    """Return the score model from which the training of a stream begins.

    Parameters
    ----------
    description, estimator
        As in `new_learner`.
    task : Task
        The first mini-batch.
    X : array or CSR of shape (n_rows, n_features)

    Raises
    ------
    ValueError
        If such a model cannot learn from streams.
    """
    raise ValueError(_needs_all_samples(estimator))


@singledispatch
def stream_optimizer(description, estimator, model, optimizer=None):
    """Return an optimiser for streams with the parameters of an estimator, which may have changed since the last call.

    Parameters
    ----------
    description, estimator
        As in `new_learner`.
    model : ScoreModel
        The model from which a new optimiser starts.
    optimizer : optimizer, default=None
        An optimiser that continues.
    """
    return initial_model(description, estimator, None, None)
