"""Marginals of projective trees: inside-outside on Eisner's items.

An item spans words i..j and is headed by one of the two. Complete items are closed at the other end; incomplete ones
have an arc between i and j. The weight of an item is the sum over all its derivations, which is a sum of products:

- `between` i and j: complete(i -> k) complete(k + 1 <- j); times an arc's weight, incomplete(i -> j) or (i <- j);
- complete(i -> j): incomplete(i -> k) complete(k -> j);
- complete(i <- j): complete(i <- k) incomplete(k <- j).

In each of the three, the first factor is from row i and the second from column j. So tables are stored by row or by
column (complete items both ways), and all sums are dot products.

Weights exceed the range of a float, but logarithms are slow. Here a weight is value * 2 ** (512 * power), with a value
within 2 ** -256 and 2 ** 256; the power of 0 is -inf. As long as all powers are 0 (`wide` is False), they are not read.

The backward pass distributes the marginal of each item over the products of its sum, so that all numbers there are
probabilities.

Used by `labels.py` and `matrix_tree.py`.
"""

import numpy as np

from ..._core.jit import kernel

# The tables: by row, [i, j], and by column, [j, i].
_RIGHT_BY_ROW, _RIGHT_BY_COLUMN, _LEFT_BY_ROW, _LEFT_BY_COLUMN = 0, 1, 2, 3
_RIGHT_ARC_BY_ROW, _LEFT_ARC_BY_COLUMN, _BETWEEN = 4, 5, 6
_N_TABLES = 7

_RADIX = 2.0**512
_PER_RADIX = 2.0**-512
_LOG_RADIX = 512.0 * np.log(2.0)
_LOWEST, _HIGHEST = 2.0**-256, 2.0**256


@kernel
def _arc_weights(scores, n, arcs, powers):
    """Turn scores into weights; return the amount subtracted from each tree's score, and whether a power is not 0."""
    total = 0.0
    wide = False
    for m in range(1, n + 1):
        top = -np.inf
        for h in range(n + 1):
            top = scores[h * n + m - 1] if h != m and scores[h * n + m - 1] > top else top
        if top == -np.inf:
            return top, wide
        # Sums over equal scores grow like 6.75 ** n, sums over a few high ones do not. This shift keeps both near 1.
        top += 1.0
        total += top
        for h in range(n + 1):
            at = h * n + m - 1
            score = scores[at] - top
            if h == m or score == -np.inf:
                arcs[at], powers[at] = 0.0, -np.inf
            else:
                power = np.floor(score / _LOG_RADIX + 0.5)
                # For larger powers the remainder has no correct digits.
                rest = score - power * _LOG_RADIX if power > -1e12 else 0.0
                arcs[at] = np.exp(rest)
                powers[at] = power
                wide |= power != 0.0
    return total, wide


@kernel
def _put(values, powers, at, value, power):
    """Store a normalised weight; return whether its power is not 0."""
    if value == 0.0:
        power = -np.inf
    elif value > _HIGHEST:
        value, power = value * _PER_RADIX, power + 1.0
    elif value < _LOWEST:
        value, power = value * _RADIX, power - 1.0
    values[at], powers[at] = value, power
    return value > 0.0 and power != 0.0


@kernel(fast_sums=True)
def _dot(values, a, b, n):
    total = 0.0
    for k in range(n):
        total += values[a + k] * values[b + k]
    return total


@kernel
def _scaled(product, below):
    """Return product * 2 ** (512 * below), treating it as 0 if it is at least three powers below.

    One power above is also possible, if a sum was normalised after its computation.
    """
    # Conditional moves instead of branches, so that loops over this are vectorised. A NaN (0 compared with 0) gives 0.
    product = product * _RADIX if below == 1.0 else product
    product = product * _PER_RADIX if below <= -1.0 else product
    product = product * _PER_RADIX if below <= -2.0 else product
    return product if below >= -2.0 else 0.0


@kernel
def _sum_products(values, powers, a, b, n, wide, at):
    """Store the sum of n products of weights from `a` and from `b` on; return whether its power is not 0.

    Parameters
    ----------
    values, powers : arrays
        The tables of weights.
    a, b : int
        Beginnings of the factors.
    n : int
    wide : bool
        Whether any power is not 0.
    at : int
        The entry of the tables that gets the sum.
    """
    # Unsigned indices, because signed ones prevent vectorisation.
    a = np.uint64(a)
    b = np.uint64(b)
    n = np.uint64(n)
    if not wide:
        return _put(values, powers, at, _dot(values, a, b, n), 0.0)
    top = -np.inf
    for k in range(n):
        power = powers[a + k] + powers[b + k]
        top = power if power > top else top
    total = 0.0
    for k in range(n):
        # The largest product two powers below the top is as large as the smallest one at the top, so it cannot be
        # dropped.
        total += _scaled(values[a + k] * values[b + k], powers[a + k] + powers[b + k] - top)
    return _put(values, powers, at, total, top)


@kernel
def _divide(values, powers, marginals, marginal, at, a, b, n, wide):
    """Distribute a marginal over the products of the sum at `at`.

    Parameters
    ----------
    values, powers : arrays
        The tables of weights.
    marginals : array like `values`
        Increased by the parts of `marginal`.
    marginal : float
    at, a, b, n, wide
        As in `_sum_products`.
    """
    if marginal == 0.0:
        return
    a = np.uint64(a)
    b = np.uint64(b)
    n = np.uint64(n)
    if not wide:
        rate = marginal / values[at]
        for k in range(n):
            share = values[a + k] * values[b + k] * rate
            marginals[a + k] += share
            marginals[b + k] += share
        return
    # Recompute the sum: for huge scores, the normalisation of the stored sum may have changed it.
    total, power = 0.0, powers[at]
    for k in range(n):
        total += _scaled(values[a + k] * values[b + k], powers[a + k] + powers[b + k] - power)
    rate = marginal / total
    for k in range(n):
        share = _scaled(values[a + k] * values[b + k], powers[a + k] + powers[b + k] - power) * rate
        marginals[a + k] += share
        marginals[b + k] += share


@kernel
def inside_outside(scores, n, single_root, work):
    """Write the marginals of projective trees to the beginning of `work`; return the log-partition."""
    nodes = n + 1
    size, table = nodes * n, nodes * nodes
    stack = _N_TABLES * table
    arcs, arc_powers = work[:size], work[size : 2 * size]
    values, powers = work[2 * size : 2 * size + stack], work[2 * size + stack : 2 * size + 2 * stack]
    marginals = work[2 * size + 2 * stack : 2 * size + 3 * stack]
    shift, wide = _arc_weights(scores, n, arcs, arc_powers)
    if shift == -np.inf:
        return shift
    right_by_row, right_by_column = _RIGHT_BY_ROW * table, _RIGHT_BY_COLUMN * table
    left_by_row, left_by_column = _LEFT_BY_ROW * table, _LEFT_BY_COLUMN * table
    right_arc, left_arc, between = _RIGHT_ARC_BY_ROW * table, _LEFT_ARC_BY_COLUMN * table, _BETWEEN * table

    for i in range(nodes):
        for first in (right_by_row, right_by_column, left_by_row, left_by_column):
            values[first + i * nodes + i], powers[first + i * nodes + i] = 1.0, 0.0
    for j in range(1, nodes):
        for i in range(j - 1, -1, -1):
            width = j - i
            ii, ij, ji = i * nodes + i, i * nodes + j, j * nodes + i
            # With a single root, all words to the left of the root's child are descendants of that child.
            k = 1 if i == 0 and single_root else width
            wide |= _sum_products(values, powers, right_by_row + ii, left_by_column + ji + 1, k, wide, between + ij)
            value, power = values[between + ij], powers[between + ij]
            arc = i * n + j - 1
            wide |= _put(values, powers, right_arc + ij, value * arcs[arc], power + arc_powers[arc])
            at = right_by_row + ij
            wide |= _sum_products(values, powers, right_arc + ii + 1, right_by_column + ji + 1, width, wide, at)
            values[right_by_column + ji], powers[right_by_column + ji] = values[at], powers[at]
            if i > 0:
                arc = j * n + i - 1
                wide |= _put(values, powers, left_arc + ji, value * arcs[arc], power + arc_powers[arc])
                at = left_by_row + ij
                wide |= _sum_products(values, powers, left_by_row + ii, left_arc + ji, width, wide, at)
                values[left_by_column + ji], powers[left_by_column + ji] = values[at], powers[at]
    if values[right_by_row + n] == 0.0:
        return -np.inf
    log_partition = shift + powers[right_by_row + n] * _LOG_RADIX + np.log(values[right_by_row + n])

    marginals[:] = 0.0
    arcs[:] = 0.0
    marginals[right_by_row + n] = 1.0
    for j in range(n, 0, -1):
        for i in range(j):
            width = j - i
            ii, ij, ji = i * nodes + i, i * nodes + j, j * nodes + i
            at = right_by_row + ij
            marginal = marginals[at] + marginals[right_by_column + ji]
            a, b = right_arc + ii + 1, right_by_column + ji + 1
            _divide(values, powers, marginals, marginal, at, a, b, width, wide)
            marginal = min(marginals[right_arc + ij], 1.0)
            arcs[i * n + j - 1] = marginal
            if i > 0:
                at = left_by_row + ij
                marginal = marginals[at] + marginals[left_by_column + ji]
                _divide(values, powers, marginals, marginal, at, left_by_row + ii, left_arc + ji, width, wide)
                arcs[j * n + i - 1] = min(marginals[left_arc + ji], 1.0)
                marginal = arcs[i * n + j - 1] + arcs[j * n + i - 1]
            k = 1 if i == 0 and single_root else width
            a, b = right_by_row + ii, left_by_column + ji + 1
            _divide(values, powers, marginals, marginal, between + ij, a, b, k, wide)
    return log_partition


def projective_work(n):
    """Return the length of `work` that `inside_outside` needs for n words."""
    return 2 * (n + 1) * n + 3 * _N_TABLES * (n + 1) ** 2
