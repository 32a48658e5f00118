"""Rows of a few sentences of dicts, without numbering their features first.

`TokenPairs` numbers equal features of many tokens once. For one sentence, that takes longer than looking each feature
up.

Used by `token_dicts.py`.
"""

import numpy as np
from numba import types

from ..._core.jit import FLOATS_OUT, INTS, PARTS_OUT, entry

_MAX_SENTENCES, _MAX_TOKENS = 16, 256  # sentences and tokens up to which this is faster than `TokenPairs`
_NUMBERS = frozenset((float, int, bool))
_LARGEST = 2**53  # largest number that is read here; larger ints are rounded as floats


@entry(types.boolean(INTS, PARTS_OUT, FLOATS_OUT))
def _sort_rows(row_ptr, columns, values):
    """Sort the entries of each row by their columns; return whether all columns of each row differ.

    Parameters
    ----------
    row_ptr : int64 array of shape (n_rows + 1,)
    columns, values : int32 and float64 arrays of shape (n_entries,)
        Overwritten. Most rows are sorted already.
    """
    for r in range(len(row_ptr) - 1):
        for at in range(row_ptr[r] + 1, row_ptr[r + 1]):
            column, value, place = columns[at], values[at], at
            while place > row_ptr[r] and columns[place - 1] > column:
                columns[place], values[place] = columns[place - 1], values[place - 1]
                place -= 1
            columns[place], values[place] = column, value
            if place > row_ptr[r] and columns[place - 1] == column:
                return False
    return True


def rows_of_few(X, separator, column_of):
    """Return the rows of a few sentences of dicts of strings and numbers, or None for other samples.

    A caller that gets None reads the samples by `TokenPairs`, which also has the errors.

    Parameters
    ----------
    X : sequence of sentences
    separator : str
        Between the parts of a name.
    column_of : dict of str -> int
        The column of each name.

    Returns
    -------
    values, columns, row_ptr : float64, int32 and int32 arrays
        A CSR matrix in canonical format.
    indptr : int64 array of shape (n_sentences + 1,)
        The beginning of each sentence.
    """
    if type(X) not in (list, tuple) or len(X) > _MAX_SENTENCES:
        return None
    columns, row_ptr, indptr, places, weights = [], [0], [0], [], []
    add, find = columns.append, column_of.get
    for sentence in X:
        if type(sentence) not in (list, tuple) or len(row_ptr) + len(sentence) > _MAX_TOKENS:
            return None
        for token in sentence:
            if type(token) is not dict:
                return None
            for attribute, value in token.items():
                kind = type(value)
                if kind is str:
                    try:
                        column = find(attribute + separator + value)
                    except TypeError:
                        # The name of the feature is no string.
                        return None
                elif kind in _NUMBERS and type(attribute) is str and -_LARGEST < value < _LARGEST:
                    if not value:
                        continue
                    column = find(attribute)
                    if column is not None and value != 1:
                        places.append(len(columns))
                        weights.append(value)
                else:
                    return None
                if column is not None:
                    add(column)
            row_ptr.append(len(columns))
        indptr.append(len(row_ptr) - 1)
    if len(row_ptr) == 1:
        return None
    row_ptr = np.array(row_ptr)
    values = np.ones(len(columns))
    if places:
        values[places] = weights
    columns = np.array(columns, np.int32)
    if not _sort_rows(row_ptr, columns, values):
        return None
    return values, columns, row_ptr.astype(np.int32), np.array(indptr)
