"""TemplateVectorizer: sentences of tokens in, sparse rows out."""

from __future__ import annotations

from functools import partial

import numpy as np

from .._base import BaseTemplateVectorizer
from .._encoding import Plan
from .columns import learn
from .templates import Template, ngrams


class TemplateVectorizer(BaseTemplateVectorizer, auto_wrap_output_keys=None):
    """Turn sentences of tokens into sparse indicator features by templates.

    At each token every template has one value (an n-gram of field values, such as the previous and the
    current word). Each n-gram that occurs in training is a column; a row has a one in the columns of its
    n-grams. The columns of one template are adjacent.

    With `n_features` set, n-grams are hashed into a fixed number of columns instead. Then nothing is learned:
    `transform` works without `fit`, on streams of any length.

    Parameters
    ----------
    templates : list of Template or str, default=None
        For example ``["word[0]", "word[-1]|pos[0]"]``, ``chunking_templates()``, or a list of both kinds:
        ``[*ner_templates(), "suffix4[0]", *ngrams("lower", 2, window=1)]``. Default:
        ``ngrams("word", (1, 2), window=1)``.
    derived_fields : dict, default=None
        Fields computed from others, once for each distinct value: name to (source field, function). A token
        that has the field itself keeps its own value. Default: `DERIVED_FIELDS`, with ``shape``, ``lower``, ``case``,
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
    A token is a dict from field to value. A bare string stands for ``{"word": string}``. A sentence may be a DataFrame
    with one row a token and one column a field. Values are strings or integers, and ``1`` is not the same as ``"1"``.
    Places outside the sentence have separate values, one for each distance from it. Values are compared by 64-bit
    hashes.

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

    _template_class = Template
    _default_templates = staticmethod(partial(ngrams, "word", (1, 2), 1))
    _plan_of = Plan

    def _learn_columns(self, plan, encoded, y, keep_columns):
        return learn(plan, encoded, int(self.min_count), keep_columns, self.n_jobs)

    def _columns_of_rows(self, model, encoded, columns):
        columns = model.columns(encoded, self.n_jobs) if columns is None else columns
        n_tokens = len(encoded.token_indices)
        n_templates = len(model.plan.templates)
        is_known = columns >= 0
        if is_known.all():
            row_ptr = np.arange(0, len(columns) + 1, n_templates, dtype=np.int64)
        else:
            counts = np.count_nonzero(is_known.reshape(n_tokens, n_templates), axis=1)
            row_ptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
            columns = columns[is_known]
        if row_ptr[-1] < 2**31:
            row_ptr = row_ptr.astype(np.int32)
        # Templates ascend along a row, and each has one column.
        return columns, row_ptr, encoded.indptr
