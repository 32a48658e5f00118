"""Projections of rows onto the simplex, warm started at the previous threshold.

Used by `_graphs`, `structures`, `inside_outside.py`, `newton.py` and `rows.py`.
"""

import numpy as np

from .._core.jit import kernel

# A sum counts as 1 if it differs from 1 by at most this times the number of its terms.
_ROUNDING = 4e-16


@kernel(fast_sums=True)
def _excess(scores, threshold):
    """Return the sum of the excess of scores above the threshold, and the number of these scores."""
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
    """Subtract the best score, which avoids loss of digits; return the largest difference and the number of -inf.

    If all scores are -inf, they stay so.
    """
    top = highest(scores)
    size = 0.0
    n_forbidden = 0
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

    Newton's method from an initial threshold. The first step lands at or below the root. After that the threshold only
    rises and the support only shrinks, so the method ends when the support stays the same.
    """
    n = scores.shape[0]
    total, count = _excess(scores, threshold)
    for attempt in range(n + 3):
        if count == 0.0:
            # The guess, or rounding of a large step, is above all scores: restart at a threshold that is always low
            # enough.
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


@kernel(no_nans=True)
def _n_near(scores, least):
    """Return the number of scores above a value."""
    count = 0.0
    for i in range(scores.shape[0]):
        count += 1.0 if scores[i] > least else 0.0
    return count


@kernel
def supports_reach(scores, n_rows, n_cols, enough, skips_own):
    """Tell whether the sparsemax supports of the lines of a matrix of scores have a total size of at least `enough`.

    There is one line for each index of the shorter axis. If `skips_own`, the matrix has one row more than columns, and
    each line k is without its entry k + 1.
    """
    across = n_rows <= n_cols
    n = min(n_rows, n_cols)
    m = max(n_rows, n_cols)
    line = np.empty(m)
    u = np.empty(m)
    total, threshold = 0.0, np.inf
    for a in range(n):
        for b in range(m):
            line[b] = scores[a * n_cols + b if across else b * n_cols + a]
        if skips_own:
            line[a + 1] = -np.inf
        # The support has no scores that are lower than the best one by 1.
        count = _n_near(line, highest(line) - 1.0)
        if count > 1.0:
            threshold, count = sparsemax(line, threshold, u)
        total += count
        if total >= enough:
            return True
    return False
