"""scikit-learn estimators, and functions that choose among groups of features."""

from ._decisions import DecisionFocusedRegressor
from ._monitor import Monitor
from ._multilabel.classifier import MultilabelLPSparseMAP
from ._selection.out_of_fold import cross_val_marginals
from ._selection.path import GroupPath, perceptron_path
from ._selection.stability import StabilitySelection, stability_selection
from ._selection.strengths import StructuredGroupLassoCV, structured_group_lasso_path
from ._state.mixture import average_states
from ._state.state import TrainingState
from ._structured.classifier import StructuredSparseMAPClassifier
from ._structured.group_lasso import StructuredGroupLasso
from ._structured.perceptron import GroupLassoPerceptron

__all__ = [
    "DecisionFocusedRegressor",
    "GroupLassoPerceptron",
    "GroupPath",
    "Monitor",
    "MultilabelLPSparseMAP",
    "StabilitySelection",
    "StructuredGroupLasso",
    "StructuredGroupLassoCV",
    "StructuredSparseMAPClassifier",
    "TrainingState",
    "average_states",
    "cross_val_marginals",
    "perceptron_path",
    "stability_selection",
    "structured_group_lasso_path",
]
