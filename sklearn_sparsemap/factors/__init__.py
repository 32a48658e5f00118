"""Factor graphs: binary variables joined by logic, scores of pairs, and whole structures; constraints on labels."""

from ._graph import FactorGraph
from ._hierarchy import Hierarchy
from ._label_constraints import Label
from ._logic import AndOut, OrOut, Pair, StructureFactor, XorOut
from ._rules import AtLeast, AtMost, AtMostOne, Budget, Exactly, Exclusive, Iff, Implies, Imply, Knapsack, Or, Xor
from ._tables import PairTable, grid_graph
from ._trees import second_order_tree
from ._variables import Condition, WeightedSum

__all__ = [
    "AndOut",
    "AtLeast",
    "AtMost",
    "AtMostOne",
    "Budget",
    "Condition",
    "Exactly",
    "Exclusive",
    "FactorGraph",
    "Hierarchy",
    "Iff",
    "Implies",
    "Imply",
    "Knapsack",
    "Label",
    "Or",
    "OrOut",
    "Pair",
    "PairTable",
    "StructureFactor",
    "WeightedSum",
    "Xor",
    "XorOut",
    "grid_graph",
    "second_order_tree",
]
