"""OnRows: a transformer of flat data, applied to the rows of all samples.

Used by `out_of_fold_scores.py`.
"""

from __future__ import annotations

from collections.abc import Sized
from functools import partial
from itertools import chain

import numpy as np
from scipy import sparse
from sklearn.base import MetaEstimatorMixin, OneToOneFeatureMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from ..._core.annotations import Any, NDArray, Self
from ..._core.available import available_if
from ..._core.errors import Place, SampleError
from ..._core.ragged import RaggedArray
from ..._core.tables import check_equal_columns
from ..._core.validation import check_matrix
from .output import MetaRaggedTransformer


def _inner_has_partial_fit(on_rows):
    return on_rows.transformer.partial_fit


class OnRows(MetaEstimatorMixin, MetaRaggedTransformer, auto_wrap_output_keys=None):
    """Apply a transformer of flat data to the rows of all samples, for example to scale or to reduce them.

    Parameters
    ----------
    transformer : transformer
        Any transformer of scikit-learn's kind, such as ``StandardScaler()``, ``PCA(50)``, a `ColumnTransformer` for
        samples that are data frames, or a `FunctionTransformer` of words.

    Attributes
    ----------
    transformer_ : transformer
        The fitted clone.

    Notes
    -----
    Samples are arrays or CSR matrices with a row for each step, data frames, or lists of samples of the transformer:
    words, dicts. If `y` has one label for each row, it is passed to the transformer row by row; a `y` of whole
    structures is not passed. `OnRows` needs a fit only if the transformer does.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_sparsemap.features import OnRows
    >>> X = [np.array([[1.0], [2.0]]), np.array([[3.0]])]
    >>> OnRows(StandardScaler()).fit_transform(X).tolist()
    [array([[-1.22474487], [ 0. ]]), array([[1.22474487]])]

    N-grams of the characters of words; `RowUnion` joins them with templates:

    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> characters = OnRows(CountVectorizer(analyzer="char_wb", ngram_range=(2, 3)))
    >>> characters.fit_transform([["the", "dog"], ["a"]])
    RaggedArray(n_samples=2, n_rows=3, n_features=17, CSR)
    """

    _left_by_fit = "transformer_"

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the transformer to the rows of all samples.

        Parameters
        ----------
        X : sequence of samples
            See the notes of the class.
        y : sequence of structures, default=None

        Returns
        -------
        self : OnRows

        Raises
        ------
        ValueError
            If the samples do not match; the message names the first one that differs.
        """
        rows = SampleRows(X)
        transformer = clone(self.transformer).fit(rows.values, rows.labels(y))
        return self._take(transformer, rows)

    @available_if(_inner_has_partial_fit)
    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self:
        """Fit the transformer to more rows, if it has `partial_fit`. A `FrozenEstimator` learns nothing.

        Parameters
        ----------
        X, y
            As in `fit`.
        classes : ignored

        Returns
        -------
        self : OnRows
        """
        rows = SampleRows(X)
        fitted = self.transformer_ if hasattr(self, "transformer_") else clone(self.transformer)
        if not isinstance(fitted, FrozenEstimator):
            # A frozen one passes `partial_fit` on to its estimator.
            fitted.partial_fit(rows.values, rows.labels(y))
        return self._take(fitted, rows)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit the transformer to the rows of all samples, and transform them.

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        rows : RaggedArray of shape (n_samples,)
            As from `transform`.
        """
        rows = SampleRows(X)
        transformer = clone(self.transformer)
        labels = rows.labels(y)
        if hasattr(transformer, "fit_transform"):
            values = transformer.fit_transform(rows.values, labels)
        else:
            values = transformer.fit(rows.values, labels).transform(rows.values)
        made = rows.cut(values, transformer)
        self.transformer_ = transformer
        self._n_columns = made.values.shape[1]
        return self._give(made)

    def transform(self, X: Any) -> Any:
        """Transform the rows of samples.

        Parameters
        ----------
        X : sequence of samples
            As in `fit`.

        Returns
        -------
        rows : RaggedArray of shape (n_samples,)
            Rows of the transformer's output. It keeps `groups` if the transformer keeps or selects columns. With
            `set_output`, a list of data frames.

        Raises
        ------
        NotFittedError
            If the transformer needs a fit, and there was none.
        """
        check_is_fitted(self)
        rows = SampleRows(X)
        transformer = self._fitted_transformer
        if not rows.indptr[-1] and hasattr(self, "_n_columns"):
            # Transformers of scikit-learn refuse arrays without rows.
            return self._give(rows.cut(np.zeros((0, self._n_columns)), transformer))
        made = rows.cut(transformer.transform(rows.values), transformer)
        if not hasattr(self, "transformer_"):
            self._n_columns = made.values.shape[1]
        return self._give(made)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns: the transformer's, or ``x0``, ``x1``, ... if it has none.

        Parameters
        ----------
        input_features : sequence of str, default=None
            Names of the input columns.

        Returns
        -------
        names : object array with one entry a column
        """
        check_is_fitted(self)
        transformer = self._fitted_transformer
        own = None
        if input_features is None and hasattr(self, "_n_columns"):
            own = _names_out(transformer)
            own = [f"x{i}" for i in range(self._n_columns)] if own is None else own
        return np.asarray(transformer.get_feature_names_out(input_features) if own is None else own, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the samples, if the transformer takes numbers."""
        check_is_fitted(self)
        return self._fitted_transformer.n_features_in_

    @property
    def _fitted_transformer(self):
        # A transformer that needs no fit is used as it is given.
        return getattr(self, "transformer_", self.transformer)

    def _take(self, transformer, rows):
        """Store a fitted transformer, and the number of its columns: for names, and for samples without rows."""
        if hasattr(transformer, "transform"):
            try:
                made = transformer.transform(rows.values[:1])
            except ValueError:
                # Some transformers refuse a single row.
                made = transformer.transform(rows.values)
            self._n_columns = _n_columns_of(made)
        self.transformer_ = transformer
        return self

    def _requires_fit(self):
        tags = getattr(self.transformer, "__sklearn_tags__", None)
        return tags is None or tags().requires_fit


def _names_out(transformer):
    """Return the names of the columns of a transformer, or None if it has none."""
    try:
        return transformer.get_feature_names_out()
    except (AttributeError, ValueError):
        # A pipeline has the method, but raises an error if one of its steps has not.
        return None


def _n_columns_of(values):
    return np.shape(values)[1] if np.ndim(values) == 2 or sparse.issparse(values) else 0


class SampleRows:
    """The concatenated rows of all samples, as input of a transformer.

    Parameters
    ----------
    X : sequence of samples

    Attributes
    ----------
    values : array, CSR, data frame or list
    indptr : int64 array of shape (n_samples + 1,)
    """

    def __init__(self, X):
        self.groups = self.shapes = self.group_names = None
        if isinstance(X, np.ndarray) and X.dtype != object and X.ndim >= 3:
            X = list(X)
        if isinstance(X, RaggedArray):
            check_matrix(X)
            self.values, self.indptr, self.groups, self.shapes = X.values, X.indptr, X.groups, X.shapes
            self.group_names = X.group_names
            return
        if isinstance(X, str | bytes | dict) or not isinstance(X, Sized) or hasattr(X, "columns"):
            raise ValueError(f"X must be a sequence of samples, each with its rows; got {type(X).__name__}")
        samples = X.tolist() if hasattr(X, "tolist") else list(X)
        if not samples:
            raise ValueError("X has no samples; give at least one")
        first = samples[0]
        lengths = [_n_rows(i, sample) for i, sample in enumerate(samples)]
        self.indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        if hasattr(first, "columns"):
            self.values = _join_frames(samples)
        elif hasattr(first, "shape") or (lengths[0] and _is_numbers(first[0])):
            self.values = RaggedArray.from_list(samples).values
        else:
            self.values = list(chain.from_iterable(samples))

    def labels(self, y):
        """Return the label of each row, or None if `y` does not consist of labels of rows."""
        if y is None or not isinstance(y, Sized) or len(y) != len(self.indptr) - 1:
            return None
        lengths = [len(labels) if isinstance(labels, Sized) and not isinstance(labels, str) else -1 for labels in y]
        if not np.array_equal(lengths, np.diff(self.indptr)):
            return None
        labels = list(chain.from_iterable(labels.tolist() if hasattr(labels, "tolist") else labels for labels in y))
        return None if any(label is None for label in labels) else labels

    def cut(self, values, transformer):
        """Return the output of a transformer for the rows as a `RaggedArray`."""
        values = values if sparse.issparse(values) else np.asarray(values)
        if values.ndim != 2 or values.shape[0] != self.indptr[-1]:
            raise ValueError(
                f"{type(transformer).__name__} must return one row of features for each of {self.indptr[-1]} rows; got "
                f"shape {values.shape}"
            )
        groups = self.groups
        if groups is not None and hasattr(transformer, "get_support"):
            groups = groups[transformer.get_support()]
        elif not isinstance(transformer, OneToOneFeatureMixin):
            groups = None
        return RaggedArray(values, self.indptr, groups, self.shapes, None if groups is None else self.group_names)


def _n_rows(i, sample):
    """Return the number of rows of sample `i`; raise SampleError if it has none."""
    shape = getattr(sample, "shape", None)
    if shape is None and isinstance(sample, Sized) and not isinstance(sample, str | bytes | dict):
        return len(sample)
    if not shape:
        raise SampleError("X", i, f" must be a sequence of rows; got {type(sample).__name__}")
    return shape[0]


def _is_numbers(row):
    return not isinstance(row, str | dict) and isinstance(row, Sized) and np.asarray(row).dtype.kind in "biuf"


def _join_frames(samples):
    """Return one data frame of the rows of all."""
    check_equal_columns(samples, partial(Place, "X"))
    library = type(samples[0]).__module__.split(".")[0]
    if library == "polars":
        import polars as pl

        return pl.concat(samples)
    import pandas as pd

    return pd.concat(samples, ignore_index=True)
