"""Files of annotated texts, with a JSON object a line, as annotation tools write them."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from numbers import Integral, Real
from os import PathLike

from .._core.annotations import Any, Iterable, Sequence
from .._core.validation import check_same_length, quoted
from ..datasets._lines import MAX_BYTES, Source, name_of, read_lines
from ._labels import parts_of_span
from ._types import Span

# The keys of the spans of a record, in the order in which they are looked for: Prodigy; doccano, and the short form of
# Label Studio; texts with relations of doccano, and spaCy.
_KEYS = ("spans", "label", "labels", "entities")
_FORMS = "doccano, Label Studio or Prodigy"
_SURROGATE = re.compile("[\ud800-\udfff]")


def load_jsonl(
    path: Source, *, encoding: str = "utf-8", max_bytes: int = MAX_BYTES
) -> tuple[list[str], list[list[Span]]]:
    """Read annotated texts from a file of doccano, Label Studio or Prodigy.

    Parameters
    ----------
    path : str, path-like or open file
        A JSON object for each line, or a JSON array of objects. It may be compressed by gzip.
    encoding : str, default="utf-8"
    max_bytes : int, default=2**32
        Maximum size of the text of the file.

    Returns
    -------
    texts : list of str
    spans : list of lists of Span
        The spans of each text, with ``start_char``, ``stop_char``, ``text`` and, if it is in the file, a probability.

    Raises
    ------
    ValueError
        If a line is no object of such a form, or a span is no part of its text; the message names the line. Also if the
        file is larger than `max_bytes`.

    Notes
    -----
    Spans are looked for under the keys ``spans``, ``label``, ``labels`` and ``entities``, and in the ``annotations`` of
    Label Studio. Each is a list ``[start, stop, type]``, or an object with these fields: ``start`` and ``end`` (or
    ``start_offset`` and ``end_offset``), ``label`` (or a list ``labels``). Texts that were rejected or ignored in
    Prodigy are left out, and so are cancelled annotations of Label Studio. Offsets count characters. If a span comes
    with its text, and this agrees only with offsets in UTF-16, which some tools in browsers write, they are converted.

    Examples
    --------
    >>> from io import StringIO
    >>> from sklearn_sparsemap.spans import labels_from_spans, load_jsonl, tokenize
    >>> file = StringIO('{"text": "Ada saw London", "label": [[0, 3, "PER"], [8, 14, "LOC"]]}')
    >>> texts, spans = load_jsonl(file)
    >>> labels_from_spans(tokenize(texts[0]), spans[0])
    ['B-PER', 'O', 'B-LOC']
    """
    texts = []
    spans = []
    for where, record in _records(path, encoding, max_bytes):
        if record.get("answer", "accept") != "accept":
            continue
        text = record.get("text")
        data = record.get("data")
        if text is None:
            text = data.get("text") if isinstance(data, dict) else data
        if not isinstance(text, str):
            raise ValueError(f"{where} has no text: {quoted(record)}; is it a file of {_FORMS}?")
        entries = _entries_of(record, where)
        texts.append(text)
        spans.append([_read_entry(entry, text, f"{where}, span {k}") for k, entry in enumerate(entries)])
    return texts, spans


def dump_jsonl(path: str | PathLike[str] | Any, texts: Sequence[str], spans: Sequence[Iterable[Span]]) -> None:
    """Write annotated texts to a file, a JSON object for each line.

    A line is ``{"text": ..., "spans": [{"start": ..., "end": ..., "label": ...}]}``, with ``probability`` if it is
    known. It is the form of Prodigy; `load_jsonl` reads it.

    Parameters
    ----------
    path : str, path-like or open text file
    texts : sequence of str
    spans : sequence of sequences of Span
        The spans of each text, with ``start_char`` and ``stop_char``.

    Raises
    ------
    ValueError
        If a span has no offsets, or is no part of its text.

    Examples
    --------
    >>> from io import StringIO
    >>> from sklearn_sparsemap.spans import dump_jsonl, spans_from_labels, tokenize
    >>> file = StringIO()
    >>> text = "Ada laughed"
    >>> dump_jsonl(file, [text], [spans_from_labels(["B-PER", "O"], tokens=tokenize(text))])
    >>> print(file.getvalue().strip())
    {"text": "Ada laughed", "spans": [{"start": 0, "end": 3, "label": "PER"}]}
    """
    check_same_length(texts, spans, ("texts", "spans"), "list of spans")
    lines = [_line_of(i, text, own) for i, (text, own) in enumerate(zip(texts, spans))]
    with nullcontext(path) if hasattr(path, "write") else open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)


def _line_of(i, text, spans):
    """Return the line of a file for a text."""
    if not isinstance(text, str):
        raise ValueError(f"texts[{i}] must be a str; got {quoted(text)}")
    entries = []
    for k, span in enumerate(spans):
        start = getattr(span, "start_char", None)
        stop = getattr(span, "stop_char", None)
        if start is None or stop is None:
            raise ValueError(f"spans[{i}][{k}] has no offsets; make spans with tokens=, so that they have them")
        if not 0 <= start < stop <= len(text) or not isinstance(span.type, str):
            raise ValueError(f"spans[{i}][{k}] is no part of a text of {len(text)} characters, or has no type: {span}")
        entry = {"start": int(start), "end": int(stop), "label": span.type}
        if span.probability is not None:
            entry["probability"] = float(span.probability)
        entries.append(entry)
    has_surrogate = _SURROGATE.search(text) is not None
    line = json.dumps({"text": text, "spans": entries}, ensure_ascii=has_surrogate)
    if has_surrogate and json.loads(line)["text"] != text:
        raise ValueError(f"texts[{i}] has a pair of surrogates in place of a character; decode it as UTF-16 first")
    return line + "\n"


def _records(path, encoding, max_bytes):
    """Yield the objects of a file with their names in messages."""
    lines = read_lines(path, encoding, max_bytes)
    name = name_of(path)
    number = 0
    for line in lines:
        number += 1
        if not line.strip():
            continue
        if number == 1 and line.lstrip().startswith("["):
            records = _parse("\n".join([line, *lines]), name)
            for k, record in enumerate(records):
                yield f"{name}, entry {k}", _check_object(record, f"{name}, entry {k}")
            return
        where = f"{name}, line {number}"
        yield where, _check_object(_parse(line, where), where)


def _parse(text, where):
    """Return the value of JSON; raise ValueError if it is none, or nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is no JSON ({error}); is it a file of {_FORMS}?") from None


def _check_object(record, where):
    if not isinstance(record, dict):
        raise ValueError(f"{where} is no JSON object: {quoted(record)}; is it a file of {_FORMS}?")
    return record


def _entries_of(record, where):
    """Return the spans of a record, as they are in the file."""
    annotations = record.get("annotations")
    if isinstance(annotations, list):
        kept = [own for own in annotations if isinstance(own, dict) and not own.get("was_cancelled")]
        results = kept[0].get("result", []) if kept else []
        values = [own.get("value") for own in results if isinstance(own, dict)] if isinstance(results, list) else []
        # Other results are choices and relations.
        return [value for value in values if isinstance(value, dict) and "labels" in value]
    entries = next((record[key] for key in _KEYS if record.get(key) is not None), [])
    if not isinstance(entries, list):
        raise ValueError(f"{where}: the spans of a text are a list; got {quoted(entries)}")
    return entries


def _read_entry(entry, text, where):
    """Return a `Span` of an entry of a file."""
    start, stop, kind = parts_of_span(entry) if isinstance(entry, dict | list) else (None, None, None)
    are_places = all(isinstance(place, Integral) and not isinstance(place, bool) for place in (start, stop))
    if not are_places or not isinstance(kind, str):
        raise ValueError(f"{where} has no start, no end or no label: {quoted(entry)}")
    fields = entry if isinstance(entry, dict) else {}
    own = fields.get("text")
    if isinstance(own, str) and text[max(start, 0) : max(stop, 0)] != own:
        start, stop = _from_utf16(text, start, stop)
        if text[start:stop] != own:
            raise ValueError(f"{where} has the text {quoted(own)}, which is not at its offsets; is it of another text?")
    if not 0 <= start < stop <= len(text):
        raise ValueError(f"{where} is from {start} to {stop}, which is no part of a text of {len(text)} characters")
    chance = fields.get("probability")
    is_chance = isinstance(chance, Real) and not isinstance(chance, bool) and 0.0 <= chance <= 1.0
    return Span(None, None, kind, float(chance) if is_chance else None, start, stop, text[start:stop])


def _from_utf16(text, start, stop):
    """Return offsets in characters, given offsets in UTF-16."""
    units = text.encode("utf-16-le", "surrogatepass")
    counts = [len(units[: 2 * max(place, 0)].decode("utf-16-le", "replace")) for place in (start, stop)]
    return tuple(counts)
