"""Data frames of tokens, cut into sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, overload

import numpy as np

from ..._core.annotations import Any, Sequence
from ..._core.validation import is_missing, quoted


@overload
def sentences_from_frame(
    frame: Any,
    sentence: str | Sequence[str] = "sentence",
    label: None = None,
    *,
    fields: Sequence[str] | None = None,
    frames: Literal[False] = False,
) -> list[list[dict[str, Any]]]: ...
@overload
def sentences_from_frame(
    frame: Any,
    sentence: str | Sequence[str] = "sentence",
    *,
    label: str,
    fields: Sequence[str] | None = None,
    frames: Literal[False] = False,
) -> tuple[list[list[dict[str, Any]]], list[list[Any]]]: ...
@overload
def sentences_from_frame(
    frame: Any,
    sentence: str | Sequence[str],
    label: str,
    *,
    fields: Sequence[str] | None = None,
    frames: Literal[False] = False,
) -> tuple[list[list[dict[str, Any]]], list[list[Any]]]: ...
@overload
def sentences_from_frame(
    frame: Any,
    sentence: str | Sequence[str] = "sentence",
    label: None = None,
    *,
    fields: Sequence[str] | None = None,
    frames: bool = False,
) -> list[Any]: ...
@overload
def sentences_from_frame(
    frame: Any,
    sentence: str | Sequence[str] = "sentence",
    label: str | None = None,
    *,
    fields: Sequence[str] | None = None,
    frames: bool = False,
) -> Any: ...
def sentences_from_frame(
    frame: Any,
    sentence: str | Sequence[str] = "sentence",
    label: str | None = None,
    *,
    fields: Sequence[str] | None = None,
    frames: bool = False,
) -> Any:
    """Cut a data frame with one row a token into sentences, and their labels.

    Parameters
    ----------
    frame : DataFrame
        A DataFrame of pandas or polars, with the tokens of a sentence in consecutive rows.
    sentence : str or list of str, default="sentence"
        The column, or columns, that identify the sentence of a token. A missing value is replaced by the value above,
        because some tables name a sentence at its first token only.
    label : str, default=None
        The column of the labels. A missing label becomes None, which is unknown in training.
    fields : list of str, default=None
        The columns of tokens. By default, all others.
    frames : bool, default=False
        Whether `X` holds a data frame for each sentence; else lists of dicts, as `TemplateVectorizer` and
        `TokenDictVectorizer` take them, without fields that are missing.

    Returns
    -------
    X : list of sentences
    y : list of lists of labels
        Only if `label` is given.

    Raises
    ------
    ValueError
        If a column is missing, two have the same name, or the rows of a sentence are not consecutive.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_sparsemap.features import sentences_from_frame
    >>> frame = pd.DataFrame({"sentence": [1, 1, 2], "word": ["the", "dog", "no"], "tag": ["D", "N", "X"]})
    >>> X, y = sentences_from_frame(frame, label="tag")
    >>> X
    [[{'word': 'the'}, {'word': 'dog'}], [{'word': 'no'}]]
    >>> y
    [['D', 'N'], ['X']]
    """
    by = [sentence] if isinstance(sentence, str) or not isinstance(sentence, Iterable) else list(sentence)
    fields = _check_columns(frame, {"sentence": by, "label": [] if label is None else [label]}, fields)
    starts = _starts([_filled(frame[name].to_list(), name) for name in by])
    cuts = list(zip(starts, [*starts[1:], len(frame)]))
    table = frame[fields]
    # pandas selects rows by `iloc`, polars by slices.
    rows = _tokens(table, fields) if not frames else getattr(table, "iloc", table)
    X = [rows[i:j] for i, j in cuts]
    if label is None:
        return X
    labels = [None if _is_none(value) else value for value in frame[label].to_list()]
    return X, [labels[i:j] for i, j in cuts]


def _check_columns(frame, used, fields):
    """Check that a frame has rows and all columns; return the fields of tokens, by default those that are not used.

    `used` has a list of columns for the parameters `sentence` and `label`.
    """
    if not hasattr(frame, "columns"):
        raise ValueError(f"frame must be a DataFrame with one row a token; got {type(frame).__name__}")
    known = list(frame.columns)
    twice = [name for i, name in enumerate(known) if name in known[:i]]
    if twice:
        raise ValueError(f"the frame has two columns {twice[0]!r}; rename one")
    others = [name for name in known if not any(name in names for names in used.values())]
    fields = others if fields is None else [fields] if isinstance(fields, str) else list(fields)
    for parameter, names in {**used, "fields": fields}.items():
        unknown = [name for name in names if name not in known]
        if unknown:
            has = ", ".join(map(repr, known))
            raise ValueError(
                f"the frame has no column {unknown[0]!r}; it has {has}; name the right one by {parameter}="
            )
    if not len(frame):
        raise ValueError("the frame has no rows; give at least one token")
    return fields


def _tokens(table, fields):
    """Return the rows of a table as dicts, without fields that are missing."""
    columns = [table[name].to_list() for name in fields]
    if any(map(_has_missing, columns)):
        return [{name: value for name, value in zip(fields, row) if not _is_none(value)} for row in zip(*columns)]
    return [dict(zip(fields, row)) for row in zip(*columns)]


def _starts(columns):
    """Return the beginnings of sentences; raise ValueError if a sentence is not contiguous."""
    keys = list(zip(*columns))
    starts = [0, *(i for i in range(1, len(keys)) if keys[i] != keys[i - 1])]
    seen = set()
    for i in starts:
        if keys[i] in seen:
            name = keys[i][0] if len(keys[i]) == 1 else keys[i]
            raise ValueError(
                f"the sentence {quoted(name)} continues in row {i}, after another one; sort the frame by sentences, or "
                "name all columns that tell them apart: sentence=['document', 'sentence']"
            )
        seen.add(keys[i])
    return starts


def _filled(values, name):
    """Fill missing values with the value above."""
    if not _has_missing(values):
        return values
    if _is_none(values[0]):
        raise ValueError(f"the first row has no {name!r}; there is no row above from which to copy it")
    filled = []
    for value in values:
        filled.append(filled[-1] if _is_none(value) else value)
    return filled


def _has_missing(values):
    kinds = set(map(type, values)) - {str, int, bool}
    return bool(kinds) and any(map(_is_none, values))


def _is_none(value):
    return value is None or (not isinstance(value, str | np.ndarray | list | dict) and is_missing(value))
