"""Metrics of label sequences and of the heads of words."""

from __future__ import annotations

from collections.abc import Sized
from operator import eq
from typing import Literal

import numpy as np
from sklearn.metrics import classification_report, f1_score

from .._core.annotations import Any, ArrayLike, Sequence
from .._core.tables import by_samples
from ._flatten import (
    check_same_lengths,
    flatten,
    flatten_known,
    flatten_pair,
    known_steps,
    refuse_table,
    weighted_mean,
    weights_of,
)


def flat_accuracy_score(y_true: Any, y_pred: Any, sample_weight: ArrayLike | None = None) -> float:
    """Compute the fraction of correct labels, over all positions of all samples.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of labels
        The true and the predicted labels of each sample. Steps whose true label is None (unknown) are left out.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples, which apply to each of their positions.

    Returns
    -------
    score : float

    Raises
    ------
    ValueError
        If the samples or their lengths differ, there is no label, or the weights are invalid.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import flat_accuracy_score
    >>> flat_accuracy_score([["N", "V", "N"], ["V"]], [["N", "N", "N"], ["V"]])
    0.75
    """
    true, pred, lengths, _ = flatten_known(y_true, y_pred)
    if not true:
        raise ValueError("y_true has no labels; the accuracy of nothing is undefined")
    weights = np.repeat(weights_of(sample_weight, y_true, len(lengths)), lengths)
    return weighted_mean(_is_equal(true, pred), weights)


def flat_f1_score(
    y_true: Any,
    y_pred: Any,
    *,
    labels: Sequence[Any] | None = None,
    average: Literal["micro", "macro", "weighted", "binary"] | None = "weighted",
    pos_label: Any = 1,
    sample_weight: ArrayLike | None = None,
    zero_division: Any = "warn",
) -> Any:
    """Compute the F1 of labels over all positions of all samples, as sklearn-crfsuite does.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of labels
        The true and the predicted labels of each sample. Steps whose true label is None (unknown) are left out.
    labels : sequence of labels, default=None
        The labels to count, for example all but ``"O"``. By default, all that occur.
    average : {"micro", "macro", "weighted", "binary"} or None, default="weighted"
        As in :func:`sklearn.metrics.f1_score`. None returns the score of each label.
    pos_label : label, default=1
        The label to score, for ``average="binary"``.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples, which apply to each of their positions.
    zero_division : {"warn", 0.0, 1.0, np.nan}, default="warn"
        As in :func:`sklearn.metrics.f1_score`.

    Returns
    -------
    score : float, or ndarray of shape (n_labels,) if `average` is None

    Raises
    ------
    ValueError
        If the samples or their lengths differ, or as :func:`sklearn.metrics.f1_score` does.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import flat_f1_score
    >>> flat_f1_score([["N", "V", "N"], ["V"]], [["N", "N", "N"], ["V"]], labels=["N", "V"], average="macro")
    0.733...
    """
    true, pred, lengths, _ = flatten_known(y_true, y_pred)
    weights = None if sample_weight is None else np.repeat(weights_of(sample_weight, y_true, len(lengths)), lengths)
    options = {"labels": labels, "average": average, "pos_label": pos_label, "zero_division": zero_division}
    return f1_score(true, pred, sample_weight=weights, **options)


def flat_classification_report(y_true: Any, y_pred: Any, *, labels: Sequence[Any] | None = None, **options: Any) -> Any:
    """Return a table with precision, recall, F1 and support of each label, over all positions of all samples.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of labels
        The true and the predicted labels of each sample. Steps whose true label is None (unknown) are left out.
    labels : sequence of labels, default=None
        The labels of the rows. By default, all that occur.
    **options
        ``digits``, ``output_dict``, ``target_names`` and others of :func:`sklearn.metrics.classification_report`, which
        makes the table. ``sample_weight`` has one weight for each position.

    Returns
    -------
    report : str or dict
        As :func:`sklearn.metrics.classification_report` returns it.

    Raises
    ------
    ValueError
        If the samples or their lengths differ.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import flat_classification_report
    >>> print(flat_classification_report([["N", "V", "N"], ["V"]], [["N", "N", "N"], ["V"]]))
                  precision    recall  f1-score   support
    <BLANKLINE>
               N       0.67      1.00      0.80         2
               V       1.00      0.50      0.67         2
    <BLANKLINE>
        accuracy                           0.75         4
       macro avg       0.83      0.75      0.73         4
    weighted avg       0.83      0.75      0.73         4
    <BLANKLINE>
    """
    true, pred, _, known = flatten_known(y_true, y_pred)
    if known is not None and options.get("sample_weight") is not None:
        options["sample_weight"] = np.asarray(options["sample_weight"])[known]
    return classification_report(true, pred, labels=labels, **options)


def sequence_accuracy_score(y_true: Any, y_pred: Any, sample_weight: ArrayLike | None = None) -> float:
    """Compute the fraction of samples whose labels are all correct.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of labels
        The true and the predicted labels of each sample. Steps whose true label is None (unknown) are left out.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

    Returns
    -------
    score : float

    Raises
    ------
    ValueError
        If the samples or their lengths differ, there is no sample, or the weights are invalid.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import sequence_accuracy_score
    >>> sequence_accuracy_score([["N", "V", "N"], ["V"]], [["N", "N", "N"], ["V"]])
    0.5
    """
    true, pred, lengths = flatten_pair(y_true, y_pred)
    if not len(lengths):
        raise ValueError("y_true has no samples; the accuracy of nothing is undefined")
    known = known_steps(true, pred, lengths)
    sample = np.repeat(np.arange(len(lengths)), lengths)
    weights = weights_of(sample_weight, y_true, len(lengths))
    is_wrong = ~_is_equal(true, pred)
    if known is not None:
        is_wrong &= known
        # A sample of which nothing is known is left out.
        has_known = np.bincount(sample[known], minlength=len(lengths)) > 0
        weights = np.where(has_known | (lengths == 0), weights, 0.0)
    return weighted_mean(np.bincount(sample[is_wrong], minlength=len(lengths)) == 0, weights)


def unlabeled_attachment_score(
    y_true: Any, y_pred: Any, *, ignore: Any = None, sample_weight: ArrayLike | None = None
) -> float:
    """Compute the unlabelled attachment score (UAS): the fraction of words with the correct head.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of int
        The true and the predicted heads of each sentence. The head of a word is the index of a word, counted from 1, or
        0 for the root. Words whose true head is None, which is unknown, are left out.
    ignore : sequence of sequences of bool, default=None
        True for words that are not counted. Many published scores ignore punctuation.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the sentences, which apply to each of their words.

    Returns
    -------
    score : float

    Raises
    ------
    ValueError
        If the sentences or their lengths differ, a head is not an integer or lies outside its sentence, no word is
        counted, or the weights are invalid.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import unlabeled_attachment_score
    >>> y_true = [[2, 0, 2, 2], [0]]
    >>> y_pred = [[2, 0, 2, 3], [0]]
    >>> unlabeled_attachment_score(y_true, y_pred)
    0.8
    >>> unlabeled_attachment_score(y_true, y_pred, ignore=[[False, False, False, True], [False]])
    1.0
    """
    is_correct, known, lengths = _correct_heads(y_true, y_pred)
    return _mean_of_words(is_correct, known, lengths, y_true, ignore, sample_weight)


def labeled_attachment_score(
    y_true: Any, y_pred: Any, *, ignore: Any = None, sample_weight: ArrayLike | None = None
) -> float:
    """Compute the labelled attachment score (LAS): the fraction of words with the correct head and label.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of pairs (head, label)
        The true and the predicted tree of each sentence. The head of a word is the index of a word, counted from 1, or
        0 for the root. The label of its arc can be any object. An int array of shape (n_words, 2) is possible. Words
        whose true head or label is None, which is unknown, are left out.
    ignore : sequence of sequences of bool, default=None
        True for words that are not counted.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the sentences, which apply to each of their words.

    Returns
    -------
    score : float

    Raises
    ------
    ValueError
        As in `unlabeled_attachment_score`; also if a word has no such pair.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import labeled_attachment_score
    >>> y_true = [[(2, "nsubj"), (0, "root"), (2, "obj")], [(0, "root")]]
    >>> y_pred = [[(2, "nsubj"), (0, "root"), (2, "obl")], [(0, "root")]]
    >>> labeled_attachment_score(y_true, y_pred)
    0.75
    """
    heads, labels = zip(*(_split_pairs(y, name) for y, name in ((y_true, "y_true"), (y_pred, "y_pred"))))
    is_correct, known, lengths = _correct_heads(*heads)
    true, pred, _ = flatten_pair(*labels)
    is_correct &= _is_equal(true, pred)
    has_label = known_steps(true, pred, lengths)
    known = has_label if known is None else known if has_label is None else known & has_label
    return _mean_of_words(is_correct, known, lengths, y_true, ignore, sample_weight)


def _split_pairs(y, name):
    """Return heads and labels of sentences, each a list of lists."""
    refuse_table(y, name)
    if isinstance(y, str) or not isinstance(y, Sized):
        raise ValueError(f"{name} must be a sequence of trees; got {y!r}")
    heads, labels = [], []
    for i, sentence in enumerate(y):
        try:
            words = [word.tolist() if hasattr(word, "tolist") else word for word in sentence]
            pairs = [(head, label) for head, label in ((None, None) if word is None else word for word in words)]
        except (TypeError, ValueError):
            raise ValueError(
                f"{name}[{i}] must hold a pair (head, label) for each word; got {sentence!r:.80}"
            ) from None
        heads.append([head for head, _ in pairs])
        labels.append([label for _, label in pairs])
    return heads, labels


def _correct_heads(y_true, y_pred):
    """Tell which words have the correct head, and a known one (see `known_steps`), and the lengths of sentences."""
    true, pred, lengths = flatten_pair(y_true, y_pred)
    if not true:
        raise ValueError("y_true has no words; the attachment score of nothing is undefined")
    known = known_steps(true, pred, lengths)
    if known is not None:
        true, pred = ([0 if head is None else head for head in heads] for heads in (true, pred))
    return _check_heads(true, lengths, "y_true") == _check_heads(pred, lengths, "y_pred"), known, lengths


def _mean_of_words(is_correct, known, lengths, y_true, ignore, sample_weight):
    """Return the weighted fraction of correct words among those that are known and not ignored."""
    weights = np.repeat(weights_of(sample_weight, y_true, len(lengths)), lengths)
    if known is not None:
        weights[~known] = 0
    if ignore is not None:
        weights[_check_ignore(by_samples(ignore, y_true, "ignore", "y_true"), lengths)] = 0
        if not weights.any():
            raise ValueError("no word is left to count; ignore fewer words or give some a positive sample_weight")
    return weighted_mean(is_correct, weights)


def _check_heads(flat, lengths, name):
    """Check that heads are indices of words of their sentences; return them as an array."""
    heads = np.asarray(flat)
    if heads.dtype.kind not in "iu":
        odd = [head for head in flat if not isinstance(head, int | np.integer) or isinstance(head, bool)]
        found = f"got {odd[0]!r}" if odd else "some are too large"
        raise ValueError(f"{name} must hold heads, which are integers; {found}")
    last = np.repeat(lengths, lengths)
    is_outside = (heads < 0) | (heads > last)
    if is_outside.any():
        i = int(np.argmax(is_outside))
        sample = int(np.searchsorted(np.cumsum(lengths), i, side="right"))
        raise ValueError(
            f"{name}[{sample}] has the head {heads[i]}, but {last[i]} words; heads are words counted from 1, and 0 is "
            "the root"
        )
    return heads


def _check_ignore(ignore, lengths):
    flat, ignore_lengths = flatten(ignore, "ignore")
    check_same_lengths(lengths, ignore_lengths, "ignore")
    mask = np.asarray(flat)
    if mask.dtype != bool:
        odd = next(value for value in flat if not isinstance(value, bool | np.bool_))
        raise ValueError(f"ignore must hold True for each word that is not counted, else False; got {odd!r}")
    return mask


def _is_equal(true, pred):
    return np.fromiter(map(eq, true, pred), dtype=bool, count=len(true))
