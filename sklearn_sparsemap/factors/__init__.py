"""Factor graphs: binary variables joined by logic, scores of pairs, and whole structures."""

from ._graph import FactorGraph
from ._logic import (
    AndOut,
    AtMostOne,
    Budget,
    Imply,
    Knapsack,
    Or,
    OrOut,
    Pair,
    StructureFactor,
    Xor,
    XorOut,
)

__all__ = [
    "AndOut",
    "AtMostOne",
    "Budget",
    "FactorGraph",
    "Imply",
    "Knapsack",
    "Or",
    "OrOut",
    "Pair",
    "StructureFactor",
    "Xor",
    "XorOut",
]
