"""Where structures meet solvers: MAP, SparseMAP and marginal inference."""

from ._public import map_inference, marginal_inference, sparsemap

__all__ = ["map_inference", "marginal_inference", "sparsemap"]
