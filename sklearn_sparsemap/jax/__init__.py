"""SparseMAP and LP-SparseMAP in JAX programs: differentiable structured layers for padded batches."""

from .._core.extras import import_extra

import_extra("jax", "jax", "sklearn_sparsemap.jax")

from ._public import lp_sparsemap, sparsemap
from ._surrogates import map_inference

__all__ = ["lp_sparsemap", "map_inference", "sparsemap"]
