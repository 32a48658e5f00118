"""Columns of sparse features that are the same in all rows, learned as one.

Words that occur once bring many such columns: in text, every third to second one. Their weights have the same gradient,
and the same minimum. As one weight, of sqrt(k) times the size for k columns, in a column of sqrt(k) times the values,
they have the same scores and the same penalty, and the steps of L-BFGS are the same, too: it is invariant under
rotations. Columns without entries have no weight.
"""

import numpy as np
from scipy import sparse

from ..numerics.places import places_of, starts
from ._data import LinearModel

# Columns are merged if no more than this share of them is left.
_WORTHWHILE = 0.9


class Merging:
    """What samples and models are with and without equal columns.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_features)
    n_outputs : int
        Columns of the weights. Where features have more entries than there are weights, nothing is merged: to look for
        equal columns takes as long as some iterations do, and would save little of each.
    penalised : bool
        Whether the weights are. If not, nothing would make those of equal columns equal.

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
        # In the order of their first rows: what a row has is near to what the next one has.
        order = np.argsort(columns.indices[columns.indptr[chosen]], kind="stable")
        chosen, places, counts = chosen[order], np.argsort(order)[places], counts[order]
        self._n_features, self._scale = len(first), np.sqrt(counts)
        # Columns with entries, and where the weight of each is.
        self._filled, self._places = np.flatnonzero(first >= 0), places
        merged = columns[:, chosen]
        merged.data = merged.data * np.repeat(self._scale, np.diff(merged.indptr))
        self.X = merged.tocsr()

    def shrink(self, model):
        """Return a model of the merged columns that gives a model's scores."""
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
    """Return for each column of a canonical CSC matrix the first one that equals it; -1 for those without entries.

    Columns are told apart by random sums of their entries; those that have the same one are compared.
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
