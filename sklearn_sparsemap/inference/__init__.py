"""MAP, SparseMAP, LP-SparseMAP and marginal inference over structures and factor graphs, and their results."""

from ._entropy import entropy
from ._graph.problems import lp_sparsemap
from ._n_best import n_best
from ._public import map_inference, marginal_inference, sparsemap
from ._results import (
    LPSparseMAPBatch,
    LPSparseMAPResult,
    MAPBatch,
    MAPResult,
    MarginalBatch,
    MarginalResult,
    SparseMAPBatch,
    SparseMAPResult,
)

__all__ = [
    "LPSparseMAPBatch",
    "LPSparseMAPResult",
    "MAPBatch",
    "MAPResult",
    "MarginalBatch",
    "MarginalResult",
    "SparseMAPBatch",
    "SparseMAPResult",
    "entropy",
    "lp_sparsemap",
    "map_inference",
    "marginal_inference",
    "n_best",
    "sparsemap",
]
