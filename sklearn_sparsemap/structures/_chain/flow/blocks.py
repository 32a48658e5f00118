"""The block tridiagonal system of potentials: its factors LDL', and solutions.

Its matrix is ``B diag(weight) B' + N``, where B is the incidence matrix of arcs and nodes. N is the derivative of u_t
by the potentials of step t: the identity on the nodes that are on, minus their mean in the first `n_centred` steps.
"""

from collections import namedtuple

import numpy as np

from ...._core.jit import kernel
from ...._core.lanes import WIDTH, load, pick, spread, store, total
from ....numerics.products import take_off_products
from .layout import into, out_of, width_of

# The factors. A diagonal block is L D L', and R is the block to its right. ``upper`` holds L' and ``lower`` L, both
# without the unit diagonal: for each step the matrix of its potentials into, then that of its potentials out.
# ``within`` holds D^-1 L^-1 R of the block into a step, whose R is square, and ``across`` that of the block out of it,
# whose R is as large as its arcs. ``inverse`` is the diagonal of D^-1. For the current block, ``rows`` holds D L' and
# ``beside`` L^-1 R.
Factors = namedtuple("Factors", ["upper", "lower", "within", "across", "inverse", "rows", "beside"])
# The current block: its number of states and its width, the width of R, and where its parts of the factors begin.
_Block = namedtuple("_Block", ["n", "width", "width_beside", "square", "beside", "inverse"])


@kernel
def new_factors(layout):
    """Allocate the factors of a system."""
    n_squares, n_arcs = layout.squares[-1], layout.arcs[-1]
    largest_block = np.int64(0)
    for t in range(layout.counts.shape[0]):
        square, arcs = layout.squares[t + 1] - layout.squares[t], layout.arcs[t + 1] - layout.arcs[t]
        largest_block = max(largest_block, max(square, arcs))
    upper, lower, inverse = np.empty(2 * n_squares), np.zeros(2 * n_squares), np.zeros(2 * layout.nodes[-1])
    rows, beside = np.empty(largest_block), np.empty(largest_block)
    return Factors(upper, lower, np.empty(n_squares), np.empty(n_arcs), inverse, rows, beside)


@kernel
def _block_into(layout, t):
    """Return the block of the potentials into step t."""
    width = width_of(layout, t)
    return _Block(layout.counts[t], width, width, 2 * layout.squares[t], layout.squares[t], into(layout, t))


@kernel
def _block_out_of(layout, t):
    """Return the block of the potentials out of step t."""
    square = layout.squares[t] + layout.squares[t + 1]
    width, width_beside = width_of(layout, t), width_of(layout, t + 1)
    return _Block(layout.counts[t], width, width_beside, square, layout.arcs[t], out_of(layout, t))


@kernel
def _write_response(layout, on, t, centred, block):
    """Write the derivative of a step's nodes by its potentials into a block."""
    first, width = layout.nodes[t], width_of(layout, t)
    count = spread(0.0)
    for p in range(0, width, WIDTH):
        count += load(on, first + p)
    share = 1.0 / total(count) if centred else 0.0
    for i in range(layout.counts[t]):
        for p in range(0, width, WIDTH):
            store(block, i * width + p, (-share * on[first + i]) * load(on, first + p))
        block[i * width + i] += on[first + i]


@kernel
def _eliminate(factors, block, coupling, n_coupled, triangular, least):
    """Factorise `rows`, and the first columns of `beside`, as a block.

    Each row is subtracted from all rows below it as soon as it is complete, because these sums do not wait for each
    other.

    Parameters
    ----------
    factors : Factors
    block : _Block
    coupling : array
        ``factors.within`` or ``factors.across``; gets the columns of `beside`, divided by the pivots.
    n_coupled : int
        The number of columns; 0 for the last block.
    triangular : bool
        Whether `beside` is diagonal, so that it becomes lower triangular.
    least : float
        See `factorize`.
    """
    n, width, width_beside = block.n, block.width, block.width_beside
    rows, beside, upper, lower = factors.rows, factors.beside, factors.upper, factors.lower
    for i in range(n):
        row, start = i * width, i // WIDTH * WIDTH
        row_beside, end = i * width_beside, min(start + WIDTH, n_coupled) if triangular else n_coupled
        inverse = 1.0 / rows[row + i] if rows[row + i] > least else 0.0
        factors.inverse[block.inverse + i] = inverse
        for p in range(start, width, WIDTH):
            store(upper, block.square + row + p, load(rows, row + p) * inverse)
        for p in range(0, end, WIDTH):
            store(coupling, block.beside + row_beside + p, load(beside, row_beside + p) * inverse)
        for p in range(end, n_coupled, WIDTH):
            store(coupling, block.beside + row_beside + p, spread(0.0))
        for k in range(i + 1, n):
            ratio = pick(upper, block.square + row + k)
            lower[block.square + k * width + i] = ratio
            for p in range(k // WIDTH * WIDTH, width, WIDTH):
                store(rows, k * width + p, load(rows, k * width + p) - load(rows, row + p) * ratio)
            for p in range(0, end, WIDTH):
                q = k * width_beside + p
                store(beside, q, load(beside, q) - load(beside, row_beside + p) * ratio)
        for j in range(start, i + 1):
            upper[block.square + row + j] = 0.0


@kernel
def _write_weights(layout, weight, scale, t, ridge, factors, entering):
    """Write the weights of the arcs out of step t into `beside`, and their sums into `rows` and `entering`.

    Parameters
    ----------
    layout : Layout
    weight : array
        The weights of all arcs.
    scale : float
        A factor of the weights.
    t : int
    ridge : float
        Is added to the diagonal.
    factors : Factors
    entering : array
        Gets the sum of the weights of the arcs into each node of the next step.
    """
    width, width_beside = width_of(layout, t), width_of(layout, t + 1)
    for p in range(0, width_beside, WIDTH):
        store(entering, p, spread(0.0))
    for i in range(layout.counts[t]):
        leaving, row = spread(0.0), i * width_beside
        for p in range(0, width_beside, WIDTH):
            here = load(weight, layout.arcs[t] + row + p) * scale
            store(factors.beside, row + p, here)
            store(entering, p, load(entering, p) + here)
            leaving += here
        factors.rows[i * width + i] += total(leaving) + ridge


@kernel
def factorize(layout, weight, scale, on, n_centred, ridge, least, factors):
    """Factorise the system.

    Parameters
    ----------
    layout : Layout
    weight : array
        The weights of the arcs.
    scale : float
        A factor of the weights.
    on : array
        1.0 for the nodes that are on.
    n_centred : int
        The number of steps whose nodes keep their sum.
    ridge : float
        Is added to the diagonal.
    least : float
        A pivot of at most `least` belongs to an undetermined potential, which is then set to 0.
    factors : Factors
        Gets the result.
    """
    last = layout.counts.shape[0] - 1
    rows, beside = factors.rows, factors.beside
    widest = np.int64(0)
    for t in range(last + 1):
        widest = max(widest, width_of(layout, t))
    entering = np.zeros(widest)
    for t in range(last + 1):
        n, width, centred = layout.counts[t], width_of(layout, t), t < n_centred
        if t > 0:
            _write_response(layout, on, t, centred, rows)
            take_off_products(beside, factors.across, layout.arcs[t - 1], layout.counts[t - 1], width, n, rows)
            for i in range(n):
                rows[i * width + i] += entering[i] + ridge
            if t < last:
                _write_response(layout, on, t, centred, beside)
            n_coupled = width if t < last else 0
            _eliminate(factors, _block_into(layout, t), factors.within, n_coupled, not centred, least)
        if t < last:
            _write_response(layout, on, t, centred, rows)
            if t > 0:
                take_off_products(beside, factors.within, layout.squares[t], n, width, n, rows)
            _write_weights(layout, weight, scale, t, ridge, factors, entering)
            block = _block_out_of(layout, t)
            _eliminate(factors, block, factors.across, block.width_beside, False, least)


@kernel
def _solve_lower(factors, block, x):
    """Overwrite the block of `x` with ``L^-1 x``."""
    for i in range(block.n - 1):
        number, row = pick(x, block.inverse + i), block.square + i * block.width
        for p in range(i // WIDTH * WIDTH, block.width, WIDTH):
            q = block.inverse + p
            store(x, q, load(x, q) - load(factors.upper, row + p) * number)


@kernel
def _pass_on(coupling, block, x, next_block):
    """Subtract from the next block of `x` what it shares with this one."""
    for i in range(block.n):
        number, row = pick(x, block.inverse + i), block.beside + i * block.width_beside
        for p in range(0, block.width_beside, WIDTH):
            store(x, next_block + p, load(x, next_block + p) - load(coupling, row + p) * number)


@kernel
def _scale_by_pivots(factors, block, x):
    """Divide the block of `x` by the pivots."""
    for q in range(block.inverse, block.inverse + block.width, WIDTH):
        store(x, q, load(x, q) * load(factors.inverse, q))


@kernel
def _take_back(coupling, block, x, next_block):
    """Subtract from the block of `x` what the solved next block explains."""
    for i in range(block.n):
        row, known = block.beside + i * block.width_beside, spread(0.0)
        for p in range(0, block.width_beside, WIDTH):
            known += load(coupling, row + p) * load(x, next_block + p)
        x[block.inverse + i] -= total(known)


@kernel
def _solve_upper(factors, block, x):
    """Overwrite the block of `x` with ``L'^-1 x``."""
    for i in range(block.n - 1, 0, -1):
        number, row = pick(x, block.inverse + i), block.square + i * block.width
        for p in range(0, i, WIDTH):
            q = block.inverse + p
            store(x, q, load(x, q) - load(factors.lower, row + p) * number)


@kernel
def solve(factors, layout, x):
    """Overwrite `x`, in the order of the potentials, with the solution of the factorised system."""
    last = layout.counts.shape[0] - 1
    for t in range(last + 1):
        here = _block_into(layout, t)
        if t > 0:
            _solve_lower(factors, here, x)
        if t < last:
            out = _block_out_of(layout, t)
            if t > 0:
                _pass_on(factors.within, here, x, out.inverse)
            _solve_lower(factors, out, x)
            _pass_on(factors.across, out, x, into(layout, t + 1))
    for t in range(last, -1, -1):
        here = _block_into(layout, t)
        if t < last:
            out = _block_out_of(layout, t)
            _scale_by_pivots(factors, out, x)
            _take_back(factors.across, out, x, into(layout, t + 1))
            _solve_upper(factors, out, x)
        if t > 0:
            _scale_by_pivots(factors, here, x)
            if t < last:
                _take_back(factors.within, here, x, out_of(layout, t))
            _solve_upper(factors, here, x)
