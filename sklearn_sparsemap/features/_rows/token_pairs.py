"""Tokens that are dicts, or lists of strings, as pairs of an attribute and its value.

Used by `token_dicts.py`.
"""

from collections import defaultdict
from collections.abc import Mapping
from itertools import chain, count
from numbers import Real

import numpy as np

from ..._core.indices import check_not_masked
from ..._core.jit import INTS, INTS_OUT, PARTS, PARTS_OUT, UINTS_OUT, entry, types
from ..._core.ordering import sorted_set
from ..._core.validation import quoted
from .._fields import SECRET, join_sentences, name_of_token
from .._tokens.kernels import find_slot, larger_table, mix
from .pickled import number_dicts

# Types of values that are one feature; values of the second types are several features.
_SINGLE = (str, bool, int, float, np.bool_, np.integer, np.floating)
_SEVERAL = (list, tuple, set, frozenset, np.ndarray)
# Pairs are numbered by form (tuple of attribute names) if there are at most this many forms, or on average at least
# this many tokens for each. The columns of most rows then ascend.
_MAX_FORMS, _TOKENS_PER_FORM = 64, 100
_SECRET = np.uint64(int.from_bytes(SECRET[8:], "little"))  # see `_number`
# Largest int that is numbered as such. Larger ones can have equal hashes, as floats they have few.
_MAX_INT = 2**53
# Separator of the attribute within strings of a list, as in "word.lower=the".
_OF_STRINGS = "="


@entry(types.int64(types.uint64, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS_OUT, UINTS_OUT))
def _number(secret, order, form_of, form_ptr, attributes, positions, values, row_ptr, codes, pairs):
    """Number the pairs of tokens by their first occurrence.

    `TokenPairs._number_dicts` makes all arrays, so that their ranges need no check.

    Parameters
    ----------
    secret : uint64
        Chooses the hashes of pairs.
    order : int64 array of shape (n_tokens,)
        The tokens, in the order in which their pairs are numbered.
    form_of : int64 array of shape (n_tokens,)
        The form of each token.
    form_ptr : int64 array of shape (n_forms + 1,)
        The beginning of each form in `attributes` and `positions`.
    attributes, positions : int64 arrays
        For each form, its attributes and their places in a token, in the order of the result.
    values : int64 array of shape (n_entries,)
        The number of each value, token by token.
    row_ptr : int64 array of shape (n_tokens + 1,)
        The beginning of each token in `values` and `codes`.
    codes : int64 array of shape (n_entries,)
        Overwritten with the number of the pair of each entry.
    pairs : uint64 array of shape (n_entries,)
        Its beginning is overwritten with the attribute (upper half) and the value of each pair.

    Returns
    -------
    n_pairs : int
    """
    mask = np.int64(255)
    slots = np.zeros(256, dtype=np.int32)
    keys = np.empty(len(values), dtype=np.uint64)
    n_keys = np.int64(0)
    for t in order:
        form = form_of[t]
        for j in range(form_ptr[form], form_ptr[form + 1]):
            value = values[row_ptr[t] + positions[j]]
            pair = (np.uint64(attributes[j]) << np.uint64(32)) | np.uint64(value)
            # `mix` has an inverse, so different pairs have different keys.
            key = mix(pair ^ secret)
            slot = find_slot(slots, 0, mask, keys, 0, key)
            number = np.int64(slots[slot]) - 1
            if number < 0:
                number = n_keys
                n_keys += 1
                slots[slot] = n_keys
                pairs[number] = pair
                keys[number] = key
                if 2 * n_keys > mask:
                    slots = larger_table(slots, keys, n_keys)
                    mask = np.int64(len(slots) - 1)
            codes[row_ptr[t] + j - form_ptr[form]] = number
    return n_keys


@entry(types.int64(INTS, INTS, PARTS, INTS_OUT, PARTS_OUT, INTS_OUT))
def keep_entries(codes, row_ptr, columns, kept_ptr, indices, places):
    """Write the column and the code of each entry whose code has a column, and the beginnings of rows.

    Parameters
    ----------
    codes : int64 array of shape (n_entries,)
    row_ptr : int64 array of shape (n_rows + 1,)
    columns : int32 array
        The column of each code, or -1.
    kept_ptr : int64 array of shape (n_rows + 1,)
        Output.
    indices, places : int32 and int64 arrays of shape (n_entries,)
        Output: columns and codes of the entries that are kept.

    Returns
    -------
    n : int
        Number of entries that are kept; minus this number minus 1 if the columns of a row do not ascend.
    """
    n = np.int64(0)
    ascends = True
    kept_ptr[0] = 0
    for r in range(len(row_ptr) - 1):
        before = np.int32(-1)
        for at in range(row_ptr[r], row_ptr[r + 1]):
            column = columns[codes[at]]
            if column >= 0:
                indices[n], places[n] = column, codes[at]
                ascends &= column > before
                before = column
                n += 1
        kept_ptr[r + 1] = n
    return n if ascends else -n - 1


class TokenPairs:
    """The features of all tokens of some sentences, equal ones once.

    Parameters
    ----------
    X : sequence of sentences
        Each a sequence of tokens, or a DataFrame with one row a token.
    separator : str
        Between the parts of a name.

    Attributes
    ----------
    indptr : int64 array of shape (n_sentences + 1,)
        The beginning of each sentence.
    row_ptr : int64 array of shape (n_tokens + 1,)
        The features of token i are ``codes[row_ptr[i]:row_ptr[i + 1]]``.
    codes : int64 array of shape (n_entries,)
        Places in the three lists.
    names : list of str
        The name of the feature in CRFsuite: ``attribute:value`` of a string, else ``attribute``.
    attributes : list of str
        The attribute of each feature.
    weights : float64 array
    """

    def __init__(self, X, separator):
        tokens, self.indptr = join_sentences(X)
        if not self._number_dicts(tokens, separator) and not self._number_strings(tokens):
            self._number_pairs(tokens, separator)
        if not np.isfinite(self.weights).all():
            code = int(np.argmin(np.isfinite(self.weights)))
            token = int(np.searchsorted(self.row_ptr, np.argmax(self.codes == code), side="right")) - 1
            place = name_of_token(self.indptr, token)
            raise ValueError(
                f"the feature {self.names[code]!r} of {place} is {self.weights[code]}; leave out missing values"
            )

    def _number_dicts(self, tokens, separator):
        """Number the pairs of tokens that are dicts of single features; return False for other tokens."""
        found = number_dicts(tokens) or self._number_objects(tokens)
        if found is None:
            return False
        values, numbers, form_of, forms = found
        row_ptr = np.concatenate([[0], np.cumsum(np.fromiter(map(len, forms), np.int64, len(forms))[form_of])])
        by_form = len(forms) <= max(_MAX_FORMS, len(tokens) // _TOKENS_PER_FORM)
        order = np.arange(len(tokens))
        ranked = forms
        if by_form:
            order = np.argsort(form_of, kind="stable")
            # Attributes as the most frequent form has them, then by appearance.
            ranked = [forms[form] for form in np.argsort(-np.bincount(form_of), kind="stable")]
        attributes = list(dict.fromkeys(chain.from_iterable(ranked)))
        if not _are_all(attributes, str):
            return False
        rank = {attribute: r for r, attribute in enumerate(attributes)}
        ranks = [[rank[attribute] for attribute in form] for form in forms]
        places = [sorted(range(len(own)), key=own.__getitem__) if by_form else range(len(own)) for own in ranks]
        sorted_ranks = [own[place] for own, sorted_places in zip(ranks, places) for place in sorted_places]
        flat = _row_ptr(forms), np.array(sorted_ranks, np.int64), np.array(list(chain.from_iterable(places)), np.int64)
        self.row_ptr = row_ptr
        self.codes = np.empty(len(values), np.int64)
        pairs = np.empty(len(values), np.uint64)
        pairs = pairs[: _number(_SECRET, order, form_of, *flat, values, row_ptr, self.codes, pairs)].astype(np.int64)
        if by_form:
            by_attribute = np.argsort(pairs >> 32, kind="stable")
            pairs = pairs[by_attribute]
            place_of = np.empty(len(pairs), np.int64)
            place_of[by_attribute] = np.arange(len(pairs))
            self.codes = place_of[self.codes]
        self._name_pairs(attributes, pairs >> 32, numbers, pairs & 0xFFFFFFFF, separator)
        return True

    @staticmethod
    def _number_objects(tokens):
        """Number dicts with values of any types of single features, as `number_dicts` does."""
        if set(map(type, tokens)) != {dict}:
            return None
        values, numbers = _number_equal(map(_hashable, chain.from_iterable(map(dict.values, tokens))), -1)
        if numbers is None or not _are_all(numbers, _SINGLE):
            return None
        return values, numbers, *_number_equal(map(tuple, tokens), len(tokens))

    def _name_pairs(self, attributes, attribute_of, values, value_of, separator):
        """Set the names, attributes and weights of pairs, given the places of their attributes and values in lists.

        There are no tuples of pairs, because many of them would start Python's garbage collector.
        """
        attribute_of = attribute_of.tolist()
        prefixes = [attribute + separator for attribute in attributes]
        is_text = [isinstance(value, str) for value in values]
        weights = [1.0 if text else _as_float(value) for text, value in zip(is_text, values)]
        self.weights = np.array(weights)[value_of]
        self.names = [
            prefixes[a] + values[v] if is_text[v] else attributes[a] for a, v in zip(attribute_of, value_of.tolist())
        ]
        self.attributes = [attributes[a] for a in attribute_of]

    def _number_strings(self, tokens):
        """Number the items of tokens that are lists of strings; return False for other tokens."""
        if not set(map(type, tokens)) <= {list, tuple}:
            return False
        row_ptr = _row_ptr(tokens)
        codes, strings = _number_equal(chain.from_iterable(tokens), row_ptr[-1])
        if strings is None or not _are_all(strings, str):
            return False
        self.row_ptr, self.codes = row_ptr, codes
        self.names = [str(string) for string in strings]
        self.attributes = [_attribute_in(name) for name in self.names]
        self.weights = np.ones(len(strings))
        return True

    def _number_pairs(self, tokens, separator):
        """Number the pairs of tokens of any form."""
        row_ptr = [0]

        def pairs():
            for i, token in enumerate(tokens):
                try:
                    own = list(_pairs_of(token, separator))
                except ValueError as error:
                    raise ValueError(f"{name_of_token(self.indptr, i)}: {error}") from None
                except RecursionError:
                    fault = "is nested too deeply, or contains itself"
                    raise ValueError(f"{name_of_token(self.indptr, i)} {fault}; give it flat features") from None
                row_ptr.append(row_ptr[-1] + len(own))
                yield from own

        self.codes, distinct = _number_equal(pairs(), -1)
        self.row_ptr = np.array(row_ptr)
        self.names = []
        self.attributes = []
        self.weights = np.ones(len(distinct))
        for i, (attribute, value) in enumerate(distinct):
            name = attribute
            if isinstance(value, str):
                name = f"{attribute}{separator}{value}"
            elif isinstance(value, tuple):
                name, self.weights[i] = f"{attribute}{separator}{value[0]}", value[1]
            elif value is not None:
                self.weights[i] = _as_float(value)
            else:
                attribute = _attribute_in(attribute)
            self.names.append(name)
            self.attributes.append(attribute)


def _row_ptr(tokens):
    """Return the beginning of each token, or form, among the entries of all: int64 array."""
    return np.concatenate([[0], np.cumsum(np.fromiter(map(len, tokens), np.int64, len(tokens)))])


def _number_equal(values, n):
    """Number values by their first occurrence.

    Parameters
    ----------
    values : iterable
    n : int
        How many they are; -1 if unknown.

    Returns
    -------
    numbers : int64 array of shape (n,) or None
    distinct : list or None
        The value of each number. Both are None if a value has no hash, such as a list or a dict.
    """
    # A dict that numbers missing keys is Python's fastest way to do this.
    number_of = defaultdict(count().__next__)
    try:
        return np.fromiter(map(number_of.__getitem__, values), np.int64, n), list(number_of)
    except TypeError:
        return None, None


def _attribute_in(string):
    """Return the attribute of an item of a list of strings, such as "word.lower=the"."""
    return string.split(_OF_STRINGS, 1)[0]


def _hashable(value):
    """Return a value, or a large int as a float."""
    return _as_float(value) if type(value) is int and not -_MAX_INT < value < _MAX_INT else value


def _are_all(values, classes):
    return all(issubclass(kind, classes) for kind in set(map(type, values)))


def _as_float(number):
    """Convert a number to a float: infinity if it is too large."""
    try:
        return float(number)
    except OverflowError:
        return np.inf


def _pairs_of(token, separator):
    """Yield the (attribute, value) pairs of a token; the value of a bare string is None."""
    if isinstance(token, str):
        yield token, None
    elif isinstance(token, Mapping):
        for attribute, value in token.items():
            if not isinstance(attribute, str):
                raise ValueError(f"names of features are strings; got {quoted(attribute)}")
            yield from _pairs_of_value(attribute, value, separator)
    elif isinstance(token, _SEVERAL):
        for string in sorted_set(token):
            if not isinstance(string, str):
                raise ValueError(f"a token that is a list holds strings; got {quoted(string)} in it")
            yield str(string), None
    else:
        raise ValueError(
            f"a token is a dict of features, or a list of strings; got {quoted(token)} of type {type(token).__name__}"
        )


def _pairs_of_value(attribute, value, separator):
    if isinstance(value, _SINGLE):
        yield attribute, _hashable(value)
    elif isinstance(value, Mapping):
        for below, inner in value.items():
            yield from _pairs_of_value(f"{attribute}{separator}{below}", inner, separator)
    elif isinstance(value, _SEVERAL):
        check_not_masked(value, attribute)
        for i, inner in enumerate(sorted_set(value)):
            if isinstance(inner, str):
                yield attribute, str(inner)
            elif isinstance(inner, Real | np.bool_):
                # A vector: a feature for each place, all of one attribute.
                yield attribute, (i, _as_float(inner))
            else:
                yield from _pairs_of_value(attribute, inner, separator)
    elif hasattr(value, "as_py"):
        # A scalar of Arrow's.
        yield from _pairs_of_value(attribute, value.as_py(), separator)
    else:
        raise ValueError(
            f"the feature {attribute!r} is {quoted(value)} of type {type(value).__name__}; values are strings, "
            "numbers, bools, dicts, or lists of these"
        )
