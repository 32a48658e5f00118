"""Weights of arcs for the Matrix-Tree theorem: scores normalised to probabilities of each word's heads.

This keeps products over trees from overflowing. Arc (h, m), with 0 as the root, is at ``h * n + m - 1``; entries with h
== m are arbitrary in scores, and zero in weights.

Used by `matrix_tree.py`.
"""

import numpy as np

from ..._core.jit import copy_into, kernel
from .._exp import exponentiate

# The product of two weights within these bounds, divided by a third, is a normal number.
SMALLEST, LARGEST = 1e-140, 1e140


@kernel(no_nans=True)
def _take_larger(tops, row):
    for m in range(tops.shape[0]):
        tops[m] = max(tops[m], row[m])


@kernel
def _any_too_small(weights, logs):
    found = False
    for i in range(weights.shape[0]):
        found |= weights[i] < SMALLEST and logs[i] > -np.inf
    return found


@kernel
def normalise(scores, n, single_root, weights, logs, scratch):
    """Normalise the scores of each word's heads to probabilities, `weights`, and to their logarithms, `logs`.

    With a single root, the root is left out of the normalisation, and its scores are shifted to a maximum of 0.

    Parameters
    ----------
    scores : array of shape ((n + 1) * n,)
    n : int
        Number of words.
    single_root : int
        1 or 0.
    weights, logs, scratch : arrays, shape of scores
        The results, and space for exponentials.

    Returns
    -------
    shift : float
        What this subtracts from the score of every tree; -inf if there is no tree.
    is_small : bool
        Whether an allowed arc has a weight below SMALLEST, so that only the logarithms can be used.
    """
    tops = np.empty(n)
    norms = np.zeros(n)
    copy_into(logs, scores)
    for m in range(n):
        logs[(m + 1) * n + m] = tops[m] = -np.inf
    for h in range(single_root, n + 1):
        _take_larger(tops, logs[h * n : (h + 1) * n])
    total = root_top = 0.0
    for m in range(n):
        # With a single root, a word may have no head except the root.
        tops[m] = logs[m] if tops[m] == -np.inf else tops[m]
        if tops[m] == -np.inf:
            return tops[m], False
        total += tops[m]
    for h in range(n + 1):
        row = logs[h * n : (h + 1) * n]
        for m in range(n):
            row[m] -= tops[m]
    copy_into(weights, logs)
    exponentiate(weights[single_root * n :], scratch)
    for h in range(single_root, n + 1):
        row = weights[h * n : (h + 1) * n]
        for m in range(n):
            norms[m] += row[m]
    for m in range(n):
        norms[m] = norms[m] if norms[m] > 0.0 else 1.0
        tops[m] = np.log(norms[m])
        total += tops[m]
        norms[m] = 1.0 / norms[m]
    for h in range(n + 1):
        row, log_row = weights[h * n : (h + 1) * n], logs[h * n : (h + 1) * n]
        for m in range(n):
            row[m] *= norms[m]
            log_row[m] -= tops[m]
    if single_root:
        root_top = -np.inf
        for m in range(n):
            root_top = max(root_top, logs[m])
        if root_top == -np.inf:
            return root_top, False
        for m in range(n):
            logs[m] -= root_top
        copy_into(weights, logs[:n])
        exponentiate(weights[:n], scratch)
    return total + root_top, _any_too_small(weights, logs)
