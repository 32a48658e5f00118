"""Spans to labels of tokens, and back.

Used by `_files.py`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from numbers import Integral
from typing import Literal

import numpy as np

from .._core.annotations import Any, Iterable, Sequence
from .._core.spans import NAMED_SCHEMES, SpanReader, scheme_of, write_spans
from .._core.validation import check_choice, quoted
from ._tokens import read_tokens
from ._types import Span

_IGNORED = -100  # the tag of steps without a label in data sets for transformers


def labels_from_spans(
    tokens: Sequence[Any],
    spans: Iterable[Any],
    scheme: Literal["bio", "bioes", "bilou", "iob1", "iob2", "ioe1", "ioe2"] = "bio",
    *,
    alignment: Literal["strict", "expand"] = "strict",
) -> list[str]:
    """Return the label of each token, given the spans of a text.

    Parameters
    ----------
    tokens : sequence
        The tokens of the text: words, `Token`, tuples (text, start, stop), dicts with ``text``, ``start`` and ``end``,
        or a spaCy ``Doc``.
    spans : iterable
        Each is a `Span`, a dict as annotation tools write it, a tuple (start, stop, type), or a span of spaCy. A `Span`
        without offsets is in tokens. All others are in characters of the text, which needs tokens with offsets.
    scheme : {"bio", "bioes", "bilou", "iob1", "iob2", "ioe1", "ioe2"}, default="bio"
        The scheme of the labels. ``"bio"`` is another name of ``"iob2"``.
    alignment : {"strict", "expand"}, default="strict"
        Whether a span that begins or ends within a token, or between two, raises a ValueError, or is expanded to all
        tokens that it touches.

    Returns
    -------
    labels : list of str

    Raises
    ------
    ValueError
        If spans overlap, are outside of the text, or are not aligned with the tokens; the message names the span.

    See Also
    --------
    sklearn_sparsemap.metrics.convert_spans : Converts labels from one scheme to another.

    Examples
    --------
    >>> from sklearn_sparsemap.spans import labels_from_spans, tokenize
    >>> tokens = tokenize("Ada Lovelace lived in London.")
    >>> labels_from_spans(tokens, [(0, 12, "PER"), (22, 28, "LOC")])
    ['B-PER', 'I-PER', 'O', 'O', 'B-LOC', 'O']
    >>> labels_from_spans(tokens, [(0, 9, "PER")], alignment="expand")
    ['B-PER', 'I-PER', 'O', 'O', 'O', 'O']
    """
    check_choice("scheme", scheme, tuple(NAMED_SCHEMES))
    check_choice("alignment", alignment, ("strict", "expand"))
    given = read_tokens(tokens)
    rows = []
    for k, span in enumerate(spans):
        start, stop, kind, in_chars = _read_span(span, f"spans[{k}]")
        if in_chars:
            start, stop = _align(given, start, stop, f"spans[{k}]", alignment == "expand")
        elif not 0 <= start < stop <= len(given.words):
            raise ValueError(
                f"spans[{k}] is from token {start} to token {stop}, but there are {len(given.words)} tokens; a span "
                "has at least one, and ends at the last one or before"
            )
        rows.append((start, stop, kind, k))
    rows.sort(key=lambda row: row[:2])
    for before, after in pairwise(rows):
        if after[0] < before[1]:
            shared = quoted(given.words[after[0]])
            raise ValueError(
                f"spans[{before[3]}] ({before[2]}) and spans[{after[3]}] ({after[2]}) overlap: both have token "
                f"{after[0]}, {shared}; a token has one label, so keep one of them, or shorten one"
            )
    starts = [row[0] for row in rows]
    lasts = [row[1] - 1 for row in rows]
    return write_spans(len(given.words), starts, lasts, [row[2] for row in rows], NAMED_SCHEMES[scheme])


def spans_from_labels(
    labels: Sequence[str],
    scheme: Literal["bio", "bioes", "bilou", "iob1", "iob2", "ioe1", "ioe2"] | None = None,
    tokens: Sequence[Any] | None = None,
) -> list[Span]:
    """Return the spans of the labels of one sequence.

    Parameters
    ----------
    labels : sequence of str
        The label of each token.
    scheme : {"bio", "bioes", "bilou", "iob1", "iob2", "ioe1", "ioe2"}, default=None
        The scheme of the labels, read strictly: labels that form no span are outside. None reads all schemes as
        conlleval does; see `sklearn_sparsemap.metrics.span_f1_score`. It reads labels that begin with L or U as BILOU.
    tokens : sequence, default=None
        The tokens, as for `labels_from_spans`. The spans then have a text and, if the tokens have offsets,
        ``start_char`` and ``stop_char``.

    Returns
    -------
    spans : list of Span

    Raises
    ------
    ValueError
        If a label cannot be read, or `labels` and `tokens` differ in length.

    Examples
    --------
    >>> from sklearn_sparsemap.spans import spans_from_labels, tokenize
    >>> tokens = tokenize("Ada Lovelace lived in London.")
    >>> for span in spans_from_labels(["B-PER", "I-PER", "O", "O", "B-LOC", "O"], tokens=tokens):
    ...     print(span.type, span.start_char, span.stop_char, span.text)
    PER 0 12 Ada Lovelace
    LOC 22 28 London
    """
    check_choice("scheme", scheme, (None, *NAMED_SCHEMES))
    labels = list(labels)
    given = None if tokens is None else read_tokens(tokens)
    if given is not None and len(given.words) != len(labels):
        raise ValueError(f"there are {len(labels)} labels and {len(given.words)} tokens; give a label for each token")
    distinct = list(dict.fromkeys(labels))
    reader = SpanReader(distinct, scheme_of(distinct) if scheme is None else NAMED_SCHEMES[scheme])
    number = {label: k for k, label in enumerate(distinct)}
    codes = np.array([number[label] for label in labels], dtype=np.int64)
    _, starts, lasts, types = reader.find_in([codes])
    found = []
    for start, last, kind in zip(starts.tolist(), lasts.tolist(), types.tolist()):
        where = (None, None, None) if given is None else given.fields(start, last + 1)
        found.append(Span(start, last + 1, reader.names[kind], None, *where))
    return found


def labels_from_tags(tags: Sequence[Any], names: Any) -> list[Any]:
    """Return labels in place of the integer tags of data sets, such as those of Hugging Face.

    Parameters
    ----------
    tags : sequence of int
        The tags of one sequence.
    names : list of str, or object with ``names`` or ``feature``
        The label of each tag, such as a ``ClassLabel`` or a ``Sequence`` of them.

    Returns
    -------
    labels : list of str or None
        None, which is an unknown label, for a tag of -100 or None.

    Raises
    ------
    ValueError
        If a tag has no name.

    Examples
    --------
    >>> from sklearn_sparsemap.spans import labels_from_tags
    >>> labels_from_tags([1, 2, 0, -100], ["O", "B-PER", "I-PER"])
    ['B-PER', 'I-PER', 'O', None]
    """
    known = getattr(getattr(names, "feature", names), "names", names)
    if isinstance(known, str) or not isinstance(known, Iterable):
        raise ValueError(f"names must be the labels by their tags, or an object that has them; got {quoted(names)}")
    known = list(known)
    labels = []
    for k, tag in enumerate(tags):
        is_number = isinstance(tag, Integral) and not isinstance(tag, bool)
        if tag is None or (is_number and tag == _IGNORED):
            labels.append(None)
        elif is_number and 0 <= tag < len(known):
            labels.append(known[int(tag)])
        else:
            raise ValueError(f"tags[{k}] is {quoted(tag)}, but names has {len(known)} labels, for tags from 0 on")
    return labels


def _read_span(span, name):
    """Return start, stop and type of a span, and whether it is in characters; see `labels_from_spans`."""
    if isinstance(span, Span):
        in_chars = span.start_char is not None
        start, stop = (span.start_char, span.stop_char) if in_chars else (span.start, span.stop)
        kind = span.type
    else:
        in_chars = True
        start, stop, kind = parts_of_span(span)
    is_valid = all(isinstance(place, Integral) and not isinstance(place, bool) for place in (start, stop))
    if not is_valid or not isinstance(kind, str):
        raise ValueError(
            f"{name} must have a start and a stop, which are ints, and a type, which is a str; got {quoted(span)}"
        )
    return int(start), int(stop), kind, in_chars


def parts_of_span(span):
    """Return start, stop and type of a span in characters as tools write it, each None if it is missing.

    `_files.py` calls this, too.
    """
    if isinstance(span, dict):
        start = _first_of(span, "start", "start_offset", "start_char")
        stop = _first_of(span, "end", "end_offset", "stop", "stop_char")
        kind = _first_of(span, "label", "labels", "type")
        if isinstance(kind, list):
            kind = kind[0] if len(kind) == 1 else None
        return start, stop, kind
    if isinstance(span, tuple | list):
        return tuple(span) if len(span) == 3 else (None, None, None)
    return tuple(getattr(span, name, None) for name in ("start_char", "end_char", "label_"))


def _first_of(fields, *names):
    return next((fields[name] for name in names if name in fields), None)


def _align(tokens, start, stop, name, expand):
    """Return the positions of the first token of a span in characters, and of the token after its last one."""
    if tokens.starts is None:
        raise ValueError(
            f"{name} is in characters, and the tokens have no offsets; pass tokens as tokenize makes them, or a Span "
            "in tokens"
        )
    end = len(tokens.text) if tokens.text is not None else tokens.stops[-1] if tokens.stops else 0
    if not 0 <= start < stop or stop > max(end, tokens.stops[-1] if tokens.stops else 0):
        raise ValueError(
            f"{name} is from character {start} to {stop}, which is no part of the text of {end} characters"
        )
    # The tokens that end after the start, up to those that begin before the stop.
    first = bisect_right(tokens.stops, start)
    after = bisect_left(tokens.starts, stop)
    if first >= after:
        raise ValueError(f"{name}, from character {start} to {stop}, has no token; leave it out")
    if not expand and (tokens.starts[first] != start or tokens.stops[after - 1] != stop):
        near = f"{tokens.starts[first]} to {tokens.stops[after - 1]}"
        raise ValueError(
            f"{name}, from character {start} to {stop}, is not aligned with the tokens, which it touches from {near}: "
            f"{quoted(tokens.fields(first, after)[2])}; correct it, or pass alignment='expand'"
        )
    return first, after
