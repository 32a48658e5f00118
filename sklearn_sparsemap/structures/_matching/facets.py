"""SparseMAP over matchings: dual multipliers of the columns, and a point of the simplex for each row.

The shorter axis has the rows, all of which are matched. Columns are matched at most once; in a square, exactly once.
"""

import numpy as np

from ..._core.jit import copy_into, kernel
from ...numerics.certificate import certify_rows, is_in_polytope
from ...numerics.components import representative
from ...numerics.facets import BINDING, HIDES_TIES, MOST_STEPS, ROUNDING, TIE, as_products, has_ties, is_feasible
from ...numerics.newton import has_flat_dual, maximise_dual, new_cuts, new_rows
from ...numerics.polytope_solver import PolytopeSolver, as_preference
from ...numerics.row_face import add_entry, project
from ...numerics.solver import BY_FACETS, GAVE_UP, INFEASIBLE, as_solver
from ...numerics.sparsemax import lower_to_zero, prefer_facets
from ...numerics.tight_face import as_equations, with_part


@kernel
def fill_pairs(rows, scores, n_rows, n_cols):
    """Copy the scores, with the shorter axis as rows, minus the maximum of each row.

    Return the largest difference, and whether any pair is forbidden.
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


@kernel
def _write_marginals(rows, n_rows, n_cols, marginals):
    """Write the marginals in the layout of the scores."""
    for r in range(rows.u.shape[0]):
        for c in range(rows.u.shape[1]):
            marginals[r * n_cols + c if n_rows <= n_cols else c * n_cols + r] = rows.u[r, c]


@kernel
def _label_parts(rows, cuts, square, part):
    """Label the connected components of rows and columns in the support's graph in `part`; return their number.

    Component 0 contains the columns that are not full, whose multipliers are zero. In a square it is empty.
    """
    n, m = rows.u.shape
    parent, number, count = np.empty(1 + n + m, np.int64), np.empty(1 + n + m, np.int64), 1
    for a in range(1 + n + m):
        parent[a], number[a] = a, -1
    for r in range(n):
        for c in range(m):
            if rows.u[r, c] > ROUNDING:
                parent[representative(parent, 1 + r)] = representative(parent, 1 + n + c)
    for c in range(m):
        if not square and cuts.slope[c] < -TIE:
            parent[representative(parent, 1 + n + c)] = representative(parent, np.int64(0))
    number[representative(parent, np.int64(0))] = 0
    for a in range(n + m):
        root = representative(parent, 1 + a)
        if number[root] < 0:
            number[root] = count
            count += 1
        part[a] = number[root]
    return count


@kernel
def _loosen(rows, cuts, square):
    """Move to multipliers for which no entry without weight ties; return whether there are any.

    If the support's graph has several components, the multipliers are not unique: those of a component's columns, with
    the thresholds of its rows, can all be shifted by the same amount. Newton's method ends anywhere, often at a tie
    between two components. The conditions that no such entry ties, and that multipliers of full columns are positive,
    are inequalities between the shifts of two components each. They are solved as shortest paths.
    """
    n, m = rows.u.shape
    part = np.empty(n + m, np.int64)
    count = _label_parts(rows, cuts, square, part)
    room, move = np.empty((count, count)), np.zeros(count)
    for a in range(count):
        for b in range(count):
            room[a, b] = np.inf
    for r in range(n):
        for c in range(m):
            a, b, u = part[r], part[n + c], rows.u[r, c]
            left = rows.threshold[r] - rows.shifted[r, c]
            if u <= TIE and (u > ROUNDING or (a == b and left < TIE)):
                return False
            if a != b:
                room[a, b] = min(room[a, b], left)
    for c in range(m):
        b = part[n + c]
        if not square and b > 0:
            room[0, b] = min(room[0, b], cuts.multiplier[c])
        elif not square and cuts.slope[c] >= -TIE and cuts.multiplier[c] <= TIE:
            return False
    changed = True
    for _ in range(count + 1):
        changed = False
        for a in range(count):
            for b in range(count):
                most = move[b] + room[a, b] - 4.0 * TIE
                if most < move[a]:
                    move[a] = most
                    changed = True
        if not changed:
            break
    if changed:
        return False
    for c in range(m):
        change = move[part[n + c]] - move[0]
        cuts.multiplier[c] += change
        for r in range(n):
            rows.shifted[r, c] -= change
    for r in range(n):
        rows.threshold[r] -= move[part[r]] - move[0]
        for c in range(m):
            rows.u[r, c] = rows.u[r, c] if rows.u[r, c] > ROUNDING else 0.0
    return True


@as_solver
def matching_facets(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Solve one problem exactly; see `numerics.facets`."""
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
    n_free = m if n == m else np.int64(0)
    steps = maximise_dual(rows, cuts, m, n_free, size, min(MOST_STEPS, limit[0]))
    _write_marginals(rows, n_rows, n_cols, marginals)
    objective, gap, floor = certify_rows(scores, marginals, rows, cuts, m)
    if not is_in_polytope(rows, cuts, m, n_free) or not gap <= max(tol, 4.0 * floor):
        return none, none, np.empty(0), GAVE_UP, objective, gap, steps
    weights = np.empty(m + 1)
    weights[m] = has_ties(rows) or has_flat_dual(rows, cuts, m, n_free)
    if weights[m] and _loosen(rows, cuts, n == m):
        weights[m] = 0.0
        _write_marginals(rows, n_rows, n_cols, marginals)
    if size > HIDES_TIES:
        weights[m] = 1.0
    for c in range(m):
        weights[c] = cuts.multiplier[c]
    return none, none, weights, BY_FACETS, objective, gap, steps


@as_products
def matching_products(
    dims, marginals, slots, additional_slots, weights, direction, additional_direction, out, additional_out
):
    """Multiply `direction` with the Jacobian; see `numerics.facets`."""
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


@as_equations
def matching_equations(dims, z, p, slots, weights):
    """Return the equations of a face: sums of the lines of the shorter axis, and of full lines of the other one.

    See `numerics.tight_face`.
    """
    n_rows, n_cols = dims[0], dims[1]
    wide, n, m = n_rows <= n_cols, min(n_rows, n_cols), max(n_rows, n_cols)
    block = np.empty(p.shape[0], np.int32)
    for i in range(p.shape[0]):
        line = i // n_cols if wide else i % n_cols
        block[i] = line if p[i] > 0.0 else -1
    ends, parts, k, used = np.zeros(m + 1, np.int32), np.empty(8, np.int32), np.int64(0), np.int64(0)
    for c in range(m):
        if n < m and weights[c] <= BINDING:
            continue
        for r in range(n):
            place = r * n_cols + c if wide else c * n_cols + r
            if p[place] > 0.0:
                parts = with_part(parts, used, place)
                used += 1
        if used > ends[k]:
            k += 1
            ends[k] = used
    return block, n, ends[: k + 1].copy(), parts, weights[weights.shape[0] - 1] != 0.0


# Facets are expected to be faster than the active set from this many support entries for each row, plus a constant.
# Fitted to timings with 10 to 100 rows.
_ENOUGH = (1.2, 11.0)


@as_preference
def prefers_multipliers(scores, dims):
    """Tell whether the multipliers are likely to be faster than the active set."""
    return prefer_facets(scores, dims[0], dims[1], _ENOUGH)


MULTIPLIERS = PolytopeSolver(
    "facets", matching_facets, matching_products, prefers_multipliers, equations=matching_equations
)
