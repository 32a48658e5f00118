"""load_word_vectors: files with a word on each line, and its vector.

Used by `features`.
"""

from __future__ import annotations

import re
from os import PathLike, fsdecode

import numpy as np

from .._core.annotations import NDArray
from .._core.validation import check_positive, quoted
from ._lines import MAX_BYTES, Source, as_number, check_source, name_of, read_blocks, read_lines

_BLANKS = re.compile("[ \t]+")
_N_FIRST = 1024  # rows of the array before it grows; each time, it grows by half
_LONGEST_WORD = 10_000  # bytes; a longer word shows that a file is not in word2vec's binary format


def load_word_vectors(
    path: Source,
    *,
    max_words: int | None = None,
    binary: bool | None = None,
    encoding: str = "utf-8",
    max_bytes: int = MAX_BYTES,
) -> tuple[NDArray[np.object_], NDArray[np.float32]]:
    """Load vectors of words, as word2vec, GloVe and fastText write them.

    Each line has a word and its numbers. The first line may hold the number of words and the number of columns
    instead. The file is read piece by piece, so memory is that of the result.

    Parameters
    ----------
    path : str, path-like or open file
        The file, plain or compressed by gzip.
    max_words : int, default=None
        Number of words to read. Most files begin with the most frequent words. By default, all.
    binary : bool, default=None
        Whether the file is in the binary format of word2vec. By default, whether its name ends in ``.bin`` or
        ``.bin.gz``.
    encoding : str, default="utf-8"
        The encoding of the words.
    max_bytes : int, default=2**32
        Maximum size of the part of the file that is read, in bytes after decompression.

    Returns
    -------
    words : object array of shape (n_words,)
        Strings. Of words that occur twice, the first one is kept.
    vectors : float32 array of shape (n_words, n_columns)

    Raises
    ------
    ValueError
        If a line has another number of columns than the first one, or a value that is not a finite number (the message
        names the line), or the file has fewer words than its first line says, is empty, cut off or damaged, or is not
        text in this encoding.
    TypeError
        If `path` is neither a path nor an open file.
    OSError
        If the file cannot be read.

    See Also
    --------
    sklearn_sparsemap.features.WordVectors, sklearn_sparsemap.features.WordClusters : Features of these vectors.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_sparsemap.datasets import load_word_vectors
    >>> path = Path(tempfile.mkdtemp(), "vectors.txt")
    >>> _ = path.write_text("the 0.5 -1\\ndog 0.25 2\\n")
    >>> load_word_vectors(path)
    (array(['the', 'dog'], dtype=object), array([[ 0.5 , -1.  ],
           [ 0.25,  2.  ]], dtype=float32))
    """
    check_source(path)
    if max_words is not None:
        check_positive("max_words", max_words, integer=True)
    name = name_of(path)
    if binary is None:
        is_named = isinstance(name, str | bytes | PathLike)
        binary = is_named and fsdecode(name).lower().removesuffix(".gz").endswith(".bin")
    entries = _binary_entries(path, encoding, max_bytes) if binary else _text_entries(path, encoding, max_bytes)
    n_promised = next(entries)
    vectors = np.empty((0, 0), np.float32)
    row_of = {}
    n_read = 0
    for place, word, numbers in entries:
        n_read += 1
        if n_promised is not None and n_read > n_promised:
            raise ValueError(f"{name}, {place}: the first line promises {n_promised} words; correct that number")
        if word in row_of:
            continue
        row = len(row_of)
        if row == len(vectors):
            n_rows = max(_N_FIRST, row + row // 2)
            n_rows = n_rows if max_words is None else min(n_rows, max_words)
            vectors.resize((n_rows, len(numbers)), refcheck=False)
        # Larger numbers become infinite.
        with np.errstate(over="ignore"):
            vectors[row] = numbers
        if not np.isfinite(vectors[row]).all():
            raise ValueError(f"{name}, {place}: the vector of {quoted(word)} has NaN or infinity; remove it")
        row_of[word] = row
        if row + 1 == max_words:
            break
    else:
        if n_promised is not None and n_read < n_promised:
            raise ValueError(
                f"{name} ends after {n_read} words, and its first line promises {n_promised}; fetch the whole file"
            )
    if not row_of:
        raise ValueError(f"{name} has no word; is it the right file?")
    vectors.resize((len(row_of), vectors.shape[1]), refcheck=False)
    words = np.empty(len(row_of), object)
    words[:] = list(row_of)
    return words, vectors


def _text_entries(path, encoding, max_bytes):
    """Yield the number of words or None, then the place, the word and the numbers of each line."""
    name = name_of(path)
    n_columns = None
    for number, line in enumerate(read_lines(path, encoding, max_bytes), 1):
        cells = _BLANKS.split(line.strip(" \t"))
        if cells == [""]:
            continue
        place = f"line {number}"
        if n_columns is None:
            is_header = len(cells) == 2 and all(map(str.isdecimal, cells))
            n_columns = as_number(cells[1]) if is_header else sum(map(_is_number, cells[1:]))
            if not n_columns:
                raise ValueError(f"{name}, {place}: expected a word and its numbers; is it the right file?")
            yield as_number(cells[0]) if is_header else None
            if is_header:
                continue
        word, numbers = cells[:-n_columns], cells[-n_columns:]
        # Some files have words with spaces. A number before the numbers is none of these.
        if not word or not all(map(_is_number, numbers)) or (len(word) > 1 and _is_number(word[-1])):
            raise ValueError(f"{name}, {place}: expected a word and {n_columns} numbers, found {quoted(line)}")
        yield place, " ".join(word), list(map(float, numbers))
    if n_columns is None:
        raise ValueError(f"{name} has no word; is it the right file?")


def _is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _binary_entries(path, encoding, max_bytes):
    """As `_text_entries`, for the binary format of word2vec: a word, a space, and the bytes of 32-bit floats."""
    name = name_of(path)
    buffer = _Buffer(path, max_bytes)
    header = buffer.until(b"\n", "the first line").split()
    if len(header) != 2 or not all(map(bytes.isdigit, header)) or not header[1].strip(b"0"):
        raise ValueError(
            f"{name} does not begin with the number of words and of columns, as word2vec's binary files do; pass "
            "binary=False for text"
        )
    n_words, n_columns = map(as_number, header)
    yield n_words
    for number in range(1, n_words + 1):
        place = f"word {number}"
        word = buffer.until(b" ", place).lstrip(b"\n")
        numbers = np.frombuffer(buffer.take(4 * n_columns, place), "<f4")
        try:
            word = word.decode(encoding)
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}, {place} is not text in {encoding} ({error.reason}); pass its encoding") from None
        yield place, word, numbers


class _Buffer:
    """The bytes of a file, decompressed, in pieces of any size."""

    def __init__(self, path, max_bytes):
        self._name = name_of(path)
        self._blocks = read_blocks(path, max_bytes)
        self._bytes, self._at = b"", 0

    def take(self, n, place):
        """Return the next n bytes."""
        self._fill(n, place)
        self._at += n
        return self._bytes[self._at - n : self._at]

    def until(self, end, place):
        """Return the bytes before the next `end`, one byte, and skip it."""
        stop, n = -1, 0
        while stop < 0:
            # A word is shorter than this, so that a wrong file is not read to its end.
            if n > _LONGEST_WORD:
                raise ValueError(f"{self._name}, {place}: this is not word2vec's binary format; pass binary=False")
            self._fill(n + 1, place)
            stop = self._bytes.find(end, self._at + n)
            n = len(self._bytes) - self._at
        found = self._bytes[self._at : stop]
        self._at = stop + 1
        return found

    def _fill(self, n, place):
        """Read until there are n bytes."""
        while len(self._bytes) - self._at < n:
            block = next(self._blocks, b"")
            if isinstance(block, str):
                raise ValueError(f"{self._name} was opened as text; open it in binary mode")
            if not block:
                raise ValueError(f"{self._name} ends within {place}; fetch the whole file")
            self._bytes, self._at = self._bytes[self._at :] + block, 0
