"""SparseMAP over subsets in closed form: scores minus a threshold, clipped to [0, 1]."""

import numpy as np

from ..._core.jit import kernel
from ...numerics.facets import BINDING, TIE, certify
from ...numerics.polytope_solver import PolytopeSolver
from ...numerics.solver import BY_FACETS, GAVE_UP, INFEASIBLE, as_solver
from ...numerics.support import FEASIBLE
from ...numerics.threshold import threshold
from ...numerics.tight_face import as_equations, face_products


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


@as_solver
def subset_facets(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Solve one problem exactly; see `numerics.facets`."""
    n_allowed = 0
    for i in range(scores.shape[0]):
        n_allowed += scores[i] > -np.inf
    none = np.empty((0, sizes[0]), np.int32)
    if n_allowed < dims[1]:
        return none, none, np.empty(0), INFEASIBLE, 0.0, 0.0, 1
    shift = _shift(scores, dims[1], dims[2])
    weights, total = np.empty(2), 0.0
    weights[0], weights[1] = shift, 0.0
    for i in range(scores.shape[0]):
        p = scores[i] - shift
        marginals[i] = min(max(p, 0.0), 1.0)
        if -TIE <= p <= TIE or 1.0 - TIE <= p <= 1.0 + TIE:
            weights[1] = 1.0
        total += marginals[i]
    objective, gap, floor = certify(oracle, scores, additional, dims, sizes, marginals, 0.0)
    rounding = FEASIBLE * (1.0 + total)
    if not dims[1] - rounding <= total <= dims[2] + rounding or not gap <= max(tol, 4.0 * floor):
        return none, none, np.empty(0), GAVE_UP, objective, gap, 1
    return none, none, weights, BY_FACETS, objective, gap, 1


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
