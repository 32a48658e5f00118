"""Descriptions of score models, for the parameter `score_model` of estimators."""

from ._descriptions import Network, Trees

__all__ = ["Network", "Trees"]
