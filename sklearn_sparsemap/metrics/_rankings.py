"""Metrics of rankings of labels: precision at k, plain and weighted by propensities."""

from __future__ import annotations

import numpy as np

from .._core.annotations import Any, ArrayLike
from .._core.blocks import blocks, dense
from .._core.indicators import same_order
from .._core.tables import aligned
from .._core.validation import check_not_masked, check_positive
from ._flatten import weighted_mean, weights_of
from ._multilabel import _check_indicator


def precision_at_k(y_true: Any, y_score: ArrayLike, k: int, *, sample_weight: ArrayLike | None = None) -> float:
    """Compute the fraction of true labels among the k labels with the highest scores, averaged over the samples.

    Parameters
    ----------
    y_true : array-like or sparse matrix of shape (n_samples, n_labels)
        Indicator matrix of the true labels.
    y_score : array-like of shape (n_samples, n_labels)
        Scores or probabilities. Ties are broken in favour of the first label. The columns of two tables are matched by
        their names.
    k : int
        Number of labels that are ranked, at most the number of all labels.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

    Returns
    -------
    score : float

    Raises
    ------
    ValueError
        If the arrays do not match, are not as described, or `k` is not between 1 and the number of labels.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import precision_at_k
    >>> precision_at_k([[1, 0, 0], [0, 1, 1]], [[0.9, 0.5, 0.1], [0.8, 0.1, 0.6]], k=2)
    0.5
    """
    true, scores, weights, _ = _check(y_true, y_score, k, sample_weight)
    hits = np.empty(len(scores))
    n = true.shape[1]
    for rows in blocks(len(scores), n):
        hits[rows] = _taken(dense(true[rows]), _highest(scores[rows], k)).sum(axis=1)
    return weighted_mean(hits / k, weights)


def propensity_scored_precision_at_k(
    y_true: Any, y_score: ArrayLike, k: int, propensity: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Compute the precision at k with true labels weighted by inverse propensity, relative to the best possible value.

    The propensity of a label is the probability that it is annotated in a sample to which it applies. Rare labels are
    missing more often, and have a larger weight [1]_.

    Parameters
    ----------
    y_true : array-like or sparse matrix of shape (n_samples, n_labels)
        Indicator matrix of the true labels.
    y_score : array-like of shape (n_samples, n_labels)
        Scores or probabilities. Ties are broken in favour of the first label. The columns of two tables are matched by
        their names.
    k : int
        Number of labels that are ranked, at most the number of all labels.
    propensity : array-like of shape (n_labels,)
        The propensity of each label, above 0 and at most 1. The index of a Series is matched with the columns.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

    Returns
    -------
    score : float
        The sum over the samples, divided by that of the best ranking, so it is at most 1.

    Raises
    ------
    ValueError
        If the arrays do not match, are not as described, `k` is not between 1 and the number of labels, or no sample
        has a label.

    References
    ----------
    .. [1] Jain, Prabhu and Varma. Extreme multi-label loss functions for recommendation, tagging, ranking & other
       missing label applications. KDD 2016.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import propensity_scored_precision_at_k
    >>> y_true, y_score = [[1, 0, 0], [0, 1, 1]], [[0.9, 0.5, 0.1], [0.1, 0.8, 0.6]]
    >>> round(propensity_scored_precision_at_k(y_true, y_score, 1, propensity=[1.0, 0.5, 0.25]), 3)
    0.6
    """
    true, scores, weights, labels = _check(y_true, y_score, k, sample_weight)
    propensity = aligned(propensity, labels, name="propensity", whose="the names of the labels")
    propensity = np.asarray(propensity, dtype=np.float64)
    if propensity.shape != (true.shape[1],):
        raise ValueError(f"propensity has shape {propensity.shape}; there are {true.shape[1]} labels")
    if not ((propensity > 0.0) & (propensity <= 1.0)).all():
        j = int(np.flatnonzero(~((propensity > 0.0) & (propensity <= 1.0)))[0])
        raise ValueError(f"propensity[{j}] is {propensity[j]:g}; propensities are above 0 and at most 1")
    found = best = 0.0
    for rows in blocks(len(scores), true.shape[1]):
        gains = dense(true[rows]) / propensity
        found += weights[rows] @ _taken(gains, _highest(scores[rows], k)).sum(axis=1)
        best += weights[rows] @ -np.sort(-gains, axis=1)[:, :k].sum(axis=1)
    if best == 0.0:
        raise ValueError("no sample has a label; the score of nothing is undefined")
    return float(found / best)


def _check(y_true, y_score, k, sample_weight):
    """Return the true labels, the scores, the weights of the samples, and the names of the labels."""
    check_not_masked(y_true, "y_true")
    check_not_masked(y_score, "y_score")
    true, scores, labels = same_order(y_true, y_score, names=("y_true", "y_score"))
    true = _check_indicator(true, "y_true")
    scores = np.asarray(scores, dtype=np.float64)
    if scores.shape != true.shape:
        raise ValueError(f"y_true has shape {true.shape}, but y_score has {scores.shape}")
    if not len(scores):
        raise ValueError("y_true has no samples; the precision of nothing is undefined")
    if np.isnan(scores).any():
        raise ValueError(f"y_score[{int(np.flatnonzero(np.isnan(scores).any(axis=1))[0])}] has NaN; it must have none")
    check_positive("k", k, integer=True)
    if k > true.shape[1]:
        raise ValueError(f"k={k}, but there are only {true.shape[1]} labels; lower k")
    labels = list(range(true.shape[1])) if labels is None else labels
    return true, scores, weights_of(sample_weight, y_true, len(scores)), labels


def _highest(scores, k):
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def _taken(values, ranks):
    return np.take_along_axis(values, ranks, axis=1)
