"""Metrics of label sequences: accuracies, labelled spans, and heads of words."""

from __future__ import annotations

from itertools import chain
from operator import eq
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._ragged import RaggedArray
from ._weights import check_sample_weight, weighted_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

_OUTSIDE, _BEGIN, _INSIDE, _END, _SINGLE = range(5)
_PREFIXES = {"B": _BEGIN, "I": _INSIDE, "E": _END, "S": _SINGLE}


def flat_accuracy_score(y_true: Any, y_pred: Any, sample_weight: ArrayLike | None = None) -> float:
    """Fraction of labels that are right, over all positions of all samples.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of labels
        The right and the predicted labels of each sample.
    sample_weight : array-like of shape (n_samples,), default=None
        The weight of each position of a sample.

    Returns
    -------
    score : float

    Raises
    ------
    ValueError
        If the samples or their lengths differ, there is no label, or the weights are not usable.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import flat_accuracy_score
    >>> flat_accuracy_score([["N", "V", "N"], ["V"]], [["N", "N", "N"], ["V"]])
    0.75
    """
    true, pred, lengths = _flatten_pair(y_true, y_pred)
    if not true:
        raise ValueError("y_true has no labels; the accuracy of nothing is undefined")
    weights = np.repeat(check_sample_weight(sample_weight, len(lengths)), lengths)
    return weighted_mean(_is_equal(true, pred), weights)


def sequence_accuracy_score(y_true: Any, y_pred: Any, sample_weight: ArrayLike | None = None) -> float:
    """Fraction of samples whose labels are all right.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of labels
        The right and the predicted labels of each sample.
    sample_weight : array-like of shape (n_samples,), default=None
        The weight of each sample.

    Returns
    -------
    score : float

    Raises
    ------
    ValueError
        If the samples or their lengths differ, there is no sample, or the weights are not usable.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import sequence_accuracy_score
    >>> sequence_accuracy_score([["N", "V", "N"], ["V"]], [["N", "N", "N"], ["V"]])
    0.5
    """
    true, pred, lengths = _flatten_pair(y_true, y_pred)
    if not len(lengths):
        raise ValueError("y_true has no samples; the accuracy of nothing is undefined")
    sample = np.repeat(np.arange(len(lengths)), lengths)
    n_wrong = np.bincount(sample[~_is_equal(true, pred)], minlength=len(lengths))
    return weighted_mean(n_wrong == 0, check_sample_weight(sample_weight, len(lengths)))


def span_f1_score(
    y_true: Any,
    y_pred: Any,
    *,
    average: Literal["micro", "macro", "weighted"] = "micro",
    labels: Sequence[Any] | None = None,
) -> float:
    """F1 of labelled spans, as the CoNLL shared tasks' program conlleval computes it.

    A predicted span is right if a true one has the same first position, last position and type. Labels are
    ``O`` or one of ``B``, ``I``, ``E``, ``S`` followed by ``-`` and the type, in any of the schemes IOB1,
    IOB2, IOE and IOBES; without a dash, the type is the empty string. As in conlleval, a span begins at ``B``
    and ``S``, at ``I`` or ``E`` after ``O``, ``E`` or ``S``, and wherever the type changes.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of str
        The right and the predicted labels of each sample.
    average : {"micro", "macro", "weighted"}, default="micro"
        ``"micro"`` counts spans of all types together: the figure that is reported for chunking and named
        entities. ``"macro"`` is the mean of the types' F1, ``"weighted"`` that mean weighted by the number of
        true spans.
    labels : sequence of str, default=None
        The types to count, such as ``["PER", "LOC"]``; None means all that occur.

    Returns
    -------
    score : float
        0.0 where precision and recall are both 0 or undefined; so also if there are no spans at all.

    Raises
    ------
    ValueError
        If the samples or their lengths differ, a label is not of that form, or a parameter has no meaning.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import span_f1_score
    >>> y_true = [["B-NP", "I-NP", "B-VP", "O"]]
    >>> y_pred = [["B-NP", "I-NP", "O", "O"]]
    >>> round(span_f1_score(y_true, y_pred), 3)
    0.667
    >>> span_f1_score(y_true, y_pred, average="macro")
    0.5
    """
    if average not in ("micro", "macro", "weighted"):
        raise ValueError(f"average must be 'micro', 'macro' or 'weighted'; got {average!r}")
    _, counts = _count_spans(y_true, y_pred, labels)
    if average == "micro":
        return float(_precision_recall_f1(counts.sum(axis=0))[2])
    f1 = _precision_recall_f1(counts.T)[2]
    weights = counts[:, 0] if average == "weighted" else np.ones(len(f1))
    return weighted_mean(f1, weights) if weights.sum() else 0.0


def span_precision_recall_f1(
    y_true: Any, y_pred: Any, *, labels: Sequence[Any] | None = None
) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of labelled spans, over all and for each type, as conlleval prints them.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of str
        The right and the predicted labels of each sample; see `span_f1_score`.
    labels : sequence of str, default=None
        The types to count; None means all that occur.

    Returns
    -------
    table : dict of dicts
        From ``"overall"`` and each type, in alphabetical order or that of `labels`, to ``precision``,
        ``recall``, ``f1`` (floats) and ``n_true``, ``n_pred``, ``n_correct`` (numbers of spans). Ratios with
        a denominator of zero are 0.0. ``pandas.DataFrame(table).T`` shows it.

    Raises
    ------
    ValueError
        As `span_f1_score`.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import span_precision_recall_f1
    >>> table = span_precision_recall_f1([["B-NP", "I-NP", "B-VP"]], [["B-NP", "I-NP", "B-NP"]])
    >>> list(table)
    ['overall', 'NP', 'VP']
    >>> table["NP"]
    {'precision': 0.5, 'recall': 1.0, 'f1': 0.66..., 'n_true': 1, 'n_pred': 2, 'n_correct': 1}
    """
    types, counts = _count_spans(y_true, y_pred, labels)
    table = {}
    for name, row in zip(["overall", *types], [counts.sum(axis=0), *counts]):
        ratios = [float(ratio) for ratio in _precision_recall_f1(row)]
        numbers = [int(number) for number in row]
        table[name] = dict(
            zip(("precision", "recall", "f1", "n_true", "n_pred", "n_correct"), ratios + numbers)
        )
    return table


def unlabeled_attachment_score(
    y_true: Any, y_pred: Any, *, ignore: Any = None, sample_weight: ArrayLike | None = None
) -> float:
    """Fraction of words with the right head, over all words of all sentences: the UAS of dependency parsing.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of int
        The right and the predicted heads of each sentence: the number of each word's head, counted from 1; 0
        is the root.
    ignore : sequence of sequences of bool, default=None
        The words that do not count: many published scores leave out punctuation.
    sample_weight : array-like of shape (n_samples,), default=None
        The weight of each word of a sentence.

    Returns
    -------
    score : float

    Raises
    ------
    ValueError
        If the sentences or their lengths differ, a head is no integer or lies outside its sentence, no word
        counts, or the weights are not usable.

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
    true, pred, lengths = _flatten_pair(y_true, y_pred)
    if not true:
        raise ValueError("y_true has no words; the attachment score of nothing is undefined")
    is_right = _check_heads(true, lengths, "y_true") == _check_heads(pred, lengths, "y_pred")
    weights = np.repeat(check_sample_weight(sample_weight, len(lengths)), lengths)
    if ignore is not None:
        weights[_check_ignore(ignore, lengths)] = 0
        if not weights.any():
            raise ValueError("no word is left to count; ignore fewer words or give some a positive sample_weight")
    return weighted_mean(is_right, weights)


def _count_spans(y_true, y_pred, labels):
    """Return the types, and for each the numbers of true, predicted and right spans, shape (n_types, 3)."""
    true, pred, lengths = _flatten_pair(y_true, y_pred)
    index, prefixes, types_of_labels, types = _parse_labels(true, pred)
    is_first = np.zeros(len(true), dtype=bool)
    is_first[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
    spans = []
    for flat in (true, pred):
        codes = np.fromiter(map(index.__getitem__, flat), dtype=np.int64, count=len(flat))
        spans.append(_spans(prefixes[codes], types_of_labels[codes], is_first))
    (true_starts, true_ends, true_types), (pred_starts, pred_ends, pred_types) = spans
    # No two spans of one side share a start, so that spans are matched by it.
    _, i, j = np.intersect1d(true_starts, pred_starts, assume_unique=True, return_indices=True)
    is_right = (true_ends[i] == pred_ends[j]) & (true_types[i] == pred_types[j])
    found = (true_types, pred_types, true_types[i][is_right])
    counts = np.stack([np.bincount(codes, minlength=len(types)) for codes in found], axis=1)
    if labels is not None:
        labels = [labels] if isinstance(labels, str) else list(dict.fromkeys(labels))
        known = {name: row for name, row in zip(types, counts)}
        return labels, np.array([known.get(name, np.zeros(3, int)) for name in labels], dtype=int).reshape(
            -1, 3
        )
    occurs = [i for i in np.argsort(types).tolist() if counts[i].any()]
    return [types[i] for i in occurs], counts[occurs]


def _spans(prefixes, types, is_first):
    """Find the spans in flat labels: their first positions, last positions and types."""
    before = np.concatenate([[_OUTSIDE], prefixes[:-1]]) if len(prefixes) else prefixes
    is_new = is_first.copy()
    is_new |= (prefixes == _BEGIN) | (prefixes == _SINGLE)
    is_new |= (before == _OUTSIDE) | (before == _END) | (before == _SINGLE)
    is_new[1:] |= types[1:] != types[:-1]
    is_inside = prefixes != _OUTSIDE
    starts = np.flatnonzero(is_new & is_inside)
    # A span goes on until the next label is outside or begins another.
    goes_on = np.zeros(len(prefixes), dtype=bool)
    goes_on[:-1] = is_inside[1:] & ~is_new[1:]
    return starts, np.flatnonzero(is_inside & ~goes_on), types[starts]


def _parse_labels(true, pred):
    """Number the distinct labels; return that index, their prefixes, their types as codes, and the types."""
    index = {}
    prefixes = []
    codes = []
    types = {}
    for label in dict.fromkeys(chain(true, pred)):
        if not isinstance(label, str):
            raise ValueError(f"labels of spans must be strings such as 'B-NP' or 'O'; got {label!r}")
        prefix, _, name = label.partition("-")
        if label != "O" and prefix not in _PREFIXES:
            raise ValueError(
                f"cannot read the label {label!r} as part of a span: labels are 'O' or one of B, I, E, S "
                "followed by '-' and a type, such as 'B-NP'"
            )
        index[label] = len(index)
        prefixes.append(_PREFIXES.get(prefix, _OUTSIDE))
        # The type of what is outside never counts: it starts no span.
        codes.append(types.setdefault(name, len(types)))
    return index, np.array(prefixes, dtype=np.int64), np.array(codes, dtype=np.int64), list(types)


def _precision_recall_f1(counts):
    """Precision, recall and F1 of the numbers of true, predicted and right spans; 0 for denominators of 0."""
    n_true, n_pred, n_correct = counts
    return [
        n_correct / np.maximum(n_pred, 1),
        n_correct / np.maximum(n_true, 1),
        2 * n_correct / np.maximum(n_true + n_pred, 1),
    ]


def _flatten_pair(y_true, y_pred):
    """Return the labels of all samples as two flat lists, and the samples' lengths."""
    true, lengths = _flatten(y_true, "y_true")
    pred, pred_lengths = _flatten(y_pred, "y_pred")
    _check_same_lengths(lengths, pred_lengths, "y_pred")
    return true, pred, lengths


def _check_same_lengths(lengths, other_lengths, name):
    if len(lengths) != len(other_lengths):
        raise ValueError(f"y_true has {len(lengths)} samples, but {name} has {len(other_lengths)}")
    differs = np.flatnonzero(lengths != other_lengths)
    if len(differs):
        i = int(differs[0])
        raise ValueError(f"y_true[{i}] has {lengths[i]} labels, but {name}[{i}] has {other_lengths[i]}")


def _check_heads(flat, lengths, name):
    """Return heads as an array, after checking that they are word numbers of their sentences."""
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
            f"{name}[{sample}] has the head {heads[i]}, but {last[i]} words; heads are word numbers from 1, and 0 "
            "is the root"
        )
    return heads


def _check_ignore(ignore, lengths):
    flat, ignore_lengths = _flatten(ignore, "ignore")
    _check_same_lengths(lengths, ignore_lengths, "ignore")
    mask = np.asarray(flat)
    if mask.dtype != bool:
        odd = next(value for value in flat if not isinstance(value, bool | np.bool_))
        raise ValueError(f"ignore must hold True for each word that does not count, else False; got {odd!r}")
    return mask


def _flatten(y, name):
    if isinstance(y, RaggedArray):
        _check_one_dimensional(y.values, f"the values of {name}")
        return y.values.tolist(), y.lengths
    if isinstance(y, str) or not hasattr(y, "__len__"):
        raise ValueError(f"{name} must be a sequence of label sequences; got {y!r}")
    samples = list(y)
    for i, sample in enumerate(samples):
        if isinstance(sample, str) or not hasattr(sample, "__len__"):
            raise ValueError(
                f"{name}[{i}] is {sample!r}, not a sequence of labels; if each sample has one label, use "
                "sklearn.metrics"
            )
        if isinstance(sample, np.ndarray):
            _check_one_dimensional(sample, f"{name}[{i}]")
    lengths = np.fromiter(map(len, samples), dtype=np.int64, count=len(samples))
    return list(chain.from_iterable(samples)), lengths


def _check_one_dimensional(array, name):
    if array.ndim != 1:
        raise ValueError(f"{name} must have one label for each position; got shape {array.shape}")


def _is_equal(true, pred):
    return np.fromiter(map(eq, true, pred), dtype=bool, count=len(true))
