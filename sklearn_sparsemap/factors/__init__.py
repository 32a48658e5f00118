"""Factor graphs: binary variables joined by logic, scores of pairs, and whole structures; constraints on labels."""

from ._graph import FactorGraph
from ._label_constraints import AtLeast, AtMost, Exactly, Exclusive, Hierarchy, Implies
from ._logic import AndOut, AtMostOne, Budget, Imply, Knapsack, Or, OrOut, Pair, StructureFactor, Xor, XorOut

__all__ = [
    "AndOut",
    "AtLeast",
    "AtMost",
    "AtMostOne",
    "Budget",
    "Exactly",
    "Exclusive",
    "FactorGraph",
    "Hierarchy",
    "Implies",
    "Imply",
    "Knapsack",
    "Or",
    "OrOut",
    "Pair",
    "StructureFactor",
    "Xor",
    "XorOut",
]
