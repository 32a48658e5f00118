"""Factor graphs: binary variables joined by logic, scores of pairs, and whole structures; constraints on labels."""

from ._graph import FactorGraph
from ._hierarchy import Hierarchy
from ._label_constraints import AtLeast, AtMost, Exactly, Exclusive, Implies, Label
from ._logic import AndOut, AtMostOne, Budget, Imply, Knapsack, Or, OrOut, Pair, StructureFactor, Xor, XorOut
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
