"""Slow, obvious twins of conformal sets, by enumeration."""

import naive
import numpy as np


def naive_reduced_costs(M, totals, varies, u=None):
    """Return the nonconformity of all structures.

    Parameters
    ----------
    M : array of shape (n_parts, n_structures)
        The unary parts of each structure.
    totals : array of shape (n_structures,)
        Total scores over the temperature, for SparseMAP.
    varies : bool
        Whether structures differ in their number of parts.
    u : array of shape (n_parts,), default=None
        SparseMAP marginals; computed by default.
    """
    u = naive.solve_qp(M, totals)[0] if u is None else u
    objective = totals - 0.5 * (M**2).sum(axis=0) if varies else totals
    reduced = totals - u @ M
    mean = 0.5 * (objective + reduced)
    return mean.max() - mean


def naive_risk_threshold(of_parts, level):
    """Return the least value at which the mean risk, and that of one more sample, is at most 1 - level."""
    for value in sorted(np.concatenate(of_parts)):
        risks = [np.mean(own > value) for own in of_parts]
        if (sum(risks) + 1.0) / (len(risks) + 1.0) <= 1.0 - level + 1e-9:
            return value
    return np.inf


def naive_threshold(nonconformity, level):
    """Return the smallest value that is at least as large as (n + 1) * level of the nonconformities."""
    for value in sorted(nonconformity):
        if (np.asarray(nonconformity) <= value).sum() >= (len(nonconformity) + 1) * level - 1e-9:
            return value
    return np.inf
