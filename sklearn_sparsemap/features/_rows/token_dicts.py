"""TokenDictVectorizer: dicts of features as sklearn-crfsuite takes them in, sparse rows out."""

from __future__ import annotations

from itertools import repeat
from numbers import Integral

import numpy as np
from scipy import sparse

from ..._core.annotations import Any, DTypeLike, NDArray
from ..._core.indices import are_indices
from ..._core.jit import readonly
from ..._core.ragged import RaggedArray, ragged_of_checked
from ..._core.validation import POSITIVE_INT, Number
from .._base import BaseVectorizer
from .._fields import hash_values
from .few_tokens import rows_of_few
from .token_pairs import TokenPairs, keep_entries

# Columns are numbered in int32.
_MAX_COLUMNS = 2**31 - 1


class TokenDictVectorizer(BaseVectorizer, auto_wrap_output_keys=None):
    """Turn sentences of tokens that are dicts of features, as `sklearn_crfsuite.CRF` takes them, into sparse rows.

    A string is a separate column, ``name:value``, with a one; a number is the value of the column ``name``, and a bool
    is 1 or 0. Nested dicts join their names, a list of strings is several features with one name, and a list of numbers
    is a vector with a column for each entry. A token may also be a list of strings, each a column.

    Parameters
    ----------
    separator : str, default=":"
        Between the parts of the name of a column.
    min_count : int, default=1
        Features that occur at fewer training tokens get no column.
    n_features : int, default=None
        Number of columns of the hashed mode, in which names are assigned to columns by their hashes. `transform` then
        works without `fit`, and pipelines learn from streams by `partial_fit`. By default, each name seen in training
        is a column.
    dtype : dtype, default=float64
        The type of the values.

    Attributes
    ----------
    groups_ : int32 array with one entry a column
        The attribute of each column, such as ``"word.lower()"``: its number in `template_names_`. Not in the hashed
        mode.
    template_names_ : list of str
        The attributes, in order of appearance. In a token that is a list of strings, the text before the first ``=``.
    n_features_out_ : int
        Number of columns.

    Notes
    -----
    The columns of one attribute are adjacent, and ``groups="templates"`` of `GroupLassoPerceptron` selects among
    attributes. Features not seen in training are ignored.

    See Also
    --------
    TemplateVectorizer : Makes features of the neighbours of a token, too, from its fields.

    Examples
    --------
    >>> from sklearn_sparsemap.features import TokenDictVectorizer
    >>> X = [[{"bias": 1.0, "word": "the"}, {"bias": 1.0, "word": "dog", "near": {"word": "the"}}]]
    >>> vectorizer = TokenDictVectorizer()
    >>> vectorizer.fit_transform(X)[0].toarray()
    array([[1., 1., 0., 0.],
           [1., 0., 1., 1.]])
    >>> vectorizer.get_feature_names_out().tolist()
    ['bias', 'word:the', 'word:dog', 'near:word:the']
    """

    _parameter_constraints = {
        "separator": [str],
        "min_count": [POSITIVE_INT],
        "n_features": [Number(Integral, 1, _MAX_COLUMNS, closed="both"), None],
        "dtype": "no_validation",
    }

    def __init__(
        self,
        *,
        separator: str = ":",
        min_count: int = 1,
        n_features: int | None = None,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.separator = separator
        self.min_count = min_count
        self.n_features = n_features
        self.dtype = dtype

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns.

        Parameters
        ----------
        input_features : ignored
            For compatibility with scikit-learn.

        Returns
        -------
        names : object array with one entry a column
            Such as ``word.lower():the``; ``hash#slot`` in the hashed mode.
        """
        self._check_fitted()
        if self.n_features is not None:
            return np.array([f"hash#{slot}" for slot in range(self.n_features)], dtype=object)
        names = np.empty(len(self._vocabulary), dtype=object)
        names[:] = list(self._vocabulary)
        return names

    @property
    def n_features_out_(self) -> int:
        self._check_fitted()
        return len(self._vocabulary) if self.n_features is None else int(self.n_features)

    def _restore(self, fitted, learned):
        super()._restore(fitted, learned)
        self._check_parameters()
        vocabulary = getattr(self, "_vocabulary", {})
        n = len(vocabulary)
        attributes = getattr(self, "template_names_", [])
        if not all(isinstance(name, str) for name in [*vocabulary, *attributes]):
            raise ValueError("names of columns and attributes must be strings")
        if list(vocabulary.values()) != list(range(n)):
            raise ValueError(f"the columns must be numbered from 0 to {n - 1}, each name once")
        if n and not are_indices(self.groups_, len(attributes), n):
            raise ValueError(f"groups_ must hold the number of an attribute for each of {n} columns")

    def _read(self, X):
        if self.n_features is not None:
            self._check_parameters()
        return TokenPairs(X, self.separator)

    def _learn(self, X, y, keep_columns):
        self._check_parameters()
        pairs = TokenPairs(X, self.separator)
        if self.n_features is not None:
            # An earlier fit without hashing may have set these.
            for name in ("_vocabulary", "groups_", "template_names_"):
                vars(self).pop(name, None)
            return pairs, None
        place_of, found = {}, {}
        counts = np.bincount(pairs.codes, minlength=len(pairs.names)).tolist()
        for name, attribute, n in zip(pairs.names, pairs.attributes, counts):
            # Two pairs may have one name: a number of several values, or "a:b" and a string "b" of "a".
            place = place_of.setdefault(attribute, len(place_of))
            known = found.get(name)
            found[name] = (place, n) if known is None else (known[0], known[1] + n)
        kept = [(name, place) for name, (place, n) in found.items() if n >= self.min_count]
        # By attribute, so that the columns of most rows ascend; the sort is stable, so then in order of appearance.
        kept.sort(key=lambda entry: entry[1])
        if not kept:
            raise ValueError(f"no feature occurs {self.min_count} times; lower min_count, or give tokens features")
        self._vocabulary = {name: column for column, (name, _) in enumerate(kept)}
        self.groups_ = np.array([place for _, place in kept], dtype=np.int32)
        self.template_names_ = list(place_of)
        return pairs, None

    def transform(self, X: Any) -> RaggedArray:
        rows = self._rows_of_few(X)
        return super().transform(X) if rows is None else self._give(rows)

    def _rows_of_few(self, X):
        """Return the rows of a few sentences, or None if `TokenPairs` has to read them."""
        column_of = getattr(self, "_vocabulary", None)
        if self.n_features is not None or column_of is None or np.dtype(self.dtype) != np.float64:
            return None
        found = rows_of_few(X, self.separator, column_of)
        if found is None or np.shape(self.groups_) != (len(column_of),):
            return None
        rows = sparse.csr_array(found[:3], shape=(len(found[2]) - 1, len(column_of)))
        rows.has_canonical_format = True
        rows = ragged_of_checked(rows, found[3])
        rows.groups, rows.group_names = self.groups_, self.template_names_
        return rows

    def _rows(self, pairs, columns=None):
        n_columns = self.n_features_out_
        groups, names = self._column_groups()
        if self.n_features is None:
            columns = np.fromiter(map(self._vocabulary.get, pairs.names, repeat(-1)), np.int32, len(pairs.names))
        else:
            # Models in files rely on the names and on this rule.
            columns = (hash_values(pairs.names) % np.uint64(n_columns)).astype(np.int32)
        weights = pairs.weights.astype(self.dtype)
        columns[weights == 0] = -1
        # These arrays are as long as if each entry had a column.
        row_ptr = np.empty(len(pairs.row_ptr), np.int64)
        indices = np.empty(len(pairs.codes), np.int32)
        places = np.empty(len(pairs.codes), np.int64)
        codes = readonly(pairs.codes, np.int64), readonly(pairs.row_ptr, np.int64)
        n = keep_entries(*codes, readonly(columns, np.int32), row_ptr, indices, places)
        n, ascends = (n, True) if n >= 0 else (-n - 1, False)
        if n < _MAX_COLUMNS:
            row_ptr = row_ptr.astype(np.int32)
        rows = sparse.csr_array((weights[places[:n]], indices[:n], row_ptr), shape=(len(row_ptr) - 1, n_columns))
        if ascends:
            rows.has_canonical_format = True
        else:
            rows.sum_duplicates()
        return self._give(RaggedArray(rows, pairs.indptr, groups, None, names))

    def _column_groups(self):
        return (self.groups_, self.template_names_) if self.n_features is None else (None, None)
