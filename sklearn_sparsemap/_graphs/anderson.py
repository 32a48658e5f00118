"""Anderson acceleration of a fixed-point iteration x -> g(x), with a memory of a few steps.

Used by `block.py`.
"""

from collections import namedtuple

import numpy as np

from .._core.jit import copy_into, kernel
from .._numerics.cholesky import dot

# Row j of `changes_of_g` and `changes_of_r` contains the change of g(x) and of the residual g(x) - x in one step.
# `last_g` and `last_r` are their values at the last point. `used[0]` is the number of rows in use, `used[1]` the next
# row to overwrite, and `used[2]` is 1 if there is a last point. `gram` and `rhs` are scratch.
Anderson = namedtuple("Anderson", ["changes_of_g", "changes_of_r", "last_g", "last_r", "gram", "rhs", "used"])

_RIDGE = 1e-12  # fraction of the diagonal that is added to the normal equations, against singular ones
_MAX_COEFFICIENT = 1e4  # largest absolute coefficient of a step; beyond it, the equations are too ill-conditioned


@kernel
def new_anderson(n, memory):
    """Return an empty memory for vectors of length `n`."""
    return Anderson(
        np.empty((memory, n)),
        np.empty((memory, n)),
        np.empty(n),
        np.empty(n),
        np.empty((memory, memory)),
        np.empty(memory),
        np.zeros(3, np.int64),
    )


@kernel
def forget(state):
    """Empty the memory."""
    for i in range(3):
        state.used[i] = 0


@kernel
def _solve(gram, rhs, k):
    """Solve the symmetric positive definite k x k system in place, by elimination; return whether it is regular."""
    for i in range(k):
        pivot = gram[i, i]
        if not pivot > 0.0:
            return False
        for r in range(i + 1, k):
            factor = gram[r, i] / pivot
            for c in range(i, k):
                gram[r, c] -= factor * gram[i, c]
            rhs[r] -= factor * rhs[i]
    for i in range(k - 1, -1, -1):
        for c in range(i + 1, k):
            rhs[i] -= gram[i, c] * rhs[c]
        rhs[i] /= gram[i, i]
    return True


@kernel
def extrapolate(state, x, g):
    """Add the step from `x` to `g` to the memory, and set `x` to the extrapolated point.

    The extrapolated point is `g` minus the combination of remembered steps with the smallest residual.
    """
    memory, n = state.changes_of_g.shape
    used = state.used
    if used[2]:
        row = used[1]
        for i in range(n):
            state.changes_of_g[row, i] = g[i] - state.last_g[i]
            state.changes_of_r[row, i] = g[i] - x[i] - state.last_r[i]
        used[1] = (row + 1) % memory
        used[0] = min(used[0] + 1, memory)
    used[2] = 1
    for i in range(n):
        state.last_g[i] = g[i]
        state.last_r[i] = g[i] - x[i]
    k = used[0]
    copy_into(x, g)
    if k == 0:
        return
    for a in range(k):
        for b in range(a + 1):
            state.gram[a, b] = dot(state.changes_of_r[a], state.changes_of_r[b])
            state.gram[b, a] = state.gram[a, b]
        state.rhs[a] = dot(state.changes_of_r[a], state.last_r)
    for a in range(k):
        state.gram[a, a] *= 1.0 + _RIDGE
    trusted = _solve(state.gram, state.rhs, k)
    for a in range(k):
        trusted = trusted and abs(state.rhs[a]) <= _MAX_COEFFICIENT
    if trusted:
        for a in range(k):
            for i in range(n):
                x[i] -= state.rhs[a] * state.changes_of_g[a, i]
    else:
        forget(state)
