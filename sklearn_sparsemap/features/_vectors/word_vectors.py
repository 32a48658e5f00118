"""WordVectors: the vectors of words as dense rows."""

from __future__ import annotations

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ..._core.annotations import Any, DTypeLike
from .._base import check_dtype
from .base import BaseWordTransformer
from .table import unit_rows


class WordVectors(BaseWordTransformer, auto_wrap_output_keys=None):
    """Turn tokens into the vectors of their words, and of the words around them.

    Parameters
    ----------
    vectors : dict, tuple, object or path
        The vectors of words: a dict from word to array; a pair (words, array); an object with ``key_to_index`` and
        ``vectors``, such as gensim's ``KeyedVectors``; a ``Vocab`` of spaCy's (``nlp.vocab``); or the path of a file
        that `load_word_vectors` reads, in each fit. Copies of the transformer share them. Prefer a pair to a large
        dict, because scikit-learn's display of a model writes the whole dict.
    window : int, default=0
        The words at distances up to this on both sides are added to each row.
    lower : bool, default=True
        Whether to look for the lower-case form of a word that is unknown as it is.
    unknown : {"indicator", "mean"}, default="indicator"
        The vector of unknown words: zeros, and an additional column that is one for unknown words; or the mean of the
        rows of the table, without such a column.
    normalize : bool, default=True
        Whether to divide each vector by its length. In penalised linear models, features should have similar scales,
        and indicators are 0 or 1.
    field : str, default="word"
        The field of tokens that are dicts.
    dtype : dtype, default=numpy.float64
        The type of the values.

    Attributes
    ----------
    n_features_out_ : int
        Number of columns.
    template_names_ : list of str
        The places of the window, such as ``"vector[-1]"``: the names of the groups.
    groups_ : int32 array with one entry a column
        The place in the window that each column is about.

    Notes
    -----
    Places outside of the sentence have zeros, and a one in an additional column, ``vector[-1]=<outside>``. There are
    `window` times two plus one blocks of columns, so a row has 302 to 1,508 values for vectors of length 300.

    See Also
    --------
    WordClusters : Clusters of the vectors as sparse rows, which need less time and memory in linear models.
    RowUnion : Joins vectors and templates.
    sklearn_sparsemap.datasets.load_word_vectors : Reads a file once for several transformers.

    Examples
    --------
    >>> from sklearn_sparsemap.features import RowUnion, TemplateVectorizer, WordVectors
    >>> vectors = {"the": [0.6, 0.8], "dog": [2.0, 0.0], "cat": [0.0, 4.0]}
    >>> words = WordVectors(vectors).fit()
    >>> words.get_feature_names_out().tolist()
    ['vector[0].0', 'vector[0].1', 'vector[0]=<unknown>']
    >>> words.transform([["The", "dog", "barks"]])[0]
    array([[0.6, 0.8, 0. ],
           [1. , 0. , 0. ],
           [0. , 0. , 1. ]])

    Vectors together with templates:

    >>> union = RowUnion([("templates", TemplateVectorizer(["word[0]"])), ("vectors", WordVectors(vectors))])
    >>> union.fit_transform([["the", "dog"]])[0].toarray()
    array([[1. , 0. , 0.6, 0.8, 0. ],
           [0. , 1. , 1. , 0. , 0. ]])
    """

    _parameter_constraints = {
        **BaseWordTransformer._parameter_constraints,
        "unknown": [StrOptions({"indicator", "mean"})],
        "normalize": ["boolean"],
    }

    def __init__(
        self,
        vectors: Any,
        window: int = 0,
        lower: bool = True,
        *,
        unknown: str = "indicator",
        normalize: bool = True,
        field: str = "word",
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.vectors = vectors
        self.window = window
        self.lower = lower
        self.unknown = unknown
        self.normalize = normalize
        self.field = field
        self.dtype = dtype

    def _learn(self):
        check_dtype(self.dtype)
        if np.dtype(self.dtype).kind != "f":
            raise ValueError(f"dtype must be a floating-point type; got {np.dtype(self.dtype)}")
        n_columns = self._table.matrix.shape[1]
        # The vector of unknown words, with the value of their additional column.
        self._unknown = np.append(np.zeros(n_columns), 1.0)
        if self.unknown == "mean":
            self._unknown = self._scaled(self._table.used()).mean(axis=0, dtype=np.float64)

    def _check(self):
        n_columns = self._table.matrix.shape[1] + (self.unknown == "indicator")
        if self._unknown.shape != (n_columns,) or self._unknown.dtype != np.float64:
            raise ValueError(f"the vector of unknown words must have {n_columns} numbers of float64")

    def _scaled(self, vectors):
        return unit_rows(vectors) if self.normalize else vectors

    def _widths(self):
        width = len(self._unknown)
        return {f"vector[{offset}]": width + (offset != 0) for offset in self._offsets}

    def _names(self):
        columns = [f".{j}" for j in range(self._table.matrix.shape[1])]
        columns += ["=<unknown>"] * (self.unknown == "indicator")
        return [
            f"vector[{offset}]{column}"
            for offset in self._offsets
            for column in columns + ["=<outside>"] * (offset != 0)
        ]

    def _values(self, rows, windows):
        known, codes = np.unique(rows, return_inverse=True)
        width = len(self._unknown)
        n_columns = self._table.matrix.shape[1]
        own = np.zeros((len(known), width), self.dtype)
        own[:, :n_columns] = self._scaled(self._table.matrix[known])
        own[known < 0] = self._unknown
        values = np.zeros((len(rows), sum(self._widths().values())), self.dtype)
        at = 0
        for offset in self._offsets:
            tokens, distances = windows.at(offset)
            is_outside = distances > 0
            values[:, at : at + width] = own[codes[tokens]]
            values[is_outside, at : at + width] = 0.0
            at += width
            if offset:
                values[is_outside, at] = 1.0
                at += 1
        return values
