"""Factor graphs: binary variables joined by logic, scores of pairs, and whole structures; constraints on labels."""

from ._graph import FactorGraph
from ._hierarchy import Hierarchy
from ._label_constraints import AtLeast, AtMost, Exactly, Exclusive, Implies, Label
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
    "Label",
    "Or",
    "OrOut",
    "Pair",
    "StructureFactor",
    "Xor",
    "XorOut",
]
