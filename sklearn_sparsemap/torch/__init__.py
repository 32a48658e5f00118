"""SparseMAP and LP-SparseMAP inside PyTorch networks: differentiable structured layers for padded batches."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "sklearn_sparsemap.torch needs PyTorch, which is not installed: pip install 'sklearn-sparsemap[torch]'"
    ) from error

from ._decisions import PerturbedFenchelYoungLoss, SPOPlusLoss
from ._losses import FenchelYoungLoss
from ._modules import LPSparseMAP, SparseMAP
from ._public import SelectedStructures, lp_sparsemap, sparsemap
from ._surrogates import map_inference

__all__ = [
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
