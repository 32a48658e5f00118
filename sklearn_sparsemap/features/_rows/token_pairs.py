"""Tokens that are dicts, or lists of strings, as pairs of an attribute and its value."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import count
from numbers import Real
from operator import itemgetter

import numpy as np

from ..._core.validation import quoted
from .._fields import join_sentences, place_of_token

# Values that are one feature; others are several.
_SINGLE = (str, bool, int, float, np.bool_, np.integer, np.floating)
_SEVERAL = (list, tuple, set, frozenset, np.ndarray)
# Tokens are processed by form (tuple of attribute names) if there are at most this many forms, or on average at least
# this many tokens for each.
_MOST_FORMS, _TOKENS_PER_FORM = 64, 100
# Number of tokens whose pairs fit into a processor's cache.
_TOKENS_AT_ONCE = 512
# Separator of the attribute within strings of a list, as in "word.lower=the".
_OF_STRINGS = "="


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
        tokens, lengths = join_sentences(X)
        self.indptr = np.concatenate([[0], np.cumsum(lengths)])
        pairs = self._number_by_form(tokens) or self._number_pairs(tokens, separator)
        self.names, self.attributes, self.weights = [], [], np.ones(len(pairs))
        for i, (attribute, value) in enumerate(pairs):
            name = attribute
            if isinstance(value, tuple):
                name, value = f"{attribute}{separator}{value[0]}", value[1]
            if value.__class__ is str or isinstance(value, str):
                name = f"{attribute}{separator}{value}"
            elif value is not None:
                self.weights[i] = value
            else:
                # The item of a list of strings, such as "word.lower=the": the attribute is the part before "=".
                attribute = attribute.split(_OF_STRINGS, 1)[0]
            self.names.append(name)
            self.attributes.append(attribute)
        if not np.isfinite(self.weights).all():
            code = int(np.argmin(np.isfinite(self.weights)))
            token = int(np.searchsorted(self.row_ptr, np.argmax(self.codes == code), side="right")) - 1
            place = place_of_token(self.indptr, token)
            raise ValueError(
                f"the feature {self.names[code]!r} of {place} is {self.weights[code]}; leave out what is missing"
            )

    def _number_by_form(self, tokens):
        """Number the pairs of tokens that have a few forms, which name the same attributes in the same order.

        Returns
        -------
        pairs : list of (attribute, value) or None
            In the order of their numbers; None if there are too many forms, or attributes of several features.
        """
        if set(map(type, tokens)) != {dict}:
            return None
        places = defaultdict(list)
        for i, form in enumerate(map(tuple, tokens)):
            places[form].append(i)
        if len(places) > _MOST_FORMS and len(places) * _TOKENS_PER_FORM > len(tokens):
            return None
        # As the most frequent form has them, then by appearance. Of each form in this order, so that columns ascend.
        rank = {}
        for form in sorted(places, key=lambda form: -len(places[form])):
            for attribute in form:
                rank.setdefault(attribute, len(rank))
        numbers, blocks = [defaultdict(count().__next__) for _ in rank], []
        counts = np.empty(len(tokens), np.int64)
        for form, where in places.items():
            own = [tokens[i] for i in where] if len(places) > 1 else tokens
            ranks = sorted(map(rank.__getitem__, form))
            codes = np.empty((len(own), len(form)), np.int64)
            by_rank = {rank[attribute]: attribute for attribute in form}
            try:
                # A dict with automatic numbering of missing keys is Python's fastest way to number values.
                number_of = [(numbers[r].__getitem__, itemgetter(by_rank[r])) for r in ranks]
                for start in range(0, len(own), _TOKENS_AT_ONCE):
                    few = own[start : start + _TOKENS_AT_ONCE]
                    for j, (number, value) in enumerate(number_of):
                        found = map(number, map(value, few))
                        codes[start : start + len(few), j] = np.fromiter(found, np.int64, len(few))
            except TypeError:
                # A list or a dict, which has no hash.
                return None
            counts[where] = len(form)
            blocks.append((np.array(where), ranks, codes))
        if not all(issubclass(kind, str) for kind in set(map(type, rank))):
            return None
        if not all(issubclass(kind, _SINGLE) for own in numbers for kind in set(map(type, own))):
            return None
        self.row_ptr = np.concatenate([[0], np.cumsum(counts)])
        self.codes = np.empty(self.row_ptr[-1], np.int64)
        offsets = np.concatenate([[0], np.cumsum([len(own) for own in numbers])])
        for where, ranks, codes in blocks:
            codes += offsets[ranks]
            self.codes[self.row_ptr[where][:, None] + np.arange(len(ranks))] = codes
        return [(attribute, value) for attribute, r in rank.items() for value in numbers[r]]

    def _number_pairs(self, tokens, separator):
        """Number the pairs of tokens of any form; return them in the order of their numbers."""
        attributes, values, counts = [], [], np.empty(len(tokens), np.int64)
        for i, token in enumerate(tokens):
            before = len(attributes)
            try:
                for attribute, value in _pairs_of(token, separator):
                    attributes.append(attribute)
                    values.append(value)
            except ValueError as error:
                raise ValueError(f"{place_of_token(self.indptr, i)}: {error}") from None
            counts[i] = len(attributes) - before
        self.row_ptr = np.concatenate([[0], np.cumsum(counts)])
        number = defaultdict(count().__next__)
        self.codes = np.fromiter(map(number.__getitem__, zip(attributes, values)), np.int64, len(attributes))
        return list(number)


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
        for string in token:
            if not isinstance(string, str):
                raise ValueError(f"a token that is a list holds strings; got {quoted(string)} in it")
            yield str(string), None
    else:
        raise ValueError(
            f"a token is a dict of features, or a list of strings; got {quoted(token)} of type {type(token).__name__}"
        )


def _pairs_of_value(attribute, value, separator):
    if isinstance(value, _SINGLE):
        yield attribute, value
    elif isinstance(value, Mapping):
        for below, inner in value.items():
            yield from _pairs_of_value(f"{attribute}{separator}{below}", inner, separator)
    elif isinstance(value, _SEVERAL):
        for i, inner in enumerate(value):
            if isinstance(inner, str):
                yield attribute, str(inner)
            elif isinstance(inner, Real | np.bool_):
                # A vector: a feature for each place, all of one attribute.
                yield attribute, (i, float(inner))
            else:
                yield from _pairs_of_value(attribute, inner, separator)
    else:
        raise ValueError(
            f"the feature {attribute!r} is {quoted(value)} of type {type(value).__name__}; values are strings, "
            "numbers, bools, dicts, or lists of these"
        )
