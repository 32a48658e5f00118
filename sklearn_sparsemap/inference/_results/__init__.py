"""Results of inference: marginals, supports and certificates."""

from .graph import LPSparseMAPResult
from .graph_batch import LPSparseMAPBatch
from .structure import MAPResult, MarginalResult, SparseMAPResult
from .structure_batch import MAPBatch, MarginalBatch, SparseMAPBatch

__all__ = [
    "LPSparseMAPBatch",
    "LPSparseMAPResult",
    "MAPBatch",
    "MAPResult",
    "MarginalBatch",
    "MarginalResult",
    "SparseMAPBatch",
    "SparseMAPResult",
]
