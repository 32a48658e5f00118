"""The block tridiagonal system of potentials: its factors LDL', and solutions.

Its matrix is ``B diag(weight) B' + N``, where B is the incidence matrix of arcs and nodes. N is the derivative of u_t
by the potentials of step t: the identity on the nodes that are on, minus their mean in the first `n_centred` steps.
"""

from collections import namedtuple

import numpy as np

from ...._core.jit import kernel
from ...._core.lanes import WIDTH, load, padded, pick, spread, store, total
from ....numerics.products import take_off_products

# The factors. Diagonal block k is L D L', and R is the block to its right. ``lower`` (2T - 2, M, P) holds L and
# ``upper`` L', both without the unit diagonal, ``coupling`` (2T - 2, M, P) holds D^-1 L^-1 R, and ``inverse`` (2T - 2,
# P) the diagonal of D^-1. For the current block, ``rows`` (M, P) holds D L' and ``beside`` (M, P) holds L^-1 R.
Factors = namedtuple("Factors", ["upper", "lower", "coupling", "inverse", "rows", "beside"])


@kernel
def new_factors(n_steps, n_states):
    """Allocate the factors of a system."""
    n_blocks, width = 2 * n_steps - 2, padded(n_states)
    shape, block = (n_blocks, n_states, width), (n_states, width)
    upper, lower, coupling = np.empty(shape), np.zeros(shape), np.empty(shape)
    return Factors(upper, lower, coupling, np.zeros((n_blocks, width)), np.empty(block), np.empty(block))


@kernel
def _write_response(on, t, centred, block):
    """Write the derivative of a step's nodes by its potentials into a block (M, P)."""
    n_states, width = block.shape
    count = spread(0.0)
    for p in range(0, width, WIDTH):
        count += load(on, t * width + p)
    share = 1.0 / total(count) if centred else 0.0
    for i in range(n_states):
        for p in range(0, width, WIDTH):
            store(block, i * width + p, (-share * on[t, i]) * load(on, t * width + p))
        block[i, i] += on[t, i]


@kernel
def _take_off_rows(rows, i, block, start, end, others, first):
    """Subtract from row i of a block, for each row j above, ``rows[j, i]`` times row j of `others`."""
    width = rows.shape[1]
    for p in range(start, end, WIDTH):
        left = load(block, i * width + p)
        for j in range(i):
            q = j * width
            left = left - load(others, first + q + p) * pick(rows, q + i)
        store(block, i * width + p, left)


@kernel
def _eliminate(factors, k, n_coupled, triangular, least):
    """Factorise `rows`, and the first columns of `beside`, as block k."""
    n_states, width = factors.rows.shape
    rows, beside, upper, coupling = factors.rows, factors.beside, factors.upper, factors.coupling
    first = k * n_states * width
    for i in range(n_states):
        row, start = i * width, i // WIDTH * WIDTH
        end = start + WIDTH if triangular else n_coupled
        _take_off_rows(rows, i, rows, start, width, upper, first)
        _take_off_rows(rows, i, beside, 0, end, coupling, first)
        inverse = 1.0 / rows[i, i] if rows[i, i] > least else 0.0
        factors.inverse[k, i] = inverse
        for p in range(start, width, WIDTH):
            store(upper, first + row + p, load(rows, row + p) * inverse)
        for j in range(start, i + 1):
            upper[k, i, j] = 0.0
        for j in range(i + 1, n_states):
            factors.lower[k, j, i] = upper[k, i, j]
        for p in range(0, end, WIDTH):
            store(coupling, first + row + p, load(beside, row + p) * inverse)
        for p in range(end, n_coupled, WIDTH):
            store(coupling, first + row + p, spread(0.0))


@kernel
def factorize(weight, scale, on, n_centred, ridge, least, factors):
    """Factorise the system, with `scale` times the weights.

    A pivot of at most `least` belongs to an undetermined potential, which is then set to 0.
    """
    n_blocks, n_states, width = factors.upper.shape
    rows, beside = factors.rows, factors.beside
    entering = np.empty(width)
    for k in range(n_blocks):
        t = (k + 1) // 2
        _write_response(on, t, t < n_centred, rows)
        if k > 0:
            take_off_products(beside, factors.coupling[k - 1], n_states, rows)
        leaves = k % 2 == 0
        if leaves:
            for p in range(0, width, WIDTH):
                store(entering, p, spread(0.0))
            for i in range(n_states):
                leaving = spread(0.0)
                for p in range(0, width, WIDTH):
                    here = load(weight, (t * n_states + i) * width + p) * scale
                    store(beside, i * width + p, here)
                    store(entering, p, load(entering, p) + here)
                    leaving += here
                rows[i, i] += total(leaving) + ridge
        else:
            for i in range(n_states):
                rows[i, i] += entering[i] + ridge
            if k < n_blocks - 1:
                _write_response(on, t, t < n_centred, beside)
        _eliminate(factors, k, width if k < n_blocks - 1 else 0, not leaves and t >= n_centred, least)


@kernel
def solve(factors, x):
    """Overwrite `x` (2T - 2, P) with the solution of the factorised system."""
    n_blocks, n_states, width = factors.upper.shape
    upper, coupling = factors.upper, factors.coupling
    for k in range(n_blocks):
        here = k * width
        if k > 0:
            for i in range(n_states):
                number, row = pick(x, here - width + i), ((k - 1) * n_states + i) * width
                for p in range(0, width, WIDTH):
                    store(x, here + p, load(x, here + p) - load(coupling, row + p) * number)
        for i in range(n_states - 1):
            number, row = pick(x, here + i), (k * n_states + i) * width
            for p in range(i // WIDTH * WIDTH, width, WIDTH):
                store(x, here + p, load(x, here + p) - load(upper, row + p) * number)
    for k in range(n_blocks - 1, -1, -1):
        here = k * width
        for p in range(0, width, WIDTH):
            store(x, here + p, load(x, here + p) * load(factors.inverse, here + p))
        if k < n_blocks - 1:
            for i in range(n_states):
                row, known = (k * n_states + i) * width, spread(0.0)
                for p in range(0, width, WIDTH):
                    known += load(coupling, row + p) * load(x, here + width + p)
                x[k, i] -= total(known)
        for i in range(n_states - 1, 0, -1):
            number, row = pick(x, here + i), (k * n_states + i) * width
            for p in range(0, i, WIDTH):
                store(x, here + p, load(x, here + p) - load(factors.lower, row + p) * number)
