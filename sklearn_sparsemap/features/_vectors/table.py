"""Tables of word vectors, made from the forms in which people have them.

Used by `base.py`, `word_clusters.py` and `word_vectors.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from os import PathLike

import numpy as np

from ..._core.indices import are_indices
from ..._core.plain import add_form
from ..._core.validation import check_matrix, quoted
from ...datasets._word_vectors import load_word_vectors

_WANTED = (
    "a dict from word to array, a pair (words, array), an object with key_to_index and vectors, a vocabulary of "
    "spaCy's, or the path of a text file"
)


class WordTable:
    """Words and their vectors. It never changes, so copies of estimators share it.

    Parameters
    ----------
    words : list of str
        If a word occurs twice, the first one counts.
    rows : int array of shape (n_words,)
        The row of each word. Words may share a row.
    matrix : float32 or float64 array of shape (n_rows, n_columns)

    Raises
    ------
    ValueError
        If the parts do not fit together, or a number is not finite.
    """

    def __init__(self, words, rows, matrix):
        self.words, self.rows, self.matrix = words, rows, matrix
        if matrix.ndim != 2 or matrix.dtype not in (np.float32, np.float64) or not matrix.size:
            raise ValueError(
                f"vectors must have rows and columns of floats; got {matrix.dtype} of shape {matrix.shape}"
            )
        if not len(words):
            raise ValueError("vectors has no word; give at least one")
        odd = next((word for word in words if not isinstance(word, str)), None)
        if odd is not None:
            raise ValueError(f"the words of vectors must be strings; got {quoted(odd)} of type {type(odd).__name__}")
        if not are_indices(rows, len(matrix), len(words)):
            raise ValueError(f"each of {len(words)} words of vectors needs a row from 0 to {len(matrix) - 1}")
        # The sum is finite if all numbers are, except for overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            is_finite = np.isfinite(matrix.sum()) or np.isfinite(matrix).all()
        if not is_finite:
            wrong = ~np.isfinite(matrix).all(axis=1)
            word = next((word for word, row in zip(words, rows.tolist()) if wrong[row]), None)
            raise ValueError(f"the vector of {quoted(word)} has NaN or infinity; remove the word")

    def __deepcopy__(self, memo):
        return self

    def __getstate__(self):
        return {"words": self.words, "rows": self.rows, "matrix": self.matrix}

    def __repr__(self):
        return f"WordTable({len(self.words)} words, {self.matrix.shape[1]} columns)"

    @cached_property
    def _row_of(self):
        return dict(zip(reversed(self.words), self.rows[::-1].tolist()))

    def used(self):
        """Return the vectors that belong to a word, each once."""
        return self.matrix[np.unique(self.rows)]

    def find(self, words, lower):
        """Return the row of each value of a field, -1 for unknown words.

        Parameters
        ----------
        words : list of str or int
            Integers are unknown.
        lower : bool
            Whether to look for the lower-case form of a word that is unknown as it is.

        Returns
        -------
        rows : int64 array of shape (n_words,)
        """
        find = self._row_of.get
        rows = [find(word, -1) for word in words]
        if lower:
            pairs = zip(words, rows)
            rows = [find(word.lower(), -1) if row < 0 and isinstance(word, str) else row for word, row in pairs]
        return np.array(rows, np.int64)


add_form("features.WordTable", WordTable)


def table_of(vectors):
    """Return vectors of words, in any of the forms that users may give, as a `WordTable`.

    Raises
    ------
    ValueError
        If the form is none of these, or the vectors are invalid.
    """
    if isinstance(vectors, WordTable):
        return vectors
    if isinstance(vectors, str | PathLike):
        vectors = load_word_vectors(vectors)
    if isinstance(vectors, Mapping):
        words = list(vectors)
        return WordTable(words, np.arange(len(words)), _stacked(words, vectors))
    if hasattr(vectors, "key_to_index") and hasattr(vectors, "vectors"):
        index = vectors.key_to_index
        return WordTable(list(index), np.array(list(index.values()), np.int64), _as_matrix(vectors.vectors))
    if hasattr(vectors, "vectors") and hasattr(vectors, "strings"):
        return _table_of_vocabulary(vectors)
    if isinstance(vectors, tuple | list) and len(vectors) == 2:
        words, matrix = vectors
        if isinstance(words, str):
            raise ValueError(f"vectors must be a pair (words, array); its first entry is the string {quoted(words)}")
        words = words.tolist() if hasattr(words, "tolist") else words
        words = words if isinstance(words, list) else list(words)
        matrix = _as_matrix(matrix)
        if len(words) != len(matrix):
            raise ValueError(f"vectors has {len(words)} words and {len(matrix)} rows; give one row a word")
        return WordTable(words, np.arange(len(words)), matrix)
    raise ValueError(f"vectors must be {_WANTED}; got {type(vectors).__name__}")


def unit_rows(matrix):
    """Return rows divided by their lengths; those of zeros stay."""
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))[:, None]
    return np.divide(matrix, lengths, out=np.zeros_like(matrix), where=lengths > 0)


def _table_of_vocabulary(vocabulary):
    """Return the vectors of a vocabulary of spaCy's: rows by the hashes of words, and words by their hashes."""
    rows_by_hash = getattr(vocabulary.vectors, "key2row", None)
    if not rows_by_hash:
        raise ValueError("the vocabulary has no word vectors; load a pipeline that has them, such as a medium one")
    words, rows = [], []
    for key, row in rows_by_hash.items():
        try:
            words.append(vocabulary.strings[key])
        except KeyError:
            # A hash whose word the vocabulary does not hold.
            continue
        rows.append(row)
    return WordTable(words, np.array(rows, np.int64), _as_matrix(vocabulary.vectors.data))


def _stacked(words, vectors):
    """Return the vectors of a dict as a matrix."""
    rows = [np.asarray(vectors[word]) for word in words]
    for word, row in zip(words, rows):
        if row.ndim != 1 or row.shape != rows[0].shape:
            raise ValueError(
                f"the vector of {quoted(word)} has shape {row.shape}, that of {quoted(words[0])} {rows[0].shape}; all "
                "must have one axis of the same length"
            )
    return _as_matrix(np.stack(rows) if rows else np.empty((0, 0)))


def _as_matrix(values):
    """Return numbers as an array of float32, if they are at most that, or float64; no copy if they are already."""
    check_matrix(values, "vectors")
    matrix = np.asarray(values)
    if matrix.dtype.kind not in "fiub":
        raise ValueError(f"vectors must hold numbers; got {matrix.dtype}")
    return matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(np.result_type(matrix, np.float32))
