"""What a model has learned, and why it predicts what it does."""

from ._explain import Explanation, explain
from ._tables import feature_table, transition_table

__all__ = ["Explanation", "explain", "feature_table", "transition_table"]
