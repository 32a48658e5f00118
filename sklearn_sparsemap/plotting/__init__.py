"""Pictures of what SparseMAP selects and learns, and of how its solvers converge. They need matplotlib (``[plot]``)."""

from ._chain import ChainDisplay
from ._convergence import ConvergenceDisplay
from ._graph import FactorGraphDisplay
from ._label_graph import LabelGraphDisplay
from ._matching import MatchingDisplay
from ._parts import PartsDisplay
from ._tree import TreeDisplay

__all__ = [
    "ChainDisplay",
    "ConvergenceDisplay",
    "FactorGraphDisplay",
    "LabelGraphDisplay",
    "MatchingDisplay",
    "PartsDisplay",
    "TreeDisplay",
]
