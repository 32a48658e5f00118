"""The common part of the vectorizers: parameters, names of columns, and the two modes.

Used by `features/_arcs`, `features/_rows`, `features/_tokens`, `features/_triples` and `features/_vectors`.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .._core.annotations import Any, Callable, DTypeLike, Mapping, NDArray, Self, Sequence
from .._core.export import ArraysMixin
from .._core.moments import in_one_step, whole
from .._core.ragged import RaggedArray
from .._core.threads import over_ranges
from .._core.validation import N_JOBS, POSITIVE_INT, check_parameters
from ._encoding import EncodedTokens
from ._fields import are_all_empty, check_derived_fields
from ._rows.output import RaggedTransformer
from ._template import as_templates
from ._tokens.columns import HashedColumns, Vocabulary


class BaseVectorizer(ArraysMixin, RaggedTransformer, auto_wrap_output_keys=None):
    """A vectorizer of sentences with a vocabulary, or with hashed columns if `n_features` is set.

    A subclass defines four methods. `_read(X)` checks and encodes sentences. `_learn(X, y, keep_columns)` sets
    `_vocabulary`, and returns the encoded sentences, and their columns or None. `_rows(encoded, columns=None)` returns
    the rows. `_column_groups()` returns `groups` and `group_names` of the rows.
    """

    # Whether sentences may have no tokens; they have no tree.
    _accepts_empty = True

    @in_one_step
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the columns of training sentences; in the hashed mode, only check the parameters and `X`.

        Parameters
        ----------
        X : sequence of sentences
            Each a sequence of tokens, or a DataFrame with one row a token; see the notes of the class.
        y : sequence of int arrays, default=None
            The head of each word of each sentence, 0 for the root, or its pair (head, label). Only an `ArcVectorizer`
            with ``arcs="gold"`` reads it.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is invalid, no sentence has tokens, a token is invalid or lacks a field, or heads are needed
            and do not match the sentences.
        """
        self._learn(X, y, keep_columns=False)
        return self

    @in_one_step
    def fit_transform(self, X: Any, y: Any = None) -> RaggedArray:
        """Learn the columns of training sentences and return their rows; faster than `fit`, then `transform`.

        Parameters
        ----------
        X, y
            As for `fit`.

        Returns
        -------
        rows : RaggedArray of shape (n_sentences,)
            As from `transform`.

        Raises
        ------
        ValueError
            As `fit`.
        """
        return self._rows(*self._learn(X, y, keep_columns=True))

    def transform(self, X: Any) -> RaggedArray:
        """Return the rows of sentences: one for each token, or for each arc. Features that have no column are left out.

        Parameters
        ----------
        X : sequence of sentences
            As for `fit`.

        Returns
        -------
        rows : RaggedArray of shape (n_sentences,)
            Its values are a CSR array ``(n_rows, n_features_out_)``, its `groups` the template or attribute of each
            column. With `set_output` a list of data frames. A sentence without tokens has no rows.

        Raises
        ------
        NotFittedError
            Without `n_features`, if `fit` was not called before.
        ValueError
            As `fit`, except that no sentence needs a token.
        """
        self = whole(self)
        self._check_fitted()
        if self._accepts_empty and are_all_empty(X):
            return self._give(self._no_rows(len(X)))
        return self._rows(self._read(X))

    def _no_rows(self, n_sentences):
        """Return the rows of sentences without tokens."""
        self._check_parameters()
        rows = sparse.csr_array((0, self.n_features_out_), dtype=self.dtype)
        groups, names = self._column_groups()
        return RaggedArray(rows, np.zeros(n_sentences + 1, np.int64), groups, None, names)

    def _check_parameters(self):
        check_parameters(self)
        check_dtype(self.dtype)
        if self.n_features is not None and self.min_count > 1:
            raise ValueError(
                f"min_count={self.min_count} needs counts, and the hashed mode keeps none; use min_count=1 "
                "or n_features=None"
            )

    def _check_fitted(self):
        remedy = (
            "call fit or fit_transform on training sentences, or set n_features for the hashed mode, which transforms "
            "without fitting."
        )
        check_is_fitted(self, msg=f"This %(name)s is not fitted yet: {remedy}")

    def __sklearn_is_fitted__(self):
        return self.n_features is not None or getattr(self, "_vocabulary", None) is not None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.dict = True
        tags.requires_fit = self.n_features is None
        return tags


class BaseTemplateVectorizer(BaseVectorizer, auto_wrap_output_keys=None):
    """A vectorizer of templates.

    A subclass names the kind of its templates, the default ones, its plan and its vocabulary. It defines
    `_learn_columns(plan, encoded, y, keep_columns)`, which returns the vocabulary and the columns or None, and
    `_columns_of_rows(model, encoded, columns)`, which returns the columns of all rows, distinct and ascending in each
    row, the beginnings of rows, and the beginnings of sentences.

    `penalties/_names.py`, `estimators/_selection/pipeline.py` and `RowUnion` tell that columns have groups by the
    attributes `template_names_` and `groups_`, also of `TokenDictVectorizer`.
    """

    _template_class: ClassVar[Any]
    _default_templates: ClassVar[Callable[[], list[Any]]]
    _plan_of: ClassVar[Any]
    _vocabulary_of: ClassVar[Any] = Vocabulary
    _special = "_vocabulary"
    # "no_validation" marks parameters that are checked elsewhere, with more specific messages.
    _parameter_constraints = {
        "templates": "no_validation",
        "derived_fields": "no_validation",
        "min_count": [POSITIVE_INT],
        "n_features": "no_validation",
        "dtype": "no_validation",
        "n_jobs": [*N_JOBS],
    }

    def __init__(
        self,
        templates: Sequence[Any] | None = None,
        *,
        derived_fields: Mapping[str, tuple[str, Callable[..., Any]]] | None = None,
        min_count: int = 1,
        n_features: int | None = None,
        dtype: DTypeLike = np.float64,
        n_jobs: int | None = None,
    ) -> None:
        self.templates = templates
        self.derived_fields = derived_fields
        self.min_count = min_count
        self.n_features = n_features
        self.dtype = dtype
        self.n_jobs = n_jobs

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns.

        Parameters
        ----------
        input_features : ignored
            For compatibility with scikit-learn.

        Returns
        -------
        names : object array with one entry a column
            ``template=values``, such as ``word[-1]|word[0]=the|dog``. ``<begin-1>`` and ``<end+1>`` are places outside
            the sentence, and ``<root>`` is the root of a tree. In the hashed mode, ``template#slot``. So that all names
            differ, values are escaped by a backslash: ``|`` and backslashes within a conjunction, and strings equal to
            such a place, or to an integer value of their field.

        Raises
        ------
        NotFittedError
            Without `n_features`, if `fit` was not called before.
        """
        return self._model().names()

    @property
    def templates_(self) -> tuple[Any, ...]:
        """The templates in use."""
        return self._model().plan.templates

    @property
    def template_names_(self) -> list[str]:
        """The string forms of the templates."""
        return [str(template) for template in self.templates_]

    @property
    def groups_(self) -> NDArray[np.int32]:
        """The template of each column."""
        return self._model().groups

    @property
    def n_features_out_(self) -> int:
        """The number of columns."""
        return int(self._model().column_ptr[-1])

    def _model(self):
        """The source of the columns of n-grams: in the hashed mode the parameters, else the vocabulary."""
        self._check_fitted()
        if self.n_features is not None:
            return HashedColumns(self._make_plan(), self.n_features)
        return self._vocabulary

    def _make_plan(self):
        """Check the parameters and lay out the templates."""
        self._check_parameters()
        templates = self._default_templates() if self.templates is None else self.templates
        return self._plan(templates, self.derived_fields)

    def _plan(self, templates, derived_fields):
        check_derived_fields(derived_fields)
        return self._plan_of(as_templates(templates, self._template_class), derived_fields)

    def _described(self):
        vocabulary = getattr(self, "_vocabulary", None)
        if vocabulary is None:
            return None
        plan = vocabulary.plan
        return {
            **{"templates": list(plan.templates), "derived_fields": plan.derived_fields},
            **{name: getattr(vocabulary, name) for name in ("codes", "values", "firsts", "column_ptr")},
        }

    def _restore(self, fitted, learned):
        super()._restore(fitted, learned)
        self._check_parameters()
        self._vocabulary = None
        if self.n_features is not None:
            self._model()
        if learned is not None:
            plan = self._plan(learned.pop("templates"), learned.pop("derived_fields"))
            self._vocabulary = self._vocabulary_of(plan, **learned)
            self._vocabulary.check()

    def _read(self, X):
        return EncodedTokens(self._model().plan, X)

    def _learn(self, X, y, keep_columns):
        if self.n_features is not None:
            self._vocabulary = None
            return self._read(X), None
        plan = self._make_plan()
        encoded = EncodedTokens(plan, X)
        self._vocabulary, columns = self._learn_columns(plan, encoded, y, keep_columns)
        return encoded, columns

    def _rows(self, encoded, columns=None):
        model = self._model()
        columns, row_ptr, indptr = self._columns_of_rows(model, encoded, columns)
        values = ones(len(columns), self.dtype, self.n_jobs)
        rows = sparse.csr_array((values, columns, row_ptr), shape=(len(row_ptr) - 1, int(model.column_ptr[-1])))
        rows.has_canonical_format = True
        return self._give(RaggedArray(rows, indptr, model.groups, None, self.template_names_))

    def _column_groups(self):
        return self.groups_, self.template_names_

    @property
    def _accepts_empty(self):
        return not self._template_class.HAS_ROOT


def check_dtype(dtype):
    try:
        dtype = np.dtype(dtype)
    except TypeError:
        raise ValueError(f"dtype must be a floating-point or integer type; got {dtype!r}") from None
    # Half precision is beyond scipy.sparse.
    if dtype.kind not in "fiu" or dtype == np.float16:
        raise ValueError(f"dtype must be a floating-point (not float16) or integer type; got {dtype}")


def ones(n, dtype, n_jobs):
    """Make an array of ones in threads: the first write to memory takes as long as computing the columns."""
    values = np.empty(n, dtype=dtype)
    chunk = 2**20

    def fill_range(start, stop):
        values[start * chunk : stop * chunk].fill(1)

    over_ranges(fill_range, np.full(-(-n // chunk), chunk), n_jobs)
    return values
