"""load_conll: files with one token on each line and its fields in columns."""

from __future__ import annotations

import re
from itertools import chain

from .._core.annotations import Any, Sequence
from .._core.validation import quoted
from ._lines import MAX_BYTES, Source, name_of, read_lines, read_sentences, share_equal

_DOCUMENT_START = "-DOCSTART-"
_BLANKS = re.compile("[ \\t]+")


def load_conll(
    path: Source | Sequence[Source],
    columns: Sequence[str | None] = ("word", "pos", "label"),
    *,
    label: str | None = "label",
    separator: str | None = None,
    encoding: str = "utf-8",
    comment: str | None = None,
    max_bytes: int = MAX_BYTES,
    chunk_size: int | None = None,
) -> Any:
    """Load files in the column format of the CoNLL shared tasks.

    One token on each line, its fields in columns, sentences separated by blank lines. Lines that start with
    ``-DOCSTART-`` end a sentence and are skipped.

    Parameters
    ----------
    path : str, path-like or open file, or sequence of these
        The file, or the files, plain or compressed by gzip. An open file is read from its position on, and not closed.
    columns : sequence of str or None, default=("word", "pos", "label")
        The name of each column, from left to right; a column named None is skipped.
    label : str or None, default="label"
        The name of the column that goes to `y`. There is no `y` if this is None, or if it is left at
        ``"label"`` and no column has that name.
    separator : str, default=None
        The separator of columns. By default, any run of white space. If a line then has a wrong number of columns, or
        words that are not ASCII, any run of spaces and tabs, because some words contain other kinds of white space.
    encoding : str, default="utf-8"
        The encoding of the text. A file that was opened in text mode has its own.
    comment : str, default=None
        Lines that start with this are skipped. By default there are no comments, because ``#`` may be a word.
    max_bytes : int, default=2**32
        Maximum size in bytes of the text of a file after decompression. A small compressed file can contain a very long
        text.
    chunk_size : int, default=None
        Number of sentences to read at a time, for data larger than memory. By default, all.

    Returns
    -------
    X : list of lists of dict
        Sentences of tokens; a token maps the name of a column to a str.
    y : list of lists of str, or None
        The labels of each sentence's tokens.
    chunks : iterator of pairs (X, y)
        If `chunk_size` is given. Files are read during the iteration; the last chunk of a file may be shorter.

    Raises
    ------
    ValueError
        If a line has another number of columns than `columns` (the message has its number); if the file has no tokens,
        is not text in this encoding, is too long, cut off or damaged; or if `label` is not in `columns`.
    TypeError
        If `path` is neither a path nor an open file.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_sparsemap.datasets import load_conll
    >>> path = Path(tempfile.mkdtemp(), "train.txt")
    >>> _ = path.write_text("Time NN B-NP\\nflies VBZ B-VP\\n\\nStop VB B-VP\\n")
    >>> X, y = load_conll(path)
    >>> X[0]
    [{'word': 'Time', 'pos': 'NN'}, {'word': 'flies', 'pos': 'VBZ'}]
    >>> y
    [['B-NP', 'B-VP'], ['B-VP']]
    >>> [labels for _, labels in load_conll([path, path], chunk_size=1)]
    [[['B-NP', 'B-VP']], [['B-VP']], [['B-NP', 'B-VP']], [['B-VP']]]
    """
    columns, fields, label_index = _check_columns(columns, label)
    if separator == "" or comment == "":
        raise ValueError("separator and comment must not be empty; leave them at None")
    n_columns = len(columns)

    def sentences_of(path):
        sentence = []
        # A blank line ends the last sentence.
        for number, line in enumerate(chain(read_lines(path, encoding, max_bytes), [""]), 1):
            if comment is not None and line.startswith(comment):
                continue
            if separator is None and line.isascii():
                row = line.split()
                # Most lines.
                if len(row) == n_columns and row[0][0] != "-":
                    sentence += row
                    continue
            else:
                row = _split_at_blanks(line) if separator is None else line.split(separator)
            if not line or line.isspace() or row[0].startswith(_DOCUMENT_START):
                if sentence:
                    yield sentence
                sentence = []
            elif len(row) == n_columns or (separator is None and len(row := _split_at_blanks(line)) == n_columns):
                sentence += row
            else:
                found = f"{len(row)} column{'s' * (len(row) != 1)}"
                raise ValueError(
                    f"{name_of(path)}, line {number}: expected {n_columns}, found {found} in {quoted(line)}; name "
                    "every column in columns (None skips one), or set separator"
                )

    def labels_of(cells, ends, *_):
        if label_index is None:
            return None
        labels = share_equal(cells[label_index::n_columns])
        return [labels[start:end] for start, end in zip([0, *ends], ends)]

    return read_sentences(path, chunk_size, sentences_of, n_columns, fields, labels_of)


def _split_at_blanks(line):
    """Split at spaces and tabs. A word may contain other white space, such as a no-break space or a line separator."""
    return _BLANKS.split(line.strip(" \t"))


def _check_columns(columns, label):
    """Return the columns as a list, the indices of those kept by their names, and that of the label or None."""
    if isinstance(columns, str):
        raise ValueError(f"columns must be a sequence of names; write ({columns!r},)")
    columns = list(columns)
    fields = {}
    for i, name in enumerate(columns):
        if name is None:
            continue
        if not isinstance(name, str):
            raise ValueError(f"columns must be names or None; got {name!r}")
        if name in fields:
            raise ValueError(f"columns has the name {name!r} twice; name each column once, or None to skip it")
        fields[name] = i
    if label not in (None, "label", *fields):
        raise ValueError(f"label={label!r} is not among the columns {columns}; use one of them or None")
    label_index = fields.pop(label, None)
    if not fields:
        raise ValueError(f"columns={columns} leaves no field for X; name at least one column in addition to the label")
    return columns, fields, label_index
