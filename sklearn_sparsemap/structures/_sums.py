"""Steps of dynamic programs: the largest sum of two arrays, and sums of exponentials, given as logarithms.

Used by `structures/_alignment`, `structures/_chain`, `structures/_head_automaton`, `structures/_path`,
`structures/_segmentation`, `structures/_simplex` and `structures/_tree`.
"""

import numpy as np

from .._core.jit import kernel


@kernel
def larger(a, b):
    """Return the larger one of two numbers."""
    return b if b > a else a


@kernel(no_nans=True)
def highest_sum(a, b):
    """Return the largest ``a[k] + b[k]``."""
    best = -np.inf
    for k in range(a.shape[0]):
        total = a[k] + b[k]
        best = total if total > best else best
    return best


@kernel
def where_highest(a, b):
    """Return the first index of the largest ``a[k] + b[k]``; 0 if all are -inf."""
    place = np.int64(0)
    best = -np.inf
    for k in range(a.shape[0]):
        total = a[k] + b[k]
        if total > best:
            place, best = k, total
    return place


@kernel
def add_logs(a, b):
    """Return log(exp(a) + exp(b))."""
    high = max(a, b)
    low = min(a, b)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))


@kernel
def log_sum(a, b):
    """Return the logarithm of the sum of ``exp(a[k] + b[k])``."""
    top = highest_sum(a, b)
    norm = 0.0
    if top == -np.inf:
        return top
    for k in range(a.shape[0]):
        norm += np.exp(a[k] + b[k] - top)
    return top + np.log(norm)


@kernel
def softmax(values):
    """Replace shifted scores by their softmax; return the log of the normaliser."""
    norm = 0.0
    for j in range(values.shape[0]):
        values[j] = np.exp(values[j])
        norm += values[j]
    for j in range(values.shape[0]):
        values[j] /= norm
    return np.log(norm)
