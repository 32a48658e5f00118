"""SparseMAP and LP-SparseMAP inside PyTorch networks: differentiable structured layers for padded batches."""

from .._core.extras import import_extra

import_extra("torch", "torch", "sklearn_sparsemap.torch")

from ._decisions import PerturbedFenchelYoungLoss, SPOPlusLoss
from ._losses import ExpectedCost, FenchelYoungLoss
from ._modules import LPSparseMAP, SparseMAP
from ._public import SelectedStructures, lp_sparsemap, sparsemap
from ._surrogates import map_inference

__all__ = [
    "ExpectedCost",
    "FenchelYoungLoss",
    "LPSparseMAP",
    "PerturbedFenchelYoungLoss",
    "SPOPlusLoss",
    "SelectedStructures",
    "SparseMAP",
    "lp_sparsemap",
    "map_inference",
    "sparsemap",
]
