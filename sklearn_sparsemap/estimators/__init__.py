"""scikit-learn estimators, and functions that choose among groups of features."""

from ._fitting import Monitor
from ._multilabel.classifier import MultilabelLPSparseMAP
from ._selection.path import GroupPath, group_path
from ._selection.stability import StabilitySelection, stability_selection
from ._state.mixture import average_states
from ._state.state import TrainingState
from ._structured.classifier import StructuredSparseMAPClassifier
from ._structured.perceptron import GroupLassoPerceptron

__all__ = [
    "GroupLassoPerceptron",
    "GroupPath",
    "Monitor",
    "MultilabelLPSparseMAP",
    "StabilitySelection",
    "StructuredSparseMAPClassifier",
    "TrainingState",
    "average_states",
    "group_path",
    "stability_selection",
]
