"""Folds of samples that have rows, and hashes of rows.

Used by `estimators` and `features`.
"""

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

_SEED = 0  # seed of the order of samples, so that folds do not depend on `random_state`


def row_words(X):
    """Return a hash of each row of a dense or sparse matrix, equal for equal rows: array of uint64."""
    words = np.random.default_rng(0).integers(2**63, size=X.shape[1], dtype=np.uint64)
    if not sparse.issparse(X):
        X = sparse.csr_array(X)
    bits = np.ascontiguousarray(X.data, np.float64).view(np.uint64)
    # Odd factors mix all bits of a number into the upper bits, which the shift brings down.
    terms = words[X.indices] * (bits * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1))
    terms ^= terms >> np.uint64(29)
    terms[X.data == 0.0] = 0
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    words_of_rows = sums[X.indptr[1:]] - sums[X.indptr[:-1]]
    return (words_of_rows ^ (words_of_rows >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)


def folds_of_rows(row_ptr, X, gold, n_folds, weights=None):
    """Assign the rows of samples to folds, such that no sample is cut, and equal rows are in one fold.

    Samples with a common row belong together, and so on. If this would join more rows than a fold should have, because
    some rows occur in many samples, only samples that are equal in all rows belong together. Samples with rare labels
    are spread over the folds. If rows are numbers, folds do not depend on the order of the samples, and hardly on their
    last digits, and whole weights are equivalent to repetitions.

    Parameters
    ----------
    row_ptr : int array of shape (n_samples + 1,)
        The beginnings of the samples' rows.
    X : array or CSR of shape (n_rows, n_features), or None
        Rows of numbers. With None, samples do not belong together.
    gold : array of shape (n_rows, n_outputs)
        Indicators of the labels of each row; NaN for unknown ones.
    n_folds : int
        Maximum number of folds.
    weights : array of shape (n_rows,), default=None
        Samples of weight zero have no effect on the folds of the others. By default, all weights are 1.

    Returns
    -------
    folds : list of (train, held)
        Indices of rows. Empty if all samples belong together.
    """
    n_samples = len(row_ptr) - 1
    sample_of = np.repeat(np.arange(n_samples), np.diff(row_ptr))
    n_groups = n_samples
    group_of_sample = np.arange(n_samples)
    places_of_samples = np.random.default_rng(_SEED).random(n_samples)
    if X is not None:
        words = row_words(X)
        places_of_samples = _projections(X, sample_of, n_samples)
        n_groups, group_of_sample = _joined(sample_of, words, n_samples)
        largest = np.bincount(group_of_sample[sample_of], minlength=1).max()
        if largest > max(len(sample_of) / n_folds, np.diff(row_ptr).max(initial=0)):
            words_of_samples = _words_of_samples(row_ptr, sample_of, words)
            groups, group_of_sample = np.unique(words_of_samples, return_inverse=True)
            n_groups = len(groups)
    group_of = group_of_sample[sample_of]
    n_folds = min(n_folds, n_groups)
    if n_folds < 2:
        return []
    weights = np.ones(len(group_of)) if weights is None else weights
    counts = weights @ (gold == 1.0)
    rank = np.argsort(np.argsort(counts, kind="stable"))
    rows, labels = np.nonzero((gold == 1.0) & (weights > 0.0)[:, None])
    rarest = np.full(n_groups, gold.shape[1])
    np.minimum.at(rarest, group_of[rows], rank[labels])
    is_ignored = np.bincount(group_of, weights, n_groups) == 0.0
    places = np.full(n_groups, np.inf)
    np.minimum.at(places, group_of_sample, places_of_samples)
    order = np.lexsort((places, rarest, is_ignored))
    fold_of_group = np.empty(n_groups, np.int64)
    fold_of_group[order] = np.arange(n_groups) % n_folds
    fold = fold_of_group[group_of]
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


def _joined(sample_of, words, n_samples):
    """Return the number of groups of samples with common rows, and the group of each sample."""
    distinct, which = np.unique(words, return_inverse=True)
    n = n_samples + len(distinct)
    links = sparse.coo_array((np.ones(len(words), bool), (sample_of, n_samples + which)), shape=(n, n))
    _, found = connected_components(links.tocsr(), directed=False)
    groups, group_of_sample = np.unique(found[:n_samples], return_inverse=True)
    return len(groups), group_of_sample


def _projections(X, sample_of, n_samples):
    """Return the mean of a random projection of the rows of each sample."""
    if not sparse.issparse(X):
        X = np.nan_to_num(X.astype(np.float64, copy=False))
    values = X @ np.random.default_rng(_SEED).normal(size=X.shape[1])
    return np.bincount(sample_of, values, n_samples) / np.maximum(np.bincount(sample_of, minlength=n_samples), 1)


def _words_of_samples(row_ptr, sample_of, words):
    """Return a hash of each sample, equal for samples that are equal in all rows: array of uint64."""
    place = (np.arange(len(words)) - row_ptr[sample_of]).astype(np.uint64)
    terms = words * (place * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms ^ (terms >> np.uint64(29)), dtype=np.uint64)])
    return (sums[row_ptr[1:]] - sums[row_ptr[:-1]]) * np.uint64(0xBF58476D1CE4E5B9)
