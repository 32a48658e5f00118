"""Fenchel-Young losses by name, and their common formula.

Used by `_layers`, `torch`, `_decisions.py`, `_fenchel_young.py` and `_graphs.py`.
"""

from collections import namedtuple

# A loss: its regularised argmax, and whether the regulariser contains the cost of wrong structures.
Recipe = namedtuple("Recipe", ["argmax", "margin"])


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


LOSSES = {
    "sparsemap": Recipe("sparsemap", False),
    "margin_sparsemap": Recipe("sparsemap", True),
    "perceptron": Recipe("map", False),
    "hinge": Recipe("map", True),
    "crf": Recipe("gibbs", False),
    "margin_crf": Recipe("gibbs", True),
}
