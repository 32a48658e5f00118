"""Marginals of Simplex: softmax."""

import numpy as np

from .._jit import as_oracle


@as_oracle
def simplex_marginals(scores, additional, dims, work, slots, additional_slots):
    """Compute the softmax; return the log of its normaliser."""
    n = scores.shape[0]
    top = -np.inf
    for i in range(n):
        top = scores[i] if scores[i] > top else top
    if top == -np.inf:
        return top
    total = 0.0
    for i in range(n):
        work[i] = np.exp(scores[i] - top)
        total += work[i]
    for i in range(n):
        work[i] /= total
    return top + np.log(total)


def simplex_marginal_work(dims):
    """Return the length of `work` that `simplex_marginals` needs."""
    return int(dims[0])
