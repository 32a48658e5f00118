"""How structures are inferred: arrays and an oracle in; marginals, support and a certificate out."""

from ._batch_result import LPSparseMAPBatch, MAPBatch, MarginalBatch, SparseMAPBatch
from ._graph.result import LPSparseMAPResult
from ._polytope.result import MAPResult, MarginalResult, SparseMAPResult

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
