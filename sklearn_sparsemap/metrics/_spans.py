"""Metrics of labelled spans, with the conventions of conlleval or of a scheme, and conversion between schemes."""

from __future__ import annotations

from itertools import chain
from typing import Literal

import numpy as np

from .._core.annotations import Any, Sequence
from .._core.spans import SCHEMES, SpanReader, write_spans
from .._core.validation import check_choice, quoted
from ._flatten import flatten, flatten_pair, known_steps, weighted_mean

_OVERALL = "overall"  # row of a table for all types
_SCHEME_NAMES = (None, *SCHEMES)


def span_f1_score(
    y_true: Any,
    y_pred: Any,
    *,
    average: Literal["micro", "macro", "weighted"] = "micro",
    labels: Sequence[Any] | None = None,
    scheme: Literal["iob1", "iob2", "ioe1", "ioe2", "bioes", "bilou"] | None = None,
) -> float:
    """Compute the F1 of labelled spans, like conlleval, the program of the CoNLL shared tasks.

    A predicted span is correct if a true span has the same first position, last position and type. Labels are ``O`` or
    one of ``B``, ``I``, ``E``, ``S`` followed by ``-`` and the type, in any of the schemes IOB1, IOB2, IOE and IOBES;
    without a dash, the type is the empty string. As in conlleval, a span begins at ``B`` and ``S``, at ``I`` or ``E``
    after ``O``, ``E`` or ``S``, and wherever the type changes.

    A true label of None is unknown. True and predicted spans that contain such a step, or are next to it, are left out,
    because the step could continue them. If only the first piece of each word has a label, remove the other pieces from
    both sequences before.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of str
        The true and the predicted labels of each sample.
    average : {"micro", "macro", "weighted"}, default="micro"
        How types are averaged. ``"micro"`` counts spans of all types together, which is the usual figure for chunking
        and named entities. ``"macro"`` is the mean of the F1 of each type, and ``"weighted"`` this mean weighted by the
        number of true spans.
    labels : sequence of str, default=None
        The types to count, such as ``["PER", "LOC"]``. By default, all types that occur.
    scheme : {"iob1", "iob2", "ioe1", "ioe2", "bioes", "bilou"}, default=None
        The scheme of the labels, read strictly, like seqeval with ``mode="strict"``: steps that do not form a span by
        the rules of the scheme are outside, such as ``I-PER`` after ``O`` with ``"iob2"``. None reads all schemes but
        ``"bilou"`` as conlleval does, and like seqeval by default.

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
    _, counts = _count_spans(y_true, y_pred, labels, scheme)
    if average == "micro":
        return float(_precision_recall_f1(counts.sum(axis=0))[2])
    f1 = _precision_recall_f1(counts.T)[2]
    weights = counts[:, 0] if average == "weighted" else np.ones(len(f1))
    return weighted_mean(f1, weights) if weights.sum() else 0.0


def span_precision_recall_f1(
    y_true: Any,
    y_pred: Any,
    *,
    labels: Sequence[Any] | None = None,
    scheme: Literal["iob1", "iob2", "ioe1", "ioe2", "bioes", "bilou"] | None = None,
) -> dict[str, dict[str, float]]:
    """Compute precision, recall and F1 of labelled spans, overall and for each type, like conlleval.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of str
        The true and the predicted labels of each sample; see `span_f1_score`.
    labels : sequence of str, default=None
        The types to count. By default, all types that occur.
    scheme : str, default=None
        As in `span_f1_score`.

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
    types, counts = _count_spans(y_true, y_pred, labels, scheme)
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


def span_report(
    y_true: Any,
    y_pred: Any,
    *,
    scheme: Literal["iob1", "iob2", "ioe1", "ioe2", "bioes", "bilou"] | None = None,
    digits: int = 2,
    output_dict: bool = False,
) -> Any:
    """Return a table with precision, recall, F1 and support of each type of spans, and their averages.

    The figures and the form are those of seqeval's ``classification_report``.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of str
        The true and the predicted labels of each sample; see `span_f1_score`.
    scheme : str, default=None
        As in `span_f1_score`.
    digits : int, default=2
        Number of decimal places in the text.
    output_dict : bool, default=False
        Whether to return a dict instead of text.

    Returns
    -------
    report : str or dict of dicts
        A row for each type, in alphabetical order, and for the averages: ``micro avg`` counts spans of all types
        together, ``macro avg`` is the mean over types, and ``weighted avg`` the mean weighted by the support, which is
        the number of true spans. The columns are ``precision``, ``recall``, ``f1-score`` and ``support``.

    Raises
    ------
    ValueError
        As in `span_f1_score`.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import span_report
    >>> print(span_report([["B-NP", "I-NP", "B-VP"]], [["B-NP", "I-NP", "B-NP"]]))
                  precision    recall  f1-score   support
    <BLANKLINE>
              NP       0.50      1.00      0.67         1
              VP       0.00      0.00      0.00         1
    <BLANKLINE>
       micro avg       0.50      0.50      0.50         2
       macro avg       0.25      0.50      0.33         2
    weighted avg       0.25      0.50      0.33         2
    <BLANKLINE>
    """
    types, counts = _count_spans(y_true, y_pred, None, scheme)
    support = counts[:, 0]
    each = np.transpose(_precision_recall_f1(counts.T))
    rows = dict(zip(types, each))
    rows["micro avg"] = np.array(_precision_recall_f1(counts.sum(axis=0)))
    rows["macro avg"] = each.mean(axis=0) if len(each) else np.zeros(3)
    rows["weighted avg"] = support @ each / support.sum() if support.any() else np.zeros(3)
    supports = [*support.tolist(), *[int(support.sum())] * 3]
    names = ("precision", "recall", "f1-score", "support")
    if output_dict:
        return {row: dict(zip(names, [*values.tolist(), n])) for (row, values), n in zip(rows.items(), supports)}
    width = max([len(row) for row in rows] + [digits])
    lines = [" " * width + " " + "".join(f" {name:>9}" for name in names), ""]
    for k, ((row, values), n) in enumerate(zip(rows.items(), supports)):
        if k == len(types):
            lines.append("")
        lines.append(f"{row:>{width}} " + "".join(f" {value:>9.{digits}f}" for value in values) + f" {n:>9}")
    return "\n".join(lines) + "\n"


def convert_spans(
    y: Any,
    source: Literal["iob1", "iob2", "ioe1", "ioe2", "bioes", "bilou"] | None,
    target: Literal["iob1", "iob2", "ioe1", "ioe2", "bioes", "bilou"],
) -> list[list[str]]:
    """Convert label sequences from one scheme of spans to another.

    Parameters
    ----------
    y : sequence of sequences of str
        The labels of each sample.
    source : {"iob1", "iob2", "ioe1", "ioe2", "bioes", "bilou"} or None
        The scheme of `y`. None reads all schemes but ``"bilou"`` as conlleval does, also labels that no scheme allows,
        such as ``I-PER`` after ``I-LOC``.
    target : {"iob1", "iob2", "ioe1", "ioe2", "bioes", "bilou"}
        The scheme of the result.

    Returns
    -------
    converted : list of lists of str
        The same spans in the other scheme.

    Raises
    ------
    ValueError
        If a sequence does not follow the scheme `source`; the message names the sample and the step.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import convert_spans
    >>> convert_spans([["B-PER", "I-PER", "O", "B-LOC"]], "iob2", "bilou")
    [['B-PER', 'L-PER', 'O', 'U-LOC']]
    """
    check_choice("source", source, _SCHEME_NAMES)
    check_choice("target", target, tuple(SCHEMES))
    flat, lengths = flatten(y, "y")
    first = np.cumsum(lengths) - lengths
    reader, (codes,) = _read([flat], source)
    starts, ends, of_span = reader.find(codes, lengths)
    types = reader.names
    begun, ended = (np.bincount(steps, minlength=len(flat) + 1) for steps in (starts, ends + 1))
    is_outside = np.array([label == "O" for label in flat], bool)
    wrong = np.flatnonzero(~is_outside & (np.cumsum(begun - ended)[:-1] == 0))
    if len(wrong):
        i = int(np.searchsorted(first + lengths, wrong[0], side="right"))
        raise ValueError(
            f"y[{i}] has the label {quoted(flat[wrong[0]])} in step {int(wrong[0] - first[i])}, which is part of no "
            f"span in the scheme {source!r}; correct it, or pass source=None to read it as conlleval does"
        )
    names = [types[code] for code in of_span.tolist()]
    converted = write_spans(len(flat), starts.tolist(), ends.tolist(), names, target, first.tolist())
    return [converted[start : start + n] for start, n in zip(first.tolist(), lengths.tolist())]


def _count_spans(y_true, y_pred, labels, scheme):
    """Return the types, and the numbers of gold, predicted and correct spans: array of shape (n_types, 3)."""
    check_choice("scheme", scheme, _SCHEME_NAMES)
    true, pred, lengths = flatten_pair(y_true, y_pred)
    known = known_steps(true, pred, lengths)
    if known is not None:
        true, pred = (["O" if label is None else label for label in labels] for labels in (true, pred))
    reader, (true, pred) = _read([true, pred], scheme)
    types = reader.names
    true_starts, true_ends, true_types = _known_spans(reader.find(true, lengths), known, lengths)
    pred_starts, pred_ends, pred_types = _known_spans(reader.find(pred, lengths), known, lengths)
    # Spans of one sequence have different starts, so the start identifies a span.
    _, i, j = np.intersect1d(true_starts, pred_starts, assume_unique=True, return_indices=True)
    is_correct = (true_ends[i] == pred_ends[j]) & (true_types[i] == pred_types[j])
    spans_of = (true_types, pred_types, true_types[i][is_correct])
    counts = np.stack([np.bincount(codes, minlength=len(types)) for codes in spans_of], axis=1)
    if labels is not None:
        labels = [labels] if isinstance(labels, str) else list(dict.fromkeys(labels))
        known = {name: row for name, row in zip(types, counts)}
        return labels, np.array([known.get(name, np.zeros(3, int)) for name in labels], dtype=int).reshape(-1, 3)
    occurs = [i for i in np.argsort(types).tolist() if counts[i].any()]
    return [types[i] for i in occurs], counts[occurs]


def _known_spans(spans, known, lengths):
    """Return the spans that touch no step with an unknown label."""
    if known is None:
        return spans
    starts, ends, _ = spans
    stop = np.cumsum(lengths)
    sample = np.searchsorted(stop, starts, side="right")
    before = np.maximum(starts - 1, (stop - lengths)[sample])
    after = np.minimum(ends + 1, stop[sample] - 1)
    n_unknown = np.concatenate([[0], np.cumsum(~known)])
    kept = n_unknown[after + 1] == n_unknown[before]
    return tuple(own[kept] for own in spans)


def _read(sequences, scheme):
    """Return a `SpanReader` of flat label sequences, and their labels as numbers."""
    try:
        distinct = list(dict.fromkeys(chain(*sequences)))
    except TypeError:
        # A list or another unhashable object, which the reader names.
        distinct = list(chain(*sequences))
    try:
        reader = SpanReader(distinct, scheme)
    except ValueError as error:
        raise ValueError(f"{error}; score other labels by flat_accuracy_score") from None
    index = {label: number for number, label in enumerate(distinct)}
    return reader, [np.fromiter(map(index.__getitem__, flat), dtype=np.int64, count=len(flat)) for flat in sequences]


def _precision_recall_f1(counts):
    """Return precision, recall and F1, given numbers of gold, predicted and correct spans; 0 for denominators of 0."""
    n_true, n_pred, n_correct = counts
    return [
        n_correct / np.maximum(n_pred, 1),
        n_correct / np.maximum(n_true, 1),
        2 * n_correct / np.maximum(n_true + n_pred, 1),
    ]
