"""The common part of the transformers of word vectors: parameters, the table, and the places of windows.

Used by `word_clusters.py` and `word_vectors.py`.
"""

from __future__ import annotations

import numpy as np

from ..._core.annotations import Any, NDArray, Self
from ..._core.export import ArraysMixin
from ..._core.moments import in_one_step, view_of, whole
from ..._core.ragged import RaggedArray
from ..._core.validation import NOT_NEGATIVE_INT, check_parameters
from .._fields import Tokens, are_all_empty
from .._rows.output import RaggedTransformer
from .table import table_of


class Windows:
    """The places of the windows of all tokens.

    Parameters
    ----------
    indptr : int64 array of shape (n_sentences + 1,)
        The beginning of each sentence.
    """

    def __init__(self, indptr):
        self.indptr = indptr
        lengths = np.diff(indptr)
        self._tokens = np.arange(indptr[-1])
        self._starts = np.repeat(indptr[:-1], lengths)
        self._stops = np.repeat(indptr[1:], lengths)

    def at(self, offset):
        """Return the token at an offset from each token, and its distance from the sentence.

        Parameters
        ----------
        offset : int

        Returns
        -------
        tokens : int64 array of shape (n_tokens,)
            Meaningless outside of the sentence.
        distances : int64 array of shape (n_tokens,)
            0 in the sentence, 1 for the places just before and after it, and so on.
        """
        tokens = self._tokens + offset
        distances = np.maximum(np.maximum(self._starts - tokens, tokens - self._stops + 1), 0)
        return np.where(distances > 0, self._tokens, tokens), distances


class BaseWordTransformer(ArraysMixin, RaggedTransformer, auto_wrap_output_keys=None):
    """A transformer of sentences by a table of word vectors.

    A subclass defines `_learn()`, which sets the attributes that a fit leaves, apart from the table, `_check()`, which
    raises ValueError unless those of a file are consistent, `_values(rows, windows)`, which returns the features of
    words by their rows in the table (-1 for unknown words), `_widths()`, a dict from the name of each block of columns
    to its number of columns, and `_names()`, the list of the names of the columns.
    """

    _special = "_table"
    _parameter_constraints = {
        "vectors": "no_validation",
        "window": [NOT_NEGATIVE_INT],
        "lower": ["boolean"],
        "field": [str],
        "dtype": "no_validation",
    }

    @in_one_step
    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Read the vectors.

        Parameters
        ----------
        X, y : ignored
            The features do not depend on the training sentences.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is invalid.
        """
        check_parameters(self)
        self._table = table_of(self.vectors)
        self._learn()
        return self

    def transform(self, X: Any) -> RaggedArray:
        """Return the rows of sentences, one for each token.

        Parameters
        ----------
        X : sequence of sentences
            Each a sequence of tokens: words, or dicts from field to value; or a data frame with one row a token.

        Returns
        -------
        rows : RaggedArray of shape (n_sentences,)
            With the offset of each column in the window as its group. With `set_output` a list of data frames.

        Raises
        ------
        NotFittedError
            If `fit` was not called before.
        ValueError
            If a token is invalid or lacks the field.
        """
        self = whole(self)
        self._check_fitted()
        if are_all_empty(X):
            rows = np.empty(0, np.int64)
            indptr = np.zeros(len(X) + 1, np.int64)
        else:
            tokens = Tokens(X, {})
            codes, words = tokens.field(self.field, type(self).__name__, "name another one by field=")
            rows = self._table.find(words, self.lower)[codes]
            indptr = tokens.indptr
        values = self._values(rows, Windows(indptr))
        return self._give(RaggedArray(values, indptr, self.groups_, None, self.template_names_))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns.

        Parameters
        ----------
        input_features : ignored
            For compatibility with scikit-learn.

        Returns
        -------
        names : object array with one entry a column
        """
        self._check_fitted()
        return np.array(self._names(), dtype=object)

    @property
    def template_names_(self) -> list[str]:
        """Names of the groups of columns."""
        self._check_fitted()
        return list(self._widths())

    @property
    def groups_(self) -> NDArray[np.int32]:
        """The group of each column."""
        self._check_fitted()
        widths = list(self._widths().values())
        return np.repeat(np.arange(len(widths), dtype=np.int32), widths)

    @property
    def n_features_out_(self) -> int:
        """The number of columns."""
        return len(self.groups_)

    @property
    def _offsets(self):
        return range(-self.window, self.window + 1)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_table")

    def __sklearn_clone__(self):
        # Vectors are shared, because a deep copy of a large table takes seconds and its memory again.
        view = view_of(self)
        view.vectors = None
        made = super(BaseWordTransformer, view).__sklearn_clone__()
        made.vectors = self.vectors
        return made

    def _plain_parts(self):
        # The table in place of the form in which the user gave it, which may be a path or an object of another library.
        parts = super()._plain_parts()
        return {**parts, "parameters": {**parts["parameters"], "vectors": self._table}}

    def _restore(self, fitted, learned):
        super()._restore(fitted, learned)
        check_parameters(self)
        self._table = table_of(self.vectors)
        self._check()
