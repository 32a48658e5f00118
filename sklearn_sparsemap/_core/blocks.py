"""Samples in blocks, whose dense scores fit into memory.

Used by `_training`, `estimators` and `metrics`.
"""

import numpy as np
from scipy import sparse


def blocks(n_samples, n_labels, n_cells=2**22):
    """Split samples into slices with at most this many scores (but at least one sample)."""
    size = max(1, n_cells // n_labels)
    return [slice(start, min(start + size, n_samples)) for start in range(0, n_samples, size)]


def dense(gold):
    """Return gold labels as a dense float64 array."""
    return np.asarray(gold.toarray() if sparse.issparse(gold) else gold, dtype=np.float64)
