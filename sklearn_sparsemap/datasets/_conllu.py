"""load_conllu: treebanks in the formats CoNLL-U and CoNLL-X."""

from __future__ import annotations

import re
from collections import deque
from itertools import chain

import numpy as np

from .._core.annotations import Any, Sequence
from .._core.validation import quoted
from ._conllu_files import FIELDS, HEAD, NO_HEAD, ConlluSentence
from ._lines import MAX_BYTES, Source, as_number, name_of, read_lines, read_sentences

_N_COLUMNS = 10
_RANGE_OR_EMPTY_NODE = re.compile(r"(\d+)([-.])(\d+)", re.ASCII)
_UNKNOWN = -1  # head of a word whose head is not given
_HEADS = {NO_HEAD: _UNKNOWN, **{str(head): head for head in range(200)}}  # faster than int() for most sentences
_LONGEST_CYCLE = 12  # words; a message shows at most this many of a cycle


def load_conllu(
    path: Source | Sequence[Source],
    fields: Sequence[str] = tuple(FIELDS),
    *,
    encoding: str = "utf-8",
    max_bytes: int = MAX_BYTES,
    chunk_size: int | None = None,
    keep: bool = False,
) -> Any:
    """Load the sentences and dependency trees of files in the format CoNLL-U or CoNLL-X.

    One word on each line, ten columns separated by tabs, sentences separated by blank lines. Comments,
    multiword tokens (numbered ``1-2``) and empty nodes (``3.1``) are not tokens: the trees are over words.

    Parameters
    ----------
    path : str, path-like or open file, or sequence of these
        The file, or the files, plain or compressed by gzip. An open file is read from its position on, and not closed.
    fields : sequence of str, default=("word", "lemma", "pos", "xpos", "feats", "deprel")
        The fields of a token, in this order. ``pos`` is the fourth column (the universal tag; the coarse tag of
        CoNLL-X), ``xpos`` the fifth. ``deprel`` is the relation to the head, which must not be a feature of a parser.
    encoding : str, default="utf-8"
        The encoding of the text. A file that was opened in text mode has its own.
    max_bytes : int, default=2**32
        Maximum size in bytes of the text of a file after decompression.
    chunk_size : int, default=None
        Number of sentences to read at a time, for data larger than memory. By default, all.
    keep : bool, default=False
        Whether sentences store the lines of the file. `dump_conllu` then writes them with new trees, and with their
        comments, multiword tokens, empty nodes and other columns.

    Returns
    -------
    X : list of lists of dict
        Sentences of tokens; a token maps the fields to str, ``"_"`` for a field without a value. With `keep`, a
        sentence is a list with an attribute `lines`.
    heads : list of int64 arrays of shape (n_words,)
        The number of each word's head, counted from 1; 0 is the root. Several words may have the head 0. A head ``_``,
        in files without trees, is -1. `fit` refuses such sentences, and `predict` accepts them.
    chunks : iterator of pairs (X, heads)
        If `chunk_size` is given. Files are read during the iteration; the last chunk of a file may be shorter.

    Raises
    ------
    ValueError
        If a line is malformed, words are not numbered from 1, a head is outside of the sentence, or heads have a cycle
        (the message has the line); if the file has no words, is not text in this encoding, is too long, cut off or
        damaged; or if `fields` are unknown.
    TypeError
        If `path` is neither a path nor an open file.
    OSError
        If the file cannot be read.

    See Also
    --------
    dump_conllu : Writes such files.

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
    kept = deque()

    def sentences_of(path):
        sentence = []
        lines = []
        name = name_of(path)
        # A blank line ends the last sentence.
        for number, line in enumerate(chain(read_lines(path, encoding, max_bytes), [""]), 1):
            if not line or line.isspace():
                if sentence:
                    kept.extend([lines] if keep else [])
                    yield sentence
                    sentence, lines = [], []
                elif keep:
                    lines.append("")
                continue
            if keep:
                lines.append(line)
            if not line.startswith("#"):
                row = _read_row(line, len(sentence) // n_columns + 1, f"{name}, line {number}")
                if row is not None:
                    # Messages name the line of a word.
                    sentence += [*row, number]

    n_columns = _N_COLUMNS + 1
    columns = {field: FIELDS[field] for field in fields}
    found = read_sentences(path, chunk_size, sentences_of, n_columns, columns, _heads_of)
    if not keep:
        return found
    if chunk_size is not None:
        return ((_remembering(X, kept), heads) for X, heads in found)
    return _remembering(found[0], kept), found[1]


def _read_head(cell):
    """Return a head as a number, -2 if it is none."""
    if cell in _HEADS:
        return _HEADS[cell]
    return as_number(cell) if cell.isascii() and cell.isdecimal() else _UNKNOWN - 1


def _remembering(X, kept):
    """Return sentences with their lines, which are removed from the front of `kept`."""
    return [ConlluSentence(tokens, kept.popleft()) for tokens in X]


def _check_fields(fields):
    known = ", ".join(map(repr, FIELDS))
    if isinstance(fields, str):
        raise ValueError(f"fields must be a sequence of names; write ({fields!r},)")
    fields = list(fields)
    for field in fields:
        if not isinstance(field, str) or field not in FIELDS:
            raise ValueError(f"fields has {field!r}, which no column holds; use some of {known}")
    if not fields:
        raise ValueError(f"fields is empty; name at least one of {known}")
    return list(dict.fromkeys(fields))


def _read_row(line, word, where):
    """Return the columns of the line of a word, None for a multiword token or an empty node."""
    row = line.split("\t")
    if len(row) != _N_COLUMNS:
        found = f"{len(row)} column{'s' * (len(row) != 1)}"
        raise ValueError(
            f"{where}: expected {_N_COLUMNS} columns separated by tabs, found {found} in {quoted(line)}; is it a "
            "CoNLL-U or CoNLL-X file?"
        )
    if row[0] == str(word):
        return row
    match = _RANGE_OR_EMPTY_NODE.fullmatch(row[0])
    if match is not None and (match[2] == "." or as_number(match[1]) <= as_number(match[3])):
        return None
    raise ValueError(
        f"{where}: expected word number {word}, found {quoted(row[0])}; number the words of a sentence from 1 and "
        "separate sentences by a blank line"
    )


def _heads_of(cells, ends, path, n_sentences):
    """Return the heads of each sentence, -1 for unknown ones; `n_sentences` is the number of earlier sentences.

    The known heads must have no cycle.
    """
    cells, lines = (cells[column :: _N_COLUMNS + 1] for column in (HEAD, _N_COLUMNS))
    lengths = np.diff(ends, prepend=0)
    n_words = np.repeat(lengths, lengths)
    try:
        heads = np.fromiter(map(_HEADS.__getitem__, cells), dtype=np.int64, count=len(cells))
    except KeyError:
        heads = np.fromiter(map(_read_head, cells), dtype=np.int64, count=len(cells))
    if heads.min() < _UNKNOWN:
        i = int(heads.argmin())
        raise ValueError(
            f"{path}, line {lines[i]}: the head (column {HEAD + 1}) is {quoted(cells[i])}, not a number; write the "
            f"number of a word, 0 for the root, or {NO_HEAD!r} if it is unknown"
        )
    if (heads > n_words).any():
        i = int(np.argmax(heads > n_words))
        raise ValueError(
            f"{path}, line {lines[i]}: the head is {cells[i][:80]}, but the sentence has {n_words[i]} words; heads "
            "are word numbers, 0 is the root"
        )
    starts = np.repeat(ends - lengths, lengths)
    # Each round doubles the distance of the pointers. In the end, all must point to the root, the last place.
    up = np.append(np.where(heads > 0, starts + heads - 1, len(heads)), len(heads))
    for _ in range(int(lengths.max()).bit_length()):
        up = up[up]
    if (up < len(heads)).any():
        # `up` of a word that does not reach the root is on the cycle.
        i = int(up[np.argmax(up < len(heads))])
        cycle = [i - int(starts[i]) + 1]
        while (head := int(heads[starts[i] + cycle[-1] - 1])) != cycle[0]:
            cycle.append(head)
        shown = [*cycle, cycle[0]] if len(cycle) <= _LONGEST_CYCLE else [*cycle[:_LONGEST_CYCLE], "..."]
        path_text = " -> ".join(map(str, shown))
        sentence = n_sentences + int(np.searchsorted(ends, i, side="right"))
        raise ValueError(
            f"{path}, line {lines[i]}: heads[{sentence}] has a cycle, {path_text}; every word must "
            "reach the root, 0, along its heads"
        )
    # Copies, because a view would keep the array of all sentences alive.
    return [heads[end - length : end].copy() for end, length in zip(ends, lengths)]
