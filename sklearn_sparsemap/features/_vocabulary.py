"""The n-grams seen in training, and their columns."""

import numpy as np

from . import _kernels
from ._encoding import hash_codes

# Columns are numbered in int32.
MAX_COLUMNS = 2**31 - 1


class Vocabulary:
    """The columns of the n-grams seen in training; made by `learn`.

    All that is stored of a column is where it first occurred: its key and its name follow from the training
    tokens, which are kept as small integer codes. Keys and hash tables are built at the first use, and never
    pickled.

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

    def __init__(self, plan, codes, values, firsts, column_ptr):
        self.plan = plan
        self.codes = codes
        self.values = values
        self.firsts = firsts
        self.column_ptr = column_ptr
        self._tables = None
        self._groups = None

    def __getstate__(self):
        return {**self.__dict__, "_tables": None, "_groups": None}

    @property
    def groups(self):
        """The template of each column: int32 array of shape (n_columns,)."""
        if self._groups is None:
            self._groups = template_of_columns(self.column_ptr)
        return self._groups

    @property
    def tables(self):
        """Where each template's hash table begins, the keys of all columns, and the slots of all tables."""
        if self._tables is None:
            # Every table is at most half full, and a power of two so that a bit mask finds the slot.
            sizes = [1 << int(2 * size).bit_length() for size in np.diff(self.column_ptr)]
            slot_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
            keys = self._keys()
            slots = np.zeros(slot_ptr[-1], dtype=np.int32)
            _kernels.fill_tables(keys, self.column_ptr, slot_ptr, slots)
            self._tables = slot_ptr, keys, slots
        return self._tables

    def columns(self, encoded):
        """Return the column of each (token, template).

        Parameters
        ----------
        encoded : EncodedTokens

        Returns
        -------
        columns : int32 array of shape (n_tokens * n_templates,)
            Row by row; -1 for n-grams that have no column.
        """
        plan = self.plan
        columns = np.empty(len(encoded.places) * len(plan.templates), dtype=np.int32)
        _kernels.find_columns(
            encoded.hashes(plan),
            encoded.places,
            plan.atom_ptr,
            plan.shifts(encoded.n_places),
            plan.factors,
            self.column_ptr,
            *self.tables,
            columns,
        )
        return columns

    def names(self):
        """Return the names of all columns, such as ``word[-1]|word[0]=the|dog``: object array of str."""
        texts = [
            np.array([padding_name(p) for p in self.plan.padding] + [str(v) for v in values], dtype=object)
            for values in self.values
        ]
        names = np.empty(len(self.firsts), dtype=object)
        for j, template in enumerate(self.plan.templates):
            columns = slice(self.column_ptr[j], self.column_ptr[j + 1])
            parts = self._parts(j, self.firsts[columns], texts)
            names[columns] = [f"{template}={'|'.join(ngram)}" for ngram in zip(*parts)]
        return names

    def _keys(self):
        keys = np.empty(len(self.firsts), dtype=np.uint64)
        _kernels.keys_of_columns(
            hash_codes(self.plan, self.codes, self.values),
            self.firsts,
            self.plan.atom_ptr,
            self.plan.shifts(len(self.codes[0])),
            self.plan.factors,
            self.column_ptr,
            keys,
        )
        return keys

    def _parts(self, j, firsts, texts):
        """For each atom of template j, its values at the given first occurrences, as texts."""
        return [texts[f][self.codes[f][firsts + offset]].tolist() for f, offset in self.plan.atoms(j)]


def learn(plan, encoded, min_count, keep_columns):
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
    n_tokens, n_templates = len(encoded.places), len(plan.templates)
    hashes = encoded.hashes(plan)
    shifts = plan.shifts(encoded.n_places)
    stride = n_templates if keep_columns else 1
    columns = np.empty(n_tokens * stride, dtype=np.int32)
    firsts, counts = np.empty((2, n_tokens), dtype=np.int32)
    keys = np.empty(n_tokens, dtype=np.uint64)
    firsts_of_templates = []
    column_ptr = [0]
    for j in range(n_templates):
        atoms = slice(plan.atom_ptr[j], plan.atom_ptr[j + 1])
        own_columns = columns[j:] if keep_columns else columns
        n_columns = _kernels.learn_template(
            hashes,
            encoded.places,
            shifts[atoms],
            plan.factors[atoms],
            min_count,
            column_ptr[-1],
            stride,
            own_columns,
            firsts,
            keys,
            counts,
        )
        firsts_of_templates.append(firsts[:n_columns].copy())
        column_ptr.append(column_ptr[-1] + n_columns)
        if column_ptr[-1] > MAX_COLUMNS:
            raise too_many_columns()
    firsts = np.concatenate(firsts_of_templates)
    vocabulary = Vocabulary(plan, encoded.codes, encoded.values, firsts, np.array(column_ptr, dtype=np.int64))
    return vocabulary, columns if keep_columns else None


def too_many_columns():
    """The error of a vocabulary that outgrows int32."""
    return ValueError(
        f"the templates have more than {MAX_COLUMNS} different n-grams; raise min_count or set n_features"
    )


def template_of_columns(column_ptr):
    """Expand ranges of columns into the template of each column: int32 array."""
    return np.repeat(np.arange(len(column_ptr) - 1, dtype=np.int32), np.diff(column_ptr))


def padding_name(padding):
    """Write a padding value: ``<begin-1>`` is the place just before the sentence, ``<root>`` the root of a tree."""
    side, distance = padding
    return f"<{side}{distance:+d}>" if distance else f"<{side}>"
