"""Fenchel-Young losses for structures."""

from ._fenchel_young import LOSSES, FenchelYoungLoss

__all__ = ["LOSSES", "FenchelYoungLoss"]
