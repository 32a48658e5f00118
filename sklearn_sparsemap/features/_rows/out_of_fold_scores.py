"""OutOfFoldScores: the scores of a classifier of rows, as columns."""

from __future__ import annotations

import numbers
from collections.abc import Sized
from itertools import chain

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.base import MetaEstimatorMixin
from sklearn.model_selection import check_cv
from sklearn.utils import check_consistent_length, column_or_1d, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..._core.annotations import Any, NDArray, Self
from ..._core.errors import SampleError
from ..._core.folds import folds_of_rows
from ..._core.indicators import as_indicator, label_sets, names_in, read_known
from ..._core.offsets import ragged_indices
from ..._core.ordering import sorted_set
from ..._core.ragged import RaggedArray
from ..._core.row_scores import RowEstimator, out_of_fold_scores
from ..._core.tables import column_names
from ..._core.validation import check_matrix, is_missing, name_array
from .on_rows import SampleRows
from .output import RaggedTransformer


class OutOfFoldScores(MetaEstimatorMixin, RaggedTransformer, auto_wrap_output_keys=None):
    """Scores of rows by a classifier, as features: those of training rows by fits that have not seen them.

    A classifier is too certain of the rows that it has learned. So `fit_transform` returns the scores of each sample by
    a classifier that was fitted to other samples, and `transform` those by a classifier that was fitted to all of them.
    Use it to join scores with other columns. If scores are all that you need, pass the classifier to a structured model
    as `score_model`, which learns their scale and biases with the loss of structures.

    Parameters
    ----------
    estimator : classifier or regressor
        Any of scikit-learn's kind. Scores are the logarithms of its probabilities, for several labels of a row its
        log-odds; without `predict_proba`, the values of `decision_function`. A regressor learns and predicts the
        numbers 0 and 1, whether a row has a label. A fitted estimator in a `FrozenEstimator` is used as it is.
    cv : int, splitter or iterable, default=5
        Maximum number of folds of samples, or a splitter of scikit-learn, or pairs (train, test) of indices of samples.
        With a number, equal samples are in one fold, and so are samples that have rows in common, unless too many have.
    passthrough : bool, default=False
        Whether the columns of the samples follow the scores.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, in the order of the columns.
    estimators_ : list
        The estimators that were fitted to all samples: one, or one for each label if it cannot learn several.
    n_features_in_ : int
        Number of columns of the samples, if they are arrays.

    See Also
    --------
    OnRows : Transformers of rows.
    sklearn_sparsemap.StructuredSparseMAPClassifier : Takes a classifier as `score_model`.

    Notes
    -----
    Samples are those of flat data, one row each, or sequences of rows: arrays, CSR matrices, data frames, or lists of
    objects that the estimator takes. `y` has one label for each sample or each row, or the labels of each sample as an
    indicator matrix or a collection of names. A label of None or NaN is unknown. Labels are learned as numbers, their
    places in `classes_`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.features import OutOfFoldScores
    >>> from sklearn_sparsemap.pipeline import make_structured_pipeline
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(size=(6, 2)) for _ in range(40)]
    >>> y = [np.where(x[:, 0] * x[:, 1] > 0, "same", "other") for x in X]
    >>> scores = OutOfFoldScores(DecisionTreeClassifier(max_depth=4, random_state=0))
    >>> scores.fit_transform(X, y)[0].shape, scores.get_feature_names_out().tolist()
    ((6, 2), ['decisiontreeclassifier_other', 'decisiontreeclassifier_same'])
    >>> make_structured_pipeline(scores, StructuredSparseMAPClassifier("chain")).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(self, estimator: Any, cv: Any = 5, passthrough: bool = False) -> None:
        self.estimator = estimator
        self.cv = cv
        self.passthrough = passthrough

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the estimator to all rows.

        Parameters
        ----------
        X : array-like, CSR or data frame of shape (n_samples, n_features), or sequence of samples
            See the notes of the class.
        y : sequence
            One label for each row, or the labels of each row.

        Returns
        -------
        self : OutOfFoldScores

        Raises
        ------
        ValueError
            If the data are not as described, or the estimator cannot learn them.
        """
        self._fit(*self._read_training(X, y))
        return self

    def fit_transform(self, X: Any, y: Any) -> Any:
        """Return the scores of each sample by a fit to other samples, and fit the estimator to all rows.

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        scores : ndarray or CSR of shape (n_samples, n_columns), or RaggedArray
            A column for each label; with `passthrough`, followed by the columns of X. `RaggedArray` for sequences of
            rows. With `set_output` data frames.

        Raises
        ------
        ValueError
            As `fit`; also without at least two different samples, or if `cv` does not hold out each sample once.
        """
        rows, gold, estimator = self._read_training(X, y)
        weights = np.ones(len(gold))
        scores = None
        if not estimator.is_frozen:
            folds = self._folds(rows, gold)
            scores = out_of_fold_scores(estimator, rows.values, gold, weights, folds)
        self._fit(rows, gold, estimator)
        return self._output(rows, self._fitted.scores(rows.values) if scores is None else scores)

    def transform(self, X: Any) -> Any:
        """Return the scores of rows by the estimator that was fitted to all training samples.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        scores : as from `fit_transform`

        Raises
        ------
        NotFittedError
            Without a fit.
        """
        check_is_fitted(self, "_fitted")
        rows = self._read(X, reset=False)
        return self._output(rows, self._fitted.scores(rows.values))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns: the name of the estimator's class and a label.

        Parameters
        ----------
        input_features : sequence of str, default=None
            Names of the input columns, for `passthrough`.

        Returns
        -------
        names : object array with one entry a column
        """
        check_is_fitted(self, "_fitted")
        own = type(getattr(self.estimator, "estimator", self.estimator) if self._is_frozen else self.estimator)
        names = [f"{own.__name__.lower()}_{label}" for label in self.classes_.tolist()]
        if self.passthrough:
            if input_features is None:
                input_features = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
            names += [str(name) for name in input_features]
        return np.array(names, dtype=object)

    @property
    def estimators_(self) -> list[Any]:
        check_is_fitted(self, "_fitted")
        return [estimator for estimator, _ in self._fitted.members]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        try:
            own = get_tags(self.estimator).input_tags
            tags.input_tags.sparse, tags.input_tags.allow_nan = own.sparse, own.allow_nan
        except (AttributeError, TypeError):
            # An estimator of another library.
            tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_fitted")

    def _read_training(self, X, y):
        """Return the rows, the gold indicators, and the estimator of rows."""
        if y is None:
            raise ValueError("OutOfFoldScores requires y to be passed, but the target y is None")
        if isinstance(self.cv, numbers.Integral) and self.cv < 2:
            raise ValueError(f"cv must be a number of folds of at least 2, a splitter or an iterable; got {self.cv}")
        if not isinstance(y, Sized) and hasattr(y, "__array__"):
            y = np.asarray(y)
        rows = self._read(X, reset=True, y=y)
        if self.passthrough and not _are_numbers(rows.values):
            raise ValueError("passthrough=True is for samples of numbers; join other columns by RowUnion")
        gold, single, self.classes_ = (_labels_of_rows if rows.is_ragged else _labels_of_samples)(y, rows)
        estimator = RowEstimator(self.estimator, self.classes_, single, None)
        self._is_frozen = estimator.is_frozen
        return rows, gold, estimator

    def _fit(self, rows, gold, estimator):
        self._fitted = estimator.fit(rows.values, gold, np.ones(len(gold)))

    def _read(self, X, reset, y=None):
        """Return the rows of samples: `_SequenceRows` or `_FlatRows`."""
        if not isinstance(X, Sized) and hasattr(X, "__array__"):
            X = np.asarray(X)
        index = X.index if hasattr(X, "iloc") else None
        if index is not None and X.ndim == 1:
            # By position: the index of a Series need not begin with 0.
            X = X.tolist()
        rows = _SequenceRows(X) if _are_sequences(X) else _FlatRows(X)
        rows.index = index
        if y is not None:
            check_consistent_length(rows.indptr[:-1], y)
        if hasattr(rows.values, "shape"):
            validate_data(self, rows.values, reset=reset, skip_check_array=True)
        return rows

    def _folds(self, rows, gold):
        """Return the folds as pairs of arrays of rows."""
        n_samples = len(rows.indptr) - 1
        if isinstance(self.cv, numbers.Integral):
            folds = folds_of_rows(rows.indptr, _numbers(rows.values), gold, self.cv)
            if not folds:
                raise ValueError(
                    f"fit_transform needs at least two different samples, each of which is scored by a fit to the "
                    f"others; got n_samples={n_samples}"
                )
            return folds
        labels = None if rows.is_ragged or not np.isfinite(gold).all() else gold.argmax(axis=1)
        pairs = list(check_cv(self.cv, labels, classifier=labels is not None).split(np.zeros(n_samples), labels))
        held = np.concatenate([np.atleast_1d(test) for _, test in pairs])
        if not np.array_equal(np.sort(held), np.arange(n_samples)):
            raise ValueError("cv must hold out each sample exactly once, such as KFold does")
        lengths = np.diff(rows.indptr)
        return [tuple(ragged_indices(rows.indptr[part], lengths[part]) for part in pair) for pair in pairs]

    def _output(self, rows, scores):
        """Return scores of rows in the form of the samples."""
        values = scores
        if self.passthrough:
            if sparse.issparse(rows.values):
                values = sparse.csr_array(sparse.hstack([scores, rows.values], format="csr"))
            else:
                values = np.hstack([scores, rows.values])
        if rows.is_ragged:
            return self._give(RaggedArray(values, rows.indptr, shapes=rows.shapes))
        library = getattr(self, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
        if library == "default":
            return values
        names = [str(name) for name in self.get_feature_names_out()]
        if library == "pandas":
            import pandas as pd

            make = pd.DataFrame.sparse.from_spmatrix if sparse.issparse(values) else pd.DataFrame
            return make(values, index=rows.index, columns=names)
        import polars as pl

        return pl.DataFrame(values, schema=names)


class _SequenceRows(SampleRows):
    """The rows of samples that are sequences of rows."""

    is_ragged = True


class _FlatRows:
    """The rows of flat data, one a sample, with the attributes of `SampleRows`."""

    is_ragged, shapes = False, None

    def __init__(self, X):
        if sparse.issparse(X):
            X = check_matrix(sparse.csr_array(X) if X.format != "csr" else X)
        elif not hasattr(X, "columns"):
            first = X[0] if len(X) else 0.0
            X = X if isinstance(first, str | bytes | dict) else np.asarray(X)
        if hasattr(X, "shape") and len(X.shape) != 2 and not (len(X.shape) == 1 and X.dtype == object):
            raise ValueError(f"Expected 2D array, got {len(X.shape)}D array instead. Reshape your data")
        self.values = X
        n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
        if not n_samples:
            raise ValueError("Found array with 0 sample(s), while a minimum of 1 is required")
        self.indptr = np.arange(n_samples + 1)


def _are_sequences(X):
    """Tell whether samples are sequences of rows, in contrast to flat data."""
    if isinstance(X, RaggedArray):
        return True
    if sparse.issparse(X) or hasattr(X, "columns") or isinstance(X, str | bytes | dict) or not isinstance(X, Sized):
        return False
    if isinstance(X, np.ndarray) and X.dtype != object:
        return X.ndim >= 3
    if not len(X) or getattr(X, "ndim", 1) > 1:
        return False
    first = X[0]
    if sparse.issparse(first) or hasattr(first, "columns"):
        return True
    if isinstance(first, np.ndarray):
        return first.ndim >= 2 or first.dtype.kind in "OUS"
    if isinstance(first, str | bytes | dict) or not isinstance(first, Sized):
        return False
    return not len(first) or isinstance(first[0], str | dict | Sized)


def _are_numbers(values):
    """Tell whether rows are an array, a CSR matrix or a data frame of numbers."""
    if sparse.issparse(values):
        return True
    return hasattr(values, "shape") and np.asarray(values).dtype.kind in "biuf"


def _numbers(values):
    """Return rows of numbers as an array or a CSR matrix, None for other rows."""
    if not _are_numbers(values):
        return None
    return values if sparse.issparse(values) else np.asarray(values)


def _labels_of_rows(y, rows):
    """Return the gold indicators of rows that have one label each, True, and the labels."""
    for i, (own, n) in enumerate(zip(y, np.diff(rows.indptr).tolist())):
        if isinstance(own, str | bytes) or not isinstance(own, Sized) or len(own) != n:
            raise SampleError("y", i, f" must have one label for each of the {n} rows of the sample")
    return _indicators(list(chain.from_iterable(own.tolist() if hasattr(own, "tolist") else own for own in y)))


def _labels_of_samples(y, rows):
    """Return the gold indicators of samples, whether they have one label each, and the labels."""
    names = label_sets(y)
    if names is not None:
        classes = name_array(list(sorted_set(set(names_in(names)))))
        return as_indicator(names, classes).toarray(), False, classes
    names = column_names(y)
    y, known = read_known(y)
    values = y.toarray() if sparse.issparse(y) else np.asarray(y)
    if values.ndim == 2 and values.shape[1] > 1:
        gold = np.asarray(values, np.float64)
        if not np.isin(gold, (0.0, 1.0)).all():
            raise ValueError("y must be one label for each sample, or an indicator matrix of 0 and 1")
        classes = np.arange(gold.shape[1]) if names is None else name_array(names)
        return gold if known is None else np.where(known, gold, np.nan), False, classes
    if values.dtype != object:
        check_classification_targets(values)
    return _indicators(column_or_1d(values, warn=True).tolist())


def _indicators(labels):
    """Return the indicators of single labels, of which some may be None or NaN, True, and the distinct labels."""
    known = np.array([label is not None and not is_missing(label) for label in labels], bool)
    distinct = set(label for label in labels if label is not None and not is_missing(label))
    if not distinct:
        raise ValueError("y has no known labels")
    classes = name_array(list(sorted_set(distinct)))
    code_of = {label: k for k, label in enumerate(classes.tolist())}
    gold = np.full((len(labels), len(classes)), np.nan)
    rows = np.flatnonzero(known)
    gold[rows] = 0.0
    gold[rows, [code_of[labels[i]] for i in rows.tolist()]] = 1.0
    return gold, True, classes
