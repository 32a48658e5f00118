"""Metrics of labelled spans, with the conventions of conlleval."""

from __future__ import annotations

from itertools import chain
from typing import Literal

import numpy as np

from .._core.annotations import Any, Sequence
from .._core.validation import check_choice
from ._flatten import flatten_pair, weighted_mean

_OUTSIDE, _BEGIN, _INSIDE, _END, _SINGLE = range(5)
_OVERALL = "overall"  # row of a table for all types
_PREFIXES = {"B": _BEGIN, "I": _INSIDE, "E": _END, "S": _SINGLE}


def span_f1_score(
    y_true: Any,
    y_pred: Any,
    *,
    average: Literal["micro", "macro", "weighted"] = "micro",
    labels: Sequence[Any] | None = None,
) -> float:
    """Compute the F1 of labelled spans, like conlleval, the program of the CoNLL shared tasks.

    A predicted span is correct if a gold span has the same first position, last position and type. Labels are ``O`` or
    one of ``B``, ``I``, ``E``, ``S`` followed by ``-`` and the type, in any of the schemes IOB1, IOB2, IOE and IOBES;
    without a dash, the type is the empty string. As in conlleval, a span begins at ``B`` and ``S``, at ``I`` or ``E``
    after ``O``, ``E`` or ``S``, and wherever the type changes.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of str
        The gold and the predicted labels of each sample.
    average : {"micro", "macro", "weighted"}, default="micro"
        How types are averaged. ``"micro"`` counts spans of all types together, which is the usual figure for chunking
        and named entities. ``"macro"`` is the mean of the F1 of each type, and ``"weighted"`` this mean weighted by the
        number of gold spans.
    labels : sequence of str, default=None
        The types to count, such as ``["PER", "LOC"]``. By default, all types that occur.

    Returns
    -------
    score : float
        0.0 if precision and recall are both 0 or undefined, so also if there are no spans.

    Raises
    ------
    ValueError
        If the samples or their lengths differ, a label is not of that form, or a parameter is invalid.

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
    check_choice("average", average, ("micro", "macro", "weighted"))
    _, counts = _count_spans(y_true, y_pred, labels)
    if average == "micro":
        return float(_precision_recall_f1(counts.sum(axis=0))[2])
    f1 = _precision_recall_f1(counts.T)[2]
    weights = counts[:, 0] if average == "weighted" else np.ones(len(f1))
    return weighted_mean(f1, weights) if weights.sum() else 0.0


def span_precision_recall_f1(
    y_true: Any, y_pred: Any, *, labels: Sequence[Any] | None = None
) -> dict[str, dict[str, float]]:
    """Compute precision, recall and F1 of labelled spans, overall and for each type, like conlleval.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of str
        The gold and the predicted labels of each sample; see `span_f1_score`.
    labels : sequence of str, default=None
        The types to count. By default, all types that occur.

    Returns
    -------
    table : dict of dicts
        A dict for ``"overall"`` and for each type, in alphabetical order or in the order of `labels`, with
        ``precision``, ``recall``, ``f1`` (floats) and ``n_true``, ``n_pred``, ``n_correct`` (numbers of spans). Ratios
        with a denominator of zero are 0.0. ``pandas.DataFrame(table).T`` shows it.

    Raises
    ------
    ValueError
        As in `span_f1_score`; also if a type has the name ``"overall"``.

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
    if _OVERALL in types:
        raise ValueError(
            f"a type of spans has the name {_OVERALL!r}, which the table uses for all types; rename it in the labels, "
            f"or use span_f1_score, with labels=[{_OVERALL!r}] for this type alone"
        )
    table = {}
    for name, row in zip([_OVERALL, *types], [counts.sum(axis=0), *counts]):
        ratios = [float(ratio) for ratio in _precision_recall_f1(row)]
        numbers = [int(number) for number in row]
        table[name] = dict(zip(("precision", "recall", "f1", "n_true", "n_pred", "n_correct"), ratios + numbers))
    return table


def _count_spans(y_true, y_pred, labels):
    """Return the types, and the numbers of gold, predicted and correct spans: array of shape (n_types, 3)."""
    true, pred, lengths = flatten_pair(y_true, y_pred)
    index, prefixes, types_of_labels, types = _parse_labels(true, pred)
    is_first = np.zeros(len(true), dtype=bool)
    is_first[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
    spans = []
    for flat in (true, pred):
        codes = np.fromiter(map(index.__getitem__, flat), dtype=np.int64, count=len(flat))
        spans.append(_spans(prefixes[codes], types_of_labels[codes], is_first))
    (true_starts, true_ends, true_types), (pred_starts, pred_ends, pred_types) = spans
    # Spans of one sequence have different starts, so the start identifies a span.
    _, i, j = np.intersect1d(true_starts, pred_starts, assume_unique=True, return_indices=True)
    is_correct = (true_ends[i] == pred_ends[j]) & (true_types[i] == pred_types[j])
    found = (true_types, pred_types, true_types[i][is_correct])
    counts = np.stack([np.bincount(codes, minlength=len(types)) for codes in found], axis=1)
    if labels is not None:
        labels = [labels] if isinstance(labels, str) else list(dict.fromkeys(labels))
        known = {name: row for name, row in zip(types, counts)}
        return labels, np.array([known.get(name, np.zeros(3, int)) for name in labels], dtype=int).reshape(-1, 3)
    occurs = [i for i in np.argsort(types).tolist() if counts[i].any()]
    return [types[i] for i in occurs], counts[occurs]


def _spans(prefixes, types, is_first):
    """Find the spans in flat labels; return their first positions, last positions and types."""
    before = np.concatenate([[_OUTSIDE], prefixes[:-1]]) if len(prefixes) else prefixes
    is_new = is_first.copy()
    is_new |= (prefixes == _BEGIN) | (prefixes == _SINGLE)
    is_new |= (before == _OUTSIDE) | (before == _END) | (before == _SINGLE)
    is_new[1:] |= types[1:] != types[:-1]
    is_inside = prefixes != _OUTSIDE
    starts = np.flatnonzero(is_new & is_inside)
    # A span ends before the next label that is outside or begins another span.
    goes_on = np.zeros(len(prefixes), dtype=bool)
    goes_on[:-1] = is_inside[1:] & ~is_new[1:]
    return starts, np.flatnonzero(is_inside & ~goes_on), types[starts]


def _parse_labels(true, pred):
    """Number the distinct labels; return a dict of these numbers, the prefixes, the codes of types, and the types."""
    index = {}
    prefixes = []
    codes = []
    types = {}
    try:
        distinct = dict.fromkeys(chain(true, pred))
    except TypeError:
        # A list or another unhashable object, which the check below names.
        distinct = chain(true, pred)
    for label in distinct:
        if not isinstance(label, str):
            raise ValueError(f"labels of spans must be strings such as 'B-NP' or 'O'; got {label!r}")
        prefix, _, name = label.partition("-")
        if label != "O" and prefix not in _PREFIXES:
            raise ValueError(
                f"cannot read the label {label!r} as part of a span: labels are 'O' or one of B, I, E, S "
                "followed by '-' and a type, such as 'B-NP'; score other labels by flat_accuracy_score"
            )
        index[label] = len(index)
        prefixes.append(_PREFIXES.get(prefix, _OUTSIDE))
        # The type of an outside label has no effect, because it starts no span.
        codes.append(types.setdefault(name, len(types)))
    return index, np.array(prefixes, dtype=np.int64), np.array(codes, dtype=np.int64), list(types)


def _precision_recall_f1(counts):
    """Return precision, recall and F1, given numbers of gold, predicted and correct spans; 0 for denominators of 0."""
    n_true, n_pred, n_correct = counts
    return [
        n_correct / np.maximum(n_pred, 1),
        n_correct / np.maximum(n_true, 1),
        2 * n_correct / np.maximum(n_true + n_pred, 1),
    ]
