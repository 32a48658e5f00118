"""Graphs that are one matching: the multipliers of all factors, from the facets of the matching.

Used by `inference`.
"""

import numpy as np
from numba import types

from .._core.jit import FLOATS_2D, FLOATS_2D_OUT, INTS, entry, kernel
from .._numerics.facets import MAX_STEPS
from .._numerics.newton import largest_violation, maximise_dual, new_cuts, new_rows
from .._numerics.sparsemax import lower_to_zero
from .arrays import FORBIDDEN
from .matching_table import MATCHING_TABLE

_SUM_TOL = 1e-6  # largest violation of a sum, relative to the scores; beyond it, the problem may be infeasible


@kernel
def _set_rows(table, scores, rows, top):
    """Set the scores of the lines of a table, relative to the best score of a line with an equation.

    Parameters
    ----------
    table : MatchingTable
    scores : array of shape (n_variables,)
    rows : Rows
    top : array of shape (n_lines,)
        Gets the best score of each line with an equation, 0 for other lines.

    Returns
    -------
    size : float
        The magnitude of the scores in `rows`.
    feasible : bool
        Whether each line with an equation has an allowed variable.
    """
    n, m = table.cells.shape
    size, feasible = 0.0, True
    for r in range(n):
        row = rows.scores[r]
        for c in range(m):
            cell = table.cells[r, c]
            row[c] = scores[cell] if cell >= 0 and scores[cell] > 0.5 * FORBIDDEN else -np.inf
        rows.at_most[r] = table.at_most[r] != 0
        top[r] = 0.0
        if rows.at_most[r]:
            for c in range(m):
                size = max(size, abs(row[c]) if row[c] > -np.inf else 0.0)
            continue
        for c in range(m):
            top[r] = row[c] if c == 0 or row[c] > top[r] else top[r]
        difference, n_forbidden = lower_to_zero(row)
        size = max(size, difference)
        feasible = feasible and n_forbidden < m
    return size, feasible


@entry(types.void(MATCHING_TABLE, FLOATS_2D, FLOATS_2D, INTS, types.int64, types.int64, FLOATS_2D_OUT, FLOATS_2D_OUT))
def matching_multipliers_range(table, scores, warm, limits, start, stop, multipliers, n_steps):
    """Compute the multipliers of the rows of a graph that is a matching.

    Parameters
    ----------
    table : MatchingTable
    scores, limits, start, stop
        See `_graphs/__init__.py`; scores have one row a sample.
    warm : array of shape (n_samples, n_rows) or (0, n_rows)
        Multipliers to start from; zeros if there are none.
    multipliers : array of shape (n_samples, n_rows)
        Overwritten; zeros for samples that Newton's method does not solve.
    n_steps : array of shape (n_samples, 1)
        Gets the numbers of Newton steps.
    """
    n, m = table.cells.shape
    cuts = new_cuts(m, m, False)
    top = np.empty(n)
    for i in range(start, stop):
        rows = new_rows(n, m)
        size, feasible = _set_rows(table, scores[i], rows, top)
        for c in range(m):
            cuts.multiplier[c] = warm[i, table.columns[c]] if warm.shape[0] > 0 else 0.0
        out = multipliers[i]
        for r in range(out.shape[0]):
            out[r] = 0.0
        if not feasible or limits[0] == 0:
            continue
        n_free = table.exact[0]
        n_steps[i, 0] = maximise_dual(rows, cuts, m, n_free, size, min(MAX_STEPS, limits[0]))
        if largest_violation(cuts.multiplier, cuts.slope, m, n_free) <= _SUM_TOL * (1.0 + size):
            for r in range(n):
                out[table.lines[r]] = rows.threshold[r] + top[r]
            for c in range(m):
                out[table.columns[c]] = cuts.multiplier[c]
