"""SparseMAP over subsets in closed form: scores minus a threshold, clipped to [0, 1]."""

import numpy as np

from ..._core.jit import kernel
from ...numerics.facets import BINDING, TIE
from ...numerics.polytope_solver import PolytopeSolver
from ...numerics.solver import BY_FACETS, INFEASIBLE, as_solver
from ...numerics.support import FEASIBLE, add_exactly
from ...numerics.threshold import threshold
from ...numerics.tight_face import as_equations, face_products

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


@as_solver
def subset_facets(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Solve one problem exactly; see `numerics.facets`.

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
    weights = np.empty(2)
    weights[0], weights[1] = shift, 1.0 if tied else 0.0
    rounding = FEASIBLE * (1.0 + total)
    if not dims[1] - rounding <= total <= dims[2] + rounding:
        gap = np.inf
    return none, none, weights, BY_FACETS, linear - 0.5 * norm_squared, gap, 1


@as_equations
def subset_equations(dims, z, p, slots, weights):
    """Write down the equation of a face: the size, if a bound on it binds; see `numerics.tight_face`."""
    block = np.empty(p.shape[0], np.int32)
    for i in range(p.shape[0]):
        block[i] = 0 if 0.0 < p[i] < 1.0 else -1
    n_blocks = 1 if abs(weights[0]) > BINDING else 0
    return block, n_blocks, np.zeros(1, np.int32), np.empty(0, np.int32), weights[weights.shape[0] - 1] != 0.0


subset_products = face_products("subset_products", subset_equations)
THRESHOLD = PolytopeSolver("facets", subset_facets, subset_products, equations=subset_equations)
