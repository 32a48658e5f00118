"""Differences between the pairs of marginals and those of gold labels, in graphs of pairs only.

Used by `inference`.
"""

import numpy as np
from numba import types

from .._core.jit import FLOATS, FLOATS_2D, FLOATS_OUT, INTS, INTS_2D, entry
from .presolve import pair_marginal


@entry(types.void(FLOATS_2D, FLOATS_2D, FLOATS, INTS, INTS, INTS_2D, FLOATS, FLOATS_OUT, FLOATS_OUT))
def add_pair_residuals(marginals, gold, weights, slot_ptr, slots, pair_ends, scores, out, gold_scores):
    """Sum the differences between the marginals of pairs and the gold pairs; no literal may be negated.

    Parameters
    ----------
    marginals, gold : arrays of shape (n_samples, n_labels)
    weights : array of shape (n_samples,)
        Sample weights.
    slot_ptr, slots, pair_ends
        See `GraphArrays`.
    scores : array of shape (n_pairs,)
    out : array of shape (n_pairs,)
        The weighted differences are added to it.
    gold_scores : array of shape (n_samples,)
        The scores of the gold pairs are added to it.
    """
    n_labels = marginals.shape[1]
    used = np.zeros(n_labels, np.bool_)
    for row in range(marginals.shape[0]):
        u, y, weight = marginals[row], gold[row], weights[row]
        for i in range(n_labels):
            used[i] = u[i] > 0.0 or y[i] > 0.0
        for i in range(n_labels):
            if not used[i]:
                continue
            for slot in range(slot_ptr[i], slot_ptr[i + 1]):
                e = slots[slot] // 2
                j = pair_ends[e, 1]
                if slots[slot] % 2 == 0 and used[j]:
                    both = y[i] * y[j]
                    out[e] += weight * (pair_marginal(scores[e], u[i], u[j]) - both)
                    gold_scores[row] += scores[e] * both
