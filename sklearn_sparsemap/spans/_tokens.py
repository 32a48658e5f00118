"""Tokens with their offsets in a text.

Used by `estimators`, `plotting` and `_labels.py`.
"""

from __future__ import annotations

import re
from numbers import Integral
from typing import NamedTuple
from unicodedata import category

from .._core.annotations import Any
from .._core.validation import quoted

# A word or a number, or one character of another kind. An apostrophe joins words, and a separator joins digits.
_PIECE = re.compile(r"\w+(?:(?<=\d)[.,:/](?=\d)\w+|['\u2019]\w+)*|[^\w\s]")
_JOINER = "\u200d"  # joins the character before to the next one, as in emoji of families
_MODIFIERS = range(0x1F3FB, 0x1F400)  # skin tones of emoji


class Token(NamedTuple):
    """A word, a number or a punctuation mark of a text.

    Parameters
    ----------
    text : str
    start, stop : int
        Offsets of its first character, and of the character after its last one.
    """

    text: str
    start: int
    stop: int


class _TokensOfText(list[Token]):
    """The tokens of a text, as a list, which knows the text."""

    text: str


def tokenize(text: str) -> list[Token]:
    """Split a text into words, numbers and punctuation marks, with their offsets.

    A word has letters, digits, underscores and the marks on them; an apostrophe inside of a word belongs to it, and so
    do the separators of a number such as 1,000.5 or 10:30. Any other character is a token of its own, except blanks.
    Marks, invisible characters and skin tones belong to the token before them.

    Parameters
    ----------
    text : str

    Returns
    -------
    tokens : list of Token
        ``text[token.start:token.stop] == token.text``.

    Raises
    ------
    ValueError
        If `text` is not a str.

    Examples
    --------
    >>> from sklearn_sparsemap.spans import tokenize
    >>> [token.text for token in tokenize("Ada's 2,000 letters (1842)")]
    ["Ada's", '2,000', 'letters', '(', '1842', ')']
    >>> tokenize("two eggs")[1]
    Token(text='eggs', start=4, stop=8)
    """
    if not isinstance(text, str):
        raise ValueError(f"text must be a str; got {quoted(text)}")
    bounds: list[list[int]] = []
    mark = ""
    for match in _PIECE.finditer(text):
        first = text[match.start()]
        is_word = first == "_" or first.isalnum()
        is_mark = not is_word and (category(first)[0] == "M" or category(first) == "Cf" or ord(first) in _MODIFIERS)
        goes_on = False
        if bounds and bounds[-1][1] == match.start():
            # Letters after a mark on a letter continue the word.
            goes_on = is_mark or mark == _JOINER or (mark != "" and is_word and text[bounds[-1][0]].isalnum())
        if goes_on:
            bounds[-1][1] = match.end()
        else:
            bounds.append([match.start(), match.end()])
        mark = first if is_mark and goes_on else ""
    tokens = _TokensOfText(Token(text[start:stop], start, stop) for start, stop in bounds)
    tokens.text = text
    return tokens


class Offsets(NamedTuple):
    """Tokens of any form, as three lists and the text.

    Attributes
    ----------
    words : list of str
    starts, stops : list of int, or None
        Offsets of the tokens; None if the tokens have none.
    text : str or None
        The text that they are from, if it is known.
    """

    words: list[str]
    starts: list[int] | None
    stops: list[int] | None
    text: str | None

    def fields(self, start: int, stop: int) -> tuple[int | None, int | None, str]:
        """Return the offsets of the first and after the last character of some tokens, and their text."""
        words = self.words[start:stop]
        if self.starts is None or self.stops is None:
            return None, None, " ".join(words)
        first = self.starts[start]
        after = self.stops[stop - 1]
        if self.text is not None:
            return first, after, self.text[first:after]
        # Characters between the tokens are unknown; blanks keep the offsets.
        parts = [
            word + " " * (nxt - end) for word, end, nxt in zip(words, self.stops[start:], self.starts[start + 1 : stop])
        ]
        return first, after, "".join([*parts, words[-1]])


def read_tokens(tokens: Any, name: str = "tokens") -> Offsets:
    """Return the tokens of one text as `Offsets`.

    Parameters
    ----------
    tokens : sequence
        Words, or tokens with offsets: `Token`, tuples (text, start, stop), dicts with "text", "start" and "end", or the
        tokens of a spaCy ``Doc``, which have ``text`` and ``idx``.
    name : str
        For messages.

    Raises
    ------
    ValueError
        If a token has none of these forms, only some have offsets, or offsets do not increase.
    """
    whole = getattr(tokens, "text", None)
    rows = [_read_token(token) for token in tokens] if not isinstance(tokens, str | dict) else [None]
    if None in rows:
        raise ValueError(
            f"{name} must be words, or tokens with offsets, as tokenize or spaCy makes them; got "
            f"{quoted(tokens if rows == [None] else tokens[rows.index(None)])}"
        )
    words = [row[0] for row in rows]
    n_offsets = sum(row[1] is not None for row in rows)
    if n_offsets == 0:
        return Offsets(words, None, None, None)
    if n_offsets < len(rows):
        raise ValueError(f"{name}: some tokens have offsets, and some have none; give all of one form")
    starts = [row[1] for row in rows]
    stops = [row[2] for row in rows]
    for k, (start, stop) in enumerate(zip(starts, stops)):
        if not 0 <= (stops[k - 1] if k else 0) <= start < stop:
            raise ValueError(f"{name}: token {k} is from {start} to {stop}; tokens are in order, and do not overlap")
    return Offsets(words, starts, stops, whole if isinstance(whole, str) else None)


def _read_token(token):
    """Return text, start and stop of a token, without offsets if it has none; None if it is no token."""
    if isinstance(token, str):
        return str(token), None, None
    if isinstance(token, dict):
        found = token.get("text"), token.get("start"), token.get("end", token.get("stop"))
    elif isinstance(token, tuple) and len(token) == 3:
        found = token
    else:
        text = getattr(token, "text", None)
        start = getattr(token, "idx", None)
        found = text, start, start + len(text) if isinstance(text, str) and isinstance(start, int) else None
    is_token = isinstance(found[0], str) and all(isinstance(own, Integral) for own in found[1:])
    return (found[0], int(found[1]), int(found[2])) if is_token else None
