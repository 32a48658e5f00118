"""The face of a solution as equations between its parts, in one form for all structures with facet solvers.

The directions that stay in a face are zero off the support, sum to zero in each block of parts whose sum is fixed, and
do not change the tight facets. A face is stored in three arrays, like the solutions of structures:

- `ints` (1, length): first, for each part, its block (n_blocks if it has none; -1 if it is not in the support). Then
  the beginning of each tight facet's parts, and the end of the last one. Then these parts, all in the support;
- `factor` (k, k): the upper Cholesky factor of the products of the k tight facets, minus their means in the blocks;
- `shares` (n_blocks + 1,): one divided by the number of parts of a block that are in the support; last 0.

Used by `_graphs` and `structures`.
"""

import numpy as np
from numba import types

from .._core.jit import FLOATS, INTS, PARTS, PARTS_OUT, Entry, FirstClass, copy_into, kernel
from .._core.lanes import padded
from .cholesky import solve_lower, solve_upper
from .facets import as_products
from .newton import factorize
from .products import take_off_products

# The equations of the face of a facet solver's solution: ``equations(dims, z, p, slots, weights)`` with the scores `z`,
# the marginals `p`, and the slots (rows one after the other) and weights that the solver returned. Returns
#
# - block (n_parts,): the block of each part, whose sum is fixed; n_blocks if the part has none, and -1 off the support;
# - n_blocks;
# - ends (n_facets + 1,) and parts: the support's parts in each tight facet, one facet after the other;
# - is_tied: whether ties leave the face undetermined.
EQUATIONS_SIGNATURE = types.Tuple((PARTS_OUT, types.int64, PARTS_OUT, PARTS_OUT, types.boolean))(
    INTS, FLOATS, FLOATS, PARTS, FLOATS
)
EQUATIONS = FirstClass(EQUATIONS_SIGNATURE)


def as_equations(function):
    """Make a module-level function an `Entry` that returns the equations of a face."""
    return Entry(function, EQUATIONS_SIGNATURE)


@as_equations
def no_equations(dims, z, p, slots, weights):
    """Placeholder for structures without a facet solver."""
    return np.empty(0, np.int32), 0, np.zeros(1, np.int32), np.empty(0, np.int32), True


@kernel
def _products(ints, n_parts, k, shares):
    """Return the upper triangle of the products of all pairs of tight facets, minus their means in the blocks."""
    ptr, parts, block = ints[n_parts : n_parts + k + 1], ints[n_parts + k + 1 :], ints[:n_parts]
    n_blocks = shares.shape[0]
    width = padded(k)
    products = np.zeros((k, width))
    counts = np.zeros((n_blocks, width))
    means = np.empty((n_blocks, width))
    # For each part its last place among the parts of facets; for each place the facet, and the part's place before.
    last = np.empty(n_parts, np.int32)
    facet = np.empty(ptr[k], np.int32)
    before = np.empty(ptr[k], np.int32)
    last[:] = -1
    for a in range(k):
        for place in range(ptr[a], ptr[a + 1]):
            i = parts[place]
            facet[place], before[place], last[i] = a, last[i], place
            counts[block[i], a] += 1.0
            earlier = place
            while earlier >= 0:
                products[facet[earlier], a] += 1.0
                earlier = before[earlier]
    for b in range(n_blocks):
        for a in range(width):
            means[b, a] = shares[b] * counts[b, a]
    take_off_products(means, counts, 0, n_blocks, width, k, products)
    return products


@kernel
def tight_face(block, n_blocks, ends, parts):
    """Return the face with these equations, as arrays: ints, factor, shares."""
    n_parts, k = block.shape[0], ends.shape[0] - 1
    used = ends[k]
    ints = np.empty((1, n_parts + k + 1 + used), np.int32)
    copy_into(ints[0], block)
    copy_into(ints[0, n_parts:], ends)
    copy_into(ints[0, n_parts + k + 1 :], parts[:used])
    shares = np.zeros(n_blocks + 1)
    for i in range(n_parts):
        if block[i] >= 0:
            shares[block[i]] += 1.0
    for b in range(n_blocks):
        shares[b] = 1.0 / max(shares[b], 1.0)
    shares[n_blocks] = 0.0
    factor = np.zeros((k, k))
    if k == 0:
        return ints, factor, shares
    rows = np.empty((k, padded(k)))
    kept = np.empty(k, np.int64)
    for a in range(k):
        kept[a] = a
    factorize(_products(ints[0], n_parts, k, shares), kept, k, 0.0, rows)
    for a in range(k):
        copy_into(factor[a, a:], rows[a, a:k])
    return ints, factor, shares


@kernel
def _centre(inside, block, shares, means, direction):
    """Subtract from a direction its mean in each block; `inside` lists the support."""
    means[:] = 0.0
    for i in inside:
        means[block[i]] += direction[i]
    for b in range(means.shape[0]):
        means[b] *= shares[b]
    for i in inside:
        direction[i] -= means[block[i]]


@kernel
def project_on_tight_face(ints, factor, shares, direction, n_rounds):
    """Overwrite `direction` with its component along the face.

    The second round removes rounding errors of the first.
    """
    n_parts, k = direction.shape[0], factor.shape[0]
    block, ptr, parts = ints[0, :n_parts], ints[0, n_parts : n_parts + k + 1], ints[0, n_parts + k + 1 :]
    means = np.empty(shares.shape[0])
    x = np.empty(k)
    inside = np.empty(n_parts, np.int32)
    n_inside = np.int64(0)
    for i in range(n_parts):
        if block[i] >= 0:
            inside[n_inside] = i
            n_inside += 1
        else:
            direction[i] = 0.0
    inside = inside[:n_inside]
    _centre(inside, block, shares, means, direction)
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
        _centre(inside, block, shares, means, direction)


def face_products(name, equations):
    """Make the Jacobian product of a facet solver, see `facets`, from the equations of the faces of its solutions."""
    equations_of = kernel(equations.__wrapped__)

    def products(
        dims, marginals, slots, additional_slots, weights, direction, additional_direction, out, additional_out
    ):
        """Write the projection of `direction` on the face into `out`; `facets` documents the parameters."""
        copy_into(out, direction)
        # Without the scores, because ties do not matter here.
        block, n_blocks, ends, parts, _ = equations_of(dims, marginals, marginals, slots, weights)
        ints, factor, shares = tight_face(block, n_blocks, ends, parts)
        project_on_tight_face(ints, factor, shares, out, 2)

    products.__name__ = name
    return as_products(products)
