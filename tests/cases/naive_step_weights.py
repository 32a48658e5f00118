"""Slow, obvious twin of the losses of label sequences whose steps have weights."""

import numpy as np
from naive import enumerate_chain
from scipy.special import logsumexp

from sklearn_sparsemap import sparsemap
from sklearn_sparsemap.structures import LinearChain


def regularised_maximum(loss, scores, names):
    """Return the regularised maximum of scores, over all label sequences."""
    if loss == "sparsemap":
        return sparsemap(LinearChain(), scores, **names).objective
    totals = enumerate_chain(scores, **names)[2]
    return logsumexp(totals) if loss == "crf" else totals.max()


def step_weighted_loss(loss, scores, names, gold, weights, temperature=1.0, cost=None):
    """Return the sum over the levels of the weights of the loss over the sequences that equal gold below the level.

    Parameters
    ----------
    loss : str
    scores : array of shape (n_steps, n_labels)
    names : dict
        Additional scores.
    gold : int array of shape (n_steps,)
    weights : array of shape (n_steps,)
    temperature : float
    cost : array of shape (n_labels, n_labels)
    """
    scores, names = scores / temperature, {name: values / temperature for name, values in names.items()}
    n_steps, n_labels = scores.shape
    argmax = {"perceptron": "map", "hinge": "map"}.get(loss, loss.removeprefix("margin_"))
    has_margin = loss == "hinge" or loss.startswith("margin_")
    cost = 1.0 - np.eye(n_labels) if cost is None else cost
    is_gold = np.arange(n_labels) == gold[:, None]
    gold_score = scores[is_gold].sum() + names["transitions"][gold[:-1], gold[1:]].sum()
    gold_score += names["start"][gold[0]] + names["end"][gold[-1]]
    total, below = 0.0, 0.0
    for level in np.unique(weights[weights > 0.0]):
        allowed = np.where(is_gold | (weights >= level)[:, None], scores, -np.inf)
        if has_margin:
            allowed = allowed + cost[gold]
        omega = -0.5 * n_steps if argmax == "sparsemap" else 0.0
        total += (level - below) * (regularised_maximum(argmax, allowed, names) - omega - gold_score)
        below = level
    return temperature * total
