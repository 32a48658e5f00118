"""The distinct values of each field of tokens, and their 64-bit hashes.

Used by `features/_arcs`, `features/_rows`, `features/_tokens`, `features/_vectors`, `_base.py` and `_encoding.py`.
"""

from collections.abc import Mapping, Sized
from hashlib import blake2b
from itertools import chain
from operator import itemgetter
from os import urandom

import numpy as np

from .._core.errors import Place, SampleError, error_at, part_of
from .._core.tables import refuse_iterator
from .._core.validation import plain_list, quoted
from ._words import DERIVED_FIELDS

_LARGEST = 2**63 - 1  # largest integer of a field
# The types of the values of a field. Values that compare equal as dictionary keys (1, True, np.int64(1)) are one value.
_VALUE_TYPES = (str, int, np.integer, np.bool_)

# The key of hashes that are used in this process only. It is random, so that nobody can choose values whose hashes
# collide, which would take quadratic time.
SECRET = urandom(16)


class _None:
    """The type of the mark for tokens without a field. None cannot be the mark, because it is an invalid value."""


_NONE = _None()


def check_derived_fields(derived_fields):
    """Check the parameter `derived_fields` and fill in its default."""
    if derived_fields is None:
        return DERIVED_FIELDS
    if not isinstance(derived_fields, Mapping):
        raise ValueError(f"derived_fields must map a name to (source field, function); got {derived_fields!r}")
    for name, definition in derived_fields.items():
        is_pair = isinstance(definition, tuple | list) and len(definition) == 2
        if not is_pair or not isinstance(definition[0], str) or not callable(definition[1]):
            raise ValueError(f"derived_fields[{name!r}] must be a pair (source field, function); got {definition!r}")
    return derived_fields


class Tokens:
    """All tokens of some sentences, and the values of their fields.

    Parameters
    ----------
    X : sequence of sentences
        Each a sequence of tokens: dicts from field to value, or bare strings, which are words; or a DataFrame with one
        row a token and one column a field.
    derived_fields : mapping
        Name to (source field, function).

    Attributes
    ----------
    indptr : int64 array of shape (n_sentences + 1,)
        The beginning of each sentence.
    """

    def __init__(self, X, derived_fields):
        self._tokens, self.indptr = join_sentences(X)
        self._derived = derived_fields
        if any(hasattr(kind, "as_py") for kind in set(map(type, self._tokens))):
            # Scalars of Arrow are read as Python's.
            self._tokens = plain_list(self._tokens)
        kinds = set(map(type, self._tokens))
        odd = [kind for kind in kinds if not issubclass(kind, str | Mapping)]
        if odd:
            i = next(i for i, token in enumerate(self._tokens) if type(token) in odd)
            token = self._tokens[i]
            raise error_at(
                name_of_token(self.indptr, i),
                f" is {quoted(token)} of type {type(token).__name__}; a token must be a dict from field to value, or a "
                "string",
            )
        if any(issubclass(kind, str) for kind in kinds):
            self._tokens = [{"word": t} if isinstance(t, str) else t for t in self._tokens]
        self._names_in_tokens = set(chain.from_iterable(self._tokens))
        self._fields = {}

    def field(self, name, needed_by, otherwise="leave {!r} out of the templates"):
        """Return the distinct values of a field, and the index of each token's value.

        Parameters
        ----------
        name : str
            The field.
        needed_by : str
            The reader of the field, for messages.
        otherwise : str
            The remedy if tokens need not have this field, for messages.

        Returns
        -------
        codes : int32 array of shape (n_tokens,)
            Index into `values`.
        values : list of str or int
            Distinct values.
        """
        codes, values = self._field(name, ())
        if codes.min() >= 0:
            return codes, values
        i = int(codes.argmin())
        token = self._tokens[i]
        wanted = name
        while name not in token and name in self._derived:
            name, needed_by = self._derived[name][0], f"the derived field {name!r}"
        has = ", ".join(repr(key) for key in token) or "no field"
        # If no token has the field, it probably has another name.
        remedy, hint = f"rename a field to {name!r}", ""
        if name in self._names_in_tokens:
            remedy = "give every token this field"
            hint = "; pandas.read_csv reads words such as 'NA' and 'null' as missing, unless keep_default_na=False"
        raise error_at(
            name_of_token(self.indptr, i),
            f" lacks the field {name!r}, which {needed_by} needs (it has {has}); {remedy}, or "
            f"{otherwise.format(wanted)}{hint}",
        )

    def _field(self, name, path):
        """As `field`, except that codes of tokens without a value are -1; `path` are the fields that wait for this."""
        if name not in self._fields:
            codes, index = self._values_in_tokens(name)
            if name in self._derived and codes.min() < 0:
                self._derive(name, codes, index, path)
            self._fields[name] = codes, [str(v) if isinstance(v, str) else int(v) for v in index]
        return self._fields[name]

    def _values_in_tokens(self, name):
        """Return the codes of the values that tokens hold themselves, -1 for others, and the code of each value."""
        if name in self._derived and name not in self._names_in_tokens:
            return np.full(len(self._tokens), -1, dtype=np.int32), {}
        try:
            values = list(map(itemgetter(name), self._tokens))
        except KeyError:
            values = [token.get(name, _NONE) for token in self._tokens]
        if any(hasattr(kind, "as_py") for kind in set(map(type, values))):
            # Scalars of Arrow's.
            values = [value.as_py() if hasattr(value, "as_py") else value for value in values]
        odd = [kind for kind in set(map(type, values)) if not issubclass(kind, (*_VALUE_TYPES, _None))]
        if odd:
            i = next(i for i, value in enumerate(values) if type(value) in odd)
            raise error_at(
                name_of_token(self.indptr, i),
                f"the field {name!r} of ",
                f" is {quoted(values[i])} of type {type(values[i]).__name__}; values must be strings or integers"
                f"{_for_text(name)}",
            )
        large = next((v for v in values if isinstance(v, int) and not -_LARGEST <= v <= _LARGEST), None)
        if large is not None:
            # Any number of them can have equal hashes.
            place = name_of_token(self.indptr, values.index(large))
            raise error_at(
                place, f"the field {name!r} of ", " is an integer of more than 64 bits; write it as a string"
            )
        distinct = dict.fromkeys(values)
        distinct.pop(_NONE, None)
        index = {value: i for i, value in enumerate(distinct)}
        return np.fromiter(map({**index, _NONE: -1}.__getitem__, values), dtype=np.int32, count=len(values)), index

    def _derive(self, name, codes, index, path):
        """Fill in the values of a derived field; its function is called once for each distinct value of the source."""
        if name in path:
            raise ValueError(f"derived_fields have a cycle: {' -> '.join((*path, name))}; give one of them a source")
        source, function = self._derived[name]
        source_codes, sources = self._field(source, (*path, name))
        lacking = codes < 0
        # The last entry is for tokens without the source.
        code_of = np.full(len(sources) + 1, -1, dtype=np.int32)
        is_needed = np.zeros(len(sources) + 1, dtype=bool)
        is_needed[source_codes[lacking]] = True
        for place in np.flatnonzero(is_needed[:-1]).tolist():
            value = sources[place]
            try:
                result = function(value)
            except Exception as error:
                # pandas reads a column of words as integers if all are digits.
                hint = "" if isinstance(value, str) else _for_text(source)
                raise ValueError(
                    f"the derived field {name!r} failed for {source}={quoted(value)}: {error}{hint}"
                ) from error
            if not isinstance(result, _VALUE_TYPES):
                raise ValueError(
                    f"the derived field {name!r} must be a string or an integer; its function returned "
                    f"{quoted(result)} for {source}={quoted(value)}"
                )
            code_of[place] = index.setdefault(result, len(index))
        codes[lacking] = code_of[source_codes[lacking]]


def _for_text(field):
    return f"; for text: frame[{field!r}].astype(str)"


def name_of_token(indptr, i):
    """Name a token the way a user would index it; `indptr` are the beginnings of sentences."""
    sentence = int(np.searchsorted(indptr, i, side="right")) - 1
    return part_of(Place("X", sentence), i - int(indptr[sentence]))


def join_sentences(X):
    """Check sentences; return the tokens of all as a list, and the beginning of each sentence in it."""
    sentences = _check_sentences(X)
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    if not lengths.any():
        raise ValueError("X has no tokens; give at least one sentence with a token")
    return list(chain.from_iterable(sentences)), np.concatenate([[0], np.cumsum(lengths)])


def are_all_empty(X):
    """Tell whether X is a sequence of sentences, none of which has a token."""
    if isinstance(X, str | bytes | Mapping) or not isinstance(X, Sized) or _is_table(X) or not len(X):
        return False
    kinds = str | bytes | Mapping
    return all(isinstance(sentence, Sized) and not isinstance(sentence, kinds) and not len(sentence) for sentence in X)


def _check_sentences(X):
    if isinstance(X, str | bytes | Mapping) or not isinstance(X, Sized):
        refuse_iterator(X, "X")
        raise ValueError(f"X must be a sequence of sentences; got {type(X).__name__}")
    if _is_table(X):
        raise ValueError(
            "X is one DataFrame, but a sequence of sentences is needed; cut a table with several sentences by "
            "sklearn_sparsemap.features.sentences_from_frame, and wrap a table that is a single one in a list: [table]"
        )
    sentences = [_tokens_of_table(x, i) if _is_table(x) else x for i, x in enumerate(X)]
    if not sentences:
        raise ValueError("X has no sentences; give at least one")
    for kind in set(map(type, sentences)):
        if not issubclass(kind, str | bytes | Mapping) and issubclass(kind, Sized):
            continue
        i = next(i for i, sentence in enumerate(sentences) if type(sentence) is kind)
        hint = ""
        if issubclass(kind, str):
            hint = "; split it into tokens first"
        elif issubclass(kind, Mapping):
            hint = ", which is a token; wrap a single sentence in a list: [sentence]"
        raise SampleError("X", i, f" must be a sequence of tokens; got a {kind.__name__}{hint}")
    return sentences


def _is_table(sentence):
    """Return whether a sentence is a DataFrame. As a sequence, it would be the names of its columns."""
    return hasattr(sentence, "columns") and getattr(sentence, "ndim", 2) == 2


def _tokens_of_table(table, i):
    """Return the rows of a DataFrame as tokens."""
    fields = list(table.columns)
    if len(set(fields)) < len(fields):
        raise SampleError("X", i, " has two columns of one name; each column is a field of its tokens")
    return [dict(zip(fields, row)) for row in zip(*(table[field].to_list() for field in fields))]


def hash_values(values, key=b""):
    """Return a 64-bit hash of each value, without a key the same in every process.

    Hashed columns of models in files follow from it, so it must not change.

    Parameters
    ----------
    values : iterable of str, int or (str, int)
        Strings and integers are hashed apart, so that ``"1"`` and ``1`` differ; a pair is a padding value.
    key : bytes, default=b""
        `SECRET` for tables of this process.

    Returns
    -------
    hashes : uint64 array of shape (n_values,)
    """
    digests = [blake2b(_tagged(value), digest_size=8, key=key).digest() for value in values]
    return np.array([int.from_bytes(digest, "little") for digest in digests], dtype=np.uint64)


def _tagged(value):
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, tuple):
        return b"p%s%d" % (value[0].encode(), value[1])
    return b"i%d" % value
