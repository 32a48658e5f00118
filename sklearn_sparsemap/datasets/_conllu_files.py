"""dump_conllu, and sentences with the lines of their file.

Used by `_conllu.py`.
"""

from __future__ import annotations

import gzip
import re
from os import fsdecode

import numpy as np

from .._core.annotations import Any, PathLike, Sequence
from .._core.files import replacing
from .._core.validation import quoted
from ._lines import check_source

HEAD, _DEPREL = 6, 7
NO_HEAD = "_"  # head of a word outside a tree; -1 in arrays
# Columns of a word, by the name of its field. The names, in this order, are the default `fields` of `load_conllu`.
FIELDS = {"word": 1, "lemma": 2, "pos": 3, "xpos": 4, "feats": 5, "deprel": _DEPREL}
_WORD = re.compile(r"[0-9]+\t")
_BREAKS = re.compile(r"[\t\n\r]")


class ConlluSentence(list):
    """A sentence of `load_conllu` with ``keep=True``: a list of tokens with the lines of its file.

    Attributes
    ----------
    lines : list of str
        All lines of the sentence: comments, words, multiword tokens and empty nodes.
    """

    def __init__(self, tokens: Sequence[Any], lines: Sequence[str]) -> None:
        super().__init__(tokens)
        self.lines = list(lines)

    def __reduce__(self):
        return ConlluSentence, (list(self), self.lines)


def dump_conllu(
    sentences: Sequence[Any],
    heads: Sequence[Any] | None,
    relations: Sequence[Any] | None,
    path: str | PathLike[str] | Any,
    *,
    encoding: str = "utf-8",
) -> None:
    """Write sentences with dependency trees to a file in the format CoNLL-U.

    Sentences of ``load_conllu(path, keep=True)`` keep their comments, ids, multiword tokens, empty nodes and all other
    columns, including DEPS (enhanced dependencies).

    Parameters
    ----------
    sentences : sequence of sentences
        As from `load_conllu`. Other sentences are lists of tokens that are str, or dicts with the fields ``word``,
        ``lemma``, ``pos``, ``xpos``, ``feats`` and ``deprel``; missing fields are written as ``_``.
    heads : sequence of int arrays of shape (n_words,), or None
        The head of each word, 0 for the root, -1 for unknown (written as ``_``). None keeps those of the sentences.
    relations : sequence of sequences of str, or None
        The relation of each word to its head. None keeps those of the sentences.
    path : str, path-like or open file
        The file. An existing file is replaced once the new one is complete. The file is compressed if its name ends
        with ``.gz``. To an open file, in text or binary mode, text is appended.
    encoding : str, default="utf-8"

    Raises
    ------
    ValueError
        If the numbers of words, heads and relations of a sentence differ, a head is outside its sentence, or a text has
        a tab or a line break. The message names the sentence, and no file is written.
    TypeError
        If `path` is neither a path nor an open file.
    OSError
        If the file cannot be written.

    See Also
    --------
    load_conllu : Reads such files.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_sparsemap.datasets import dump_conllu, load_conllu
    >>> path = Path(tempfile.mkdtemp(), "found.conllu")
    >>> dump_conllu([["Time", "flies"]], [[2, 0]], [["nsubj", "root"]], path)
    >>> print(path.read_text().expandtabs(1), end="")
    1 Time _ _ _ _ 2 nsubj _ _
    2 flies _ _ _ _ 0 root _ _
    <BLANKLINE>
    >>> X, heads = load_conllu(path, keep=True)
    >>> dump_conllu(X, [[0, 1]], None, path)
    >>> path.read_text().splitlines()[0].split("\\t")[6:8]
    ['0', 'nsubj']
    """
    if not hasattr(path, "write"):
        check_source(path)
    for name, targets in (("heads", heads), ("relations", relations)):
        if targets is not None and len(targets) != len(sentences):
            raise ValueError(f"{name} has {len(targets)} entries for {len(sentences)} sentences; give one for each")
    text = []
    for i, sentence in enumerate(sentences):
        lines = getattr(sentence, "lines", None)
        lines = _new_lines(sentence, i, heads) if lines is None else lines
        if not len(sentence):
            raise ValueError(f"sentences[{i}] has no words; leave it out")
        rows = [place for place, line in enumerate(lines) if _WORD.match(line)]
        if len(rows) != len(sentence):
            raise ValueError(f"sentences[{i}] has {len(sentence)} words, but it was read with {len(rows)}")
        own_heads = None if heads is None else _check_heads(heads[i], len(rows), i)
        own_relations = None if relations is None else _check_texts(relations[i], len(rows), i)
        lines = list(lines)
        for word, place in enumerate(rows):
            cells = lines[place].split("\t")
            if own_heads is not None:
                cells[HEAD] = NO_HEAD if own_heads[word] < 0 else str(own_heads[word])
            if own_relations is not None:
                cells[_DEPREL] = own_relations[word]
            lines[place] = "\t".join(cells)
        text += [*lines, ""]
    text = "".join(f"{line}\n" for line in text)
    if hasattr(path, "write"):
        path.write(text if _takes_text(path) else text.encode(encoding))
        return
    data = text.encode(encoding)
    if fsdecode(path).endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    with replacing(path) as file:
        file.write(data)


def _takes_text(file):
    """Tell whether an open file is in text mode. Files of `tempfile` and `codecs` do not say it by their class."""
    try:
        file.write("")
    except TypeError:
        return False
    return True


def _new_lines(sentence, i, heads):
    """Return the lines of a sentence that was not read from a file."""
    if heads is None:
        raise ValueError(f"sentences[{i}] was not read by load_conllu with keep=True; give heads")
    lines = []
    for word, token in enumerate(sentence, 1):
        cells = [str(word), *["_"] * 9]
        fields = token if isinstance(token, dict) else {"word": token}
        for field, column in FIELDS.items():
            cells[column] = str(fields.get(field, "_"))
        for cell in cells:
            _check_text(cell, f"sentences[{i}]")
        lines.append("\t".join(cells))
    return lines


def _check_heads(heads, n_words, i):
    """Return the heads of a sentence as a list of int."""
    array = np.asarray(heads)
    if array.dtype == object:
        array = np.asarray(array.tolist())
    if array.shape != (n_words,) or array.dtype.kind not in "iu" or array.min() < -1 or array.max() > n_words:
        raise ValueError(
            f"heads[{i}] must hold {n_words} ints from 0 to {n_words}, one for each word; got {heads!r} (-1 is an "
            "unknown head)"
        )
    return array.tolist()


def _check_texts(relations, n_words, i):
    relations = list(relations)
    if len(relations) != n_words:
        raise ValueError(f"relations[{i}] has {len(relations)} entries for {n_words} words; give one for each")
    for relation in relations:
        _check_text(relation, f"relations[{i}]")
    return relations


def _check_text(text, where):
    if not isinstance(text, str) or not text or _BREAKS.search(text):
        raise ValueError(f"{where} has {quoted(text)}; the format needs text, without tabs and line breaks")
