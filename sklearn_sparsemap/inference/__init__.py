"""Where structures meet solvers: MAP, SparseMAP, LP-SparseMAP and marginal inference."""

from ._graph.solve import lp_sparsemap
from ._n_best import n_best
from ._public import map_inference, marginal_inference, sparsemap

__all__ = ["lp_sparsemap", "map_inference", "marginal_inference", "n_best", "sparsemap"]
