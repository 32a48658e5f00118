"""SparseMAP and LP-SparseMAP in JAX programs: differentiable structured layers for padded batches."""

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    raise ImportError(
        "sklearn_sparsemap.jax needs JAX, which is not installed: pip install 'sklearn-sparsemap[jax]'"
    ) from error

from ._public import lp_sparsemap, sparsemap
from ._surrogates import map_inference

__all__ = ["lp_sparsemap", "map_inference", "sparsemap"]
