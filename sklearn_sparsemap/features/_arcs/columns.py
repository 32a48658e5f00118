"""Arcs as flat arrays, and their columns: by hash, or by the vocabulary of training sentences.

Used by `features/_triples` and `vectorizer.py`.
"""

import numpy as np

from ..._core.jit import readonly
from ..._core.threads import over_ranges
from .._arcs import kernels
from .._encoding import Plan, hash_codes
from .._fields import hash_values
from .._tokens.columns import Vocabulary, number_columns


class ArcPlan(Plan):
    """Arc templates as arrays.

    Parameters
    ----------
    templates : tuple of ArcTemplate
    derived_fields : mapping
        Name to (source field, function).
    """

    def __init__(self, templates, derived_fields):
        super().__init__(templates, derived_fields)
        self._relations = relation_totals(self, kernels.DIRECTIONS)
        between = [own[0] if own else ((None, None), 0) for own in self.atoms_of("between")]
        names = [name for (_, name), _ in between]
        middle_fields = list(dict.fromkeys(name for name in names if name is not None))
        self._middles = [-1 if name is None else middle_fields.index(name) for name in names]
        self._middle_factors = [factor for _, factor in between]
        self._middle_fields = np.array([self.fields.index(field) for field in middle_fields], np.int64)

    def arrays(self, codes, values, key, roots=(), lengths=()):
        """Return encoded fields and the beginnings of sentences in them, in the form that kernels take.

        For `key` see `hash_values`.
        """
        n_positions = len(codes[0]) if codes else 0
        return kernels.Arcs(
            readonly(hash_codes(self, codes, values, key), np.uint64),
            readonly(roots, np.int64),
            readonly(lengths, np.int64),
            *self.side("head", n_positions),
            *self.side("mod", n_positions),
            readonly(self._relations, np.uint64),
            readonly(self._middles, np.int64),
            readonly(self._middle_factors, np.uint64),
            readonly(self._middle_fields * n_positions, np.int64),
        )


def relation_totals(plan, directions):
    """Return the part of direction and distance in each template's key: shape (n_relations, n_templates).

    Triples call it, too.
    """
    values = {"direction": hash_values(directions)[:, None], "distance": hash_values(kernels.DISTANCES)}
    totals = np.zeros((len(directions), len(kernels.DISTANCES), len(plan.templates)), dtype=np.uint64)
    for relation, hashes in values.items():
        for j, atoms in enumerate(plan.atoms_of(relation)):
            for _, factor in atoms:
                totals[:, :, j] += factor * hashes
    return totals.reshape(-1, len(plan.templates))


def arcs_of(plan, encoded, key):
    """Lay out the sentences of `EncodedTokens` for the kernels; for `key` see `hash_values`."""
    lengths = np.diff(encoded.indptr)
    return plan.arrays(encoded.codes, encoded.values, key, encoded.token_indices[encoded.indptr[:-1]] - 1, lengths)


def fill(arcs, columns, n_jobs):
    """Find the columns of all arcs.

    Parameters
    ----------
    arcs : Arcs
    columns : Columns
        The columns of n-grams.
    n_jobs : int or None

    Returns
    -------
    indices : int32 array
        The columns of all rows, ascending within each.
    row_ptr : int array of shape (n_rows + 1,)
        The beginnings of rows in `indices`.
    indptr : int64 array of shape (n_sentences + 1,)
        The beginnings of sentences in `row_ptr`.
    """
    n_fields = len(arcs.middle_starts)
    n_sentences = len(arcs.lengths)
    counts = np.zeros(n_sentences * n_fields, dtype=np.int64)
    kernels.count_middles(arcs, counts)
    n_readers = np.bincount(arcs.middles + 1, minlength=n_fields + 1)
    most = arcs.lengths**2 * n_readers[0] + counts.reshape(n_sentences, n_fields) @ n_readers[1:]
    # The beginning of each sentence's columns if no column is unknown or a duplicate by hashing.
    starts = np.concatenate([[0], np.cumsum(most)])
    indptr = np.concatenate([[0], np.cumsum(arcs.lengths * (arcs.lengths + 1))])
    indices = np.empty(starts[-1], dtype=np.int32)
    counts = np.empty(indptr[-1], dtype=np.int32)

    def fill_range(start, stop):
        first = int(starts[start])
        return first, kernels.fill_rows(arcs, columns, indptr, start, stop, indices, first, counts)

    end = 0
    for first, stop in over_ranges(fill_range, np.diff(indptr), n_jobs):
        # Remove the gaps between ranges, in place.
        if end < first:
            indices[end : end + stop - first] = indices[first:stop]
        end += stop - first
    # A view would keep the whole array alive.
    indices = indices[:end] if end > 0.9 * len(indices) else indices[:end].copy()
    row_ptr = np.zeros(len(counts) + 1, dtype=np.int32 if end < 2**31 else np.int64)
    np.cumsum(counts, out=row_ptr[1:])
    return indices, row_ptr, indptr


def as_columns(columns):
    """Return `Columns` in the form that kernels take."""
    column_ptr = readonly(columns.column_ptr, np.int64)
    sizes = readonly(np.diff(columns.column_ptr), np.uint64)
    slot_ptr, keys, slots = columns.tables
    slot_ptr = readonly(slot_ptr, np.int64)
    keys = readonly(keys, np.uint64)
    slots = readonly(slots, np.int32)
    return kernels.Columns(column_ptr, sizes, slot_ptr, keys, slots)


class ArcVocabulary(Vocabulary):
    """The columns of the n-grams seen at the arcs of training sentences; made by `learn_arcs`.

    Parameters
    ----------
    firsts : int32 array of shape (n_columns, 3)
        The places of head, modifier and the word between at the first occurrence of each column's n-gram.

    For the others see `Vocabulary`.
    """

    _first_shape = (3,)

    def check(self):
        heads, mods, middles = self.firsts.T
        if ((middles < 0) | (middles >= self._n_positions()) | (heads == mods)).any():
            raise ValueError("first occurrences must have different heads and modifiers, and a place between")
        super().check()

    def _keys(self):
        keys = np.empty(len(self.firsts), dtype=np.uint64)
        arcs = self.plan.arrays(self.codes, self.values, self.hash_key)
        kernels.keys_of_columns(arcs, self.firsts, self.column_ptr, keys)
        return keys

    def _parts(self, j, firsts, texts):
        fields = self.plan.fields
        head, mod, middle = firsts.T
        parts = []
        for atom in self.plan.templates[j].atoms:
            if atom[0] == "direction":
                parts.append(np.where(mod > head, "right", "left"))
            elif atom[0] == "distance":
                names = np.array(["", *kernels.DISTANCES[:5], *5 * kernels.DISTANCES[5:6], kernels.DISTANCES[6]])
                parts.append(names[np.minimum(abs(mod - head), 11)])
            else:
                f = fields.index(atom[1])
                places = middle if atom[0] == "between" else (head if atom[0] == "head" else mod) + atom[2]
                parts.append(texts[f][self.codes[f][places]])
        return [part.tolist() for part in parts]


def learn_arcs(plan, encoded, gold, min_count, n_jobs):
    """Number the n-grams of the arcs of training sentences, by template and then in order of appearance.

    Parameters
    ----------
    plan : ArcPlan
    encoded : EncodedTokens
        The training sentences.
    gold : int64 array of shape (n_tokens,) or None
        The head of each word, to learn from the arcs of trees alone.
    min_count : int
        N-grams that occur less often get no column.
    n_jobs : int or None

    Returns
    -------
    vocabulary : ArcVocabulary

    Raises
    ------
    ValueError
        If there are more columns than int32 can number.
    """
    arcs = arcs_of(plan, encoded, ArcVocabulary.hash_key)
    word_ptr = readonly(encoded.indptr, np.int64)
    gold = readonly([] if gold is None else gold, np.int64)

    def learn_range(start, stop):
        learned = [kernels.learn_template(arcs, j, word_ptr, gold, min_count) for j in range(start, stop)]
        return [firsts[:n].copy() for firsts, n in learned]

    # Templates cost about the same each, at every arc.
    costs = np.full(len(plan.templates), int(arcs.lengths @ arcs.lengths))
    firsts, column_ptr = number_columns(over_ranges(learn_range, costs, n_jobs))
    return ArcVocabulary(plan, encoded.codes, encoded.values, firsts, column_ptr)
