"""Kernels that hash the n-grams of arcs and number them.

Conventions: word m of a sentence of n words is at place ``root + m``, its root at place ``root`` (head 0). The key of
an n-gram is ``mix(total)``. The total is a sum over atoms, and has four parts: of the head, of the modifier, of the
relation (direction and distance), and in templates with ``between`` of one value between the two. The first three parts
are computed once for each head, modifier and relation.

The distinct values between head and modifier are listed from the head outwards. The list for a modifier begins with the
list for a nearer one. So a head has two lists, one for each side.

Each call of a kernel, and each array that is read from a tuple, counts references. At each arc, this would take longer
than the work itself. So a call processes all arcs of a head.

The columns of vectorizers in files follow from the keys. So the parts of a total, the bins of `DISTANCES` (which
`relation_of` has as numbers) and `mix` must not change. Kernels of triples (`features/_triples`) call some functions,
too.

Used by `features/_triples` and `columns.py`.
"""

from collections import namedtuple

import numpy as np

from ..._core.jit import INTS, INTS_OUT, PARTS, PARTS_2D_OUT, PARTS_OUT, UINTS, UINTS_OUT, entry, kernel, types
from .._tokens.kernels import find_slot, larger_table, mix, scale, sum_atoms

# Distances as templates see them, in bins.
DISTANCES = ("1", "2", "3", "4", "5", "6-10", "11+")
DIRECTIONS = ("left", "right")
_N_DISTANCES = len(DISTANCES)

# hashes: of all fields, one padded field after the other. roots, lengths: of each sentence. Template j has the
# head atoms head_ptr[j]:head_ptr[j + 1] and likewise for modifiers, relations[direction * 7 + distance, j], and
# reads values between from the middle field number middles[j] (-1: none), which begins at middle_starts[middles[j]]
# in hashes. `columns.py` makes this tuple and `Columns` by the order of their fields.
Arcs = namedtuple(
    "Arcs",
    [
        *("hashes", "roots", "lengths"),
        *("head_ptr", "head_shifts", "head_factors"),
        *("mod_ptr", "mod_shifts", "mod_factors"),
        *("relations", "middles", "middle_factors", "middle_starts"),
    ],
)
_UINTS_2D = types.Array(types.uint64, 2, "C", readonly=True)
_PARTS_2D = types.Array(types.int32, 2, "C", readonly=True)
ARCS = types.NamedTuple([UINTS, INTS, INTS, INTS, INTS, UINTS, INTS, INTS, UINTS, _UINTS_2D, INTS, UINTS, INTS], Arcs)

# Template j has the columns from column_ptr[j]. By hash: sizes[j] of them, and slots is empty. By vocabulary: the
# table slots[slot_ptr[j]:slot_ptr[j + 1]] of the keys of columns.
Columns = namedtuple("Columns", ["column_ptr", "sizes", "slot_ptr", "keys", "slots"])
COLUMNS = types.NamedTuple([INTS, UINTS, INTS, UINTS, PARTS], Columns)

# Scratch for one head: totals[m, j] for modifier m and template j, the places of the values between (see
# `_look_between`), and the columns of one template at one arc.
Seen = namedtuple("Seen", ["totals", "spots", "n_seen", "columns"])


@kernel
def relation_of(h, m):
    """Return the row of `relations` for the arc between two places or two word numbers."""
    distance = abs(m - h)
    if distance > 5:
        distance = 6 if distance <= 10 else 7
    return distance - 1 + (_N_DISTANCES if m > h else 0)


@kernel
def _head_total(arcs, token, j):
    """Return the part of the head at a place in the totals of template j."""
    return sum_atoms(arcs.hashes, token, arcs.head_shifts, arcs.head_factors, arcs.head_ptr[j], arcs.head_ptr[j + 1])


@kernel
def _mod_total(arcs, token, j):
    """Return the part of the modifier at a place in the totals of template j."""
    return sum_atoms(arcs.hashes, token, arcs.mod_shifts, arcs.mod_factors, arcs.mod_ptr[j], arcs.mod_ptr[j + 1])


@kernel
def side_totals(hashes, root, n, ptr, shifts, factors):
    """Return the part of each word, and of the root, in the totals of each template: shape (n + 1, n_templates)."""
    totals = np.empty((n + 1, ptr.shape[0] - 1), np.uint64)
    for t in range(n + 1):
        for j in range(ptr.shape[0] - 1):
            totals[t, j] = sum_atoms(hashes, root + t, shifts, factors, ptr[j], ptr[j + 1])
    return totals


@kernel
def _link(hashes, start, n, before, after):
    """For words 1..n, find the last one before with the same value, or 0, and the next one, or n + 1."""
    for t in range(1, n + 1):
        before[t] = 0
        after[t] = n + 1
        for u in range(t - 1, 0, -1):
            if hashes[start + u] == hashes[start + t]:
                before[t] = u
                after[u] = t
                break


@kernel
def _link_all(arcs, s, links):
    """Apply `_link` to each middle field f, into links[2 * f] and links[2 * f + 1]."""
    for f in range(len(arcs.middle_starts)):
        start = arcs.middle_starts[f] + arcs.roots[s]
        _link(arcs.hashes, start, arcs.lengths[s], links[2 * f], links[2 * f + 1])


@kernel
def _look_between(h, n, links, f, start, spots, n_seen):
    """Find the distinct values of a middle field between a head and all modifiers.

    Parameters
    ----------
    h, n : int
        The head, and the number of words.
    links : int32 array of shape (2 * n_fields, n + 1)
        See `_link_all`.
    f : int
        The middle field.
    start : int
        The value of word m is ``hashes[start + m]``.
    spots : int64 array of shape (2 * n_fields, n + 1)
        Row 2 * f gets the places of the values to the left of the head, row 2 * f + 1 those to the right.
    n_seen : int64 array of shape (n_fields, n + 1)
        The values for modifier m are the first ``n_seen[f, m]`` of its side.
    """
    seen = 0
    for m in range(h - 1, 0, -1):
        n_seen[f, m] = seen
        if links[2 * f + 1, m] >= h:
            spots[2 * f, seen] = start + m
            seen += 1
    seen = 0
    for m in range(h + 1, n + 1):
        n_seen[f, m] = seen
        if links[2 * f, m] <= h:
            spots[2 * f + 1, seen] = start + m
            seen += 1


@entry(types.void(ARCS, INTS_OUT))
def count_middles(arcs, counts):
    """Count the values between head and modifier, summed over the arcs of each sentence.

    ``counts[s * n_fields + f]`` gets the number for sentence s and middle field f. `columns.fill` allocates by these
    counts, so they must be at least what `_look_between` lists; change both together.
    """
    n_fields = len(arcs.middle_starts)
    for s in range(len(arcs.lengths)):
        n = arcs.lengths[s]
        links = np.empty((2 * n_fields, n + 1), dtype=np.int32)
        _link_all(arcs, s, links)
        for f in range(n_fields):
            total = np.int64(0)
            for t in range(1, n + 1):
                # Word t is listed for heads without an equal word in between, and for all modifiers beyond it.
                total += (t - links[2 * f, t]) * (n - t)
                total += (min(links[2 * f + 1, t], n) - t) * (t - 1)
            counts[s * n_fields + f] = total


@kernel
def _sum_totals(h, n, heads, mods, relations, totals):
    """Write the totals of all arcs of head h and all templates, without the part of values between.

    `heads`, `mods` and `relations` are the parts of heads, modifiers and relations, one column for each template.
    """
    for m in range(1, n + 1):
        relation = relation_of(h, m) if h != m else 0
        for j in range(totals.shape[1]):
            totals[m, j] = heads[h, j] + mods[m, j] + relations[relation, j]


@kernel
def _insert_sorted(new_columns, n_new, indices, end):
    """Write columns in ascending order to `indices` from `end` on, each once; return the new end."""
    stop = end
    for i in range(n_new):
        column = new_columns[i]
        place = stop
        while place > end and indices[place - 1] >= column:
            place -= 1
        if place < stop and indices[place] == column:
            continue
        for k in range(stop, place, -1):
            indices[k] = indices[k - 1]
        indices[place] = column
        stop += 1
    return stop


@kernel
def _find_head(arcs, columns, h, n, seen, indices, end, counts):
    """Write the columns of all arcs of a head.

    Parameters
    ----------
    arcs : Arcs
    columns : Columns
    h, n : int
        The head, and the number of words.
    seen : Seen
        Scratch, filled for this head.
    indices : int32 array
        Gets the columns, from place `end` on.
    end : int
    counts : int32 array of shape (n,)
        Gets the number of columns of each arc.

    Returns
    -------
    end : int
        The place after the last column.
    """
    hashes, middles, factors = arcs.hashes, arcs.middles, arcs.middle_factors
    column_ptr, sizes, slot_ptr, keys, slots = columns
    totals, spots, n_seen, found = seen.totals, seen.spots, seen.n_seen, seen.columns
    is_hashed = len(slots) == 0
    for m in range(1, n + 1):
        first = end
        for j in range(totals.shape[1] if m != h else 0):
            f, base, size = middles[j], column_ptr[j], sizes[j]
            if is_hashed and f < 0:
                indices[end] = base + scale(mix(totals[m, j]), size)
                end += 1
                continue
            side = 2 * f + (1 if m > h else 0)
            n_keys = 0
            for i in range(n_seen[f, m] if f >= 0 else 1):
                total = totals[m, j] + factors[j] * hashes[spots[side, i]] if f >= 0 else totals[m, j]
                key = mix(total)
                if is_hashed:
                    found[n_keys] = base + scale(key, size)
                    n_keys += 1
                    continue
                mask = slot_ptr[j + 1] - slot_ptr[j] - 1
                number = slots[find_slot(slots, slot_ptr[j], mask, keys, base, key)]
                if number > 0:
                    found[n_keys] = base + number - 1
                    n_keys += 1
            end = _insert_sorted(found, n_keys, indices, end)
        counts[m - 1] = end - first
    return end


@entry(types.int64(ARCS, COLUMNS, INTS, types.int64, types.int64, PARTS_OUT, types.int64, PARTS_OUT))
def fill_rows(arcs, columns, row_ptr, start, stop, indices, end, counts):
    """Write the columns of all arcs of sentences start..stop - 1; those of a row are distinct and ascend.

    Parameters
    ----------
    arcs : Arcs
    columns : Columns
    row_ptr : int array of shape (n_sentences + 1,)
        The rows of sentence s begin at ``row_ptr[s]``.
    start, stop : int
    indices : int32 array
        Gets the columns, from place `end` on.
    end : int
    counts : int32 array of shape (n_rows,)
        Gets the number of columns of each row.

    Returns
    -------
    end : int
        The place after the last column.
    """
    n_templates = len(arcs.middles)
    n_fields = len(arcs.middle_starts)
    for s in range(start, stop):
        n = arcs.lengths[s]
        root = arcs.roots[s]
        heads = side_totals(arcs.hashes, root, n, arcs.head_ptr, arcs.head_shifts, arcs.head_factors)
        mods = side_totals(arcs.hashes, root, n, arcs.mod_ptr, arcs.mod_shifts, arcs.mod_factors)
        links = np.empty((2 * n_fields, n + 1), dtype=np.int32)
        _link_all(arcs, s, links)
        seen = Seen(
            np.empty((n + 1, n_templates), dtype=np.uint64),
            np.empty((2 * n_fields, n + 1), dtype=np.int64),
            np.empty((n_fields, n + 1), dtype=np.int64),
            np.empty(n + 1, dtype=np.int32),
        )
        for h in range(n + 1):
            for f in range(n_fields):
                _look_between(h, n, links, f, arcs.middle_starts[f] + root, seen.spots, seen.n_seen)
            _sum_totals(h, n, heads, mods, arcs.relations, seen.totals)
            row = row_ptr[s] + h * n
            end = _find_head(arcs, columns, h, n, seen, indices, end, counts[row : row + n])
    return end


@kernel
def _longer(array):
    """Return a copy of twice the length."""
    longer = np.empty(2 * len(array), dtype=array.dtype)
    for i in range(len(array)):
        longer[i] = array[i]
    return longer


@entry(types.Tuple((PARTS_2D_OUT, types.int64))(ARCS, types.int64, INTS, INTS, types.int64))
def learn_template(arcs, j, word_ptr, gold, min_count):
    """Number the n-grams of template j in order of appearance.

    ``gold[word_ptr[s] + m - 1]`` is the head of word m in sentence s. Only gold arcs are read, or all if `gold` is
    empty.

    Returns
    -------
    firsts : int32 array of shape (n_keys, 3)
        The places of the head, the modifier and the word between in each n-gram's first occurrence.
    n_kept : int
        Number of n-grams seen at least `min_count` times, which are the first rows of `firsts`.
    """
    f = arcs.middles[j]
    mask = np.int64(255)
    slots = np.zeros(256, dtype=np.int32)
    keys = np.empty(256, dtype=np.uint64)
    counts = np.empty(256, dtype=np.int32)
    firsts = np.empty(3 * 256, dtype=np.int32)
    n_keys = 0
    for s in range(len(arcs.lengths)):
        n = arcs.lengths[s]
        root = arcs.roots[s]
        links = np.empty((2, n + 1), dtype=np.int32)
        spots = np.empty((2, n + 1), dtype=np.int64)
        n_seen = np.ones((1, n + 1), dtype=np.int64)
        if f >= 0:
            _link(arcs.hashes, arcs.middle_starts[f] + root, n, links[0], links[1])
        mods = np.empty(n + 1, dtype=np.uint64)
        for m in range(1, n + 1):
            mods[m] = _mod_total(arcs, root + m, j)
        for h in range(n + 1):
            head = _head_total(arcs, root + h, j)
            if f >= 0:
                _look_between(h, n, links, 0, arcs.middle_starts[f] + root, spots, n_seen)
            for m in range(1, n + 1):
                if h == m or (len(gold) > 0 and gold[word_ptr[s] + m - 1] != h):
                    continue
                total = head + mods[m] + arcs.relations[relation_of(h, m), j]
                for i in range(n_seen[0, m]):
                    middle = 0
                    key = total
                    if f >= 0:
                        spot = spots[1 if m > h else 0, i]
                        middle = spot - arcs.middle_starts[f]
                        key += arcs.middle_factors[j] * arcs.hashes[spot]
                    key = mix(key)
                    slot = find_slot(slots, 0, mask, keys, 0, key)
                    if slots[slot] > 0:
                        counts[slots[slot] - 1] += 1
                        continue
                    if n_keys == len(keys):
                        keys = _longer(keys)
                        counts = _longer(counts)
                        firsts = _longer(firsts)
                    keys[n_keys] = key
                    counts[n_keys] = 1
                    firsts[3 * n_keys] = root + h
                    firsts[3 * n_keys + 1] = root + m
                    firsts[3 * n_keys + 2] = middle
                    n_keys += 1
                    slots[slot] = n_keys
                    if 2 * n_keys > mask:
                        slots = larger_table(slots, keys, n_keys)
                        mask = np.int64(len(slots) - 1)
    n_kept = 0
    for i in range(n_keys):
        if counts[i] >= min_count:
            for k in range(3):
                firsts[3 * n_kept + k] = firsts[3 * i + k]
            n_kept += 1
    return firsts.reshape(len(keys), 3), n_kept


@entry(types.void(ARCS, _PARTS_2D, INTS, UINTS_OUT))
def keys_of_columns(arcs, firsts, column_ptr, keys):
    """Write the key of each column from the places of its n-gram's first occurrence."""
    for j in range(len(column_ptr) - 1):
        f = arcs.middles[j]
        for column in range(column_ptr[j], column_ptr[j + 1]):
            head, mod, middle = firsts[column, 0], firsts[column, 1], firsts[column, 2]
            total = _head_total(arcs, head, j) + _mod_total(arcs, mod, j) + arcs.relations[relation_of(head, mod), j]
            if f >= 0:
                total += arcs.middle_factors[j] * arcs.hashes[arcs.middle_starts[f] + middle]
            keys[column] = mix(total)
