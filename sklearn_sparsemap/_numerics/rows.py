"""Rows that are points of the simplex, for trees (the heads of each word) and matchings (the columns of each row).

Conventions as in `newton`. The entries of a row are ``steps[2]`` blocks of equal length, one for each label of arcs, or
one block. Entry i of block b in row r is part ``r * steps[0] + i * steps[1] + b``.

Used by `structures`.
"""

import numpy as np

from .._core.jit import kernel
from .facets import ROUNDING, TIE
from .sparsemax import lower_to_zero


@kernel
def read_rows(rows, scores, steps):
    """Copy the scores of the parts into the rows."""
    n = rows.u.shape[1] // steps[2]
    for r in range(rows.u.shape[0]):
        for b in range(steps[2]):
            for i in range(n):
                rows.scores[r, b * n + i] = scores[r * steps[0] + i * steps[1] + b]


@kernel
def lower_rows(rows):
    """Subtract from each row its best score; return the largest difference and the number of forbidden entries."""
    size, n_forbidden = 0.0, 0
    for r in range(rows.u.shape[0]):
        difference, count = lower_to_zero(rows.scores[r])
        size = max(size, difference)
        n_forbidden = n_forbidden + count
    return size, n_forbidden


@kernel
def write_rows(rows, steps, marginals):
    """Write the marginals of the parts."""
    n = rows.u.shape[1] // steps[2]
    for r in range(rows.u.shape[0]):
        for b in range(steps[2]):
            for i in range(n):
                marginals[r * steps[0] + i * steps[1] + b] = rows.u[r, b * n + i]


@kernel
def has_ties(rows):
    """Return whether an entry outside of the support ties with its row's threshold."""
    for r in range(rows.u.shape[0]):
        least = rows.threshold[r] - TIE
        for i in range(rows.u.shape[1]):
            if rows.u[r, i] <= TIE and rows.shifted[r, i] >= least:
                return True
    return False


@kernel
def drop_rounding(rows):
    """Remove weights that are rounding errors; return whether all other weights are clearly positive."""
    for r in range(rows.u.shape[0]):
        count = 0.0
        for i in range(rows.u.shape[1]):
            u = rows.u[r, i]
            if ROUNDING < u <= TIE:
                return False
            rows.u[r, i] = u if u > ROUNDING else 0.0
            count += u > ROUNDING
        rows.count[r] = count
    return True


@kernel
def best_are_in_face(oracle, additional, dims, sizes, rows, n_tight, steps, size):
    """Return whether all best structures under scores minus marginals are in the face of the marginals.

    Then, and only then, the solution is not at a kink: there are multipliers for which no entry without weight ties,
    and all tight cuts have one (strict complementarity). The derivative is the projection onto the face, for any of
    these multipliers. The multipliers of Newton's method do not decide this, because multipliers are seldom unique.

    One call of the oracle decides. Entries without weight get a slightly higher score, and entries of tight cuts a
    slightly lower one, which favours structures outside the face. If still none is better than the marginals, all best
    structures are in the face.

    Parameters
    ----------
    oracle, additional, dims, sizes
        The problem.
    rows : Rows
        The scores and the solution.
    n_tight : array of shape (n_rows, n_columns)
        The number of tight cuts that each entry is in.
    steps : tuple of int
        The layout of the parts.
    size : float
        The magnitude of the scores. The margin by which scores change is above its rounding.
    """
    margin = TIE * max(1.0, 1e-4 * size)
    scores = np.empty(rows.u.size)
    value = 0.0
    n = rows.u.shape[1] // steps[2]
    for r in range(rows.u.shape[0]):
        for i in range(rows.u.shape[1]):
            u = rows.u[r, i]
            reduced = rows.scores[r, i] - u - margin * n_tight[r, i]
            if u == 0.0:
                reduced += margin
            else:
                value += u * reduced
            scores[r * steps[0] + i % n * steps[1] + i // n] = reduced
    slots = np.empty(sizes[0], np.int32)
    additional_slots = np.empty(sizes[1], np.int32)
    best = oracle(scores, additional, dims, np.zeros(sizes[2]), slots, additional_slots)
    return best - value <= 0.5 * margin
