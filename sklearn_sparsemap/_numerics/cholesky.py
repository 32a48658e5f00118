"""Incremental Cholesky factorisation of a small Gram matrix: append a column, remove a column, solve.

The factor is upper triangular, K = R'R, and is stored in the leading k x k block of a larger row-major array, so that
every inner loop runs along a row. A second array holds the columns ``R'^{-1} [theta, 1]`` of the two right-hand sides
that the solvers need. Appending and removing update them in O(k), and a solve is a single back substitution.

Used by `_graphs`, `_training`, `active_set.py`, `face.py`, `frank_wolfe.py`, `newton.py`, `support.py` and
`tight_face.py`.
"""

import math

from .._core.jit import copy_into, kernel


@kernel(fast_sums=True)
def dot(a, b):
    """Return the inner product of two vectors."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@kernel(fast_sums=True)
def add_scaled(a, scale, b):
    """Add ``scale * b`` to `a`."""
    for i in range(a.shape[0]):
        a[i] += scale * b[i]


@kernel
def solve_lower(factor, k, x):
    """Overwrite `x` with R'^{-1} x."""
    for i in range(k):
        x[i] /= factor[i, i]
        add_scaled(x[i + 1 : k], -x[i], factor[i, i + 1 : k])


@kernel
def solve_upper(factor, k, x):
    """Overwrite `x` with R^{-1} x."""
    for i in range(k - 1, -1, -1):
        x[i] = (x[i] - dot(factor[i, i + 1 : k], x[i + 1 : k])) / factor[i, i]


@kernel
def append_column(factor, rhs, k, column, pivot_squared, theta):
    """Extend a k x k factor by a row and column of K.

    Parameters
    ----------
    factor : array of shape (capacity, capacity)
    rhs : array of shape (2, capacity)
        The right-hand sides, see the docstring of the module.
    k : int
    column : array
        R'^{-1} times the new column of K.
    pivot_squared : float
        The new diagonal entry of K minus ``column.column``.
    theta : float
        The new entry of the first right-hand side; that of the second is 1.
    """
    pivot = math.sqrt(pivot_squared)
    a, b = theta, 1.0
    for i in range(k):
        factor[i, k] = column[i]
        a -= column[i] * rhs[0, i]
        b -= column[i] * rhs[1, i]
    factor[k, k] = pivot
    rhs[0, k] = a / pivot
    rhs[1, k] = b / pivot


@kernel
def remove_column(factor, rhs, k, j, scratch):
    """Shrink a k x k factor by row and column `j` of K, with Givens rotations of neighbouring rows."""
    for i in range(j + 1):
        row = factor[i, :k]
        for c in range(j, k - 1):
            row[c] = row[c + 1]
    for i in range(j, k - 1):
        n = k - 1 - i
        upper = factor[i, i : k - 1]
        lower = scratch[:n]
        copy_into(lower, factor[i + 1, i + 1 : k])
        length = math.hypot(upper[0], lower[0])
        c, s = upper[0] / length, lower[0] / length
        below = factor[i + 1, i : k - 1]
        for t in range(n):
            x, y = upper[t], lower[t]
            upper[t] = c * x + s * y
            below[t] = c * y - s * x
        for t in range(2):
            x, y = rhs[t, i], rhs[t, i + 1]
            rhs[t, i] = c * x + s * y
            rhs[t, i + 1] = c * y - s * x


@kernel
def solve_constrained(factor, rhs, k, z):
    """Solve ``K z + tau 1 = theta, 1.z = 1`` into `z`."""
    b = rhs[1, :k]
    tau = (dot(b, rhs[0, :k]) - 1.0) / dot(b, b)
    for i in range(k):
        z[i] = rhs[0, i] - tau * rhs[1, i]
    solve_upper(factor, k, z)
