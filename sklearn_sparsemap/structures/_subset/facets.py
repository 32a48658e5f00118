"""SparseMAP over subsets in closed form: scores minus a threshold, clipped to [0, 1].

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import kernel
from ..._numerics.facets import BINDING, TIE
from ..._numerics.polytope_solver import PolytopeSolver
from ..._numerics.solver import BY_FACETS, INFEASIBLE, as_solver
from ..._numerics.support import FEASIBLE, add_exactly
from ..._numerics.threshold import threshold
from ..._numerics.tight_face import as_equations, face_products

_CORRECTIONS = 2  # Newton steps with exact sums; more change nothing


@kernel
def _shift(scores, min_size, max_size):
    """Return the multiplier of the binding bound on the size, or 0 if neither binds."""
    total = 0.0
    for i in range(scores.shape[0]):
        total += min(max(scores[i], 0.0), 1.0)
    ones = np.ones(scores.shape[0])
    if total > max_size:
        return threshold(scores, ones, float(max_size), 0.0, 0.0, np.inf)
    if total < min_size:
        return threshold(scores, ones, float(min_size), 0.0, -np.inf, 0.0)
    return 0.0


@kernel
def _clip(scores, shift, rest, marginals):
    """Write scores minus a multiplier, ``shift + rest``, clipped to [0, 1].

    Returns
    -------
    total : float
        Their sum.
    n_inside : int
        Number of marginals between 0 and 1.
    tied : bool
        Whether a marginal is at a bound without being pushed there.
    """
    total, lost, n_inside, tied = 0.0, 0.0, 0, False
    for i in range(scores.shape[0]):
        p = (scores[i] - shift) - rest
        u = min(max(p, 0.0), 1.0)
        marginals[i] = u
        n_inside += 0.0 < u < 1.0
        tied |= -TIE <= p <= TIE or 1.0 - TIE <= p <= 1.0 + TIE
        total, lost = add_exactly(total, lost, u)
    return total, n_inside, tied


@kernel
def _refine(scores, shift, goal, marginals):
    """Correct the marginals of a multiplier that has too few digits, or comes from rounded sums; return as `_clip`."""
    shifted = np.empty(scores.shape[0])
    for i in range(scores.shape[0]):
        shifted[i] = scores[i] - shift
    rest = threshold(shifted, np.ones(scores.shape[0]), goal, 0.0, -np.inf, np.inf)
    total, n_inside, tied = _clip(scores, shift, rest, marginals)
    for _ in range(_CORRECTIONS):
        if total != goal and n_inside > 0:
            rest += (total - goal) / n_inside
            total, n_inside, tied = _clip(scores, shift, rest, marginals)
    return total, n_inside, tied


@kernel
def _mark_free(scores, marginals, dims, weights, free):
    """Write 0 for each item that only some of the best subsets have, else -1, for a solution with ties.

    An item is free if its score minus its marginal is the multiplier. If the bounds on the size leave one number of
    free items, ``weights[0]`` marks their sum as fixed; if they leave all of them or none, no item is free.
    `tensors.py` has the same rule.
    """
    shift = weights[0]
    n_full = np.int64(0)
    n_free = np.int64(0)
    for i in range(scores.shape[0]):
        left = scores[i] - marginals[i] - shift
        free[i] = 0 if abs(left) <= max(TIE, 1e-15 * abs(shift)) else -1
        n_free += free[i] == 0
        n_full += free[i] < 0 and left > 0.0
    low = max(dims[1] - n_full, 0)
    high = min(dims[2] - n_full, n_free)
    if shift > BINDING:
        low = high
    elif shift < -BINDING:
        high = low
    if high <= 0 or low >= n_free:
        free[:] = -1
    elif low == high and abs(shift) <= BINDING:
        weights[0] = 2.0 * BINDING


@as_solver
def subset_facets(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Solve one problem exactly; see `_numerics.facets`.

    Clipping is optimal for its own sum, so the gap is that of the sum: the multiplier times the distance from the bound
    that binds. So the active set never takes over.
    """
    n_allowed = 0
    for i in range(scores.shape[0]):
        n_allowed += scores[i] > -np.inf
    none = np.empty((0, sizes[0]), np.int32)
    if n_allowed < dims[1]:
        return none, none, np.empty(0), INFEASIBLE, 0.0, 0.0, 1
    shift = _shift(scores, dims[1], dims[2])
    total, _, tied = _clip(scores, shift, 0.0, marginals)
    goal = float(dims[2]) if shift > 0.0 else float(dims[1]) if shift < 0.0 else total
    gap = abs(shift * (total - goal))
    if gap > tol:
        total, _, tied = _refine(scores, shift, goal, marginals)
        gap = abs(shift * (total - goal))
    linear, norm_squared = 0.0, 0.0
    for i in range(scores.shape[0]):
        u = marginals[i]
        if u > 0.0:
            linear += scores[i] * u
            norm_squared += u * u
    weights = np.zeros(2)
    weights[0] = shift
    rounding = FEASIBLE * (1.0 + total)
    if not dims[1] - rounding <= total <= dims[2] + rounding:
        gap = np.inf
    free = none
    if tied:
        free = np.empty((1, scores.shape[0]), np.int32)
        _mark_free(scores, marginals, dims, weights, free[0])
    return free, none, weights, BY_FACETS, linear - 0.5 * norm_squared, gap, 1


@as_equations
def subset_equations(dims, z, p, slots, weights):
    """Write down the equation of a face: the size, if a bound on it binds; see `_numerics.tight_face`."""
    # A fixed size binds with a multiplier of zero, too.
    block = slots.copy()
    n_blocks = 1 if abs(weights[0]) > BINDING or dims[1] == dims[2] else 0
    if slots.shape[0] == 0:
        block = np.empty(p.shape[0], np.int32)
        for i in range(p.shape[0]):
            block[i] = 0 if 0.0 < p[i] < 1.0 else -1
    return block, n_blocks, np.zeros(1, np.int32), np.empty(0, np.int32), False


subset_products = face_products("subset_products", subset_equations)
THRESHOLD = PolytopeSolver("facets", subset_facets, subset_products, equations=subset_equations)
