"""The face of a solution as equations between its parts, in one form for all structures with facet solvers.

The directions that stay in a face are zero off the support, sum to zero in each block of parts whose sum is fixed, and
do not change the tight facets. A face is stored in three arrays, like the solutions of structures:

- `ints` (1, length): first, for each part, its block (n_blocks if it has none; -1 if it is not in the support). Then
  the beginning of each tight facet's parts, and the end of the last one. Then these parts, all in the support;
- `factor` (k, k): the upper Cholesky factor of the products of the k tight facets, minus their means in the blocks;
- `shares` (n_blocks + 1,): one divided by the number of parts of a block that are in the support; last 0.
"""

import numpy as np

from .._core.jit import copy_into, kernel
from .._core.lanes import padded
from .cholesky import solve_lower, solve_upper
from .facets import BINDING, TIE
from .newton import factorize

# How a structure is solved, as a number for the kernels; see `PolytopeSolver.face`.
BY_STRUCTURES, TREE, MATCHING, SUBSET, SIMPLEX = range(5)


@kernel
def _blocks_of(kind, dims, p, weights, block):
    """Write the block of each part; return the number of blocks."""
    n_blocks = np.int64(1)
    if kind == TREE:
        n_blocks = dims[0]
    elif kind == MATCHING:
        n_blocks = min(dims[0], dims[1])
    elif kind == SUBSET and abs(weights[0]) <= BINDING:
        n_blocks = np.int64(0)
    for i in range(p.shape[0]):
        own = np.int64(0)
        if kind == TREE:
            own = i % dims[0]
        elif kind == MATCHING:
            own = i // dims[1] if dims[0] <= dims[1] else i % dims[1]
        block[i] = own if p[i] > 0.0 and (kind != SUBSET or p[i] < 1.0) else -1
    return n_blocks


@kernel
def _parts_of(kind, dims, p, slots, weights, s, parts):
    """Write the support's parts in facet `s` if that is tight; return their number, or -1 if it is not tight."""
    found = np.int64(0)
    if kind == MATCHING:
        if dims[0] != dims[1] and weights[s] <= BINDING:
            return np.int64(-1)
        # Facet `s` belongs to an index of the longer axis.
        stride, first, n = (dims[1], s, dims[0]) if dims[0] <= dims[1] else (np.int64(1), s * dims[1], dims[1])
        for r in range(n):
            if p[first + r * stride] > 0.0:
                parts[found] = first + r * stride
                found += 1
    else:
        n = dims[0]
        for h in slots[s]:
            for m in slots[s]:
                if h > 0 and m > 0 and p[h * n + m - 1] > 0.0:
                    parts[found] = h * n + m - 1
                    found += 1
    return found


@kernel
def _products(ints, n_parts, k, shares):
    """Return the upper triangle of the products of all pairs of tight facets, minus their means in the blocks."""
    ptr, parts, block = ints[n_parts : n_parts + k + 1], ints[n_parts + k + 1 :], ints[:n_parts]
    products = np.zeros((k, k))
    inside, counts = np.zeros(n_parts), np.zeros(shares.shape[0])
    for a in range(k):
        own = parts[ptr[a] : ptr[a + 1]]
        for i in own:
            inside[i] = 1.0
            counts[block[i]] += shares[block[i]]
        for b in range(a, k):
            total = 0.0
            for i in parts[ptr[b] : ptr[b + 1]]:
                total += inside[i] - counts[block[i]]
            products[a, b] = total
        for i in own:
            inside[i], counts[block[i]] = 0.0, 0.0
    return products


@kernel
def tight_face(kind, dims, p, slots, weights):
    """Return the face of marginals `p` from the facets of a facet solver: ints, factor, shares."""
    n_parts = p.shape[0]
    n_facets = max(dims[0], dims[1]) if kind == MATCHING else slots.shape[0] if kind == TREE else np.int64(0)
    block, parts = np.empty(n_parts, np.int32), np.empty(n_parts, np.int32)
    n_blocks = _blocks_of(kind, dims, p, weights, block)
    ends, held = np.zeros(n_facets + 1, np.int32), np.empty(4 * n_parts, np.int32)
    k, used = np.int64(0), np.int64(0)
    for s in range(n_facets):
        found = _parts_of(kind, dims, p, slots, weights, s, parts)
        if found > 0:
            if used + found > held.shape[0]:
                more = np.empty(2 * held.shape[0], np.int32)
                copy_into(more, held[:used])
                held = more
            copy_into(held[used:], parts[:found])
            used, k = used + found, k + 1
            ends[k] = used
    ints = np.empty((1, n_parts + k + 1 + used), np.int32)
    copy_into(ints[0], block)
    copy_into(ints[0, n_parts:], ends[: k + 1])
    copy_into(ints[0, n_parts + k + 1 :], held[:used])
    shares = np.zeros(n_blocks + 1)
    for i in range(n_parts):
        if block[i] >= 0:
            shares[block[i]] += 1.0
    for b in range(n_blocks):
        shares[b] = 1.0 / max(shares[b], 1.0)
    shares[n_blocks] = 0.0
    factor, rows, kept = np.zeros((k, k)), np.empty((k, padded(k))), np.empty(k, np.int64)
    for a in range(k):
        kept[a] = a
    factorize(_products(ints[0], n_parts, k, shares), kept, k, 0.0, rows)
    for a in range(k):
        copy_into(factor[a, a:], rows[a, a:k])
    return ints, factor, shares


@kernel
def _centre(block, shares, means, direction):
    """Subtract from a direction its mean in each block, on the support (`block` is -1 elsewhere)."""
    for b in range(means.shape[0]):
        means[b] = 0.0
    for i in range(direction.shape[0]):
        if block[i] >= 0:
            means[block[i]] += direction[i]
    for b in range(means.shape[0]):
        means[b] *= shares[b]
    for i in range(direction.shape[0]):
        direction[i] = direction[i] - means[block[i]] if block[i] >= 0 else 0.0


@kernel
def project_on_tight_face(ints, factor, shares, direction, n_rounds):
    """Overwrite `direction` with its component along the face.

    The second round removes rounding errors of the first.
    """
    n_parts, k = direction.shape[0], factor.shape[0]
    block, ptr, parts = ints[0, :n_parts], ints[0, n_parts : n_parts + k + 1], ints[0, n_parts + k + 1 :]
    means, x = np.empty(shares.shape[0]), np.empty(k)
    _centre(block, shares, means, direction)
    if k == 0:
        return
    for _ in range(n_rounds):
        for a in range(k):
            x[a] = 0.0
            for i in parts[ptr[a] : ptr[a + 1]]:
                x[a] += direction[i]
        solve_lower(factor, k, x)
        solve_upper(factor, k, x)
        for a in range(k):
            for i in parts[ptr[a] : ptr[a + 1]]:
                direction[i] -= x[a]
        _centre(block, shares, means, direction)


@kernel
def is_tied(kind, z, p, weights):
    """Tell whether ties leave the face of a solution undetermined; `z` are the scores."""
    if kind != SIMPLEX:
        return weights[weights.shape[0] - 1] != 0.0
    place = np.int64(0)
    for i in range(p.shape[0]):
        place = i if p[i] > p[place] else place
    least, tied = z[place] - p[place] - TIE, False
    for i in range(p.shape[0]):
        tied |= p[i] <= TIE and z[i] >= least
    return tied
