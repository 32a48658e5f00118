"""From the parameter `score_model` of an estimator to the learner that trains such a model.

Each kind of score model registers its learner here, in a file of its own.
"""

from functools import singledispatch

from sklearn.base import clone

from ...score_models import Network, Trees

_WORDS = {"network": Network, "trees": Trees}


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


@singledispatch
def new_learner(description, estimator, task, X, rng):
    """Return the `Learner` of a score model that is not linear.

    Parameters
    ----------
    description : Network, Trees or estimator
    estimator : estimator
        Learners read its parameters `n_jobs` and `verbose`, and its attribute `alpha_`.
    task : Task
        Samples with gold structures and a loss.
    X : RaggedArray
        Features.
    rng : RandomState

    Returns
    -------
    learner : Learner
        Its models are score models; see `_training/score_models.py`.
    """
    raise ValueError(f"score_model={description!r} is no score model")
