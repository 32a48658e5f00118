"""Losses of structures by name, and the common formula of the Fenchel-Young losses.

Used by `_layers`, `_training`, `estimators`, `torch`, `_decisions.py`, `_fenchel_young.py` and `_graphs.py`.
"""

from collections import namedtuple

import numpy as np

from .._core.validation import LARGEST_SCORE

# A loss: its regularised argmax, whether it depends on the cost of wrong structures, and whether it is the expected
# cost, which is no Fenchel-Young loss. The argmax is then the distribution of the expectation.
Recipe = namedtuple("Recipe", ["argmax", "margin", "expected"], defaults=[False])


def fenchel_young(recipe, values, squares, missing, gold_scores):
    """Return the losses ``max_q [scores.q - Omega(q)] + Omega(gold) - scores.gold`` of arrays or tensors.

    Parameters
    ----------
    recipe : Recipe
    values : array of shape (n_samples,)
        The regularised maxima. With a margin, their scores include the cost.
    squares : array of shape (n_samples,)
        Squared norms of gold.
    missing : float, or array of shape (n_samples,)
        Cost of a missing part.
    gold_scores : array of shape (n_samples,)
        Scores of gold, without the cost.
    """
    quadratic = 0.5 if recipe.argmax == "sparsemap" else 0.0
    return values + (quadratic + missing) * squares - gold_scores


def check_quotient(temperature, *arrays):
    """Raise ValueError if scores, divided by the temperature, are so large that sums of them overflow."""
    largest = max(np.abs(own[np.isfinite(own)]).max(initial=0.0) for own in arrays)
    # Not by the quotient, which may overflow.
    if largest > LARGEST_SCORE * temperature:
        raise ValueError(
            f"scores of {largest:g} divided by temperature={temperature:g} are beyond {LARGEST_SCORE:g}, with which "
            "sums overflow; choose a higher temperature"
        )


LOSSES = {
    "sparsemap": Recipe("sparsemap", False),
    "margin_sparsemap": Recipe("sparsemap", True),
    "perceptron": Recipe("map", False),
    "hinge": Recipe("map", True),
    "crf": Recipe("gibbs", False),
    "margin_crf": Recipe("gibbs", True),
}
# All losses with which estimators learn structures.
TRAINED = {**LOSSES, "expected_cost": Recipe("gibbs", True, True)}
