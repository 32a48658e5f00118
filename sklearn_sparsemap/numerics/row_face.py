"""Projection onto the direction space of a solution's face, given by the supports of its rows and its tight cuts.

Conventions as in `newton`. In `rows`, `u` and `count` are those of the solution, and `shifted` holds the direction.
"""

import numpy as np

from .._core.jit import kernel
from .._core.lanes import padded
from .cholesky import add_scaled, dot, solve_lower, solve_upper
from .newton import curvature_of, factorize

# The second round removes rounding errors of the first.
_ROUNDS = 2


@kernel
def add_entry(rows, r, i, u, direction):
    """Write one entry of a solution and of a direction, which is zero off the support."""
    rows.u[r, i] = u
    rows.shifted[r, i] = direction if u > 0.0 else 0.0
    rows.count[r] += u > 0.0


@kernel
def _centre(u, count, values):
    """Subtract from the values on a row's support their mean; values off the support are zero."""
    mean = 0.0
    for i in range(u.shape[0]):
        mean += values[i]
    mean /= count
    for i in range(u.shape[0]):
        values[i] -= mean if u[i] > 0.0 else 0.0


@kernel
def project(rows, cuts, tight, n_tight):
    """Overwrite the direction with its projection onto the face whose tight cuts are given."""
    of_sets = cuts.bits.shape[0] > 0
    for r in range(rows.u.shape[0]):
        _centre(rows.u[r], rows.count[r], rows.shifted[r])
    if n_tight == 0:
        return
    curvature, factor = np.empty((n_tight, padded(n_tight))), np.empty((n_tight, padded(n_tight)))
    x, shift, all_of_them = np.empty(n_tight), np.empty(rows.u.shape[1]), np.empty(n_tight, np.int64)
    for a in range(n_tight):
        all_of_them[a] = a
    curvature_of(rows, cuts, tight, n_tight, curvature)
    factorize(curvature, all_of_them, n_tight, 0.0, factor)
    for _ in range(_ROUNDS):
        for a in range(n_tight):
            x[a] = 0.0
        for r in range(rows.u.shape[0]):
            for a in range(n_tight):
                c = tight[a]
                if not of_sets:
                    x[a] += rows.shifted[r, c]
                elif cuts.member[c, r + 1] != 0.0:
                    x[a] += dot(cuts.member[c], rows.shifted[r])
        solve_lower(factor, n_tight, x)
        solve_upper(factor, n_tight, x)
        for r in range(rows.u.shape[0]):
            for i in range(shift.shape[0]):
                shift[i] = 0.0
            for a in range(n_tight):
                c = tight[a]
                if not of_sets:
                    shift[c] = x[a]
                elif cuts.member[c, r + 1] != 0.0:
                    add_scaled(shift, x[a], cuts.member[c])
            for i in range(shift.shape[0]):
                shift[i] = shift[i] if rows.u[r, i] > 0.0 else 0.0
            _centre(rows.u[r], rows.count[r], shift)
            add_scaled(rows.shifted[r], -1.0, shift)
