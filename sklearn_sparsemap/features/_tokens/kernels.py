"""Kernels that hash n-grams and number them. Those of arcs, triples and token dicts call some of them, too.

Hashed columns of models in files follow from `sum_atoms`, `mix` and `scale`, which must not change.

Conventions: kernels share these parameters.

hashes : uint64 array of shape (n_fields * n_positions,)
    The hashes of all fields, one padded field after the other.
tokens : int array of shape (n_tokens,)
    The place of each token within a padded field.
atom_ptr : int array of shape (n_templates + 1,)
    The atoms of template j are ``atom_ptr[j]:atom_ptr[j + 1]``. A kernel for one template gets its `first` and `last`.
shifts, factors : arrays of shape (n_atoms,)
    Atom a of a token at `place` contributes ``factors[a] * hashes[place + shifts[a]]``.
column_ptr : int array of shape (n_templates + 1,)
    The columns of template j begin at ``column_ptr[j]``.
slots, keys
    Hash tables with open addressing. A slot contains the number of an n-gram plus one; 0 is empty. The key of number i
    is ``keys[base + i]``. Table j is ``slots[slot_ptr[j]:slot_ptr[j + 1]]``; its length minus one is `mask`.

Used by `features/_arcs`, `features/_rows`, `features/_triples` and `columns.py`.
"""

import numpy as np

from ..._core.jit import INTS, PARTS, PARTS_OUT, UINTS, UINTS_OUT, entry, kernel, types

_SHIFT = np.uint64(32)
_LAST_SHIFT = np.uint64(29)
_SPREAD = np.uint64(0xBF58476D1CE4E5B9)


@kernel
def sum_atoms(hashes, token, shifts, factors, first, last):
    """Return the sum of the hashes of atoms first..last - 1, each times the atom's odd factor.

    Different n-grams have different sums with high probability, because the factors of the atoms differ.
    """
    total = np.uint64(0)
    for a in range(first, last):
        total += factors[a] * hashes[token + shifts[a]]
    return total


@kernel
def mix(total):
    """Return the 64-bit key of an n-gram: the sum of its atoms, with high bits mixed into the ones that tables use."""
    key = (total ^ (total >> _SHIFT)) * _SPREAD
    return key ^ (key >> _LAST_SHIFT)


@kernel
def _ngram(hashes, token, shifts, factors, first, last):
    return mix(sum_atoms(hashes, token, shifts, factors, first, last))


@kernel
def scale(key, size):
    """Return the upper half of a key, scaled to [0, size) without a division."""
    return np.int64(((key >> _SHIFT) * size) >> _SHIFT)


@kernel
def find_slot(slots, start, mask, keys, base, key):
    """Return the slot of a key in the table at `start`, or the empty slot for it."""
    slot = np.int64(key) & mask
    while True:
        number = slots[start + slot]
        if number == 0 or keys[base + number - 1] == key:
            return start + slot
        slot = (slot + 1) & mask


@kernel
def larger_table(slots, keys, n_keys):
    """Return a table of four times the size with the same keys."""
    mask = 4 * np.int64(len(slots)) - 1
    larger = np.zeros(mask + 1, dtype=np.int32)
    for i in range(n_keys):
        larger[find_slot(larger, 0, mask, keys, 0, keys[i])] = i + 1
    return larger


@entry(
    types.int64(
        *(UINTS, INTS, INTS, UINTS),
        *(types.int64, types.int64),
        *(PARTS_OUT, PARTS_OUT, UINTS_OUT, PARTS_OUT),
    )
)
def learn_template(hashes, tokens, shifts, factors, min_count, stride, columns, firsts, keys, counts):
    """Number the n-grams of one template in order of appearance.

    Parameters
    ----------
    hashes, tokens, shifts, factors
        See the module's docstring, for one template.
    min_count : int
        N-grams that occur less often get no number.
    stride : int
    columns : int32 array
        ``columns[::stride]`` gets the number of each token's n-gram, -1 if it has none.
    firsts : int32 array of shape (n_tokens,)
        Gets the place of each n-gram's first token.
    keys, counts : arrays of shape (n_tokens,)
        Scratch.

    Returns
    -------
    n_columns : int
    """
    n_tokens = len(tokens)
    n_atoms = len(shifts)
    mask = np.int64(255)
    slots = np.zeros(256, dtype=np.int32)
    n_keys = 0
    for t in range(n_tokens):
        key = _ngram(hashes, tokens[t], shifts, factors, 0, n_atoms)
        slot = find_slot(slots, 0, mask, keys, 0, key)
        if slots[slot] > 0:
            number = slots[slot] - 1
            counts[number] += 1
        else:
            number = n_keys
            n_keys += 1
            slots[slot] = n_keys
            keys[number] = key
            counts[number] = 1
            firsts[number] = tokens[t]
            if 2 * n_keys > mask:
                slots = larger_table(slots, keys, n_keys)
                mask = np.int64(len(slots) - 1)
        columns[t * stride] = number
    if min_count <= 1:
        return n_keys
    n_kept = 0
    for i in range(n_keys):
        if counts[i] >= min_count:
            firsts[n_kept] = firsts[i]
            counts[i] = n_kept
            n_kept += 1
        else:
            counts[i] = -1
    for t in range(n_tokens):
        columns[t * stride] = counts[columns[t * stride]]
    return n_kept


@entry(types.void(UINTS, PARTS, INTS, INTS, UINTS, INTS, UINTS_OUT))
def keys_of_columns(hashes, firsts, atom_ptr, shifts, factors, column_ptr, keys):
    """Write the key of each column to `keys`; `firsts` are the places of the n-grams' first occurrences.

    For the other parameters see the module's docstring.
    """
    for j in range(len(atom_ptr) - 1):
        for column in range(column_ptr[j], column_ptr[j + 1]):
            keys[column] = _ngram(hashes, firsts[column], shifts, factors, atom_ptr[j], atom_ptr[j + 1])


@entry(types.void(UINTS, INTS, INTS, PARTS_OUT))
def fill_tables(keys, column_ptr, slot_ptr, slots):
    """Fill one table for each template with the numbers of its columns; `slots` must be zeros."""
    for j in range(len(column_ptr) - 1):
        base = column_ptr[j]
        mask = slot_ptr[j + 1] - slot_ptr[j] - 1
        for column in range(base, column_ptr[j + 1]):
            slots[find_slot(slots, slot_ptr[j], mask, keys, base, keys[column])] = column - base + 1


@entry(types.void(UINTS, INTS, INTS, INTS, UINTS, INTS, INTS, UINTS, PARTS, PARTS_OUT))
def find_columns(hashes, tokens, atom_ptr, shifts, factors, column_ptr, slot_ptr, keys, slots, columns):
    """Write the column of each (token, template), row by row, to `columns`; -1 for n-grams that are in no table.

    Without `slots`, the hash of an n-gram selects a column of its template. For the other parameters see the module's
    docstring.
    """
    n_templates = len(atom_ptr) - 1
    # Template by template, so that a table stays in the processor's cache.
    for j in range(n_templates):
        base = column_ptr[j]
        size = np.uint64(column_ptr[j + 1] - base)
        for t in range(len(tokens)):
            key = _ngram(hashes, tokens[t], shifts, factors, atom_ptr[j], atom_ptr[j + 1])
            if len(slots) == 0:
                columns[t * n_templates + j] = base + scale(key, size)
                continue
            mask = slot_ptr[j + 1] - slot_ptr[j] - 1
            number = slots[find_slot(slots, slot_ptr[j], mask, keys, base, key)]
            columns[t * n_templates + j] = base + number - 1 if number > 0 else -1
