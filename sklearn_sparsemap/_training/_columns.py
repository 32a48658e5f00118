"""Merging of sparse columns that are equal in all rows.

Words that occur once cause many such columns: two of three in CoNLL-2000. Their weights have the same gradient at each
step, and the same minimum. One column then represents all of them.

Online learners update such weights equally, so the weight of the merged column is the sum of theirs
(`DuplicateColumns`). In CoNLL-2000 this saves a fifth of the entries and two thirds of the weights, and the most used
weights are adjacent. For L-BFGS the penalty must be the same, so k equal columns are replaced by one column with
sqrt(k) times the values, and their weights by one weight of sqrt(k) times the size (`ScaledDuplicateColumns`). This is
a rotation, under which the steps of L-BFGS are invariant.

Used by `_training/_online` and `estimators`.
"""

import numpy as np
from scipy import sparse

from .._core.jit import readonly
from .._core.offsets import ragged_indices
from ._data import begins_of_pieces, make_rows
from .score_models import MANY_FEATURES, LinearModel, sparse_weights

_MANY = 2**18  # entries; smaller data are learned online without merging, because they take little time
# Largest fraction of the columns that may remain if L-BFGS merges columns.
_WORTHWHILE = 0.9
# Number of partial sums of a score, each over a part of the columns: the maximum number of threads.
N_PIECES = 4
# Number of columns, or of their dense weights, that are expanded together, and of rows that are hashed together.
_AT_ONCE, _ROWS_AT_ONCE = 2**16, 2**12


def _mixed(bits):
    """Mix 64-bit numbers in place, so that each bit changes all others (the end of SplitMix64); return them.

    Round numbers differ in few bits, the highest ones, and products with random numbers would keep little of these.
    """
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    return bits


def number_columns(rows, n_features):
    """Number the distinct columns of CSR rows in the order of their indices.

    Columns are identified by a 64-bit hash: the sum over their entries of a mixture of a random number of the row and
    the bits of the value.

    Parameters
    ----------
    rows : Rows
        In canonical form. Without data, all values are equal.
    n_features : int

    Returns
    -------
    patterns : int32 array of shape (n_features,)
        Number of the distinct column; -1 for columns without entries.
    counts : int array of shape (n_features,)
        Number of entries of each column.
    """
    indices, indptr = rows.indices, rows.indptr
    words = np.random.default_rng(0).integers(2**64 - 1, size=len(indptr) - 1, dtype=np.uint64, endpoint=True)
    sums = np.zeros(n_features, np.uint64)
    patterns = np.full(n_features, -1, np.int32)
    for start in range(0, len(words), _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, len(words))
        entries = slice(indptr[start], indptr[stop])
        terms = np.repeat(words[start:stop], np.diff(indptr[start : stop + 1]))
        if len(rows.data):
            # Zeros have one sign.
            values = rows.data[entries].astype(np.float64, copy=False) + 0.0
            terms = _mixed(terms ^ values.view(np.uint64))
        np.add.at(sums, indices[entries], terms)
    counts = np.bincount(indices, minlength=n_features)
    filled = np.flatnonzero(counts)
    _, first, which = np.unique(sums[filled], return_index=True, return_inverse=True)
    patterns[filled] = np.argsort(np.argsort(first))[which]
    return patterns, counts


def _distinct(patterns):
    """Return the first column with each pattern of entries, and their number; see `number_columns`."""
    filled = np.flatnonzero(patterns >= 0)
    _, first, counts = np.unique(patterns[filled], return_index=True, return_counts=True)
    return filled[first], counts


def _expand_dense(coef, merged_of, scale):
    """Return the weights of all columns.

    Parameters
    ----------
    coef : array of shape (n_merged, n_outputs)
        Weights of the merged columns: `scale` times the weight of each of their columns.
    merged_of : int array of shape (n_features,)
        The merged column of each column; -1 if it has no entries.
    scale : array of shape (n_merged,)
    """
    wide = np.zeros((len(merged_of), coef.shape[1]), coef.dtype)
    divisors = scale.astype(coef.dtype)
    n_columns = 1 + _AT_ONCE // coef.shape[1]
    for start in range(0, len(merged_of), n_columns):
        merged = merged_of[start : start + n_columns]
        filled = np.flatnonzero(merged >= 0)
        wide[start + filled] = coef[merged[filled]] / divisors[merged[filled], None]
    return wide


def find_sorted(values, wanted):
    """Return the place of each wanted value in an ascending array, and whether it is there."""
    at = np.searchsorted(values, wanted)
    if not len(values):
        return at, np.zeros(at.shape, bool)
    return at, values.take(at, mode="clip") == wanted


class DuplicateColumns:
    """Merged columns of features.

    Parameters
    ----------
    X : CSR of shape (n_rows, n_features)

    Attributes
    ----------
    rows : Rows
        The features in merged columns. The values of entries are unchanged; a weight of a merged column is a sum of
        equal weights.
    n_features : int
    seen : int array, ascending, or None
        The columns with entries, if the matrix has many others. None if it has not.
    merged_of : int array of shape (n_features,) or (len(seen),)
        The merged column of each column; -1 if it has no entries.
    multiplicity : array of shape (n_columns,)
        Number of columns that each merged column represents.
    cuts : int array of shape (N_PIECES + 1,)
        The beginnings of the pieces of columns. Frequent columns are evenly distributed over the pieces.
    begins : int array of shape (N_PIECES + 1, n_rows)
        The beginning of each row's entries, for each piece, and their end. `OnlineLearner` sets this and `rows` to None
        after training.
    """

    def __init__(self, X):
        own = make_rows(X, X.dtype, lean=True)
        self.n_features = X.shape[1]
        self.seen = None
        if self.n_features > MANY_FEATURES:
            self.seen, indices = np.unique(own.indices, return_inverse=True)
            own = own._replace(indices=readonly(indices, np.int32))
        n_columns = self.n_features if self.seen is None else len(self.seen)
        patterns, frequencies = number_columns(own, n_columns)
        chosen, multiplicity = _distinct(patterns)
        # Distribute columns over the pieces by frequency, round-robin.
        by_rank = np.argsort(-frequencies[chosen], kind="stable")
        ranks = np.arange(len(chosen))
        sizes = (len(chosen) + N_PIECES - 1 - np.arange(N_PIECES)) // N_PIECES
        self.cuts = readonly(np.concatenate([[0], np.cumsum(sizes)]), np.int64)
        numbers = np.full(len(chosen) + 1, -1, np.int32)
        numbers[by_rank] = self.cuts[ranks % N_PIECES] + ranks // N_PIECES
        self.merged_of = numbers[patterns]
        order = np.argsort(numbers[:-1])
        self.multiplicity = multiplicity[order].astype(np.float64)
        # Ones of one byte save memory, and so do indices of 32 bits.
        data = own.data if len(own.data) else np.ones(len(own.indices), np.int8)
        indptr = own.indptr.astype(np.int32 if len(own.indices) < 2**31 else np.int64)
        merged = sparse.csr_array((data, own.indices, indptr), shape=(X.shape[0], n_columns))
        merged = merged[:, chosen[order].astype(np.int32)]
        merged.sort_indices()
        self.rows = make_rows(merged, X.dtype, lean=True)
        self.begins = begins_of_pieces(self.rows, self.cuts[1:-1])

    def transform(self, X):
        """Convert CSR rows of original features so that their products with merged weights are the scores."""
        if self.seen is None:
            merged = self.merged_of[X.indices]
        else:
            at, is_seen = find_sorted(self.seen, X.indices)
            merged = np.where(is_seen, self.merged_of[at], -1)
        known = merged >= 0
        indptr = np.concatenate([[0], np.cumsum(known)])[X.indptr]
        data = X.data[known] / self.multiplicity[merged[known]]
        return sparse.csr_array((data, merged[known], indptr), shape=(X.shape[0], len(self.multiplicity)))

    def inverse_transform(self, model, *, sparse_coef):
        """Return the model of all columns.

        Parameters
        ----------
        model : LinearModel
        sparse_coef : bool
            Whether the result's `coef` is sparse.
        """
        coef = model.coef
        if not sparse_coef and not sparse.issparse(coef) and self.seen is None:
            wide = _expand_dense(coef, self.merged_of, self.multiplicity)
            return LinearModel(wide, model.intercept, model.additional)
        coef = sparse.csr_array(coef)
        own_lengths = np.diff(coef.indptr)
        lengths = np.where(self.merged_of >= 0, own_lengths[self.merged_of], 0)
        indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        data = np.empty(indptr[-1], coef.dtype)
        indices = np.empty(indptr[-1], coef.indices.dtype)
        for start in range(0, len(self.merged_of), _AT_ONCE):
            # The indices of all entries at once would take more memory than the weights.
            chosen = slice(start, start + _AT_ONCE)
            merged, n_entries = self.merged_of[chosen], lengths[chosen]
            entries = ragged_indices(coef.indptr[merged], n_entries)
            target = slice(indptr[start], indptr[start] + len(entries))
            indices[target] = coef.indices[entries]
            data[target] = coef.data[entries] / np.repeat(self.multiplicity[merged], n_entries)
        if self.seen is None:
            wide = sparse.csr_array((data, indices, indptr), shape=(self.n_features, coef.shape[1]))
        else:
            wide = sparse_weights(np.repeat(self.seen, lengths), indices, data, (self.n_features, coef.shape[1]))
        return LinearModel(wide if sparse_coef else wide.toarray(), model.intercept, model.additional)


def find_duplicates(X, coef):
    """Return `DuplicateColumns` of sparse features with many entries or columns if all weights are zero, else None."""
    if not sparse.issparse(X) or (X.nnz < _MANY and X.shape[1] <= MANY_FEATURES):
        return None
    if coef.nnz if sparse.issparse(coef) else coef.any():
        return None
    return DuplicateColumns(X)


def find_scaled_duplicates(X, n_outputs):
    """Return the merged columns of features for L-BFGS; None if merging would not save time.

    Parameters
    ----------
    X : CSR of shape (n_rows, n_features)
    n_outputs : int
        Number of columns of the weights. If the features have more entries than there are weights, finding equal
        columns would take as long as several iterations, and would save little in each.
    """
    if X.nnz > n_outputs * X.shape[1]:
        return None
    patterns, _ = number_columns(make_rows(X, X.dtype, lean=True), X.shape[1])
    chosen, counts = _distinct(patterns)
    return (
        ScaledDuplicateColumns(X, patterns, chosen, counts) if 0 < len(chosen) <= _WORTHWHILE * len(patterns) else None
    )


class ScaledDuplicateColumns:
    """Merged columns for L-BFGS, and the conversion of models between original and merged columns.

    Parameters
    ----------
    X : CSR of shape (n_rows, n_features)
    patterns : int array of shape (n_features,)
        See `number_columns`.
    chosen, counts : int arrays of shape (n_merged,)
        The first column of each pattern, and the number of its columns.

    Attributes
    ----------
    X : CSR of shape (n_rows, n_merged)
        The merged features.
    """

    def __init__(self, X, patterns, chosen, counts):
        columns = sparse.csc_array(X)
        columns.sum_duplicates()
        # Columns are sorted by their first rows, so that adjacent rows use adjacent columns.
        order = np.argsort(columns.indices[columns.indptr[chosen]], kind="stable")
        self._scale = np.sqrt(counts[order])
        self._merged_of = np.append(np.argsort(order), -1)[patterns]
        merged = columns[:, chosen[order]]
        merged.data = merged.data * np.repeat(self._scale, np.diff(merged.indptr))
        self.X = merged.tocsr()

    def transform(self, model):
        """Return the model of the merged columns with the same scores."""
        coef = np.zeros((len(self._scale), model.coef.shape[1]))
        filled = self._merged_of >= 0
        if model.coef.any():
            np.add.at(coef, self._merged_of[filled], model.coef[filled])
        coef /= self._scale[:, None]
        return LinearModel(coef, model.intercept, model.additional)

    def inverse_transform(self, model):
        """Return the model of all columns."""
        coef = _expand_dense(model.coef, self._merged_of, self._scale)
        return LinearModel(coef, model.intercept, model.additional)
