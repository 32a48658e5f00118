"""Factor graphs: binary variables joined by logic, scores of pairs, and whole structures; constraints on labels."""

from ._graph import FactorGraph
from ._hierarchy import Hierarchy
from ._label_constraints import AtLeast, AtMost, AtMostOne, Budget, Exactly, Exclusive, Implies, Imply, Label, Or, Xor
from ._logic import AndOut, Knapsack, OrOut, Pair, StructureFactor, XorOut
from ._tables import PairTable, grid_graph

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
    "PairTable",
    "StructureFactor",
    "Xor",
    "XorOut",
    "grid_graph",
]
