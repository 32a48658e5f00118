"""SparseMAP over matchings by the multipliers of the columns, with a point of the simplex for each row.

The shorter side has the rows, all of which are matched; columns are matched at most once, and exactly once in a square.
"""

import numpy as np

from ..._jit import copy_into, kernel
from .._polytope.protocol import INFEASIBLE, as_solver
from .jacobian import add_entry, project
from .newton import has_flat_dual, maximise_dual, new_cuts, new_rows
from .protocol import BINDING, FACETS, GAVE_UP, MOST_STEPS, as_products, certify, has_ties, is_feasible
from .sparsemax import lower_to_zero


@kernel
def fill_pairs(rows, scores, n_rows, n_cols):
    """Copy the scores, the shorter side as rows, less the best of each row; return the largest difference, and
    whether any pair is forbidden.
    """
    wide = n_rows <= n_cols
    size, forbidden = 0.0, False
    for r in range(rows.scores.shape[0]):
        row = rows.scores[r]
        for c in range(row.shape[0]):
            row[c] = scores[r * n_cols + c] if wide else scores[c * n_cols + r]
        difference, n_forbidden = lower_to_zero(row)
        size, forbidden = max(size, difference), forbidden or n_forbidden > 0
    return size, forbidden


@as_solver
def matching_facets(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Solve one problem exactly; see `protocol`."""
    n_rows, n_cols = dims[0], dims[1]
    n, m = min(n_rows, n_cols), max(n_rows, n_cols)
    rows = new_rows(n, m)
    size, forbidden = fill_pairs(rows, scores, n_rows, n_cols)
    none = np.empty((0, sizes[0]), np.int32)
    if forbidden and not is_feasible(oracle, scores, additional, dims, sizes):
        return none, none, np.empty(0), INFEASIBLE, 0.0, 0.0, 1
    cuts = new_cuts(m, m, False)
    if warm_weights.shape[0] == m + 1:
        copy_into(cuts.multiplier, warm_weights[:m])
    steps = maximise_dual(rows, cuts, m, m if n == m else np.int64(0), size, min(MOST_STEPS, limit[0]))
    for r in range(n):
        for c in range(m):
            marginals[r * n_cols + c if n_rows <= n_cols else c * n_cols + r] = rows.u[r, c]
    objective, gap, floor = certify(oracle, scores, additional, dims, sizes, marginals, 0.0)
    if not gap <= max(tol, 4.0 * floor):
        return none, none, np.empty(0), GAVE_UP, objective, gap, steps
    weights = np.empty(m + 1)
    for c in range(m):
        weights[c] = cuts.multiplier[c]
    weights[m] = has_ties(rows) or has_flat_dual(rows, cuts, m, m if n == m else np.int64(0))
    return none, none, weights, FACETS, objective, gap, steps


@as_products
def matching_products(
    dims, marginals, slots, additional_slots, weights, direction, additional_direction, out, additional_out
):
    """Multiply `direction` with the Jacobian; see `protocol`."""
    n_rows, n_cols = dims[0], dims[1]
    n, m = min(n_rows, n_cols), max(n_rows, n_cols)
    rows, cuts = new_rows(n, m), new_cuts(m, m, False)
    for r in range(n):
        rows.count[r] = 0.0
        for c in range(m):
            place = r * n_cols + c if n_rows <= n_cols else c * n_cols + r
            add_entry(rows, r, c, marginals[place], direction[place])
    tight, k = np.empty(m, np.int64), np.int64(0)
    for c in range(m):
        if n == m or weights[c] > BINDING:
            tight[k] = c
            k += 1
    project(rows, cuts, tight, k)
    for r in range(n):
        for c in range(m):
            out[r * n_cols + c if n_rows <= n_cols else c * n_cols + r] = rows.shifted[r, c]
