"""Descriptions of the score models of label sets: those that score_model="auto" tries, former ones, fitted ones.

Used by `base.py`, `classifier.py` and `comparison.py`.
"""

from ..._training._network import NetworkModel
from ...score_models import Network, Trees

# The network that score_model="auto" compares with linear scores. Of 100 and 300 units, and dropout of 0 and 0.3, it
# has the lowest log loss in cross-validation on ImCLEF07A.
AUTO_NETWORK = Network((300,), dropout=0.3, batch_size=64)
# Number of features that a node of the trees of score_model="auto" chooses from, and number of samples that a tree of a
# forest learns from. With more, trees take longer. On development parts of yeast (103 features) and emotions (72), all
# features have a higher log loss.
_MAX_FEATURES, _MAX_SAMPLES = 30, 4000
# The same for a forest that only tells whether trees may gain anything, and its number of trees.
_FEW_SAMPLES, _N_TREES = 1000, 25
# Minimum number of samples in a leaf of boosted trees. On development parts of 500 generated samples with interactions,
# the log loss is 0.585 with 5, and 0.566 with 20.
_LEAF = 20
# Maximum number of labels for which each label has trees of its own. With more, a round takes long.
_MAX_OWN_TREES = 30


def new_forest(n_samples, n_features, n_trees=_N_TREES, max_samples=_FEW_SAMPLES, min_samples_leaf=3):
    """Return an unfitted forest for the scores of all labels."""
    # Linear models need no trees.
    from sklearn.ensemble import ExtraTreesRegressor

    return ExtraTreesRegressor(
        n_trees,
        max_features=min(_MAX_FEATURES, n_features),
        min_samples_leaf=min_samples_leaf,
        bootstrap=n_samples > max_samples,
        max_samples=max_samples if n_samples > max_samples else None,
        random_state=0,
    )


def auto_descriptions(n_samples, n_features, n_labels):
    """Return the descriptions that score_model="auto" compares with linear scores by name, in their order."""
    from sklearn.multioutput import MultiOutputRegressor
    from sklearn.tree import DecisionTreeRegressor

    forest = new_forest(n_samples, n_features, 10, _MAX_SAMPLES, 5).set_params(random_state=None)
    options = {"max_features": min(_MAX_FEATURES, n_features), "min_samples_leaf": _LEAF}
    found = {"forests": Trees(max_iter=30, learning_rate=0.3, estimator=forest)}
    if 1 < n_labels <= _MAX_OWN_TREES:
        own = MultiOutputRegressor(DecisionTreeRegressor(max_depth=4, **options))
        found["trees of each label"] = Trees(max_iter=60, learning_rate=0.2, estimator=own)
    tree = DecisionTreeRegressor(max_depth=6, **options)
    return found | {"trees": Trees(max_iter=100, learning_rate=0.1, estimator=tree), "network": AUTO_NETWORK}


def score_model_of(hidden_layer_sizes, dropout, eta0, batch_size):
    """Return the parameter `score_model` for parameters of an earlier version."""
    if isinstance(hidden_layer_sizes, str):
        return "auto"
    if not len(hidden_layer_sizes):
        return "linear"
    # Its default step size and number of samples in a step.
    return Network(
        tuple(hidden_layer_sizes),
        dropout=0.0 if dropout is None else dropout,
        eta0=1e-3 if eta0 is None else eta0,
        batch_size=64 if batch_size is None else batch_size,
    )


def fitted_description(given, chosen, model):
    """Return the attribute `chosen_score_model_`.

    Parameters
    ----------
    given : Network, Trees or estimator, or None
        The description in the parameter `score_model`.
    chosen : (str, int, int, int) or None
        Name of the description that score_model="auto" chose, and the arguments of `auto_descriptions`.
    model : ScoreModel
        In files of earlier versions, it may be a network without a description.
    """
    if "explain" in model.supports:
        return "linear"
    if chosen is not None:
        name, *sizes = chosen
        return auto_descriptions(*sizes)[name]
    if isinstance(model, NetworkModel):
        is_given = isinstance(given, Network) and tuple(given.hidden_layer_sizes) == model.hidden_layer_sizes
        return given if is_given else Network(model.hidden_layer_sizes, dropout=0.0, batch_size=64)
    # Parameters may have been set after the fit.
    return model.public if given is None else given
