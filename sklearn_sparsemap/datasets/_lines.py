"""The lines of text files, plain or compressed by gzip, read piece by piece."""

import codecs
import gzip
import zlib
from collections.abc import Iterable
from io import IncrementalNewlineDecoder
from itertools import chain
from os import PathLike

from .._core.validation import check_positive

MAX_BYTES = 2**32  # largest text of a file by default; a compressed file can be a thousand times smaller
_BLOCK = 2**20
_GZIP = b"\x1f\x8b"


def read_lines(path, encoding, max_bytes):
    """Yield the lines of a file, without their ends.

    A line ends with a line feed, a carriage return, or both. Unlike `str.splitlines`, other characters do not end it,
    because they occur within words.

    Parameters
    ----------
    path : str or path-like
    encoding : str
    max_bytes : int
        Maximum size of the text after decompression.

    Raises
    ------
    ValueError
        If the text is longer, is not in this encoding, or its compression is cut off or damaged; or if the encoding is
        unknown.
    TypeError
        If `path` is not a path.
    OSError
        If the file cannot be read.
    """
    check_path(path)
    check_positive("max_bytes", max_bytes, integer=True)
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
    except (LookupError, TypeError) as error:
        raise ValueError(f"encoding={encoding!r} is unknown; pass the name of one, for example 'utf-8'") from error
    newlines = IncrementalNewlineDecoder(None, translate=True)
    pending, n_bytes = [], 0
    for block in _blocks(path, max_bytes):
        n_bytes += len(block)
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            # The decoder may have kept some bytes of the block before.
            place = n_bytes - len(error.object) + error.start
            raise ValueError(
                f"{path} is not text in {encoding} ({error.reason}, byte {place}); pass its encoding, for example "
                "'latin-1'"
            ) from error
        if n_bytes == len(block):
            text = text.removeprefix("\ufeff")
        first, *lines = newlines.decode(text, final=not block).split("\n")
        pending.append(first)
        if lines:
            yield "".join(pending)
            yield from lines[:-1]
            pending = lines[-1:]
    yield "".join(pending)


def check_path(path):
    """Raise TypeError unless `path` is a path; `open` would accept an int, the number of an open file."""
    if not isinstance(path, str | bytes | PathLike):
        raise TypeError(f"path must be a str or path-like, the name of a file; got {type(path).__name__}")


def check_size(n_rows, n_columns, name, path, max_bytes):
    """Raise ValueError if a dense float64 or int64 array would be larger than `max_bytes`.

    A short file can have many columns, and many rows with few entries each.
    """
    n_bytes = 8 * n_rows * n_columns
    if n_bytes > max_bytes:
        raise ValueError(
            f"{path} has {n_rows} rows and {n_columns} columns of {name}, which take {n_bytes} bytes, more than "
            f"max_bytes={max_bytes}; raise max_bytes if that is meant"
        )


def as_number(digits):
    """Return decimal digits as an int that fits into int64; a longer one becomes an index that is always too large.

    Python refuses to convert thousands of digits.
    """
    return int(digits) if len(digits) <= 18 else 2**62


def _blocks(path, max_bytes):
    """Yield the bytes of a file in blocks, decompressed; an empty one is the end."""
    with open(path, "rb") as raw:
        compressed = raw.read(len(_GZIP)) == _GZIP
        raw.seek(0)
        file = gzip.GzipFile(fileobj=raw) if compressed else raw
        n_bytes, block = 0, b"\n"
        while block:
            try:
                block = file.read(_BLOCK)
            except EOFError as error:
                raise ValueError(f"{path} is cut off: its gzip stream has no end; fetch the whole file") from error
            except (gzip.BadGzipFile, zlib.error) as error:
                raise ValueError(f"{path} is damaged: its gzip stream is invalid ({error}); fetch it again") from error
            n_bytes += len(block)
            if n_bytes > max_bytes:
                raise ValueError(
                    f"{path} holds more than max_bytes={max_bytes} of text{' once decompressed' * compressed}; raise "
                    "max_bytes if that is meant"
                )
            yield block


def read_sentences(path, chunk_size, sentences_of, n_columns, fields, targets_of):
    """Read the sentences of one file or several, all at once or in chunks.

    Parameters
    ----------
    path : path, or sequence of paths
    chunk_size : int or None
        Number of sentences in a chunk; None for all.
    sentences_of : callable
        Yields the cells of each sentence of a file, token by token in one list.
    n_columns : int
        Cells of a token.
    fields : dict of str -> int
        The columns that tokens hold, by name.
    targets_of : callable
        Returns the targets of sentences, or None. It gets the cells of all tokens, the ends of the sentences, the path,
        and the number of earlier sentences of the file.

    Returns
    -------
    X, y : lists
        Without `chunk_size`; `y` may be None.
    chunks : iterator of such pairs
        With `chunk_size`.
    """
    paths = list(path) if isinstance(path, Iterable) and not isinstance(path, str | bytes | PathLike) else [path]
    for own in paths:
        check_path(own)
    if not paths:
        raise ValueError("path is an empty list; name at least one file")
    if chunk_size is not None:
        check_positive("chunk_size", chunk_size, integer=True)

    def read(own):
        n_before = 0
        for cells, ends in _join_chunks(sentences_of(own), n_columns, chunk_size):
            targets = targets_of(cells, ends, own, n_before)
            columns = [share_equal(cells[column::n_columns]) for column in fields.values()]
            tokens = [dict(zip(fields, token)) for token in zip(*columns)]
            yield [tokens[start:end] for start, end in zip([0, *ends], ends)], targets
            n_before += len(ends)
        if not n_before:
            raise ValueError(f"{own} holds no token; is it the right file?")

    chunks = (chunk for own in paths for chunk in read(own))
    if chunk_size is not None:
        return chunks
    sentences, targets = zip(*chunks)
    y = None if targets[0] is None else list(chain.from_iterable(targets))
    return list(chain.from_iterable(sentences)), y


def _join_chunks(sentences, n_columns, chunk_size):
    """Yield the cells of all tokens of a chunk in one list, and the ends of the sentences.

    Lists for each token, or dicts for each sentence, would slow down garbage collection.
    """
    cells, ends = [], []
    for sentence in sentences:
        cells += sentence
        ends.append(len(cells) // n_columns)
        if len(ends) == chunk_size:
            yield cells, ends
            cells, ends = [], []
    if ends:
        yield cells, ends


def share_equal(strings):
    """Return the strings with one object for equal strings, which saves memory and makes comparison faster."""
    return list(map({}.setdefault, strings, strings))
