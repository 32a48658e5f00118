"""The lines of text files, plain or compressed by gzip, read piece by piece.

Used by `spans` and most files here.
"""

import codecs
import gzip
import zlib
from collections.abc import Iterable
from contextlib import nullcontext
from io import BytesIO, IncrementalNewlineDecoder, StringIO
from itertools import chain
from os import PathLike

from .._core.annotations import Any
from .._core.validation import check_positive

MAX_BYTES = 2**32  # largest text of a file by default; a compressed file can be a thousand times smaller
Source = str | PathLike[str] | Any  # a path, or an open file in text or binary mode
_BLOCK = 2**20
_GZIP = b"\x1f\x8b"
_N_PROBED = 1024  # first bytes of a file, from which its compression and encoding are guessed
# Byte-order marks and their encodings. That of UTF-16 is the beginning of that of UTF-32.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_lines(path, encoding, max_bytes):
    """Yield the lines of a file, without their ends.

    A line ends with a line feed, a carriage return, or both. Unlike `str.splitlines`, other characters do not end it,
    because they occur within words.

    Parameters
    ----------
    path : str, path-like or open file
    encoding : str
        Of bytes. The text of a file that was opened in text mode is decoded already.
    max_bytes : int
        Maximum size of the text after decompression; of decoded text, the number of characters.

    Raises
    ------
    ValueError
        If the text is longer, is not in this encoding, or its compression is cut off or damaged; or if the encoding is
        unknown.
    TypeError
        If `path` is neither a path nor an open file.
    OSError
        If the file cannot be read.
    """
    check_source(path)
    check_positive("max_bytes", max_bytes, integer=True)
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
    except (LookupError, TypeError) as error:
        raise ValueError(f"encoding={encoding!r} is unknown; pass the name of one, for example 'utf-8'") from error
    newlines = IncrementalNewlineDecoder(None, translate=True)
    pending = []
    for text in _without_mark(_texts(path, encoding, decoder, max_bytes)):
        first, *lines = newlines.decode(text, final=not text).split("\n")
        pending.append(first)
        if lines:
            yield "".join(pending)
            yield from lines[:-1]
            pending = lines[-1:]
    yield "".join(pending)


def is_source(path):
    """Return whether this is a path or an open file. `open` would accept an int, the number of an open file."""
    return isinstance(path, str | bytes | PathLike) or hasattr(path, "read")


def check_source(path):
    """Raise TypeError unless this is a path or an open file."""
    if not is_source(path):
        raise TypeError(
            f"path must be a str or path-like, the name of a file; got {type(path).__name__}, which is no open file "
            "either"
        )


def sources_of(path):
    """Return paths and open files as a list: `path` itself, or the entries of a sequence."""
    sources = [path] if is_source(path) or not isinstance(path, Iterable) else list(path)
    for own in sources:
        check_source(own)
    if not sources:
        raise ValueError("path is an empty list; name at least one file")
    return sources


def name_of(path):
    """Return the name of a path or an open file, for messages."""
    if not hasattr(path, "read"):
        return path
    name = getattr(path, "name", None)
    return name if isinstance(name, str | bytes | PathLike) else "the open file"


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


def _texts(path, encoding, decoder, max_bytes):
    """Yield the decoded text of a file piece by piece; the last piece is empty."""
    n_bytes = 0
    for block in read_blocks(path, max_bytes):
        if isinstance(block, str):
            if block:
                yield block
            continue
        if not n_bytes:
            _check_mark(block, encoding, path)
        n_bytes += len(block)
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            # The decoder may have kept some bytes of the block before.
            place = n_bytes - len(error.object) + error.start
            raise ValueError(
                f"{name_of(path)} is not text in {encoding} ({error.reason}, byte {place}); pass its encoding, for "
                "example 'latin-1'"
            ) from error
        except UnicodeError as error:
            # Its kind has no place: the mark of UTF-16 or UTF-32 is missing.
            raise ValueError(f"{name_of(path)} is not text in {encoding} ({error}); pass its encoding") from error
        if text:
            yield text
    yield ""


def _without_mark(texts):
    """Yield the pieces of a text without the byte-order mark at its beginning."""
    is_first = True
    for text in texts:
        yield text.removeprefix("\ufeff") if is_first else text
        is_first = False


def _check_mark(block, encoding, path):
    """Raise ValueError if the first bytes of a file show that it has another Unicode encoding."""
    given = codecs.lookup(encoding).name
    # In other encodings the marks of UTF-16 are letters, and a text has no zero bytes.
    found = next((own for mark, own in _MARKS if block.startswith(mark)), None)
    if found not in (None, "utf-8") and given != "utf-8" and b"\0" not in block:
        found = None
    if found is None:
        # Text without a mark that begins with four characters of ASCII.
        first, second = block[:8:2], block[1:8:2]
        if len(second) == 4 and any(first) != any(second) and (all(first) or all(second)):
            found = "utf-16-le" if any(first) else "utf-16-be"
    if found is not None and not given.startswith(found):
        raise ValueError(f"{name_of(path)} is text in {found}, not in {encoding}; pass encoding={found!r}")


def read_blocks(path, max_bytes):
    """Yield the contents of a file in blocks, decompressed; an empty one is the end.

    Blocks are bytes, or str if `path` is a file in text mode.
    """
    name = name_of(path)
    n_bytes, block = 0, b"\n"
    with nullcontext(path) if hasattr(path, "read") else open(path, "rb") as raw:
        try:
            file = _decompressed(raw)
            while block:
                block = file.read(_BLOCK)
                n_bytes += len(block)
                if n_bytes > max_bytes:
                    once = " once decompressed" * isinstance(file, gzip.GzipFile)
                    raise ValueError(
                        f"{name} holds more than max_bytes={max_bytes} of text{once}; raise max_bytes if that is meant"
                    )
                yield block
        except EOFError as error:
            raise ValueError(f"{name} is cut off: its gzip stream has no end; fetch the whole file") from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{name} is damaged: its gzip stream is invalid ({error}); fetch it again") from error
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name} was opened as text in {error.encoding}, which it is not ({error.reason}); open it with its "
                "encoding, or in binary mode"
            ) from error


class _Probed:
    """A file whose first bytes were read already. It need not be seekable.

    Parameters
    ----------
    first : str or bytes
    rest : file
    """

    def __init__(self, first, rest):
        self._first = StringIO(first) if isinstance(first, str) else BytesIO(first)
        self._rest = rest

    def read(self, size):
        return self._first.read(size) or self._rest.read(size)


def _decompressed(raw):
    """Return an open file, decompressed if it begins as gzip does."""
    first = raw.read(_N_PROBED)
    # A pipe or a socket may return fewer bytes.
    while 0 < len(first) < _N_PROBED and (more := raw.read(_N_PROBED - len(first))):
        first += more
    file = _Probed(first, raw)
    return gzip.GzipFile(fileobj=file) if isinstance(first, bytes) and first.startswith(_GZIP) else file


def read_sentences(path, chunk_size, sentences_of, n_columns, fields, targets_of):
    """Read the sentences of one file or several, all at once or in chunks.

    Parameters
    ----------
    path : path or open file, or sequence of these
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
    paths = sources_of(path)
    if chunk_size is not None:
        check_positive("chunk_size", chunk_size, integer=True)

    def read(source):
        n_before = 0
        for cells, ends in _join_chunks(sentences_of(source), n_columns, chunk_size):
            targets = targets_of(cells, ends, name_of(source), n_before)
            columns = [share_equal(cells[column::n_columns]) for column in fields.values()]
            tokens = [dict(zip(fields, token)) for token in zip(*columns)]
            yield [tokens[start:end] for start, end in zip([0, *ends], ends)], targets
            n_before += len(ends)
        if not n_before:
            raise ValueError(f"{name_of(source)} holds no token; is it the right file?")

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
