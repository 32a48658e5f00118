"""score_model="auto": linear scores, or another score model with a lower loss on the same held-out samples.

Used by `linear.py`.
"""

import numpy as np

from ...score_models import Network
from .._strengths import has_few_entries, is_clear_gain
from .cross_validation import GivenScores, calibrated_losses
from .descriptions import auto_descriptions, new_forest
from .epochs import AdamTraining
from .trees import TreesTraining
from .trials import Trials, first_epochs

# Minimum number of held-out samples that score models are compared on, if there are as many.
_MIN_COMPARED = 500
# Other score models are tried if the loss of a forest is at most this multiple of that of linear scores. Boosted trees
# can be better than linear scores if a forest is a little worse.
_NEAR = 1.05
# If the forest is worse, a network is tried if its first epochs need at most this multiple of the products of features
# and weights in cross-validation. On ImCLEF07A (96 labels) it is better than linear scores, and a forest is worse.
_CHEAP = 4.0


def best_solver(linear):
    """Compare linear scores with other score models; return the solver of the best one.

    A forest that learns from the first fold tells whether trees may gain anything. If they may, score models are tried
    in a fixed order on the first folds. If the first one gains nothing, the others are not tried. If trees may not, a
    network is tried if that takes no longer than the linear fit.

    Parameters
    ----------
    linear : LBFGSCrossValidation
        With the held-out scores of all folds.
    """
    if has_few_entries(linear.X.values):
        return linear
    losses = [calibrated_losses(linear.inference, *held_out[:2]) for held_out in linear.held_out_folds()]
    sizes = (*linear.X.values.shape, linear.task.n_outputs)
    descriptions = auto_descriptions(*sizes)
    if _forest_loss(linear) > _NEAR * losses[0].sum():
        descriptions = {"network": descriptions["network"]} if _is_cheap(descriptions["network"], linear) else {}
    n_held = np.cumsum([len(own) for own in losses])
    n_compared = min(len(losses), 1 + int((n_held < _MIN_COMPARED).sum()))
    best = None
    lowest = losses
    for name, description in descriptions.items():
        trials = _tried(linear, description, n_compared, lowest)
        if trials is not None:
            best = trials
            best.chosen = (name, *sizes)
            lowest = trials.losses
        if best is None:
            break
    if best is None:
        return linear
    gains = np.concatenate(losses[: len(best.trials)]) - np.concatenate(best.losses)
    if not is_clear_gain(gains, best.weights):
        return linear
    solver = AdamTraining if isinstance(best.description, Network) else TreesTraining
    return solver(linear.estimator, linear.inference, *linear.data, best.description, best).cross_validate()


def _is_cheap(network, linear):
    """Tell whether the first epochs of a network take about as long as the cross-validation of linear scores did."""
    n_train = len(linear.folds[0][0])
    n_ends = linear.X.values.shape[1] + linear.task.n_outputs
    n_products = first_epochs(n_train) * n_train * sum(network.hidden_layer_sizes) * n_ends
    return n_products <= _CHEAP * linear.n_products


def _forest_loss(linear):
    """Return the sum of the held-out losses of the first fold for a forest. It needs no compiled code of ours."""
    train, held = linear.folds[0]
    task = linear.task.take(train)
    known = np.broadcast_to(task.label_weights, task.gold.shape)
    rates = (known * task.gold).sum(axis=0) / np.maximum(known.sum(axis=0), np.finfo(float).tiny)
    # Unknown labels count as their frequency.
    targets = task.gold.astype(np.float64) if task.known is None else np.where(task.known, task.gold, rates)
    # A forest takes a single label as a vector.
    targets = targets[:, 0] if targets.shape[1] == 1 else targets
    forest = new_forest(len(train), linear.X.values.shape[1]).fit(linear.X.values[train], targets, task.weights)
    scores = forest.predict(linear.X.values[held]).reshape(len(held), -1)
    pooled = linear.inference.evidence(GivenScores(np.zeros(task.n_additional)), scores)
    return calibrated_losses(linear.inference, pooled, linear.task.take(held)).sum()


def _tried(linear, description, n_compared, lowest):
    """Return the trials of a score model on the first folds; None if its loss is not below the lowest one so far."""
    trials = Trials(linear, description)
    gain = 0.0
    for rival in lowest[:n_compared]:
        if not trials.add(rival.sum()):
            return None
        gains = np.concatenate(lowest[: len(trials.trials)]) - np.concatenate(trials.losses)
        gain = gains.sum()
        if is_clear_gain(-gains, trials.weights):
            # It is clearly worse.
            return None
    return trials if gain > 0.0 else None
