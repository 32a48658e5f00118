"""SparseMAP over rankings in closed form: the projection onto a permutahedron by isotonic regression.

With items sorted by score, the marginals are the scores minus the nonincreasing sequence nearest to scores minus points
(Blondel, Teboul, Berthet and Djolonga: Fast Differentiable Sorting and Ranking, ICML 2020). That sequence is constant
on blocks of items, which pooling adjacent violators finds. Within a block, the marginals are the scores, shifted to the
mean of the block's points.

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import kernel
from ..._core.select import order_downwards
from ..._numerics.facets import TIE
from ..._numerics.polytope_solver import PolytopeSolver
from ..._numerics.solver import BY_FACETS, INFEASIBLE, as_solver
from ..._numerics.support import FEASIBLE, add_exactly
from ..._numerics.tight_face import as_equations, face_products


@kernel
def _pool(levels, ends):
    """Replace `levels` by the nearest nonincreasing sequence; return the number of its blocks.

    Block b goes up to ``ends[b]``, and ``levels[b]`` is its level.
    """
    n_blocks = np.int64(0)
    for j in range(levels.shape[0]):
        level, size = levels[j], 1
        while n_blocks > 0 and levels[n_blocks - 1] <= level:
            n_blocks -= 1
            before = ends[n_blocks] - (ends[n_blocks - 1] if n_blocks > 0 else 0)
            # Update the weighted mean incrementally, without large sums.
            level += (levels[n_blocks] - level) * before / (before + size)
            size += before
        levels[n_blocks], ends[n_blocks] = level, j + 1
        n_blocks += 1
    return n_blocks


@kernel
def _fill_block(scores, order, first, last, n_points, marginals):
    """Write the marginals of the items of a block, from place `first` to `last` in the order of their scores.

    Parameters
    ----------
    scores : array of shape (n,)
    order : int array of shape (n,)
        The items in decreasing order of their scores.
    first, last : int
    n_points : int
        Number of items that have points.
    marginals : array of shape (n,)
    """
    top, size = scores[order[first]], last - first
    # Relative to the best item of the block, so that large scores cost no digits.
    mean = 0.0
    for j in range(first, last):
        mean += scores[order[j]] - top
    mean /= size
    points = 0.0
    for j in range(first, min(last, n_points)):
        points += n_points - j
    for j in range(first, last):
        # Only rounding can make it negative.
        marginals[order[j]] = max((scores[order[j]] - top) - mean + points / size, 0.0)


@kernel
def _is_majorised(marginals, order, n_points):
    """Return whether the marginals, nonincreasing in this order, are in the permutahedron: the points majorise them."""
    total, most = 0.0, 0.0
    for j in range(order.shape[0]):
        u = marginals[order[j]]
        total += u
        most += max(n_points - j, 0)
        slack = FEASIBLE * (1.0 + most)
        if total > most + slack or (j > 0 and u > marginals[order[j - 1]] + slack):
            return False
    return total >= most - FEASIBLE * (1.0 + most)


@kernel
def _certify(scores, n_points, n_allowed, marginals, order):
    """Return the objective and the gap, by the best ranking for scores minus marginals.

    This is `certify` without an oracle, which would write all points of the ranking. In the order of the scores, scores
    minus marginals are nonincreasing up to rounding, so no sort is needed: each is bounded by the largest entry from
    its place on, and these bounds are sorted. Summation by parts writes the gap as a sum of nonnegative terms, which
    are zero up to rounding in a solution: the steps of the bounds times the marginals minus points of all later places,
    and the bounds minus the entries, times the marginals. As a difference of values of size n^3, the gap of many tied
    items would be rounding error. It is infinite if the marginals are not in the polytope.
    """
    linear, norm_squared, gap, bound, later, lost = 0.0, 0.0, 0.0, -np.inf, 0.0, 0.0
    for j in range(n_allowed - 1, -1, -1):
        score, u = scores[order[j]], marginals[order[j]]
        step = score - u - bound
        if step > 0.0:
            bound = score - u
            # The first bound has no previous one.
            gap += step * max(later, 0.0) if step < np.inf else 0.0
        elif u > 0.0:
            gap -= step * u
        if u > 0.0:
            linear += score * u
            norm_squared += u * u
        later, lost = add_exactly(later, lost, u - max(n_points - j, 0))
    if not _is_majorised(marginals, order, n_points):
        gap = np.inf
    return linear - 0.5 * norm_squared, gap


@as_solver
def ranking_facets(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Solve one problem exactly; see `_numerics.facets`. dims is (number of items, number of items with points).

    Pooling always ends and is exact up to rounding, so the active set never takes over.
    """
    n, n_points = dims[0], dims[1]
    none = np.empty((1, 0), np.int32)
    order = np.empty(n, np.int64)
    ends = np.empty(n, np.int64)
    order_downwards(scores, order)
    n_allowed = np.int64(0)
    for i in range(n):
        n_allowed += scores[i] > -np.inf
    blocks = np.empty((1, n), np.int32)
    if n_allowed < n_points:
        return blocks, none, np.empty(0), INFEASIBLE, 0.0, 0.0, 1
    top = scores[order[0]]
    levels = np.empty(n_allowed)
    for j in range(n_allowed):
        levels[j] = (scores[order[j]] - top) - max(n_points - j, 0)
    size = abs(levels[n_allowed - 1]) if n_allowed > 0 else 0.0
    n_blocks = _pool(levels, ends)
    first = np.int64(0)
    block = np.int64(-1)
    for i in range(n):
        marginals[i] = 0.0
        blocks[0, i] = -1
    for b in range(n_blocks):
        _fill_block(scores, order, first, ends[b], n_points, marginals)
        # Blocks with equal levels form one face. Items in blocks without points have constant marginals.
        if b == 0 or levels[b - 1] - levels[b] > max(TIE, 1e-15 * size):
            block = block + 1 if first < n_points else -1
        for j in range(first, ends[b]):
            blocks[0, order[j]] = block
        first = ends[b]
    objective, gap = _certify(scores, n_points, n_allowed, marginals, order)
    return blocks, none, np.zeros(1), BY_FACETS, objective, gap, 1


@as_equations
def ranking_equations(dims, z, p, slots, weights):
    """Return the equations of a face: the sum of each block; see `_numerics.tight_face`."""
    n_blocks = np.int64(0)
    for b in slots:
        n_blocks = max(n_blocks, b + 1)
    return slots.copy(), n_blocks, np.zeros(1, np.int32), np.empty(0, np.int32), False


ranking_products = face_products("ranking_products", ranking_equations)
ISOTONIC = PolytopeSolver("facets", ranking_facets, ranking_products)
