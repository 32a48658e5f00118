"""scikit-learn estimators: they validate, build, train, and name the attributes."""

from ._multilabel import MultilabelLPSparseMAP
from ._perceptron import GroupLassoPerceptron
from ._structured import StructuredSparseMAPClassifier

__all__ = ["GroupLassoPerceptron", "MultilabelLPSparseMAP", "StructuredSparseMAPClassifier"]
