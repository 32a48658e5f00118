"""load_conllu: treebanks in the formats CoNLL-U and CoNLL-X."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.validation import quoted
from ._lines import MAX_BYTES, as_number, read_lines, read_sentences

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

_COLUMNS = {"word": 1, "lemma": 2, "pos": 3, "xpos": 4, "feats": 5, "deprel": 7}
_N_COLUMNS = 10
_HEAD = 6
_LONGEST_CIRCLE = 12  # words of a circle that a message shows


def load_conllu(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    fields: Sequence[str] = tuple(_COLUMNS),
    *,
    encoding: str = "utf-8",
    max_bytes: int = MAX_BYTES,
    chunk_size: int | None = None,
) -> Any:
    """Load the sentences and dependency trees of files in the format CoNLL-U or CoNLL-X.

    One word on each line, ten columns separated by tabs, sentences separated by blank lines. Comments,
    multiword tokens (numbered ``1-2``) and empty nodes (``3.1``) are skipped: the trees are over words.

    Parameters
    ----------
    path : str or path-like, or sequence of these
        The file, or the files, plain or compressed by gzip.
    fields : sequence of str, default=("word", "lemma", "pos", "xpos", "feats", "deprel")
        What a token holds, in this order. ``pos`` is the fourth column (the universal tag; the coarse tag of
        CoNLL-X), ``xpos`` the fifth, ``deprel`` the relation to the head: a parser must not see it.
    encoding : str, default="utf-8"
        The encoding of the text.
    max_bytes : int, default=2**32
        Longest text to read of a file, after decompression.
    chunk_size : int, default=None
        Sentences to read at a time, for data larger than memory. By default, all.

    Returns
    -------
    X : list of lists of dict
        Sentences of tokens; a token maps the fields to str, ``"_"`` where the file leaves one open.
    heads : list of int64 arrays of shape (n_words,)
        The number of each word's head, counted from 1; 0 is the root. Several words may hang on the root.
    chunks : iterator of pairs (X, heads)
        With `chunk_size`. Files are read as it is gone through; the last chunk of a file may be shorter.

    Raises
    ------
    ValueError
        If a line is malformed, words are not numbered from 1, a head lies outside the sentence, the heads of
        a sentence go in a circle (the message says where), the file holds no word, is not text in this encoding, is
        too long, or is cut off or damaged by its compression, or `fields` has no meaning.
    TypeError
        If `path` is not a path.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_sparsemap.datasets import load_conllu
    >>> path = Path(tempfile.mkdtemp(), "train.conllu")
    >>> rows = ["1 Time time NOUN NN _ 2 nsubj _ _", "2 flies fly VERB VBZ _ 0 root _ _"]
    >>> _ = path.write_text("\\n".join(rows).replace(" ", "\\t"))
    >>> X, heads = load_conllu(path, fields=("word", "pos"))
    >>> X
    [[{'word': 'Time', 'pos': 'NOUN'}, {'word': 'flies', 'pos': 'VERB'}]]
    >>> heads
    [array([2, 0])]
    """
    fields = _check_fields(fields)

    def read_file(path, chunk_size):
        n_before = 0
        for rows, ends, lines in _read_words(read_lines(path, encoding, max_bytes), path, chunk_size):
            heads = _check_heads(rows[_HEAD::_N_COLUMNS], ends, lines, path, n_before)
            # Equal strings become one object: less memory, and faster to compare and hash.
            share = {}.setdefault
            columns = []
            for field in fields:
                column = rows[_COLUMNS[field] :: _N_COLUMNS]
                columns.append(map(share, column, column))
            tokens = [dict(zip(fields, token)) for token in zip(*columns)]
            starts = [0, *ends[:-1]]
            X = [tokens[start:end] for start, end in zip(starts, ends)]
            # Copies: one kept sentence must not keep all others alive.
            yield X, [heads[start:end].copy() for start, end in zip(starts, ends)]
            n_before += len(X)

    return read_sentences(path, chunk_size, read_file)


def _check_fields(fields):
    known = ", ".join(map(repr, _COLUMNS))
    if isinstance(fields, str):
        raise ValueError(f"fields must be a sequence of names; write ({fields!r},)")
    fields = list(fields)
    for field in fields:
        if not isinstance(field, str) or field not in _COLUMNS:
            raise ValueError(f"fields has {field!r}, which no column holds; use some of {known}")
    if not fields:
        raise ValueError(f"fields is empty; name at least one of {known}")
    return list(dict.fromkeys(fields))


def _read_words(lines_of_file, path, chunk_size):
    """Yield the columns of words, one word after the other, where sentences end, and each word's line, by chunks."""
    rows = []
    ends = []
    lines = []
    n_before = n_chunks = 0
    for number, line in enumerate(lines_of_file, 1):
        if not line or line.isspace():
            if len(lines) > n_before:
                n_before = len(lines)
                ends.append(n_before)
                if len(ends) == chunk_size:
                    yield rows, ends, lines
                    rows, ends, lines, n_before, n_chunks = [], [], [], 0, n_chunks + 1
            continue
        if line.startswith("#"):
            continue
        row = line.split("\t")
        if len(row) != _N_COLUMNS:
            found = f"{len(row)} column{'s' * (len(row) != 1)}"
            raise ValueError(
                f"{path}, line {number}: expected {_N_COLUMNS} columns separated by tabs, found {found} in "
                f"{quoted(line)}; is it a CoNLL-U or CoNLL-X file?"
            )
        if row[0] != str(len(lines) - n_before + 1):
            if _is_range_or_empty_node(row[0]):
                continue
            raise ValueError(
                f"{path}, line {number}: expected word number {len(lines) - n_before + 1}, found {quoted(row[0])}; "
                "number the words of a sentence from 1 and separate sentences by a blank line"
            )
        # Not a list of rows: a list for each word would keep the garbage collector busy.
        rows += row
        lines.append(number)
    if len(lines) > n_before:
        ends.append(len(lines))
    if ends:
        yield rows, ends, lines
    elif not n_chunks:
        raise ValueError(f"{path} holds no word; is it the right file?")


def _is_range_or_empty_node(number):
    for sign in "-.":
        first, found, second = number.partition(sign)
        if found:
            return first.isdecimal() and second.isdecimal()
    return False


def _check_heads(cells, ends, lines, path, n_sentences):
    """Return the heads of all words as one array, each sentence's a tree; so many sentences came before."""
    lengths = np.diff(ends, prepend=0)
    n_words = np.repeat(lengths, lengths)
    is_number = np.fromiter(map(str.isdecimal, cells), dtype=bool, count=len(cells))
    if not is_number.all():
        i = int(np.argmin(is_number))
        raise ValueError(
            f"{path}, line {lines[i]}: the head (column {_HEAD + 1}) is {quoted(cells[i])}, not a number; only "
            "files with trees can be loaded"
        )
    heads = np.fromiter(map(as_number, cells), dtype=np.int64, count=len(cells))
    if (heads > n_words).any():
        i = int(np.argmax(heads > n_words))
        raise ValueError(
            f"{path}, line {lines[i]}: the head is {cells[i][:80]}, but the sentence has {n_words[i]} words; heads "
            "are word numbers, 0 is the root"
        )
    starts = np.repeat(ends - lengths, lengths)
    # Every round doubles how far up the tree the pointers are; then all must be at the root, the last place.
    up = np.append(np.where(heads > 0, starts + heads - 1, len(heads)), len(heads))
    for _ in range(int(lengths.max()).bit_length()):
        up = up[up]
    if (up < len(heads)).any():
        # `up` of a word that never gets to the root lies on the circle.
        i = int(up[np.argmax(up < len(heads))])
        circle = [i - int(starts[i]) + 1]
        while (head := int(heads[starts[i] + circle[-1] - 1])) != circle[0]:
            circle.append(head)
        shown = [*circle, circle[0]] if len(circle) <= _LONGEST_CIRCLE else [*circle[:_LONGEST_CIRCLE], "..."]
        path_text = " -> ".join(map(str, shown))
        sentence = n_sentences + int(np.searchsorted(ends, i, side="right"))
        raise ValueError(
            f"{path}, line {lines[i]}: heads[{sentence}] goes in a circle, {path_text}; every word must "
            "reach the root, 0, along its heads"
        )
    return heads
