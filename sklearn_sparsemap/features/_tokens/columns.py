"""The columns of n-grams: those seen in training, or a fixed number of them by hashes.

Used by `features`, `features/_arcs`, `features/_vectors` and `vectorizer.py`.
"""

from functools import cached_property
from typing import ClassVar

import numpy as np

from ..._core.indices import are_ends
from ..._core.jit import readonly
from ..._core.threads import over_ranges
from .._encoding import hash_codes
from .._fields import SECRET
from .._template import is_int
from .._tokens import kernels as _kernels

# Columns are numbered in int32.
MAX_COLUMNS = 2**31 - 1
# A single thread returns to Python after about this number of columns, some tenths of a second.
_COLUMNS_PER_CALL = 10_000_000


class Columns:
    """The columns of the n-grams of templates.

    Parameters
    ----------
    plan : Plan
    column_ptr : int64 array of shape (n_templates + 1,)
        The columns of template j are ``column_ptr[j]:column_ptr[j + 1]``.
    """

    #: The beginning of each template's hash table, the keys of all columns, and the slots of all tables. If there are
    #: none, columns are given by the hash of an n-gram alone.
    #: The key of the hashes; see `hash_values`. Those of columns by hash are the same in every process.
    hash_key = b""
    tables = readonly([], np.int64), readonly([], np.uint64), readonly([], np.int32)

    def __init__(self, plan, column_ptr):
        self.plan = plan
        self.column_ptr = column_ptr

    @cached_property
    def groups(self):
        """The template of each column: int32 array of shape (n_columns,)."""
        return np.repeat(np.arange(len(self.column_ptr) - 1, dtype=np.int32), np.diff(self.column_ptr))

    def columns(self, encoded, n_jobs):
        """Return the column of each (token, template).

        Parameters
        ----------
        encoded : EncodedTokens
        n_jobs : int or None

        Returns
        -------
        columns : int32 array of shape (n_tokens * n_templates,)
            Row by row; -1 for n-grams that have no column.
        """
        places = encoded.token_indices
        n_templates = len(self.plan.templates)
        hashes = hash_codes(self.plan, encoded.codes, encoded.values, self.hash_key)
        atoms = self.plan.side("head", encoded.n_positions)
        tables = self.tables
        columns = np.empty(len(places) * n_templates, dtype=np.int32)

        def find_range(start, stop):
            found = columns[start * n_templates : stop * n_templates]
            _kernels.find_columns(hashes, places[start:stop], *atoms, self.column_ptr, *tables, found)

        # Ranges are long, because each one reads the tables of all templates.
        over_ranges(find_range, np.full(len(places), n_templates), n_jobs, _COLUMNS_PER_CALL)
        return columns


class HashedColumns(Columns):
    """A fixed number of columns for n-grams that were never seen; the stateless counterpart of `Vocabulary`.

    Every template has a separate range of columns, so that groups have the same meaning as with a vocabulary.

    Parameters
    ----------
    plan : Plan
    n_features : int
        The number of columns, shared equally among the templates.

    Raises
    ------
    ValueError
        If `n_features` is not an integer, or too small or too large.
    """

    def __init__(self, plan, n_features):
        n_templates = len(plan.templates)
        if not is_int(n_features) or not n_templates <= n_features <= MAX_COLUMNS:
            raise ValueError(
                f"n_features must be None or an integer from {n_templates} (one column for each template) to "
                f"{MAX_COLUMNS}; got {n_features!r}"
            )
        # The ranges differ in size by at most one column.
        super().__init__(plan, np.arange(n_templates + 1, dtype=np.int64) * int(n_features) // n_templates)

    def names(self):
        """Return the names of all columns, such as ``word[0]#17``: object array of str."""
        sizes = np.diff(self.column_ptr).tolist()
        names = [f"{template}#{slot}" for template, size in zip(self.plan.templates, sizes) for slot in range(size)]
        return np.array(names, dtype=object)


class Vocabulary(Columns):
    """The columns of the n-grams seen in training; made by `learn`.

    For each column only its first occurrence is stored. Its key and its name follow from the training tokens, which are
    stored as small integer codes. Keys and hash tables are built at first use, and never pickled. Vocabularies of arcs
    (`features/_arcs`) replace `_first_shape`, `_keys` and `_parts`. Files hold a vocabulary by the names of its
    parameters; see `features/_base.py`.

    Parameters
    ----------
    plan : Plan
    codes, values : lists
        The training tokens; see `EncodedTokens`.
    firsts : int32 array of shape (n_columns,)
        The place of the first occurrence of each column's n-gram, ascending within a template.
    column_ptr : int64 array of shape (n_templates + 1,)
        The columns of template j are ``column_ptr[j]:column_ptr[j + 1]``.
    """

    _first_shape: ClassVar[tuple[int, ...]] = ()
    hash_key = SECRET

    def __init__(self, plan, codes, values, firsts, column_ptr):
        super().__init__(plan, column_ptr)
        self.codes = codes
        self.values = values
        self.firsts = firsts

    def check(self):
        """Raise ValueError unless kernels may read the arrays, and each column has an n-gram of its own."""
        plan = self.plan
        firsts = self.firsts
        n_positions = self._n_positions()
        if not len(self.codes) == len(self.values) == len(plan.fields):
            raise ValueError(f"codes and values must be those of the fields {plan.fields}")
        for codes, values in zip(self.codes, self.values):
            if codes.dtype.kind != "u" or codes.shape != (n_positions,):
                raise ValueError("codes must be unsigned integers, one for each place")
            if codes.max(initial=0) >= len(plan.padding) + len(values):
                raise ValueError("codes must be places in the padding and the values of a field")
            if len(set(values)) < len(values) or not {*map(type, values)} <= {str, int}:
                raise ValueError("the values of a field must be strings and integers, each once")
        # A root is just before its sentence.
        low, high = plan.before - plan.n_roots, n_positions - plan.after
        if firsts.dtype != np.int32 or firsts.shape[1:] != self._first_shape or not firsts.flags.c_contiguous:
            raise ValueError(f"first occurrences must be a C-contiguous int32 array (n_columns, *{self._first_shape})")
        ends = firsts.reshape(len(firsts), -1)[:, :2]
        if ((ends < low) | (ends >= high)).any():
            raise ValueError(f"the places of first occurrences must be from {low} to {high - 1}")
        if self.column_ptr.dtype != np.int64 or not are_ends(self.column_ptr, len(firsts), len(plan.templates)):
            raise ValueError(f"column_ptr must be int64, and rise from 0 to the number of columns, {len(firsts)}")
        # Equal n-grams share a slot.
        if np.count_nonzero(self.tables[-1]) < len(firsts):
            raise ValueError("two columns have the same n-gram")

    def _n_positions(self):
        return len(self.codes[0]) if self.codes else np.iinfo(np.int32).max

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name not in ("tables", "groups")}

    @cached_property
    def tables(self):
        """See `Columns`."""
        # A table is at most half full. Its size is a power of two, so that a bit mask selects the slot.
        sizes = [1 << int(2 * size).bit_length() for size in np.diff(self.column_ptr)]
        slot_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        keys = self._keys()
        slots = np.zeros(slot_ptr[-1], dtype=np.int32)
        _kernels.fill_tables(keys, self.column_ptr, slot_ptr, slots)
        return slot_ptr, keys, slots

    def names(self):
        """Return the names of all columns, such as ``word[-1]|word[0]=the|dog``: object array of str."""
        padding = [padding_name(p) for p in self.plan.padding]
        texts = [np.array(padding + texts_of(values, padding), dtype=object) for values in self.values]
        # In conjunctions, "|" separates the values.
        escaped = [np.array([_escape(text) for text in own], dtype=object) for own in texts]
        names = np.empty(len(self.firsts), dtype=object)
        for j, template in enumerate(self.plan.templates):
            columns = slice(self.column_ptr[j], self.column_ptr[j + 1])
            parts = self._parts(j, self.firsts[columns], escaped if len(template.atoms) > 1 else texts)
            names[columns] = [f"{template}={'|'.join(ngram)}" for ngram in zip(*parts)]
        return names

    def _keys(self):
        """Return the key of each column's n-gram: uint64 array."""
        keys = np.empty(len(self.firsts), dtype=np.uint64)
        hashes = hash_codes(self.plan, self.codes, self.values, self.hash_key)
        atoms = self.plan.side("head", len(self.codes[0]))
        _kernels.keys_of_columns(hashes, self.firsts, *atoms, self.column_ptr, keys)
        return keys

    def _parts(self, j, firsts, texts):
        """For each atom of template j, its values at the given first occurrences, as texts."""
        fields = [(self.plan.fields.index(field), offset) for _, field, offset in self.plan.templates[j]._side_atoms]
        return [texts[f][self.codes[f][firsts + offset]].tolist() for f, offset in fields]


def learn(plan, encoded, min_count, keep_columns, n_jobs):
    """Number the n-grams of the training tokens, by template and then in order of appearance.

    Parameters
    ----------
    plan : Plan
    encoded : EncodedTokens
        The training tokens.
    min_count : int
        N-grams that occur less often get no column.
    keep_columns : bool
        Whether the columns of the training tokens are wanted.
    n_jobs : int or None

    Returns
    -------
    vocabulary : Vocabulary
    columns : int32 array of shape (n_tokens * n_templates,) or None
        As `Vocabulary.columns` of the training tokens.

    Raises
    ------
    ValueError
        If there are more columns than int32 can number.
    """
    n_tokens = len(encoded.token_indices)
    n_templates = len(plan.templates)
    hashes = hash_codes(plan, encoded.codes, encoded.values, Vocabulary.hash_key)
    atom_ptr, shifts, factors = plan.side("head", encoded.n_positions)
    columns = np.empty(n_tokens * n_templates if keep_columns else 0, dtype=np.int32)

    def learn_range(start, stop):
        firsts, counts = np.empty((2, n_tokens), dtype=np.int32)
        keys = np.empty(n_tokens, dtype=np.uint64)
        unkept = np.empty(0 if keep_columns else n_tokens, dtype=np.int32)
        found = []
        for j in range(start, stop):
            atoms = slice(atom_ptr[j], atom_ptr[j + 1])
            n_columns = _kernels.learn_template(
                hashes,
                encoded.token_indices,
                shifts[atoms],
                factors[atoms],
                min_count,
                n_templates if keep_columns else 1,
                columns[j:] if keep_columns else unkept,
                firsts,
                keys,
                counts,
            )
            found.append(firsts[:n_columns].copy())
        return found

    # A single thread gets all templates in one range, because the function returns to Python after each template.
    costs = np.ones(n_templates)
    firsts, column_ptr = number_columns(over_ranges(learn_range, costs, n_jobs, n_templates + 1))
    vocabulary = Vocabulary(plan, encoded.codes, encoded.values, firsts, column_ptr)
    if not keep_columns:
        return vocabulary, None
    # The first column of a template is known only after all templates have been numbered.
    by_token = columns.reshape(n_tokens, n_templates)
    is_kept = True if min_count <= 1 else by_token >= 0
    np.add(by_token, column_ptr[:-1].astype(np.int32), out=by_token, where=is_kept)
    return vocabulary, columns


def number_columns(firsts_of_ranges):
    """Join the first occurrences from ranges of templates; return them and the beginnings of templates."""
    firsts = [own for of_range in firsts_of_ranges for own in of_range]
    column_ptr = np.concatenate([[0], np.cumsum([len(own) for own in firsts])]).astype(np.int64)
    if column_ptr[-1] > MAX_COLUMNS:
        raise ValueError(
            f"the templates have more than {MAX_COLUMNS} different n-grams; raise min_count or set n_features"
        )
    return np.concatenate(firsts), column_ptr


def texts_of(values, padding):
    """Return distinct texts for the values of a field, which also differ from those of padding: list of str."""
    taken = {*padding, *(str(value) for value in values if not isinstance(value, str))}
    # Strings that collide with a reserved name are escaped by a backslash, escaped ones by two, and so on.
    return [f"\\{v}" if isinstance(v, str) and v.lstrip("\\") in taken else str(v) for v in values]


def _escape(text):
    return text.replace("\\", "\\\\").replace("|", "\\|")


def padding_name(padding):
    """Write a padding value: ``<begin-1>`` is the place just before the sentence, ``<root>`` the root of a tree."""
    side, distance = padding
    return f"<{side}{distance:+d}>" if distance else f"<{side}>"
