"""How structures are inferred: arrays and an oracle in; marginals, support and a certificate out."""

from ._graph.batch_result import LPSparseMAPBatch
from ._graph.result import LPSparseMAPResult
from ._polytope.batch_result import MAPBatch, MarginalBatch, SparseMAPBatch
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
