"""SparseMAP over matchings: dual multipliers of the columns, and a point of the simplex for each row.

The shorter axis has the rows, all of which are matched. Columns are matched at most once; in a square, exactly once.

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import copy_into, kernel
from ..._numerics.certificate import certify_rows, is_in_polytope
from ..._numerics.competence import ALL, AT_ONCE, as_competence
from ..._numerics.facets import BINDING, HIDES_TIES, MAX_STEPS, TIE, is_feasible
from ..._numerics.newton import has_flat_dual, maximise_dual, new_cuts, new_rows
from ..._numerics.polytope_solver import PolytopeSolver
from ..._numerics.rows import best_are_in_face, drop_rounding, has_ties, lower_rows, read_rows, write_rows
from ..._numerics.solver import BY_FACETS, GAVE_UP, INFEASIBLE, as_solver
from ..._numerics.sparsemax import supports_reach
from ..._numerics.tight_face import as_equations, face_products

# The multiplier that marks a full column whose multiplier is 0 in this solution, but not in all solutions.
_SOME = 2.0 * BINDING
_FEW_PARTS = 12  # `PolytopeSolver.few_parts`; up to three rows, multipliers save too little to be worth compiling


@kernel
def _steps_of(n_rows, n_cols):
    """Return the layout of the pairs in the scores, with the shorter axis as rows; see `_numerics.rows`."""
    return (n_cols, 1, 1) if n_rows <= n_cols else (1, n_cols, 1)


@kernel
def _count_full(rows, cuts, square):
    """Return for each entry whether its column is full, which is a tight cut unless all columns are."""
    n_tight = np.zeros(rows.u.shape)
    for c in range(n_tight.shape[1]):
        if not square and cuts.slope[c] >= -TIE:
            for r in range(n_tight.shape[0]):
                n_tight[r, c] = 1.0
    return n_tight


@as_solver
def matching_facets(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Solve one problem exactly; see `_numerics.facets`."""
    n = min(dims[0], dims[1])
    m = max(dims[0], dims[1])
    steps = _steps_of(dims[0], dims[1])
    rows = new_rows(n, m)
    read_rows(rows, scores, steps)
    size, n_forbidden = lower_rows(rows)
    none = np.empty((0, sizes[0]), np.int32)
    if n_forbidden > 0 and not is_feasible(oracle, scores, additional, dims, sizes):
        return none, none, np.empty(0), INFEASIBLE, 0.0, 0.0, 1
    cuts = new_cuts(m, m, False)
    if warm_weights.shape[0] == m + 1:
        for c in range(m):
            cuts.multiplier[c] = warm_weights[c] if warm_weights[c] != _SOME else 0.0
    n_free = m if n == m else np.int64(0)
    n_iter = maximise_dual(rows, cuts, m, n_free, size, min(MAX_STEPS, limit[0]))
    write_rows(rows, steps, marginals)
    objective, gap, floor = certify_rows(scores, marginals, rows, cuts, m)
    if not is_in_polytope(rows, cuts, m, n_free) or not gap <= max(tol, 4.0 * floor):
        return none, none, np.empty(0), GAVE_UP, objective, gap, n_iter
    weights = np.empty(m + 1)
    copy_into(weights, cuts.multiplier)
    weights[m] = has_ties(rows) or has_flat_dual(rows, cuts, m, n_free)
    if weights[m] and drop_rounding(rows):
        write_rows(rows, steps, marginals)
        n_tight = _count_full(rows, cuts, n == m)
        if best_are_in_face(oracle, additional, dims, sizes, rows, n_tight, steps, size):
            weights[m] = 0.0
            for c in range(m):
                if n_tight[0, c] > 0.0:
                    weights[c] = max(weights[c], _SOME)
    if size > HIDES_TIES:
        weights[m] = 1.0
    return none, none, weights, BY_FACETS, objective, gap, n_iter


@as_equations
def matching_equations(dims, z, p, slots, weights):
    """Return the equations of a face: sums of the lines of the shorter axis, and of full lines of the other one.

    See `_numerics.tight_face`.
    """
    n = min(dims[0], dims[1])
    m = max(dims[0], dims[1])
    steps = _steps_of(dims[0], dims[1])
    block = np.empty(p.shape[0], np.int32)
    ends = np.zeros(m + 1, np.int32)
    parts = np.empty(p.shape[0], np.int32)
    k = np.int64(0)
    used = np.int64(0)
    for c in range(m):
        is_tight = n == m or weights[c] > BINDING
        for r in range(n):
            part = r * steps[0] + c * steps[1]
            block[part] = r if p[part] > 0.0 else -1
            if is_tight and p[part] > 0.0:
                parts[used] = part
                used += 1
        if used > ends[k]:
            k += 1
            ends[k] = used
    return block, n, ends[: k + 1].copy(), parts, weights[m] != 0.0


matching_products = face_products("matching_products", matching_equations)


@as_competence
def prefers_multipliers(scores, additional, dims, marginals, gap, n_calls):
    """Return the competence of the multipliers: `AT_ONCE` or `ALL`, because it depends on the scores alone.

    The constants were fitted to timings with 4 to 100 rows.
    """
    n = min(dims[0], dims[1])
    is_better = supports_reach(scores, dims[0], dims[1], min(1.2 * n + 11.0, 1.65 * n + 3.0), False)
    return AT_ONCE if is_better else np.int64(ALL)


MULTIPLIERS = PolytopeSolver(
    "facets",
    matching_facets,
    matching_products,
    _FEW_PARTS,
    prefers_multipliers,
    equations=matching_equations,
    soon_exact=lambda problems: True,
)
