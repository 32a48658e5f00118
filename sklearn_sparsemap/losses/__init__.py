"""Fenchel-Young losses for structures, and losses of decisions."""

from ._decisions import PerturbedFenchelYoungLoss, SPOPlusLoss
from ._fenchel_young import FenchelYoungLoss
from ._recipes import LOSSES

__all__ = ["LOSSES", "FenchelYoungLoss", "PerturbedFenchelYoungLoss", "SPOPlusLoss"]
