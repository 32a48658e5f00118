"""Marginals of DependencyTree: the Matrix-Tree theorem, and the dispatch to projective or non-projective trees.

Sums over all trees (Koo et al. 2007, "Structured Prediction Models via the Matrix-Tree Theorem") are determinants.
Gaussian elimination subtracts, and loses all digits if scores differ much. Here words are eliminated without
subtraction (Grassmann, Taksar and Heyman 1985): if w[h, m] is the weight of an arc and D[k] the sum of w[h, k] over the
remaining heads h != k, then eliminating k adds w[h, k] w[k, m] / D[k] to w[h, m] (a word never heads itself), and the
sum over all trees is the product of the D. Marginals are its derivatives, by backpropagation through the elimination.

With a single root, the weights of the root's arcs are infinitesimal: the root is left out of D[k] unless k is the last
word.

In the code, k, h and m are positions: 0 is the root, and position 1, eliminated last, is not always word 1. Arc (h, m)
is at ``h * n + m - 1``; entries with h == m are arbitrary.

Used by `labels.py` and `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, copy_into, kernel
from .inside_outside import inside_outside, projective_work
from .weights import LARGEST, SMALLEST, normalise

# Failures that `_eliminate` reports: the weights span too wide a range for floating point, or another word has to be
# eliminated last.
_TOO_WIDE, _NEEDS_LAST = 1, 2


@kernel
def _exchange(arcs, n, last):
    """Swap word `last` and word 1, both as heads and as modifiers."""
    for m in range(n):
        arcs[n + m], arcs[last * n + m] = arcs[last * n + m], arcs[n + m]
    for h in range(n + 1):
        arcs[h * n], arcs[h * n + last - 1] = arcs[h * n + last - 1], arcs[h * n]


@kernel
def _eliminate(weights, n, single_root):
    """Eliminate the words from position n to 1; row and column k keep their values at the elimination of k.

    Returns the sum of log D, a failure code (0 for success), and the position of the failure.
    """
    total = 0.0
    for k in range(n, 0, -1):
        norm = 0.0
        wide = False
        for h in range(k):
            w = weights[h * n + k - 1]
            norm += w if h > 0 or k == 1 or single_root == 0 else 0.0
            wide |= w > LARGEST or 0.0 < w < SMALLEST
        row = weights[k * n : k * n + k - 1]
        for m in range(k - 1):
            wide |= 0.0 < row[m] < SMALLEST
        if wide:
            return np.nan, _TOO_WIDE, k
        if norm == 0.0:
            return -np.inf, _NEEDS_LAST, k
        total += np.log(norm)
        for h in range(k):
            share = weights[h * n + k - 1] / norm
            if share > 0.0:
                into = weights[h * n : h * n + k - 1]
                for m in range(k - 1):
                    into[m] += share * row[m]
    return total, 0, 0


@kernel(fast_sums=True)
def _back_through_row(gradient, share, row, row_gradient):
    """Return gradient . row, and add gradient * share to the row's gradient."""
    total = 0.0
    for m in range(row.shape[0]):
        total += gradient[m] * row[m]
        row_gradient[m] += gradient[m] * share
    return total


@kernel
def _differentiate(weights, n, single_root, gradient, parts):
    """Fill `gradient` with the derivatives of the result of `_eliminate` by its input weights.

    If a weight is still 0 at the end, its derivative is not needed and might be infinite, so it is set to 0.
    """
    gradient[:] = 0.0
    for k in range(1, n + 1):
        norm = 0.0
        for h in range(k):
            norm += weights[h * n + k - 1] if h > 0 or k == 1 or single_root == 0 else 0.0
        row = weights[k * n : k * n + k - 1]
        row_gradient = gradient[k * n : k * n + k - 1]
        used = 0.0
        for h in range(k):
            share = weights[h * n + k - 1] / norm
            parts[h] = 0.0
            if share > 0.0:
                parts[h] = _back_through_row(gradient[h * n : h * n + k - 1], share, row, row_gradient)
                used += share * parts[h]
        for h in range(k):
            free = 1.0 - used if h > 0 or k == 1 or single_root == 0 else 0.0
            gradient[h * n + k - 1] = (parts[h] + free) / norm if weights[h * n + k - 1] > 0.0 else 0.0
        for m in range(k - 1):
            row_gradient[m] = row_gradient[m] if row[m] > 0.0 else 0.0


@kernel
def _eliminate_logs(weights, n, single_root):
    """Do the same as `_eliminate` on logarithms, for any range of weights."""
    total = 0.0
    for k in range(n, 0, -1):
        norm = _log_norm(weights, n, k, single_root)
        if norm == -np.inf:
            return norm, _NEEDS_LAST, k
        total += norm
        for h in range(k):
            share = weights[h * n + k - 1] - norm
            if share == -np.inf:
                continue
            for m in range(k - 1):
                new, old = share + weights[k * n + m], weights[h * n + m]
                high = max(new, old)
                low = min(new, old)
                # A smaller summand would not change the sum.
                if low > high - 40.0:
                    high += np.log1p(np.exp(low - high))
                weights[h * n + m] = high
    return total, 0, 0


@kernel
def _log_norm(weights, n, k, single_root):
    """Return log D[k]."""
    first = 1 if single_root and k > 1 else 0
    top = -np.inf
    for h in range(first, k):
        top = max(top, weights[h * n + k - 1])
    if top == -np.inf:
        return top
    norm = 0.0
    for h in range(first, k):
        norm += np.exp(weights[h * n + k - 1] - top)
    return top + np.log(norm)


@kernel
def _differentiate_logs(weights, n, single_root, gradient, parts):
    """Fill `gradient` with the derivatives by the log-weights at the time of the first elimination of an arc's word.

    They are marginals and at most 1. The derivative of a weight is distributed over the summands that eliminations add
    to it, in proportion.
    """
    gradient[:] = 0.0
    for k in range(1, n + 1):
        norm = _log_norm(weights, n, k, single_root)
        used = 0.0
        for h in range(k):
            parts[h] = 0.0
            share = weights[h * n + k - 1] - norm
            if share == -np.inf:
                continue
            for m in range(k - 1):
                added = share + weights[k * n + m] - weights[h * n + m]
                if gradient[h * n + m] != 0.0 and added > -745.0:
                    part = gradient[h * n + m] * np.exp(min(added, 0.0))
                    parts[h] += part
                    gradient[k * n + m] += part
            used += parts[h]
        for h in range(k):
            gradient[h * n + k - 1] = parts[h]
            if h > 0 or k == 1 or single_root == 0:
                gradient[h * n + k - 1] += np.exp(weights[h * n + k - 1] - norm) * (1.0 - used)


@kernel
def matrix_tree(scores, n, single_root, work):
    """Write the marginals of non-projective trees to the beginning of `work`; return the log-partition."""
    size = (n + 1) * n
    arcs, weights, gradient = work[:size], work[size : 2 * size], work[2 * size : 3 * size]
    parts = work[3 * size : 3 * size + n + 1]
    # The logarithms are kept until the space is needed for derivatives.
    logs = gradient
    shift, in_logs = normalise(scores, n, single_root, arcs, logs, weights)
    if shift == -np.inf:
        return shift
    if in_logs:
        copy_into(arcs, logs)
    last = 1
    while True:
        copy_into(weights, arcs)
        if in_logs:
            total, trouble, k = _eliminate_logs(weights, n, single_root)
        else:
            total, trouble, k = _eliminate(weights, n, single_root)
        if trouble == 0:
            break
        if trouble == _TOO_WIDE:
            in_logs = True
            copy_into(arcs, logs)
            _exchange(arcs, n, last)
        elif single_root and k > 1 and last == 1:
            # No remaining word reaches word k. If any word reaches all others, then word k does, so eliminate it last.
            last = k
            _exchange(arcs, n, last)
        else:
            return -np.inf

    if in_logs:
        _differentiate_logs(weights, n, single_root, gradient, parts)
        for i in range(size):
            # The marginal of the arc itself, without the weight that the elimination added to its entry.
            arcs[i] = gradient[i] * np.exp(min(arcs[i] - weights[i], 0.0)) if arcs[i] > -np.inf else 0.0
    else:
        _differentiate(weights, n, single_root, gradient, parts)
        for i in range(size):
            arcs[i] *= gradient[i]
    _exchange(arcs, n, last)
    for m in range(n):
        # Rounding leaves marginals slightly below 0 or above 1. With huge scores their sum differs from 1, too.
        norm = 0.0
        for h in range(n + 1):
            arcs[h * n + m] = max(arcs[h * n + m], 0.0)
            norm += arcs[h * n + m]
        for h in range(n + 1):
            arcs[h * n + m] /= norm
    return shift + total


@as_oracle
def tree_marginals(scores, additional, dims, work, slots, additional_slots):
    """Compute the marginals of the arcs; return the log-partition."""
    n, projective, single_root = dims[0], dims[1], dims[2]
    if projective:
        return inside_outside(scores, n, single_root, work)
    return matrix_tree(scores, n, single_root, work)


def tree_marginal_work(dims):
    """Return the length of `work` that `tree_marginals` needs."""
    n, projective, _ = (int(d) for d in dims)
    return projective_work(n) if projective else (3 * n + 1) * (n + 1)
