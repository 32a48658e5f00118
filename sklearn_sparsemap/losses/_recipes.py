"""What makes a loss."""

from collections import namedtuple

# Its regularised argmax, and whether the cost of a wrong structure is part of its regulariser.
Recipe = namedtuple("Recipe", ["argmax", "margin"])
LOSSES = {
    "sparsemap": Recipe("sparsemap", False),
    "margin_sparsemap": Recipe("sparsemap", True),
    "perceptron": Recipe("map", False),
    "hinge": Recipe("map", True),
    "crf": Recipe("gibbs", False),
    "margin_crf": Recipe("gibbs", True),
}
