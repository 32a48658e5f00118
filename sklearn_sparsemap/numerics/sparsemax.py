"""Projections onto the simplex, a row at a time, that start where the last one ended."""

import numpy as np

from .._core.jit import kernel

# A sum that is this close to 1, in units of the last place of its terms, is 1.
_ROUNDING = 4e-16


@kernel(fast_sums=True)
def _excess(scores, threshold):
    """Return the sum of what is above the threshold, and how many scores are."""
    total, count = 0.0, 0.0
    for i in range(scores.shape[0]):
        above = scores[i] - threshold
        total += above if above > 0.0 else 0.0
        count += 1.0 if above > 0.0 else 0.0
    return total, count


@kernel(no_nans=True)
def highest(scores):
    """Return the largest score."""
    best = -np.inf
    for i in range(scores.shape[0]):
        best = scores[i] if scores[i] > best else best
    return best


@kernel
def lower_to_zero(scores):
    """Take off the best score, which costs no digits then; return the largest difference, and how many are forbidden.

    Where all are forbidden, they stay so.
    """
    top, size, n_forbidden = highest(scores), 0.0, 0
    for i in range(scores.shape[0]):
        if scores[i] > -np.inf:
            scores[i] -= top
            size = max(size, -scores[i])
        else:
            n_forbidden += 1
    return size, n_forbidden


@kernel
def sparsemax(scores, threshold, u):
    """Project `scores` onto the simplex into `u`; return the threshold and the size of the support.

    Newton's method from a guess of the threshold. One step lands at or below the root; from there the threshold only
    rises and the support only shrinks, so that the method ends once the support stays.
    """
    n = scores.shape[0]
    total, count = _excess(scores, threshold)
    for attempt in range(n + 3):
        if count == 0.0:
            # Above all scores, by the guess or by the rounding of a large step: just below the best is always sound.
            threshold = highest(scores) - 1.0
            total, count = _excess(scores, threshold)
        if abs(total - 1.0) <= _ROUNDING * count:
            break
        threshold += (total - 1.0) / count
        before = count
        total, count = _excess(scores, threshold)
        if attempt > 0 and count >= before:
            break
    for i in range(n):
        above = scores[i] - threshold
        u[i] = above if above > 0.0 else 0.0
    return threshold, count


@kernel
def prefer_facets(scores, n_rows, n_cols, enough):
    """Judge a matrix of scores by the supports that its lines have on their own.

    Facets are likely to be quicker than structures where a line has ``enough[0]`` entries in its support, and all
    together ``enough[1]`` more. Lines are on the shorter side. Of one with a row more than columns an arc from a word
    to itself is left out: for a matching, that changes little.
    """
    across = n_rows <= n_cols
    n, m = min(n_rows, n_cols), max(n_rows, n_cols)
    line, u = np.empty(m), np.empty(m)
    total, threshold = 0.0, np.inf
    for a in range(n):
        for b in range(m):
            line[b] = scores[a * n_cols + b if across else b * n_cols + a]
        if m == n + 1 and not across:
            line[a + 1] = -np.inf
        threshold, count = sparsemax(line, threshold, u)
        total += count
    return total >= enough[0] * n + enough[1]
