"""Tokens that are flat dicts, numbered by a kernel that reads their pickles.

Python hashes and compares the values of millions of tokens one by one. Its C code for pickles writes all of them in
half of that time, and a kernel numbers their bytes. The format is a documented one (`pickletools`), protocol 4 without
references. Nothing is unpickled. A dict that holds anything except strings, bools, floats and small integers is left
to the caller.

Used by `token_pairs.py`.
"""

from collections import namedtuple
from io import BytesIO
from itertools import pairwise
from pickle import Pickler

import numpy as np

from ..._core.jit import INTS_OUT, PARTS_OUT, UINTS_OUT, by_address, copy_into, entry, kernel, types
from .._fields import SECRET
from .._tokens.kernels import mix

# Number of tokens that are pickled together. More leave the processor's cache.
_AT_ONCE = 2**10
# Opcodes of protocol 4.
_FRAME, _DICT, _STOP, _STRING, _LONG_STRING = b"\x95}.\x8cX"
_TRUE, _FALSE, _FLOAT, _INT_1, _INT_2, _INT_4 = b"\x88\x89GKMJ"
# The number of bytes after opcodes that are skipped: those of a flat dict's structure (mark, set item or items, append
# item or items), and frames. -1 for others.
_SKIPPED = np.full(256, -1)
_SKIPPED[list(b"(suae")] = 0
_SKIPPED[_FRAME] = 8
_PRIME = np.uint64(0x100000001B3)  # multiplier of the hash of numbers (FNV-1a)
# The hash of nothing, from which hashes begin. It is random, so that nobody can choose words with equal hashes, and an
# argument of the kernels, because compiled code is shared by processes.
_BASIS = int.from_bytes(SECRET[:8], "little", signed=True)
# Number of collisions in the hash tables for each entry, after which the tokens are left to Python's dicts. Random
# words have less than one.
_MAX_COLLISIONS = 16
_NUMBER = -1  # the length of an atom that is a number
# Counters: atoms, bytes of the text, forms, attributes of all forms, values, tokens, and collisions that are still
# allowed. The last one is the hash of nothing.
_ATOMS, _TEXT, _FORMS, _ATTRIBUTES, _VALUES, _TOKENS, _COLLISIONS, _HASH = range(8)
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_BYTES_OUT = types.Array(types.uint8, 1, "C")
# Hash tables of the atoms and of the forms: slots, hashes. Atom k is the text of `lengths[k]` bytes at `starts[k]`, or
# the number whose bits are `starts[k]`. Form k has the attributes from `ends[k]` to `ends[k + 1]`.
Atoms = namedtuple("Atoms", ["slots", "hashes", "starts", "lengths", "text"])
Forms = namedtuple("Forms", ["slots", "hashes", "ends", "attributes"])
_ATOM_TABLE = by_address([PARTS_OUT, UINTS_OUT, INTS_OUT, INTS_OUT, _BYTES_OUT], Atoms)
_FORM_TABLE = by_address([PARTS_OUT, UINTS_OUT, INTS_OUT, INTS_OUT], Forms)


@kernel
def _integer(buffer, at, n):
    """Return a little-endian integer of n bytes."""
    total = np.int64(0)
    for k in range(n):
        total |= np.int64(buffer[at + k]) << (8 * k)
    return total


@kernel
def _word(buffer, at, n):
    """Return the next 8 bytes, or only the first n of them, as an integer; 8 bytes must follow."""
    i = np.uint64(at)
    word = np.uint64(0)
    for k in range(8):
        # LLVM makes this a single load.
        word |= np.uint64(buffer[i + np.uint64(k)]) << np.uint64(8 * k)
    return word if n >= 8 else word & ((np.uint64(1) << np.uint64(8 * n)) - np.uint64(1))


@kernel
def _same(buffer, at, text, start, n):
    """Tell whether n bytes of two arrays are equal."""
    # A loop that always compares all bytes takes twice as long.
    for k in range(0, n, 8):  # noqa: SIM110
        if _word(buffer, at + k, n - k) != _word(text, start + k, n - k):
            return False
    return True


@kernel
def _string_atom(buffer, at, n, counts, slots, hashes, starts, lengths, text):
    """Return the number of a string, n bytes of the buffer; a new one is stored. After too many collisions, -1."""
    key = np.uint64(counts[_HASH]) + np.uint64(n)
    mask = np.int64(len(slots) - 1)
    for k in range(0, n, 8):
        key = mix(key ^ _word(buffer, at + k, n - k))
    slot = np.int64(key) & mask
    while slots[slot] > 0:
        atom = np.int64(slots[slot] - 1)
        if hashes[atom] == key and lengths[atom] == n and _same(buffer, at, text, starts[atom], n):
            return atom
        slot = (slot + 1) & mask
        counts[_COLLISIONS] -= 1
        if counts[_COLLISIONS] < 0:
            return np.int64(-1)
    atom, start = counts[_ATOMS], counts[_TEXT]
    slots[slot], hashes[atom], starts[atom], lengths[atom] = atom + 1, key, start, n
    for k in range(n):
        text[start + k] = buffer[at + k]
    counts[_ATOMS] += 1
    counts[_TEXT] += n
    return atom


@kernel
def _number_atom(bits, counts, slots, hashes, starts, lengths):
    """Return the number of a float, given its bits; a new one is stored. After too many collisions, -1."""
    key = mix(np.uint64(bits) ^ np.uint64(counts[_HASH]))
    mask = np.int64(len(slots) - 1)
    slot = np.int64(key) & mask
    while slots[slot] > 0:
        atom = np.int64(slots[slot] - 1)
        if hashes[atom] == key and lengths[atom] == _NUMBER and starts[atom] == bits:
            return atom
        slot = (slot + 1) & mask
        counts[_COLLISIONS] -= 1
        if counts[_COLLISIONS] < 0:
            return np.int64(-1)
    atom = counts[_ATOMS]
    slots[slot], hashes[atom], starts[atom], lengths[atom] = atom + 1, key, bits, _NUMBER
    counts[_ATOMS] += 1
    return atom


@kernel
def _form_number(own, n, counts, slots, hashes, ends, attributes):
    """Return the number of a form, the sequence of n attributes; a new one is stored. After too many collisions, -1."""
    key = np.uint64(counts[_HASH])
    mask = np.int64(len(slots) - 1)
    for k in range(n):
        key = (key ^ np.uint64(own[k])) * _PRIME
    key = mix(key)
    slot = np.int64(key) & mask
    while slots[slot] > 0:
        form = np.int64(slots[slot] - 1)
        start = ends[form]
        is_same = hashes[form] == key and ends[form + 1] - start == n
        for k in range(n if is_same else 0):
            is_same &= own[k] == attributes[start + k]
        if is_same:
            return form
        slot = (slot + 1) & mask
        counts[_COLLISIONS] -= 1
        if counts[_COLLISIONS] < 0:
            return np.int64(-1)
    form, start = counts[_FORMS], counts[_ATTRIBUTES]
    copy_into(attributes[start:], own[:n])
    slots[slot], hashes[form], ends[form + 1] = form + 1, key, start + n
    counts[_FORMS] += 1
    counts[_ATTRIBUTES] += n
    return form


@kernel
def _read_number(buffer, at, code, number, bits):
    """Read a number of this opcode to `number`, whose bits are `bits`; return its number of bytes, -1 for others."""
    n = np.int64(0)
    if code == _TRUE:
        number[0] = 1.0
    elif code == _FALSE:
        number[0] = 0.0
    elif code == _FLOAT:
        n, bits[0] = 8, 0
        for k in range(8):
            bits[0] = (bits[0] << 8) | np.int64(buffer[at + k])
    elif code == _INT_4:
        n = 4
        number[0] = (_integer(buffer, at, 4) ^ 0x80000000) - 0x80000000
    elif code == _INT_1 or code == _INT_2:  # noqa: SIM109
        n = 1 if code == _INT_1 else 2
        number[0] = _integer(buffer, at, n)
    else:
        return -1
    if number[0] == 0.0:
        # Negative zero, too.
        number[0] = 0.0
    return n


@entry(
    types.boolean(
        *(_BYTES, INTS_OUT, _ATOM_TABLE, _FORM_TABLE),
        *(INTS_OUT, INTS_OUT, INTS_OUT),
    )
)  # fmt: skip
def _read(buffer, counts, atoms, forms, values, form_of, own):
    """Number the values and the forms of the tokens in a pickle.

    Returns whether all tokens are flat dicts, and their hashes collide no more often than those of random words.

    `_Numbers` makes all arrays large enough for flat dicts. Tuples look like further names and values until they end,
    so these are counted. `own` has the names of a token.
    """
    slots, hashes, starts, lengths, text = atoms.slots, atoms.hashes, atoms.starts, atoms.lengths, atoms.text
    form_slots, form_hashes, form_ends, attributes = forms.slots, forms.hashes, forms.ends, forms.attributes
    number = np.zeros(1)
    is_open = False
    is_key = True
    n_own = np.int64(0)
    n_known = np.int64(0)
    bits = number.view(np.int64)
    # After the protocol, the frame if any, and the list of tokens.
    at = np.int64(12 if buffer[2] == _FRAME else 3)
    while True:
        code = buffer[np.uint64(at)]
        at = at + 1
        if _SKIPPED[code] >= 0:
            at += _SKIPPED[code]
        elif code == _STRING or code == _LONG_STRING:  # noqa: SIM109
            width = 1 if code == _STRING else 4
            n = _integer(buffer, at, width)
            at = at + width
            if is_key:
                if n_own == len(own):
                    return False
                # Mostly the name that the last token has here.
                atom = own[n_own]
                if n_own >= n_known or lengths[atom] != n or not _same(buffer, at, text, starts[atom], n):
                    atom = _string_atom(buffer, at, n, counts, slots, hashes, starts, lengths, text)
                if atom < 0:
                    return False
                own[n_own] = atom
                n_own += 1
                n_known = max(n_known, n_own)
                is_key = False
            else:
                if counts[_VALUES] == len(values):
                    return False
                atom = _string_atom(buffer, at, n, counts, slots, hashes, starts, lengths, text)
                if atom < 0:
                    return False
                values[counts[_VALUES]] = atom
                counts[_VALUES] += 1
                is_key = True
            at += n
        elif code == _DICT or code == _STOP:  # noqa: SIM109
            if not is_key or counts[_TOKENS] == len(form_of):
                return False
            if is_open:
                form = _form_number(own, n_own, counts, form_slots, form_hashes, form_ends, attributes)
                if form < 0:
                    return False
                form_of[counts[_TOKENS]] = form
                counts[_TOKENS] += 1
            if code == _STOP:
                return True
            n_own = np.int64(0)
            is_open = True
        else:
            n = _read_number(buffer, at, code, number, bits)
            if n < 0 or is_key or counts[_VALUES] == len(values):
                return False
            at += n
            atom = _number_atom(bits[0], counts, slots, hashes, starts, lengths)
            if atom < 0:
                return False
            values[counts[_VALUES]] = atom
            counts[_VALUES] += 1
            is_key = True


@entry(types.void(PARTS_OUT, UINTS_OUT, types.int64))
def _fill_slots(slots, hashes, n):
    """Fill an empty hash table with n numbers."""
    mask = np.int64(len(slots) - 1)
    for i in range(n):
        slot = np.int64(hashes[i]) & mask
        while slots[slot] > 0:
            slot = (slot + 1) & mask
        slots[slot] = i + 1


class _Numbers:
    """Growing tables of the distinct atoms (names and values) and forms (sequences of names) of tokens."""

    def __init__(self):
        self._file = BytesIO()
        self._pickler = Pickler(self._file, 4)
        # Without references to earlier objects.
        self._pickler.fast = True
        self.counts = np.zeros(8, np.int64)
        self.counts[_HASH] = _BASIS
        self.slots, self.hashes, self.starts, self.lengths, self.text = self._arrays(np.uint8, 2)
        self.form_slots, self.form_hashes, self.ends, self.attributes = self._arrays(np.int64, 1)

    @staticmethod
    def _arrays(dtype, n_ints):
        ints = [np.zeros(1, np.int64) for _ in range(n_ints)]
        return np.zeros(2, np.int32), np.zeros(0, np.uint64), *ints, np.zeros(0, dtype)

    def _grow(self, names, n):
        for name in names:
            array = getattr(self, name)
            if len(array) < n:
                array.resize(max(n, 2 * len(array)), refcheck=False)

    def _reserve(self, n_bytes, n_entries, n_tokens):
        """Make space for the atoms and forms of a pickle."""
        counts = self.counts
        n_atoms, n_forms = counts[_ATOMS] + 2 * n_entries + 1, counts[_FORMS] + n_tokens
        self._grow(("hashes", "starts", "lengths"), n_atoms)
        self._grow(("text",), counts[_TEXT] + n_bytes + 8)
        self._grow(("form_hashes", "ends"), n_forms + 1)
        self._grow(("attributes",), counts[_ATTRIBUTES] + n_entries + 1)
        for name, hashes, used, n in (
            ("slots", self.hashes, counts[_ATOMS], n_atoms),
            ("form_slots", self.form_hashes, counts[_FORMS], n_forms),
        ):
            if len(getattr(self, name)) < 2 * n:
                larger = np.zeros(1 << int(2 * n).bit_length(), np.int32)
                _fill_slots(larger, hashes, int(used))
                setattr(self, name, larger)

    def read(self, tokens, form_of):
        """Write the forms of tokens to `form_of`, after those of the last call; return their values, or None."""
        if set(map(type, tokens)) != {dict}:
            return None
        self._file.seek(0)
        try:
            self._pickler.dump(tokens)
        except Exception:
            # An object of the user's that cannot be pickled.
            return None
        # Kernels read 8 bytes at a time.
        self._file.write(bytes(8))
        buffer = np.frombuffer(self._file.getbuffer(), np.uint8)[: self._file.tell()]
        n_entries = sum(map(len, tokens))
        self._reserve(len(buffer), n_entries, len(tokens))
        values = np.empty(n_entries, np.int64)
        own = np.zeros(1 + max(map(len, tokens)), np.int64)
        self.counts[_VALUES] = 0
        self.counts[_COLLISIONS] += _MAX_COLLISIONS * (n_entries + _AT_ONCE)
        is_read = _read(
            buffer, self.counts, Atoms(self.slots, self.hashes, self.starts, self.lengths, self.text),
            Forms(self.form_slots, self.form_hashes, self.ends, self.attributes), values, form_of, own,
        )  # fmt: skip
        return values if is_read else None

    def forms(self, atoms):
        """Return the attributes of each form: list of tuple of str."""
        ends = self.ends[: self.counts[_FORMS] + 1].tolist()
        named = [atoms[a] for a in self.attributes[: ends[-1]].tolist()]
        return [tuple(named[i:j]) for i, j in pairwise(ends)]

    def atoms(self):
        """Return the distinct atoms: list of str and float."""
        n = int(self.counts[_ATOMS])
        text = self.text[: self.counts[_TEXT]].tobytes()
        floats = self.starts[:n].view(np.float64).tolist()
        return [
            text[start : start + length].decode("utf-8", "surrogatepass") if length >= 0 else floats[i]
            for i, (start, length) in enumerate(zip(self.starts[:n].tolist(), self.lengths[:n].tolist()))
        ]


def number_dicts(tokens):
    """Number the values and the forms (sequences of attributes) of tokens by their first occurrences.

    Parameters
    ----------
    tokens : list

    Returns
    -------
    values : int64 array of shape (n_entries,)
        The place of each value in `atoms`.
    atoms : list of str and float
    form_of : int64 array of shape (n_tokens,)
    forms : list of tuple of str
        All of this is None if a token is not a dict of strings and numbers that this function reads.
    """
    numbers = _Numbers()
    values = []
    form_of = np.empty(len(tokens), np.int64)
    for start in range(0, len(tokens), _AT_ONCE):
        found = numbers.read(tokens[start : start + _AT_ONCE], form_of)
        if found is None:
            return None
        values.append(found)
    atoms = numbers.atoms()
    return np.concatenate(values), atoms, form_of, numbers.forms(atoms)
