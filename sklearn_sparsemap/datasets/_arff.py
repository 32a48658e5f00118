"""load_multilabel_arff: the format of the multilabel collections of Mulan and Meka."""

from __future__ import annotations

import re
from itertools import chain
from typing import Literal

import numpy as np
from scipy import sparse

from .._core.annotations import Any, PathLike
from .._core.validation import check_choice, check_positive, quoted
from ._lines import MAX_BYTES, as_number, check_size, read_lines

_ATTRIBUTE = re.compile(
    r"@attribute\s+(?:'(?P<single>(?:[^'\\]|\\.)*)'|\"(?P<double>(?:[^\"\\]|\\.)*)\"|(?P<plain>[^\s{]+))"
    r"\s*(?P<type>\S.*)",
    # ASCII, because names may contain other white space.
    re.IGNORECASE | re.ASCII,
)
# The text before a comment; "%" within quotes does not begin one.
_BEFORE_COMMENT = re.compile(r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^%'\"])*(?=%)")
_BLANK = " \t\f\v"
# The pattern is unambiguous; otherwise the time for a long row of digits would be quadratic.
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_NUMERIC = ("numeric", "real", "integer")
_MISSING = "?"
_TOO_LARGE = "which is too large for a number of 64 bits"


def load_multilabel_arff(
    path: str | PathLike[str],
    n_labels: int,
    *,
    label_position: Literal["end", "start"] = "end",
    encoding: str = "utf-8",
    return_names: bool = False,
    max_bytes: int = MAX_BYTES,
) -> Any:
    """Load a multilabel data set in the format ARFF, sparse or dense.

    Each attribute must be numeric, or nominal with numbers as its values, such as ``{0,1}``. The labels are the last or
    the first attributes, each 0 or 1.

    Parameters
    ----------
    path : str or path-like
        The file, plain or compressed by gzip.
    n_labels : int
        Number of attributes that are labels.
    label_position : {"end", "start"}, default="end"
        Whether the labels are the last attributes, as in Mulan's files, or the first, as in many of Meka's.
    encoding : str, default="utf-8"
        The encoding of the text.
    return_names : bool, default=False
        Whether to return the names of the features and of the labels, too.
    max_bytes : int, default=2**32
        Maximum size in bytes of the text after decompression, and of the indicator matrix of sparse rows.

    Returns
    -------
    X : CSR array or ndarray of shape (n_samples, n_features)
        float64; sparse if the rows of the file are. A missing value, ``?``, is NaN.
    Y : int64 array of shape (n_samples, n_labels)
        The indicator matrix.
    feature_names, label_names : list of str
        Only with ``return_names=True``.

    Raises
    ------
    ValueError
        If the file is not of this form (the message names the line), is not text in this encoding, is too long, or
        is cut off or damaged by its compression, or a parameter has no meaning.
    TypeError
        If `path` is not a path.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_sparsemap.datasets import load_multilabel_arff
    >>> path = Path(tempfile.mkdtemp(), "train.arff")
    >>> header = ["@relation texts", "@attribute goal {0,1}", "@attribute vote {0,1}", "@attribute sport {0,1}"]
    >>> _ = path.write_text("\\n".join(header + ["@data", "{0 1,2 1}", "{1 1}"]))
    >>> X, Y = load_multilabel_arff(path, 1)
    >>> X.toarray()
    array([[1., 0.],
           [0., 1.]])
    >>> Y
    array([[1],
           [0]])
    >>> load_multilabel_arff(path, 1, return_names=True)[2:]
    (['goal', 'vote'], ['sport'])
    """
    check_positive("n_labels", n_labels, integer=True)
    check_choice("label_position", label_position, ("end", "start"))
    lines = list(read_lines(path, encoding, max_bytes))
    attributes, first = read_attributes(lines, path, domain_of)
    names, domains = map(list, zip(*attributes))
    n_features = len(names) - n_labels
    if n_features < 1:
        raise ValueError(
            f"{path} has {len(names)} attributes, which leaves no features with n_labels={n_labels}; "
            "n_labels is the number of labels alone"
        )
    rows = Rows(lines, first, path)
    table = rows.table(names, domains)
    features, labels = slice(0, n_features), slice(n_features, None)
    if label_position == "start":
        features, labels = slice(n_labels, None), slice(0, n_labels)
    Y = table[:, labels]
    if sparse.issparse(Y):
        check_size(*Y.shape, "labels", path, max_bytes)
        Y = Y.toarray()
    is_wrong = (Y != 0) & (Y != 1)
    if is_wrong.any():
        row, column = np.argwhere(is_wrong)[0].tolist()
        fault = f"has {Y[row, column]:g} for the label {quoted(names[labels][column])}"
        raise rows.error(row, fault, "labels are 0 or 1, so check n_labels and label_position")
    Y = np.ascontiguousarray(Y, dtype=np.int64)
    X = table[:, features]
    # A copy of the dense part, so that the labels' columns are not kept alive.
    X = X if sparse.issparse(X) else np.ascontiguousarray(X)
    return (X, Y, names[features], names[labels]) if return_names else (X, Y)


def read_attributes(lines, path, read_type):
    """Return name and type of each attribute, and the index of the first line of data.

    ``read_type(name, type, line)`` converts the text of a type; `line` is for messages.
    """
    found = []
    for i, line in enumerate(lines):
        text, where = line.strip(_BLANK), f"{path}, line {i + 1}"
        if not text or text.startswith("%"):
            continue
        keyword = text.split(None, 1)[0].lower()
        if keyword == "@data":
            if not found:
                raise ValueError(f"{where}: no @attribute before @data; is it an ARFF file?")
            return found, i + 1
        if keyword == "@attribute":
            name, kind = _split_attribute(text, where)
            found.append((name, read_type(name, kind, where)))
        elif keyword != "@relation":
            raise ValueError(
                f"{where}: expected @relation, @attribute or @data, found {quoted(text)}; is it an ARFF file?"
            )
    raise ValueError(f"{path} has no line @data; is it a whole ARFF file?")


def _split_attribute(text, where):
    match = _ATTRIBUTE.fullmatch(text)
    if match is None:
        raise ValueError(f"{where}: cannot read {quoted(text)}; write @attribute name type")
    in_quotes = match["double"] if match["single"] is None else match["single"]
    name = match["plain"] if in_quotes is None else re.sub(r"\\(.)", r"\1", in_quotes)
    kind = _without_comment(match["type"])
    if not kind:
        raise ValueError(f"{where}: the attribute {quoted(name)} has no type; write @attribute name type")
    return name, kind


def domain_of(name, kind, where):
    """Return the values of a nominal attribute; None for a numeric one."""
    if kind.lower() in _NUMERIC:
        return None
    if not kind.startswith("{") or not kind.endswith("}"):
        raise ValueError(
            f"{where}: the attribute {quoted(name)} has the type {quoted(kind)}; only numeric, real, integer and "
            "nominal attributes can be loaded, so remove it or turn it into numbers"
        )
    values = [_unquote(value) for value in kind[1:-1].split(",")]
    for value in values:
        if not _NUMBER.fullmatch(value):
            raise ValueError(
                f"{where}: the attribute {quoted(name)} has the value {quoted(value)}, which is not a number; turn it "
                "into numbers, such as one attribute {0,1} for each value"
            )
        if np.isinf(float(value)):
            fault = f"has the value {quoted(value)}, {_TOO_LARGE}"
            raise ValueError(f"{where}: the attribute {quoted(name)} {fault}; correct it")
    return tuple(map(float, values))


class Rows:
    """The data lines of a file and their contents.

    Parameters
    ----------
    lines : list of str
        All lines of the file.
    first : int
        The first line after ``@data``.
    path : path-like
        For messages.
    """

    def __init__(self, lines, first, path):
        self.path = path
        stripped = [(_without_comment(line) if "%" in line else line).strip(_BLANK) for line in lines[first:]]
        kept = [i for i, row in enumerate(stripped) if row]
        self.rows = [stripped[i] for i in kept]
        self.numbers = [first + i + 1 for i in kept]
        if not self.rows:
            raise ValueError(f"{path} has no rows after @data; is it a whole ARFF file?")

    def table(self, names, domains):
        """Return all columns: a CSR array if the rows are sparse, else an ndarray."""
        is_sparse = [row[0] == "{" for row in self.rows]
        if not any(is_sparse):
            return self._dense(names, domains)
        if not all(is_sparse):
            i = is_sparse.index(not is_sparse[0])
            raise self.error(
                i,
                "is sparse, but the rows before are not"
                if is_sparse[i]
                else "is dense, but the rows before are sparse",
                "write all rows in one way",
            )
        return self._sparse(names, domains)

    def _dense(self, names, domains):
        n_columns = len(names)
        rows = [row.split(",") for row in self.rows]
        for i, row in enumerate(rows):
            if len(row) != n_columns:
                raise self.error(i, f"has {len(row)} values for {n_columns} attributes", "give one for each")
        cells, ends = list(chain.from_iterable(rows)), n_columns * np.arange(1, len(rows) + 1)
        values = self.parse(cells, ends)
        self._check_domains(values, np.tile(np.arange(n_columns), len(rows)), ends, names, domains)
        return values.reshape(-1, n_columns)

    def _sparse(self, names, domains):
        rows = []
        for i, row in enumerate(self.rows):
            if row[-1] != "}":
                raise self.error(i, "has no '}' at its end", "write sparse rows as {index value,index value}")
            inside = row[1:-1]
            rows.append(inside.split(",") if inside and not inside.isspace() else [])
        ends = np.cumsum([len(row) for row in rows])
        pairs = list(chain.from_iterable(rows))
        # Flat lists, because a list for each pair would slow down garbage collection.
        if not set(map(len, map(str.split, pairs))) <= {2}:
            odd = next(k for k, pair in enumerate(pairs) if len(pair.split()) != 2)
            fault = f"has {quoted(pairs[odd])}, which is not a pair"
            raise self.error(self._row_of(odd, ends), fault, "write {index value,index value}")
        cells = " ".join(pairs).split()
        columns = self._parse_columns(cells[::2], ends, names)
        values = self.parse(cells[1::2], ends)
        self._check_first_values(names, domains)
        self._check_domains(values, columns, ends, names, domains)
        indptr = np.concatenate([[0], ends])
        index_type = np.int32 if len(columns) < 2**31 else np.int64
        parts = values, columns.astype(index_type), indptr.astype(index_type)
        table = sparse.csr_array(parts, shape=(len(rows), len(names)))
        table.sort_indices()
        self._check_repeats(table, names)
        table.eliminate_zeros()
        return table

    def _check_domains(self, values, columns, ends, names, domains):
        """Refuse values that a nominal attribute does not declare; `columns` are the attributes of the values."""
        number = {domain: k for k, domain in enumerate(dict.fromkeys([None, *domains]))}
        kinds = np.array([number[domain] for domain in domains], np.min_scalar_type(len(number)))[columns]
        places = np.argsort(kinds, kind="stable")
        starts = np.searchsorted(kinds, range(1, len(number)), sorter=places)
        for domain, own in zip([*number][1:], np.split(places, starts)[1:]):
            is_wrong = ~np.isin(values[own], domain) & ~np.isnan(values[own])
            if is_wrong.any():
                place = own[np.argmax(is_wrong)]
                declared = ",".join(f"{value:g}" for value in domain)
                name = quoted(names[columns[place]])
                fault = f"has {values[place]:g} for the attribute {name}, which declares {{{declared}}}"
                raise self.error(self._row_of(place, ends), fault, "correct one of them")

    def _check_repeats(self, table, names):
        """Refuse rows with two values of one attribute; the indices of the table must be sorted."""
        repeats = np.flatnonzero(np.diff(table.indices) == 0)
        # The last entry of a row may have the column of the first one of the next row.
        repeats = np.setdiff1d(repeats, table.indptr - 1)
        if len(repeats):
            row = self._row_of(repeats[0], table.indptr[1:])
            fault = f"has two values for the attribute {quoted(names[table.indices[repeats[0]]])}"
            raise self.error(row, fault, "keep one")

    def parse(self, cells, ends):
        """Return the numbers in cells; NaN for missing values."""
        try:
            values = np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
            # Python also reads "nan", "inf" and "1_000" as numbers, which are not numbers in ARFF.
            if np.isfinite(values).all() and "_" not in "".join(cells):
                return values
        except ValueError:
            pass
        values = np.empty(len(cells))
        for k, cell in enumerate(cells):
            text = _unquote(cell)
            if text != _MISSING and not _NUMBER.fullmatch(text):
                fault = f"has the value {quoted(cell.strip())}, which is not a number"
                raise self.error(self._row_of(k, ends), fault, "write a number or ?")
            values[k] = np.nan if text == _MISSING else float(text)
            if np.isinf(values[k]):
                fault = f"has the value {quoted(cell.strip())}, {_TOO_LARGE}"
                raise self.error(self._row_of(k, ends), fault, "correct it, or write ? if it is unknown")
        return values

    def _parse_columns(self, cells, ends, names):
        odd = next((k for k, cell in enumerate(cells) if not cell.isdecimal()), None)
        if odd is None:
            columns = np.fromiter(map(as_number, cells), dtype=np.int64, count=len(cells))
            is_outside = columns >= len(names)
            odd = int(np.argmax(is_outside)) if is_outside.any() else None
        if odd is not None:
            raise self.error(
                self._row_of(odd, ends),
                f"has the index {cells[odd][:80]} for {len(names)} attributes",
                "indices count attributes from 0",
            )
        return columns

    def _check_first_values(self, names, domains):
        # By the definition of the format, a sparse row omits the first value of a nominal attribute, not 0.
        for name, domain in zip(names, domains):
            if domain is not None and domain[0] != 0:
                raise ValueError(
                    f"{self.path}: the attribute {quoted(name)} of sparse rows has {domain[0]:g} as its first value, "
                    "which the format uses for values that rows omit; declare 0 first, or make it numeric"
                )

    @staticmethod
    def _row_of(k, ends):
        return int(np.searchsorted(ends, k, side="right"))

    def error(self, i, fault, remedy):
        return ValueError(f"{self.path}, line {self.numbers[i]}: the row {fault}; {remedy}")


def _without_comment(text):
    """Cut off a comment."""
    match = _BEFORE_COMMENT.match(text)
    return (text if match is None else match[0]).strip(_BLANK)


def _unquote(cell):
    text = cell.strip()
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
