"""Kernels that hash the features of consecutive siblings; places and keys are as in `features/_arcs/kernels.py`."""

from collections import namedtuple

import numpy as np

from ..._core.jit import INTS, INTS_OUT, PARTS_OUT, UINTS, entry, kernel, types
from .._arcs.kernels import relation_of
from .._tokens.kernels import mix, scale, sum_atoms

# hashes: of all fields, one padded field after the other. roots, lengths: of each sentence. Template j reads the atoms
# ptr[j]:ptr[j + 1] of each side, and relations[direction * 7 + distance, j]. It has sizes[j] columns from
# column_ptr[j] on.
Siblings = namedtuple(
    "Siblings",
    [
        *("hashes", "roots", "lengths"),
        *("head_ptr", "head_shifts", "head_factors"),
        *("sib_ptr", "sib_shifts", "sib_factors"),
        *("mod_ptr", "mod_shifts", "mod_factors"),
        *("relations", "column_ptr", "sizes"),
    ],
)
_UINTS_2D = types.Array(types.uint64, 2, "C", readonly=True)
_SIDE = INTS, INTS, UINTS
SIBLINGS = types.NamedTuple([UINTS, INTS, INTS, *_SIDE, *_SIDE, *_SIDE, _UINTS_2D, INTS, UINTS], Siblings)


@kernel
def _side_totals(hashes, root, n, ptr, shifts, factors):
    """Return the part of one side in the totals: one row for the root and each word, one column for each template.

    `ptr`, `shifts` and `factors` are those of the side in `Siblings`; for the other parameters see
    `features/_tokens/kernels.py`.
    """
    totals = np.empty((n + 1, ptr.shape[0] - 1), np.uint64)
    for t in range(n + 1):
        for j in range(ptr.shape[0] - 1):
            totals[t, j] = sum_atoms(hashes, root + t, shifts, factors, ptr[j], ptr[j + 1])
    return totals


@kernel
def _fill_side(siblings, h, n_side, step, totals, indices, end, row_ends):
    """Write the columns of one side of a head, row by row.

    Parameters
    ----------
    siblings : Siblings
    h : int
        The head.
    n_side : int
        Number of words on this side.
    step : {-1, 1}
        -1 for the left side.
    totals : (heads, sibs, mods)
        Parts of the totals; see `_side_totals`.
    indices : int32 array
        Gets the columns, from place `end` on.
    end : int
    row_ends : int array
        Gets the end of the columns of each row.

    Returns
    -------
    end : int
        The place after the last column.
    """
    heads, sibs, mods = totals
    relations, column_ptr, sizes = siblings.relations, siblings.column_ptr, siblings.sizes
    row = 0
    for before in range(n_side + 1):
        sib = h + step * before
        for j in range(n_side + 1):
            mod, is_end = h + step * (j + 1), j == n_side
            relation = relation_of(sib, sib + step) if is_end else relation_of(sib, mod)
            for t in range(heads.shape[1] if j >= before else 0):
                total = heads[h, t] + sibs[sib if before > 0 else 0, t] + mods[0 if is_end else mod, t]
                key = mix(total + relations[relation, t])
                indices[end] = column_ptr[t] + scale(key, sizes[t])
                end += 1
            row_ends[row] = end
            row += 1
    return end


@entry(types.int64(SIBLINGS, INTS, types.int64, types.int64, PARTS_OUT, types.int64, INTS_OUT))
def fill_siblings(siblings, row_ptr, start, stop, indices, end, row_ends):
    """Write the columns of all rows of sentences start..stop - 1; those of a row ascend.

    Parameters
    ----------
    siblings : Siblings
    row_ptr : int array of shape (n_sentences + 1,)
        The rows of sentence s begin at ``row_ptr[s]``.
    start, stop : int
    indices : int32 array
        Gets the columns, from place `end` on.
    end : int
    row_ends : int array of shape (n_rows,)
        Gets the end of the columns of each row.

    Returns
    -------
    end : int
        The place after the last column.
    """
    for s in range(start, stop):
        n, root = siblings.lengths[s], siblings.roots[s]
        totals = (
            _side_totals(siblings.hashes, root, n, siblings.head_ptr, siblings.head_shifts, siblings.head_factors),
            _side_totals(siblings.hashes, root, n, siblings.sib_ptr, siblings.sib_shifts, siblings.sib_factors),
            _side_totals(siblings.hashes, root, n, siblings.mod_ptr, siblings.mod_shifts, siblings.mod_factors),
        )
        row = row_ptr[s]
        for h in range(n + 1):
            for side in range(2):
                n_side, step = (max(h - 1, 0), -1) if side == 0 else (n - h, 1)
                if n_side > 0:
                    n_rows = (n_side + 1) * (n_side + 1)
                    end = _fill_side(siblings, h, n_side, step, totals, indices, end, row_ends[row : row + n_rows])
                    row += n_rows
    return end
