"""Pictures of what SparseMAP selects and learns, and of how solvers converge and groups of features are chosen.

They need matplotlib (``[plot]``).
"""

from ._chain import ChainDisplay
from ._convergence import ConvergenceDisplay
from ._graph import FactorGraphDisplay
from ._group_order import GroupOrderDisplay
from ._group_path import GroupPathDisplay
from ._label_graph import LabelGraphDisplay
from ._matching import MatchingDisplay
from ._memory_curve import MemoryCurveDisplay
from ._parts import PartsDisplay
from ._tree import TreeDisplay

__all__ = [
    "ChainDisplay",
    "ConvergenceDisplay",
    "FactorGraphDisplay",
    "GroupOrderDisplay",
    "GroupPathDisplay",
    "LabelGraphDisplay",
    "MatchingDisplay",
    "MemoryCurveDisplay",
    "PartsDisplay",
    "TreeDisplay",
]
