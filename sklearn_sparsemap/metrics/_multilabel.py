"""Metrics of label sets.

Used by `_parts.py` and `_rankings.py`.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .._core.annotations import Any, ArrayLike
from .._core.indicators import as_indicator, as_numbers, label_sets, names_in, same_order
from .._core.tables import are_default, column_names
from .._core.validation import check_matrix, check_not_masked
from ._flatten import weighted_mean, weights_of


def example_f1_score(
    y_true: Any, y_pred: Any, *, sample_weight: ArrayLike | None = None, zero_division: float = 1.0
) -> float:
    """Compute the F1 of the labels of each sample, averaged over the samples: the "example F1" of multilabel papers.

    The F1 of a sample with true labels A and predicted labels B is ``2 |A & B| / (|A| + |B|)``.

    Parameters
    ----------
    y_true, y_pred : array-like or sparse matrix of shape (n_samples, n_labels), or sequence of length n_samples
        The true and the predicted labels: two indicator matrices, or two sequences of collections of names. The columns
        of two tables are matched by their names.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.
    zero_division : float in [0, 1] or nan, default=1.0
        F1 of a sample if A and B are both empty. NaN leaves such samples out.

    Returns
    -------
    score : float
        With ``zero_division=0.0`` it equals ``sklearn.metrics.f1_score(y_true, y_pred, average="samples")``, whose
        default is 0 for samples with A and B empty.

    Raises
    ------
    ValueError
        If the matrices are not indicator matrices or differ in shape, there is no sample to count, or a parameter is
        invalid.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import example_f1_score
    >>> y_true = [[1, 1, 0], [0, 1, 0], [0, 0, 0]]
    >>> y_pred = [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    >>> round(example_f1_score(y_true, y_pred), 3)
    0.778
    >>> round(example_f1_score(y_true, y_pred, zero_division=0.0), 3)
    0.444
    >>> example_f1_score([{"jazz", "music"}, {"rock"}], [("music",), ("rock",)])
    0.833...
    """
    if not _is_fraction_or_nan(zero_division):
        raise ValueError(f"zero_division must be a number from 0 to 1, or nan; got {zero_division!r}")
    true, pred = _check_pair(y_true, y_pred)
    n_samples = true.shape[0]
    if not n_samples:
        raise ValueError("y_true has no samples; the F1 of nothing is undefined")
    weights = weights_of(sample_weight, y_true, n_samples)
    n_labels = _row_sums(true) + _row_sums(pred)
    # A dense and a sparse matrix have a sparse product.
    both = (
        pred.multiply(true) if sparse.issparse(pred) else true.multiply(pred) if sparse.issparse(true) else true & pred
    )
    is_empty = n_labels == 0
    scores = 2 * _row_sums(both) / np.maximum(n_labels, 1)
    if np.isnan(zero_division):
        weights = np.where(is_empty, 0.0, weights)
        if not weights.any():
            raise ValueError("no sample is left to count; set zero_division to a number")
    else:
        scores[is_empty] = zero_division
    return weighted_mean(scores, weights)


def hierarchical_f1_score(
    y_true: Any, y_pred: Any, hierarchy: Any, *, average: str = "micro", sample_weight: ArrayLike | None = None
) -> float:
    """Compute the F1 of labels together with all their ancestors in a hierarchy.

    The ancestors of true and predicted labels are added first, so a wrong prediction with the correct parent is
    partially correct [1]_.

    Parameters
    ----------
    y_true, y_pred : array-like or sparse matrix of shape (n_samples, n_labels), or sequence of length n_samples
        The true and the predicted labels: two indicator matrices, or two sequences of collections of names. The columns
        of tables are matched with the labels of the hierarchy by their names. Ancestors may be missing.
    hierarchy : Hierarchy
        A hierarchy of `sklearn_sparsemap.factors`, with labels by index, paths, or from edges.
    average : {"micro", "samples"}, default="micro"
        Whether to compute the F1 over all labels of all samples together, as in the paper, or to average the F1 of the
        samples.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

    Returns
    -------
    score : float

    Raises
    ------
    ValueError
        If the matrices are not indicator matrices, differ in shape, have no samples or, for "micro", no labels.

    References
    ----------
    .. [1] Kiritchenko, Matwin and Famili. Functional annotation of genes using hierarchical text categorization. 2005.

    Examples
    --------
    >>> from sklearn_sparsemap.factors import Hierarchy
    >>> from sklearn_sparsemap.metrics import hierarchical_f1_score
    >>> hierarchy = Hierarchy(["animal", "animal/cat", "animal/dog"])
    >>> hierarchical_f1_score([[0, 1, 0]], [[0, 0, 1]], hierarchy)
    0.5
    """
    if average not in ("micro", "samples"):
        raise ValueError(f"average={average!r} is not one of 'micro', 'samples'")
    if not hasattr(hierarchy, "close"):
        raise ValueError(f"hierarchy must be a sklearn_sparsemap.factors.Hierarchy; got {hierarchy!r}")
    orders = column_names(y_true, "y_true"), column_names(y_pred, "y_pred")
    if None not in orders and orders[0] != orders[1] and are_default(list(hierarchy.labels or [])):
        raise ValueError(
            "y_true and y_pred have their columns in different orders, and the labels of the hierarchy have no names; "
            "put both in the order of the hierarchy, or make it by Hierarchy.from_edges"
        )
    true, pred = map(hierarchy.close, _check_pair(y_true, y_pred, hierarchy.labels))
    sample_weight = weights_of(sample_weight, y_true, true.shape[0])
    if average == "samples":
        return example_f1_score(true, pred, sample_weight=sample_weight)
    true = sparse.csr_array(true, dtype=np.int64)
    pred = sparse.csr_array(pred, dtype=np.int64)
    total = sample_weight @ (_row_sums(true) + _row_sums(pred))
    if total == 0.0:
        raise ValueError("there are no gold and no predicted labels; the F1 of nothing is undefined")
    return float(2.0 * (sample_weight @ _row_sums(true.multiply(pred))) / total)


def _check_pair(y_true, y_pred, classes=None):
    """Check gold and predicted labels; return indicator matrices as `_check_indicator` does.

    `classes` are all names of labels, by default those that occur.
    """
    pairs = (y_true, "y_true"), (y_pred, "y_pred")
    for y, name in pairs:
        check_not_masked(y, name)
    if any(label_sets(y, what=name) is not None for y, name in pairs):
        true, pred = (label_sets(y, named=True) for y, _ in pairs)
        # Lists of 0 and 1 beside collections of names are rows of an indicator matrix.
        if (
            true is None
            or pred is None
            or any(label_sets(y) is None and names_in(y).keys() <= {0, 1} for y, _ in pairs)
        ):
            raise ValueError("y_true and y_pred must both be indicator matrices, or both hold collections of names")
        names = names_in([*true, *pred]) if classes is None else classes
        true, pred = (as_indicator(samples, names).astype(np.int64) for samples in (true, pred))
    else:
        y_true, y_pred, _ = same_order(y_true, y_pred, classes)
        true = _check_indicator(y_true, "y_true")
        pred = _check_indicator(y_pred, "y_pred")
    if true.shape != pred.shape:
        raise ValueError(f"y_true has shape {true.shape}, but y_pred has {pred.shape}")
    return true, pred


def _check_indicator(y, name):
    """Check an indicator matrix; return it as a bool array, or as a sparse int64 matrix.

    `_parts.py` and `_rankings.py` call it, too.
    """
    is_sparse = sparse.issparse(y)
    if label_sets(y, what=name) is not None:
        raise ValueError(
            f"{name} holds names of labels, while the order of scores is unknown; make it an indicator matrix by "
            "sklearn.preprocessing.MultiLabelBinarizer(classes=model.classes_)"
        )
    if not is_sparse:
        y = as_numbers(np.asarray(y))
    if y.ndim != 2:
        raise ValueError(
            f"{name} must be an indicator matrix of shape (n_samples, n_labels); got shape {y.shape}; make it by "
            "sklearn.preprocessing.MultiLabelBinarizer"
        )
    if is_sparse:
        check_matrix(y, name)
        # Duplicate entries are summed before the check.
        y = y.tocsr(copy=True)
        y.sum_duplicates()
    values = y.data if is_sparse else y
    if values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
        raise ValueError(f"{name} must hold zeros and ones; apply a threshold to marginals first")
    return y.astype(np.int64 if is_sparse else bool)


def _row_sums(indicator):
    return np.asarray(indicator.sum(axis=1, dtype=np.int64)).ravel()


def _is_fraction_or_nan(value):
    is_number = isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
    return is_number and (np.isnan(value) or 0 <= value <= 1)
