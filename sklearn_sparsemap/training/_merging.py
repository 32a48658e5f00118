"""Merging of sparse feature columns that are equal in all rows.

Words that occur once bring many such columns: every third to second one in text. Their weights have the same gradient
and the same minimum. k equal columns are replaced by one column with sqrt(k) times the values, and their weights by one
weight of sqrt(k) times the size. Scores and penalty do not change, nor do the steps of L-BFGS, which is invariant under
rotations. Columns without entries have no weight.
"""

import numpy as np
from scipy import sparse

from ..numerics.places import places_of, starts
from ._data import LinearModel

# Columns are merged if at most this fraction of them remains.
_WORTHWHILE = 0.9


class Merging:
    """Conversion of features and models between original and merged columns.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_features)
    n_outputs : int
        Columns of the weights. Nothing is merged if the features have more entries than there are weights: finding
        equal columns would take as long as several iterations, and save little of each.
    penalised : bool
        Whether the weights are penalised. If not, weights of equal columns need not be equal.

    Attributes
    ----------
    X : ndarray or CSR of shape (n_rows, n_merged)
        The features to learn from.
    """

    def __init__(self, X, n_outputs, penalised):
        self.X, self._places = X, None
        if not (penalised and sparse.issparse(X) and X.nnz <= n_outputs * X.shape[1]):
            return
        columns = sparse.csc_array(X)
        if not columns.has_canonical_format:
            columns = columns.copy()
            columns.sum_duplicates()
        first = first_equal(columns)
        chosen, places, counts = np.unique(first[first >= 0], return_inverse=True, return_counts=True)
        if len(chosen) > _WORTHWHILE * len(first):
            return
        # In the order of their first rows, so that adjacent rows use adjacent columns.
        order = np.argsort(columns.indices[columns.indptr[chosen]], kind="stable")
        chosen, places, counts = chosen[order], np.argsort(order)[places], counts[order]
        self._n_features, self._scale = len(first), np.sqrt(counts)
        # Columns with entries, and the index of their weights.
        self._filled, self._places = np.flatnonzero(first >= 0), places
        merged = columns[:, chosen]
        merged.data = merged.data * np.repeat(self._scale, np.diff(merged.indptr))
        self.X = merged.tocsr()

    def shrink(self, model):
        """Return the model of the merged columns with the same scores."""
        if self._places is None:
            return model
        coef = np.zeros((len(self._scale), model.coef.shape[1]))
        np.add.at(coef, self._places, model.coef[self._filled])
        return LinearModel(coef / self._scale[:, None], model.intercept, model.additional)

    def expand(self, model):
        """Return the model of all columns."""
        if self._places is None:
            return model
        coef = np.zeros((self._n_features, model.coef.shape[1]))
        coef[self._filled] = (model.coef / self._scale[:, None])[self._places]
        return LinearModel(coef, model.intercept, model.additional)


def first_equal(columns):
    """Return for each column of a canonical CSC matrix the first column that equals it; -1 for columns without entries.

    Columns are hashed by random sums of their entries; those with equal hashes are compared.
    """
    indptr, indices, data = columns.indptr.astype(np.int64), columns.indices, columns.data
    lengths, first = np.diff(indptr), np.full(columns.shape[1], -1)
    filled = np.flatnonzero(lengths)
    if not len(filled):
        return first
    words = np.random.default_rng(0).integers(2**63, size=columns.shape[0], dtype=np.uint64)
    terms = words[indices] * (2 * np.ascontiguousarray(data, np.float64).view(np.uint64) + np.uint64(1))
    _, begins, which = np.unique(np.add.reduceat(terms, indptr[filled]), return_index=True, return_inverse=True)
    first[filled] = filled[begins[which]]
    others = np.flatnonzero((first >= 0) & (first != np.arange(len(first))))
    same = lengths[others] == lengths[first[others]]
    first[others[~same]] = others[~same]
    others = others[same]
    if len(others):
        one, other = (places_of(indptr[c], lengths[others]) for c in (others, first[others]))
        equal = (indices[one] == indices[other]) & (data[one] == data[other])
        wrong = others[~np.logical_and.reduceat(equal, starts(lengths[others])[:-1])]
        first[wrong] = wrong
    return first
