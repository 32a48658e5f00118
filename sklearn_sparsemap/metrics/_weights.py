"""Weights of samples, and the mean that they give."""

import numpy as np

from .._core.validation import check_numbers


def check_sample_weight(sample_weight, n_samples):
    """Return the weights of samples as an array; None means that all weigh the same."""
    if sample_weight is None:
        return np.ones(n_samples)
    weights = check_numbers(sample_weight, "sample_weight")
    if weights.shape != (n_samples,):
        raise ValueError(f"sample_weight must have shape ({n_samples},), one weight a sample; got {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must be finite and non-negative")
    return weights


def weighted_mean(values, weights):
    """Return the mean as a float."""
    total = weights.sum()
    if total == 0:
        raise ValueError("sample_weight gives no weight to any label; make at least one positive")
    return float(values @ weights / total)
