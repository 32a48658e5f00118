"""Fenchel-Young losses for structures."""

from ._fenchel_young import FenchelYoungLoss
from ._recipes import LOSSES

__all__ = ["LOSSES", "FenchelYoungLoss"]
