"""scikit-learn estimators, which validate, build, train, and name the attributes; and what chooses among groups."""

from ._multilabel import MultilabelLPSparseMAP
from ._perceptron import GroupLassoPerceptron
from ._selection import GroupPath, StabilitySelection, group_path, stability_selection
from ._structured import StructuredSparseMAPClassifier
from ._template_report import TemplateReport, template_report

__all__ = [
    "GroupLassoPerceptron",
    "GroupPath",
    "MultilabelLPSparseMAP",
    "StabilitySelection",
    "StructuredSparseMAPClassifier",
    "TemplateReport",
    "group_path",
    "stability_selection",
    "template_report",
]
