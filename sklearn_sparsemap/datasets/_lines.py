"""The lines of text files, plain or compressed by gzip, read piece by piece."""

import codecs
import gzip
import zlib
from collections.abc import Iterable
from io import IncrementalNewlineDecoder
from numbers import Integral
from os import PathLike

# Longer texts are refused unless asked for: compressed, a thousandth of their size is enough to fill the memory.
MAX_BYTES = 2**32
_BLOCK = 2**20
_GZIP = b"\x1f\x8b"


def read_lines(path, encoding, max_bytes):
    """Yield the lines of a file, without their ends.

    A line ends with a line feed, a carriage return, or both; not, as for `str.splitlines`, with characters that occur
    within words.

    Parameters
    ----------
    path : str or path-like
    encoding : str
    max_bytes : int
        Longest text, after decompression.

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
    if not isinstance(max_bytes, Integral) or isinstance(max_bytes, bool) or max_bytes < 1:
        raise ValueError(f"max_bytes must be a positive integer; got {max_bytes!r}")
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
    """Raise TypeError unless `path` is a path: `open` takes an int for the number of an open file."""
    if not isinstance(path, str | bytes | PathLike):
        raise TypeError(f"path must be a str or path-like, the name of a file; got {type(path).__name__}")


def check_size(n_rows, n_columns, name, path, max_bytes):
    """Raise ValueError if a dense float64 or int64 array would be larger than `max_bytes`.

    A short file can declare many columns and hold many rows with few entries each.
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
                raise ValueError(f"{path} is damaged: its gzip stream is no such ({error}); fetch it anew") from error
            n_bytes += len(block)
            if n_bytes > max_bytes:
                raise ValueError(
                    f"{path} holds more than max_bytes={max_bytes} of text{' once decompressed' * compressed}; raise "
                    "max_bytes if that is meant"
                )
            yield block


def read_sentences(path, chunk_size, read_file):
    """Read the sentences of one file or several, all at once or in chunks.

    Parameters
    ----------
    path : path, or sequence of paths
    chunk_size : int or None
        Sentences in a chunk; None is all.
    read_file : callable
        Yields the sentences of a file in pairs ``(X, y)`` of at most so many of them, and one pair of all if that is
        None.

    Returns
    -------
    X, y : lists
        Without `chunk_size`; `y` is None where there is none.
    chunks : iterator of such pairs
        With it.
    """
    paths = list(path) if isinstance(path, Iterable) and not isinstance(path, str | bytes | PathLike) else [path]
    for own in paths:
        check_path(own)
    if not paths:
        raise ValueError("path is an empty list; name at least one file")
    if chunk_size is None:
        X, y = [], []
        for own in paths:
            for sentences, targets in read_file(own, None):
                X += sentences
                if targets is None:
                    y = None
                else:
                    y += targets
        return X, y
    if not isinstance(chunk_size, Integral) or isinstance(chunk_size, bool) or chunk_size < 1:
        raise ValueError(f"chunk_size must be a positive integer, or None; got {chunk_size!r}")
    return (chunk for own in paths for chunk in read_file(own, chunk_size))
