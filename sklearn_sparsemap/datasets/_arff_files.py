"""Files in the format ARFF: attributes and rows, dense or sparse.

Used by `_arff.py` and `_hierarchical.py`.
"""

import re
from collections import Counter
from itertools import chain

import numpy as np
from scipy import sparse

from .._core.validation import quoted
from ._lines import as_number, check_size, name_of, read_lines

# Possessive quantifiers, because a pattern that may go back keeps some 100 bytes for each character that it passed.
_ATTRIBUTE = re.compile(
    r"@attribute\s+(?:'(?P<single>(?:[^'\\]|\\.)*+)'|\"(?P<double>(?:[^\"\\]|\\.)*+)\"|(?P<plain>[^\s{]+))"
    r"\s*(?P<type>\S.*)",
    # ASCII, because names may contain other white space.
    re.IGNORECASE | re.ASCII,
)
# The first character that begins a comment or a quoted text, and the rest of a quoted text by its quote.
_MARK = re.compile("[%'\"]")
_QUOTED = {quote: re.compile(rf"(?:[^{quote}\\]|\\.)*+{quote}") for quote in "'\""}
# A cell of a row, in a sparse one with its index. A quote within a word does not begin a quoted text.
_CELL = re.compile(r"[ \t]*(?:\d+[ \t]+)?(?:'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")[ \t]*(?=,|$)|[^,]*", re.ASCII)
_WEIGHT = re.compile(r"(.*\S)\s*,\s*\{([^{},]*)\}", re.DOTALL)
_BLANK = " \t\f\v"
# The pattern is unambiguous; otherwise the time for a long row of digits would be quadratic.
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_NUMERIC = ("numeric", "real", "integer")
_MISSING = "?"
_TOO_LARGE = "which is too large for a number of 64 bits"


class ArffFile:
    """The attributes and the rows of a file.

    Parameters
    ----------
    path : path or open file
    encoding : str
    max_bytes : int
    read_type : callable
        ``read_type(name, type, line)`` converts the text of a type to the values of an attribute; `line` is for
        messages.

    Attributes
    ----------
    name : str
        For messages.
    relation : str
        The text after ``@relation``.
    names : list of str
    domains : list
        The values of each attribute: None for a numeric one, floats, or str.
    first : int
        The number of the line ``@data``.
    rows : ArffRows
    """

    def __init__(self, path, encoding, max_bytes, read_type):
        self.name = name_of(path)
        lines = list(read_lines(path, encoding, max_bytes))
        self.relation, attributes, self.first = _read_header(lines, self.name, read_type)
        self.names, self.domains = map(list, zip(*attributes))
        self.rows = ArffRows(lines, self.first, self.name)

    def columns(self, attributes):
        """Return the names of the columns of `expand`."""
        return [
            f"{self.names[place]}={value}" if are_words else self.names[place]
            for place in attributes
            for are_words, value in _columns_of(self.domains[place])
        ]

    def expand(self, table, attributes, max_bytes):
        """Return columns of a table as features: attributes whose values are words have a column for each value.

        Parameters
        ----------
        table : ndarray or CSR array
            As from `ArffRows.table`.
        attributes : int array
            The attributes.
        max_bytes : int
            Maximum size of the features, if they are dense.
        """
        are_words = np.array([_are_words(self.domains[place]) for place in attributes], bool)
        if not are_words.any():
            found = table[:, span_of(attributes)]
            # A copy of the dense part, so that the other columns are not kept alive.
            return found if sparse.issparse(found) else np.ascontiguousarray(found)
        is_sparse = sparse.issparse(table)
        # Each nominal attribute has an entry in each sparse row, also in those that omit its first value.
        n_columns = int(are_words.sum()) if is_sparse else len(self.columns(attributes))
        check_size(table.shape[0], n_columns, "features", self.name, max_bytes)
        # Columns of a CSR array take the time of all of its entries.
        table = table.tocsc() if is_sparse else table
        # Runs of numeric attributes, and single nominal ones.
        starts = np.flatnonzero(are_words | np.roll(are_words, 1) | (np.arange(len(attributes)) == 0))
        parts = []
        for run in np.split(attributes, starts[1:]):
            domain = self.domains[run[0]]
            parts.append(_one_hot(table[:, run], len(domain)) if _are_words(domain) else table[:, run])
        if not is_sparse:
            return np.concatenate(parts, axis=1)
        found = sparse.hstack(parts, format="csr")
        found.sort_indices()
        return found


def span_of(indices):
    """Return places as a slice if they are consecutive, which is faster to take."""
    first, last = indices[0], indices[-1]
    return slice(first, last + 1) if list(indices) == list(range(first, last + 1)) else indices


def check_headers(files):
    """Return the first of several files, which must have the same attributes."""
    first = files[0]
    for file in files[1:]:
        if (file.names, file.domains) != (first.names, first.domains):
            raise ValueError(f"{file.name} has other attributes than {first.name}; load them one by one")
    return first


def join_rows(parts):
    """Return arrays or CSR arrays, one below the other."""
    if len(parts) == 1:
        return parts[0]
    are_sparse = any(map(sparse.issparse, parts))
    return sparse.vstack(parts, format="csr") if are_sparse else np.concatenate(parts)


def _are_words(domain):
    return domain is not None and isinstance(domain[0], str)


def _codes_of(words):
    """Return the code of each word as text, by the word; if all words are numbers, also by the number."""
    codes = {word: str(code) for code, word in enumerate(words)}
    return {**{float(word): code for word, code in codes.items()}, **codes} if _are_numbers(words) else codes


def _columns_of(domain):
    """Return a pair for each column of an attribute: whether it is of one value, and this value."""
    return [(True, value) for value in domain] if _are_words(domain) else [(False, None)]


def _one_hot(codes, n_values):
    """Return a column of codes as a column for each value; NaN, a missing value, in all of them."""
    if not sparse.issparse(codes):
        return np.where(np.isnan(codes), np.nan, codes == np.arange(n_values))
    codes = codes.toarray()[:, 0]
    known = np.flatnonzero(~np.isnan(codes))
    missing = np.flatnonzero(np.isnan(codes))
    rows = np.concatenate([known, np.repeat(missing, n_values)])
    columns = np.concatenate([codes[known].astype(np.int64), np.tile(np.arange(n_values), len(missing))])
    values = np.where(np.arange(len(rows)) < len(known), 1.0, np.nan)
    return sparse.csr_array((values, (rows, columns)), shape=(len(codes), n_values))


def _read_header(lines, path, read_type):
    """Return the relation, name and type of each attribute, and the index of the first line of data."""
    found, relation = [], ""
    for i, line in enumerate(lines):
        text = line.strip(_BLANK)
        where = f"{path}, line {i + 1}"
        if not text or text.startswith("%"):
            continue
        keyword, *rest = text.split(None, 1)
        keyword = keyword.lower()
        if keyword == "@data":
            if not found:
                raise ValueError(f"{where}: no @attribute before @data; is it an ARFF file?")
            return relation, found, i + 1
        if keyword == "@attribute":
            name, kind = _split_attribute(text, where)
            found.append((name, read_type(name, kind, where)))
        elif keyword == "@relation":
            relation = "".join(rest)
        else:
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


def domain_of(name, declared, where):
    """Return the values of a nominal attribute, str or at most two floats; None for a numeric one.

    Three numbers and more are codes without an order, so they are words.
    """
    words = words_of(name, declared, where)
    if words is None or not _are_numbers(words):
        return words
    # The first spelling of each number.
    spelled = {float(word): word for word in reversed(words)}
    for value, word in spelled.items():
        if np.isinf(value):
            fault = f"has the value {quoted(word)}, {_TOO_LARGE}"
            raise ValueError(f"{where}: the attribute {quoted(name)} {fault}; correct it")
    return tuple(word for word in words if spelled[float(word)] is word) if len(spelled) > 2 else numbers_of(words)


def numbers_of(domain):
    """Return the values of a nominal attribute as floats if all are numbers, else as they are."""
    return tuple(map(float, domain)) if _are_words(domain) and _are_numbers(domain) else domain


def _are_numbers(words):
    return all(map(_NUMBER.fullmatch, map(str.strip, words)))


def words_of(name, declared, where):
    """Return the values of a nominal attribute as a tuple of str; None for a numeric one."""
    if declared.lower() in _NUMERIC:
        return None
    if not declared.startswith("{") or not declared.endswith("}"):
        raise ValueError(
            f"{where}: the attribute {quoted(name)} has the type {quoted(declared)}; only numeric, real, integer and "
            "nominal attributes can be loaded, so remove it or turn it into numbers"
        )
    values = tuple(text_of(value) for value in split_cells(declared[1:-1]))
    twice, n = Counter(values).most_common(1)[0]
    if n > 1:
        raise ValueError(f"{where}: the attribute {quoted(name)} has the value {quoted(twice)} twice; correct it")
    return values


def split_cells(text):
    """Split text at commas that are not within quotes."""
    if "'" not in text and '"' not in text:
        return text.split(",")
    cells, end = [], -1
    while end < len(text):
        match = _CELL.match(text, end + 1)
        cells.append(match[0])
        end = match.end()
    return cells


def _split_all(rows):
    """Split rows at commas that are not within quotes."""
    text = "".join(rows)
    if "'" in text or '"' in text:
        return [split_cells(row) for row in rows]
    return [row.split(",") for row in rows]


def text_of(cell):
    """Return the text of a cell, without quotes and their escapes."""
    text = cell.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


class ArffRows:
    """The data lines of a file and their contents.

    Parameters
    ----------
    lines : list of str
        All lines of the file.
    first : int
        The first line after ``@data``.
    path : path-like
        For messages.

    Attributes
    ----------
    weights : array of shape (n_rows,)
        1 for rows without a weight.
    """

    def __init__(self, lines, first, path):
        self.path = path
        stripped = [(_without_comment(line) if "%" in line else line).strip(_BLANK) for line in lines[first:]]
        kept = [i for i, row in enumerate(stripped) if row]
        self.rows = [stripped[i] for i in kept]
        self.numbers = [first + i + 1 for i in kept]
        if not self.rows:
            raise ValueError(f"{path} has no rows after @data; is it a whole ARFF file?")
        self.weights = np.ones(len(self.rows))
        for i, row in enumerate(self.rows):
            # A brace that is not the first character begins a weight, or is within quotes.
            if row[-1] == "}" and row.rfind("{") > 0 and (match := _WEIGHT.fullmatch(row)) is not None:
                self.rows[i] = match[1]
                weight = match[2].strip()
                if not _NUMBER.fullmatch(weight) or not 0.0 <= float(weight) < np.inf:
                    raise self.error(i, f"has the weight {quoted(weight)}", "a weight is a number that is not negative")
                self.weights[i] = float(weight)

    def table(self, names, domains):
        """Return all columns: a CSR array if the rows are sparse, else an ndarray.

        Words are their index in the attribute's domain.
        """
        texts, columns, ends = self.entries(names)
        return self.assemble(texts, columns, ends, names, domains)

    def entries(self, names, ends_with_classes=False):
        """Return the entries of all rows; for messages, `ends_with_classes` says that the last one is no feature.

        Returns
        -------
        texts : list of str
        columns : int array
            The attribute of each entry; dense rows have all attributes in order.
        ends : int array of shape (n_rows,)
            The end of each row's entries.
        """
        self.is_sparse = self.rows[0][0] == "{"
        odd = next((i for i, row in enumerate(self.rows) if (row[0] == "{") != self.is_sparse), None)
        if odd is not None:
            fault = "dense, but the rows before are sparse" if self.is_sparse else "sparse, but the rows before are not"
            raise self.error(odd, f"is {fault}", "write all rows in one way")
        return self._sparse_entries(names) if self.is_sparse else self._dense_entries(names, ends_with_classes)

    def _dense_entries(self, names, ends_with_classes):
        n_columns = len(names)
        rows = _split_all(self.rows)
        for i, row in enumerate(rows):
            if len(row) != n_columns:
                fault = f"has {len(row)} values for {n_columns} attributes"
                remedy = "give one for each"
                if ends_with_classes:
                    fault = f"has {len(row) - 1} values for {n_columns - 1} features"
                    remedy += ", and classes"
                raise self.error(i, fault, remedy)
        columns = np.tile(np.arange(n_columns), len(rows))
        return list(chain.from_iterable(rows)), columns, n_columns * np.arange(1, len(rows) + 1)

    def _sparse_entries(self, names):
        rows = []
        for i, row in enumerate(self.rows):
            if row[-1] != "}":
                raise self.error(i, "has no '}' at its end", "write sparse rows as {index value,index value}")
            rows.append(row[1:-1])
        rows = [own if len(own) > 1 or own[0].strip() else [] for own in _split_all(rows)]
        ends = np.cumsum(list(map(len, rows)))
        pairs = list(chain.from_iterable(rows))
        # Flat lists, because a list for each pair would slow down garbage collection.
        if set(map(len, map(str.split, pairs))) <= {2}:
            cells = " ".join(pairs).split()
        else:
            cells = []
            for k, pair in enumerate(pairs):
                own = pair.split(None, 1)
                if len(own) != 2 or (own[1][0] not in "'\"" and len(own[1].split()) > 1):
                    fault = f"has {quoted(pair)}, which is not a pair"
                    raise self.error(self._row_of(k, ends), fault, "write {index value,index value}")
                cells += own
        return cells[1::2], self._parse_columns(cells[::2], ends, names), ends

    def assemble(self, texts, columns, ends, names, domains):
        """Return a table of entries; see `entries` and `table`."""
        texts = self._encode_words(texts, columns, ends, names, domains)
        values = self.parse(texts, ends)
        numeric = [None if _are_words(domain) else domain for domain in domains]
        if not self.is_sparse:
            self._check_domains(values, columns, ends, names, numeric)
            return values.reshape(len(self.rows), -1)
        self._check_first_values(names, numeric)
        self._check_domains(values, columns, ends, names, numeric)
        indptr = np.concatenate([[0], ends])
        index_type = np.int32 if len(columns) < 2**31 else np.int64
        parts = values, columns.astype(index_type), indptr.astype(index_type)
        table = sparse.csr_array(parts, shape=(len(self.rows), len(names)))
        table.sort_indices()
        self._check_repeats(table, names)
        table.eliminate_zeros()
        return table

    def _encode_words(self, texts, columns, ends, names, domains):
        """Return the texts of entries with words replaced by their index in the domain of their attribute."""
        codes = {place: _codes_of(domain) for place, domain in enumerate(domains) if _are_words(domain)}
        if not codes:
            return texts
        texts = list(texts)
        for k in np.flatnonzero(np.isin(columns, list(codes))).tolist():
            own = codes[int(columns[k])]
            text = texts[k].strip()
            if text != _MISSING or text in own:
                word = text_of(text)
                number = _NUMBER.fullmatch(word.strip()) and word not in own
                texts[k] = own.get(float(word) if number else word)
            if texts[k] is None:
                declared = quoted(",".join(domains[columns[k]]))[1:-1]
                fault = f"has {quoted(text_of(text))} for the attribute {quoted(names[columns[k]])}, which declares "
                raise self.error(self._row_of(k, ends), f"{fault}{{{declared}}}", "correct one of them")
        return texts

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
            # The function for long digits takes longer.
            read = int if max(map(len, cells), default=0) <= 18 else as_number
            columns = np.fromiter(map(read, cells), dtype=np.int64, count=len(cells))
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
    """Cut off a comment. "%" within quotes does not begin one."""
    mark = _MARK.search(text)
    while mark is not None and mark[0] != "%":
        quoted_text = _QUOTED[mark[0]].match(text, mark.end())
        # A quote that is not closed does not begin a quoted text, and what follows is no comment.
        mark = None if quoted_text is None else _MARK.search(text, quoted_text.end())
    return (text if mark is None else text[: mark.start()]).strip(_BLANK)


def _unquote(cell):
    text = cell.strip()
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
