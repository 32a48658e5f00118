"""Label sequences without steps: training leaves them out, and their predictions are empty."""

import numpy as np
from scipy import sparse

from ..._core.ragged import RaggedArray
from ..._core.validation import are_empty
from ...training._structure_task import is_flat
from .._failures import warn_user


def accepts_empty(structure):
    """Tell whether samples of a structure may have no rows, which only label sequences may."""
    return structure.labelled and not is_flat(structure)


def without_empty(structure, X, y, sample_weight=None):
    """Leave out training samples that have no steps, with a warning that counts them.

    Parameters
    ----------
    structure : Structure or function of graphs
    X, y : sequences of samples
        In the user's form. If they are not sequences of the same length, a later check raises an error.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    X, y, sample_weight
    """
    if not accepts_empty(structure):
        return X, y, sample_weight
    n_samples = _n_samples(X)
    if n_samples is None or n_samples != _n_samples(y):
        return X, y, sample_weight
    empty = are_empty(X) & are_empty(y)
    if not empty.any() or empty.all():
        return X, y, sample_weight
    warn_user(
        f"samples without steps are left out: {empty.sum()} of {n_samples}, the first of them X[{empty.argmax()}]"
    )
    kept = np.flatnonzero(~empty)
    X, y = (a[kept] if isinstance(a, RaggedArray) else [list(a)[i] for i in kept] for a in (X, y))
    if sample_weight is not None and len(sample_weight) == len(empty):
        sample_weight = np.asarray(sample_weight)[kept]
    return X, y, sample_weight


def rows_only(X):
    """Return a RaggedArray without the samples that have no rows; the rows are not copied."""
    return RaggedArray._of_checked(X.values, np.unique(X.indptr)) if (X.lengths == 0).any() else X


def with_empty(X, answer, of_empty):
    """Return the results of all samples.

    Parameters
    ----------
    X : RaggedArray
    answer : callable
        Returns the results of the samples of `rows_only`. It is called only if there is such a sample.
    of_empty : object
        The result of a sample without rows.
    """
    if X.lengths.all():
        return answer()
    results = iter(answer() if X.indptr[-1] else [])
    return [next(results) if n_rows else of_empty for n_rows in X.lengths.tolist()]


def _n_samples(samples):
    is_sequence = hasattr(samples, "__len__") and not isinstance(samples, str | bytes | dict)
    return None if not is_sequence or hasattr(samples, "columns") or sparse.issparse(samples) else len(samples)
