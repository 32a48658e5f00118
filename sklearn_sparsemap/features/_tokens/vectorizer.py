"""TemplateVectorizer: sentences of tokens in, sparse rows out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from ..._core.ragged import RaggedArray
from .._base import BaseVectorizer, ones
from .._encoding import EncodedTokens, Plan
from .._fields import check_derived_fields
from .._template import as_templates
from .columns import learn
from .templates import Template, ngrams

if TYPE_CHECKING:
    from typing_extensions import Self


class TemplateVectorizer(BaseVectorizer, auto_wrap_output_keys=None):
    """Turn sentences of tokens into sparse indicator features by templates.

    At each token every template has one value (an n-gram of field values, such as the previous and the
    current word). Each n-gram that occurs in training is a column; a row has a one in the columns of its
    n-grams. The columns of one template lie side by side.

    With `n_features` set, n-grams are hashed into a fixed number of columns instead. Then nothing is learned:
    `transform` works without `fit`, on streams of any length.

    Parameters
    ----------
    templates : list of Template or str, default=None
        For example ``["word[0]", "word[-1]|pos[0]"]``, ``chunking_templates()``, or a list of both kinds:
        ``[*ner_templates(), "suffix4[0]", *ngrams("lower", 2, window=1)]``. None means
        ``ngrams("word", (1, 2), window=1)``.
    derived_fields : dict, default=None
        Fields computed from others, once for each distinct value: name to (source field, function). A token
        that has the field itself keeps its own value. None means `DERIVED_FIELDS`: ``shape``, ``lower``, ``case``,
        ``digits``, ``punctuation``, ``prefix1`` to ``prefix5`` and ``suffix1`` to ``suffix5`` of ``word``. To be
        pickled, the functions must be importable (no lambdas).
    min_count : int, default=1
        N-grams that occur less often in training are left out; only without `n_features`.
    n_features : int, default=None
        The number of columns of the hashed mode, shared equally among the templates. N-grams of one template
        may share a column, those of different templates never do.
    dtype : dtype, default=numpy.float64
        The type of the values.
    n_jobs : int, default=None
        Number of threads, as in joblib. The result does not depend on it.

    Attributes
    ----------
    templates_ : tuple of Template
        The templates in use.
    template_names_ : list of str
        Their string forms: the names of the groups.
    groups_ : int32 array with one entry a column
        The template of each column.
    n_features_out_ : int
        Number of columns.

    Notes
    -----
    A token is a dict from field to value; a bare string stands for ``{"word": string}``; a sentence may be a DataFrame
    with one row a token and one column a field. Values are strings
    or integers, and ``1`` is not the same as ``"1"``. Places outside the sentence have values of their own,
    one for each distance from it. Values are compared by 64-bit hashes.

    Examples
    --------
    >>> from sklearn_sparsemap.features import TemplateVectorizer
    >>> sentences = [["the", "dog", "barks"], ["the", "cat"]]
    >>> vectorizer = TemplateVectorizer(["word[0]", "word[-1]|word[0]"])
    >>> X = vectorizer.fit_transform(sentences)
    >>> X
    RaggedArray(n_samples=2, n_rows=5, n_features=8, CSR)
    >>> vectorizer.get_feature_names_out()[3:7].tolist()
    ['word[0]=cat', 'word[-1]|word[0]=<begin-1>|the', 'word[-1]|word[0]=the|dog',
    'word[-1]|word[0]=dog|barks']
    >>> X.groups.tolist()
    [0, 0, 0, 0, 1, 1, 1, 1]
    >>> vectorizer.transform([["a", "dog"]])[0].toarray()
    array([[0., 0., 0., 0., 0., 0., 0., 0.],
           [0., 1., 0., 0., 0., 0., 0., 0.]])

    Own templates are one line each, and so are own fields:

    >>> from sklearn_sparsemap.features import DERIVED_FIELDS
    >>> templates = ["suffix2[0]", "length[-1]|case[0]"]
    >>> vectorizer = TemplateVectorizer(templates, derived_fields={**DERIVED_FIELDS, "length": ("word", len)})
    >>> vectorizer.fit(sentences).get_feature_names_out()[-2:].tolist()
    ['length[-1]|case[0]=<begin-1>|lower', 'length[-1]|case[0]=3|lower']
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the n-grams of training sentences; in the hashed mode, only check the parameters and `X`.

        Parameters
        ----------
        X : sequence of sentences
            Each a sequence of tokens, or a DataFrame with one row a token; see the notes of the class.
        y : ignored

        Returns
        -------
        self : TemplateVectorizer

        Raises
        ------
        ValueError
            If a parameter has no meaning, a sentence is empty, or a token is not one or lacks a field.
        """
        self._fit(X, keep_columns=False)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> RaggedArray:
        """Learn the n-grams of training sentences and return their rows; faster than `fit`, then `transform`.

        Parameters
        ----------
        X : sequence of sentences
            As for `fit`.
        y : ignored

        Returns
        -------
        rows : RaggedArray of shape (n_sentences,)
            As from `transform`.

        Raises
        ------
        ValueError
            As `fit`.
        """
        encoded, columns = self._fit(X, keep_columns=True)
        return self._rows(encoded, columns)

    def transform(self, X: Any) -> RaggedArray:
        """Return the rows of sentences. N-grams that have no column are left out.

        Parameters
        ----------
        X : sequence of sentences
            As for `fit`.

        Returns
        -------
        rows : RaggedArray of shape (n_sentences,)
            Its values are a CSR array ``(n_tokens, n_features_out_)``, its `groups` the template of each column.

        Raises
        ------
        NotFittedError
            Without `n_features`, if `fit` was not called before.
        ValueError
            As `fit`.
        """
        model = self._model()
        encoded = EncodedTokens(model.plan, X)
        return self._rows(encoded, model.columns(encoded, self.n_jobs))

    def _fit(self, X, keep_columns):
        if self.n_features is not None:
            self._vocabulary = None
            model = self._model()
            encoded = EncodedTokens(model.plan, X)
            return encoded, model.columns(encoded, self.n_jobs) if keep_columns else None
        plan = self._make_plan()
        encoded = EncodedTokens(plan, X)
        self._vocabulary, columns = learn(plan, encoded, int(self.min_count), keep_columns, self.n_jobs)
        return encoded, columns

    def _make_plan(self):
        self._check_parameters()
        templates = ngrams("word", (1, 2), 1) if self.templates is None else self.templates
        return Plan(as_templates(templates, Template), check_derived_fields(self.derived_fields))

    def _rows(self, encoded, columns):
        """Make the ragged CSR rows from the column of each (token, template)."""
        model = self._model()
        n_tokens, n_templates = len(encoded.places), len(model.plan.templates)
        is_known = columns >= 0
        if is_known.all():
            row_ptr = np.arange(0, len(columns) + 1, n_templates, dtype=np.int64)
        else:
            counts = np.count_nonzero(is_known.reshape(n_tokens, n_templates), axis=1)
            row_ptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
            columns = columns[is_known]
        if row_ptr[-1] < 2**31:
            row_ptr = row_ptr.astype(np.int32)
        values = ones(len(columns), self.dtype, self.n_jobs)
        rows = sparse.csr_array((values, columns, row_ptr), shape=(n_tokens, int(model.column_ptr[-1])))
        # True by construction: templates ascend along a row, and each has one column.
        rows.has_canonical_format = True
        return self._give(RaggedArray(rows, encoded.indptr, model.groups, None, self.template_names_))
