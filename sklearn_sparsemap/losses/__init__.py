"""Losses for structures: Fenchel-Young losses and the expected cost. Losses of decisions."""

from ._decisions import PerturbedFenchelYoungLoss, SPOPlusLoss
from ._fenchel_young import ExpectedCost, FenchelYoungLoss
from ._recipes import LOSSES

__all__ = ["LOSSES", "ExpectedCost", "FenchelYoungLoss", "PerturbedFenchelYoungLoss", "SPOPlusLoss"]
