"""Kernels that hash the features of triples of words; places and keys are as in `features/_arcs/kernels.py`.

Used by `vectorizers.py`.
"""

from collections import namedtuple

from ..._core.jit import INTS, INTS_OUT, PARTS_OUT, UINTS, entry, kernel, types
from .._arcs.kernels import DISTANCES, relation_of, side_totals
from .._tokens.kernels import mix, scale

# The third word of a triple is the modifier before this one (the sibling) or the head of the head (the grandparent).
#
# hashes: of all fields, one padded field after the other. roots, lengths: of each sentence. Template j reads the atoms
# ptr[j]:ptr[j + 1] of each side, and relations[direction * 7 + distance, j]. It has sizes[j] columns from
# column_ptr[j] on. `vectorizers.py` makes it by the order of its fields.
Triples = namedtuple(
    "Triples",
    [
        *("hashes", "roots", "lengths"),
        *("head_ptr", "head_shifts", "head_factors"),
        *("third_ptr", "third_shifts", "third_factors"),
        *("mod_ptr", "mod_shifts", "mod_factors"),
        *("relations", "column_ptr", "sizes"),
    ],
)
N_DISTANCES = len(DISTANCES)
_UINTS_2D = types.Array(types.uint64, 2, "C", readonly=True)
_SIDE = INTS, INTS, UINTS
TRIPLES = types.NamedTuple([UINTS, INTS, INTS, *_SIDE, *_SIDE, *_SIDE, _UINTS_2D, INTS, UINTS], Triples)


@kernel
def _fill_siblings(triples, h, n_side, step, totals, indices, end, row_ends):
    """Write the columns of the siblings on one side of a head, row by row; return the new end.

    Parameters
    ----------
    triples : Triples
    h : int
        The head.
    n_side : int
        Number of words on this side.
    step : int
        -1 for the left side, 1 for the right one.
    totals : tuple of three uint64 arrays of shape (n + 1, n_templates)
        Of heads, third words and modifiers: the parts of the keys.
    indices, end
        See `fill_triples`.
    row_ends : int array
        Gets the end of each row of this side.
    """
    heads, sibs, mods = totals
    relations, column_ptr, sizes = triples.relations, triples.column_ptr, triples.sizes
    row = 0
    for before in range(n_side + 1):
        sib = h + step * before
        for j in range(n_side + 1):
            mod = h + step * (j + 1)
            is_end = j == n_side
            relation = relation_of(sib, sib + step) if is_end else relation_of(sib, mod)
            for t in range(heads.shape[1] if j >= before else 0):
                total = heads[h, t] + sibs[sib if before > 0 else 0, t] + mods[0 if is_end else mod, t]
                key = mix(total + relations[relation, t])
                indices[end] = column_ptr[t] + scale(key, sizes[t])
                end += 1
            row_ends[row] = end
            row += 1
    return end


@kernel
def _fill_grandparents(triples, h, n_side, step, totals, indices, end, row_ends):
    """Write the columns of the heads of a head with its modifiers on one side; as `_fill_siblings`."""
    heads, grands, mods = totals
    relations, column_ptr, sizes = triples.relations, triples.column_ptr, triples.sizes
    row = 0
    for grand in range(heads.shape[0] if h > 0 else 0):
        for j in range(n_side if grand != h else 0):
            mod = h + step * (j + 1)
            # The relation of the modifier to the grandparent, without a direction, and then the order of all three.
            relation = relation_of(max(grand, mod), min(grand, mod))
            place = 0 if (grand - h) * step < 0 else 1 if (mod - grand) * step > 0 else 2
            relation += (place + (3 if step > 0 else 0)) * N_DISTANCES
            for t in range(heads.shape[1] if grand != mod else 0):
                key = mix(heads[h, t] + grands[grand, t] + mods[mod, t] + relations[relation, t])
                indices[end] = column_ptr[t] + scale(key, sizes[t])
                end += 1
            row_ends[row] = end
            row += 1
    return end


@entry(types.int64(TRIPLES, INTS, types.int64, types.int64, types.boolean, PARTS_OUT, types.int64, INTS_OUT))
def fill_triples(triples, row_ptr, start, stop, grandparents, indices, end, row_ends):
    """Write the columns of all rows of sentences start..stop - 1.

    Parameters
    ----------
    triples : Triples
    row_ptr : int array of shape (n_sentences + 1,)
        The rows of sentence s begin at ``row_ptr[s]``.
    start, stop : int
        The range of sentences.
    grandparents : bool
        Whether the third words are grandparents, not siblings.
    indices : int32 array
        Gets the columns, which ascend in each row.
    end : int
        Where they begin.
    row_ends : int array of shape (n_rows,)
        Gets the end of each row's columns.

    Returns
    -------
    end : int
        Behind the last column.
    """
    for s in range(start, stop):
        n, root = triples.lengths[s], triples.roots[s]
        totals = (
            side_totals(triples.hashes, root, n, triples.head_ptr, triples.head_shifts, triples.head_factors),
            side_totals(triples.hashes, root, n, triples.third_ptr, triples.third_shifts, triples.third_factors),
            side_totals(triples.hashes, root, n, triples.mod_ptr, triples.mod_shifts, triples.mod_factors),
        )
        row = row_ptr[s]
        for h in range(n + 1):
            for side in range(2):
                n_side, step = (max(h - 1, 0), -1) if side == 0 else (n - h, 1)
                if n_side > 0 and grandparents:
                    end = _fill_grandparents(triples, h, n_side, step, totals, indices, end, row_ends[row:])
                    row += n * n_side if h > 0 else 0
                elif n_side > 0:
                    end = _fill_siblings(triples, h, n_side, step, totals, indices, end, row_ends[row:])
                    row += (n_side + 1) * (n_side + 1)
    return end
