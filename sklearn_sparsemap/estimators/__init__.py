"""scikit-learn estimators: they validate, build, train, and name the attributes."""

from ._structured import StructuredSparseMAPClassifier

__all__ = ["StructuredSparseMAPClassifier"]
