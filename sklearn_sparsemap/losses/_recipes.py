"""The components of a loss."""

from collections import namedtuple

# The regularised argmax, and whether the cost of a wrong structure is part of the regulariser.
Recipe = namedtuple("Recipe", ["argmax", "margin"])
LOSSES = {
    "sparsemap": Recipe("sparsemap", False),
    "margin_sparsemap": Recipe("sparsemap", True),
    "perceptron": Recipe("map", False),
    "hinge": Recipe("map", True),
    "crf": Recipe("gibbs", False),
    "margin_crf": Recipe("gibbs", True),
}
