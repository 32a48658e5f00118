"""Weights of arcs for the Matrix-Tree theorem: scores normalised to probabilities of each word's heads.

This keeps products over trees from overflowing. Arc (h, m), with 0 as the root, is at ``h * n + m - 1``; entries with h
== m are arbitrary in scores, and zero in weights.
"""

import numpy as np

from ..._core.jit import copy_into, kernel
from .._exp import exponentiate

# The product of two weights within these bounds, divided by a third, is a normal number.
SMALLEST, LARGEST = 1e-140, 1e140


@kernel
def log_weights(scores, n, single_root, weights):
    """Normalise the scores of each word's heads to log-probabilities; return what this subtracts from every tree.

    With a single root, the root is left out of the normalisation, and its scores are shifted to a maximum of 0.
    """
    total = 0.0
    for m in range(1, n + 1):
        top = -np.inf
        for h in range(single_root, n + 1):
            top = scores[h * n + m - 1] if h != m and scores[h * n + m - 1] > top else top
        if top == -np.inf:
            # With a single root, only the root can be the head. Otherwise there is no tree, which the elimination
            # detects.
            top = scores[m - 1]
            if top == -np.inf:
                return top
        norm = 0.0
        for h in range(n + 1):
            at = h * n + m - 1
            weights[at] = scores[at] - top if h != m else -np.inf
            if h >= single_root:
                norm += np.exp(weights[at])
        norm = np.log(norm) if norm > 0.0 else 0.0
        for h in range(n + 1):
            weights[h * n + m - 1] -= norm
        total += top + norm
    if single_root:
        top = -np.inf
        for m in range(n):
            top = max(top, weights[m])
        if top == -np.inf:
            return top
        for m in range(n):
            weights[m] -= top
        total += top
    return total


@kernel(no_nans=True)
def _take_larger(tops, row):
    for m in range(tops.shape[0]):
        tops[m] = max(tops[m], row[m])


@kernel
def _any_too_small(weights, scores):
    found = False
    for i in range(weights.shape[0]):
        found |= weights[i] < SMALLEST and scores[i] > -np.inf
    return found


@kernel
def weights_of(scores, n, single_root, weights, scratch, more_scratch):
    """Fill `weights` with the exponentials of the result of `log_weights`; return the same value.

    NaN means that an allowed arc has a weight below SMALLEST. Both scratch arrays are as long as the scores.
    """
    tops, norms = scratch[:n], scratch[n : 2 * n]
    copy_into(weights, scores)
    for m in range(n):
        weights[(m + 1) * n + m] = tops[m] = -np.inf
        norms[m] = 0.0
    for h in range(single_root, n + 1):
        _take_larger(tops, weights[h * n : (h + 1) * n])
    total = root_top = 0.0
    for m in range(n):
        # With a single root, a word may have no head except the root.
        tops[m] = weights[m] if tops[m] == -np.inf else tops[m]
        if tops[m] == -np.inf:
            return tops[m]
        total += tops[m]
    for h in range(n + 1):
        row = weights[h * n : (h + 1) * n]
        for m in range(n):
            row[m] -= tops[m]
    exponentiate(weights[single_root * n :], more_scratch)
    for h in range(single_root, n + 1):
        row = weights[h * n : (h + 1) * n]
        for m in range(n):
            norms[m] += row[m]
    for m in range(n):
        norms[m] = norms[m] if norms[m] > 0.0 else 1.0
        tops[m] = np.log(norms[m])
        total += tops[m]
        norms[m] = 1.0 / norms[m]
    for h in range(single_root, n + 1):
        row = weights[h * n : (h + 1) * n]
        for m in range(n):
            row[m] *= norms[m]
    if single_root:
        root_top = -np.inf
        for m in range(n):
            weights[m] -= tops[m]
            root_top = max(root_top, weights[m])
        if root_top == -np.inf:
            return root_top
        for m in range(n):
            weights[m] -= root_top
        exponentiate(weights[:n], more_scratch)
    for m in range(n):
        weights[(m + 1) * n + m] = 1.0
    too_small = _any_too_small(weights, scores)
    for m in range(n):
        weights[(m + 1) * n + m] = 0.0
    return np.nan if too_small else total + root_top
