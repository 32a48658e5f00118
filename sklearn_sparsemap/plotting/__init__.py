"""Plots of the structures that SparseMAP selects, of learned models, solver convergence, and group selection.

All plots need matplotlib. Plots of graphs and of orders of groups also need networkx. Both are in the extra ``plot``.
"""

from ._calibration import LabelCalibrationDisplay
from ._convergence import ConvergenceDisplay
from ._coverage import ConformalCoverageDisplay
from ._graphs.factor_graph import FactorGraphDisplay
from ._graphs.hierarchy import HierarchyDisplay
from ._graphs.label_graph import LabelGraphDisplay
from ._inspection import ExplanationDisplay, FeatureTableDisplay, LabelConfusionDisplay, TransitionsDisplay
from ._loss_curve import LossCurveDisplay
from ._selection.coefficients import CoefficientPathDisplay
from ._selection.curves import GroupPathDisplay, MemoryCurveDisplay
from ._selection.group_order import GroupOrderDisplay
from ._structures.matching import MatchingDisplay
from ._structures.parts import PartsDisplay
from ._structures.sequences import ChainDisplay, RankingDisplay, SegmentationDisplay
from ._structures.spans import SpansDisplay
from ._structures.tree import TreeDisplay

__all__ = [
    "ChainDisplay",
    "CoefficientPathDisplay",
    "ConformalCoverageDisplay",
    "ConvergenceDisplay",
    "ExplanationDisplay",
    "FactorGraphDisplay",
    "FeatureTableDisplay",
    "GroupOrderDisplay",
    "GroupPathDisplay",
    "HierarchyDisplay",
    "LabelCalibrationDisplay",
    "LabelConfusionDisplay",
    "LabelGraphDisplay",
    "LossCurveDisplay",
    "MatchingDisplay",
    "MemoryCurveDisplay",
    "PartsDisplay",
    "RankingDisplay",
    "SegmentationDisplay",
    "SpansDisplay",
    "TransitionsDisplay",
    "TreeDisplay",
]
