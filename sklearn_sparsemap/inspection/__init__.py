"""Inspection of a model's weights and predictions."""

from ._explain import Explanation, explain
from ._tables import feature_table, label_table, transition_table

__all__ = ["Explanation", "explain", "feature_table", "label_table", "transition_table"]
