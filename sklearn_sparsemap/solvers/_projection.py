"""Closed forms of SparseMAP, for the structures that have one."""

import numpy as np

from .._jit import kernel


@kernel
def project_simplex(scores, marginals):
    """Project onto the probability simplex (sparsemax, S 2).

    Only scores within 1 of the best can take part. Starting from these, drop those at or below the threshold until
    none is left to drop (Michelot); each round is exact and a few are enough.

    Returns
    -------
    objective, gap : float
        The objective is -inf when every score is.
    """
    best = -np.inf
    for i in range(scores.shape[0]):
        best = scores[i] if scores[i] > best else best
    if best == -np.inf:
        marginals[:] = 0.0
        return -np.inf, 0.0
    threshold, count = -1.0, -1
    while True:
        total, kept = 0.0, 0
        for i in range(scores.shape[0]):
            above = scores[i] - best
            if above > threshold:
                total += above
                kept += 1
        if kept == count:
            break
        threshold, count = (total - 1.0) / kept, kept
    objective, value, reached = 0.0, -np.inf, 0.0
    for i in range(scores.shape[0]):
        # Relative to the best score, so that large scores cost no digits.
        above = scores[i] - best
        u = max(above - threshold, 0.0)
        marginals[i] = u
        value = max(value, above - u)
        if u > 0.0:
            objective += u * (above - 0.5 * u)
            reached += u * (above - u)
    return objective + best, max(value - reached, 0.0)
