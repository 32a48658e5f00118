"""Conformal prediction: sets of structures that contain the gold structure with a chosen probability."""

from ._conformal import ConformalStructures

__all__ = ["ConformalStructures"]
