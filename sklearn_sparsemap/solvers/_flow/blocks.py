"""The block tridiagonal system of potentials: its Cholesky factor, and solutions.

Its matrix is ``B diag(weight) B' + N``, where B says which arcs leave and enter a node. N is the response of u_t to
potentials of step t: the identity on the nodes that are on, less their mean in the first `n_centred` steps.
"""

import numpy as np

from ..._jit import kernel
from .._polytope.cholesky import add_scaled, dot


@kernel
def _node_block(on, centred, block):
    """Write the response of a step's nodes into a block."""
    n = on.shape[0]
    count = 0.0
    for i in range(n):
        count += on[i]
    share = 1.0 / count if centred else 0.0
    for i in range(n):
        for j in range(n):
            block[i, j] = -share * on[i] * on[j]
        block[i, i] += on[i]


@kernel
def factorize(weight, scale, on, n_centred, ridge, least, lower, coupling):
    """Factorise the system, with `scale` times the weights.

    `lower` (2T - 2, M, M) gets the diagonal blocks L, `coupling` those to the right, L^-1 B.

    A pivot up to `least` belongs to a potential that is not determined; its solution is 0.
    """
    n_blocks, n = lower.shape[0], lower.shape[1]
    for k in range(n_blocks):
        t = (k + 1) // 2
        block = lower[k]
        _node_block(on[t], t < n_centred, block)
        for i in range(n):
            block[i, i] += ridge
        if k % 2 == 0:
            for i in range(n):
                for j in range(n):
                    block[i, i] += scale * weight[t, i, j]
        else:
            for i in range(n):
                for j in range(n):
                    block[j, j] += scale * weight[t - 1, i, j]
        if k > 0:
            before = coupling[k - 1]
            for i in range(n):
                row = before[i]
                for a in range(n):
                    if row[a] != 0.0:
                        add_scaled(block[a, : a + 1], -row[a], row)
        for i in range(n):
            for j in range(i):
                block[i, j] = (block[i, j] - dot(block[i, :j], block[j, :j])) / block[j, j]
            pivot = block[i, i] - dot(block[i, :i], block[i, :i])
            block[i, i] = np.sqrt(pivot) if pivot > least else np.inf
        if k < n_blocks - 1:
            after = coupling[k]
            if k % 2 == 0:
                for i in range(n):
                    for j in range(n):
                        after[i, j] = scale * weight[t, i, j]
            else:
                _node_block(on[t], t < n_centred, after)
            for i in range(n):
                for j in range(i):
                    if block[i, j] != 0.0:
                        add_scaled(after[i], -block[i, j], after[j])
                inverse = 1.0 / block[i, i]
                for j in range(n):
                    after[i, j] *= inverse


@kernel
def solve(lower, coupling, x):
    """Overwrite `x` (2T - 2, M) with the solution of the factorised system."""
    n_blocks, n = lower.shape[0], lower.shape[1]
    for k in range(n_blocks):
        if k > 0:
            for i in range(n):
                add_scaled(x[k], -x[k - 1, i], coupling[k - 1, i])
        for i in range(n):
            x[k, i] = (x[k, i] - dot(lower[k, i, :i], x[k, :i])) / lower[k, i, i]
    for k in range(n_blocks - 1, -1, -1):
        if k < n_blocks - 1:
            for i in range(n):
                x[k, i] -= dot(coupling[k, i], x[k + 1])
        for i in range(n - 1, -1, -1):
            x[k, i] /= lower[k, i, i]
            add_scaled(x[k, :i], -x[k, i], lower[k, i])
