"""Checks of features, labels and weights of samples, and their conversion to the internal form."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_feature_names, validate_data

from ..._core.ragged import RaggedArray
from ..._core.validation import (
    check_magnitude,
    check_matrix,
    check_same_length,
    check_sample_weight,
    check_samples,
    keep_text,
)
from ...structures import Structure
from ...training._structure_task import UNKNOWN, is_flat, object_array
from .empty import accepts_empty
from .labels import check_padding, check_target, encode_labels, flatten_labels, sorted_labels, where_known

# The remedy in messages about samples with several labels.
SEVERAL_LABELS = (
    "for sets of labels use MultilabelLPSparseMAP with an indicator matrix, as "
    "sklearn.preprocessing.MultiLabelBinarizer makes it; for sequences name a structure, such as 'chain'"
)
# Arguments of `validate_data` for flat data.
_CHECKS = {"accept_sparse": "csr", "dtype": (np.float64, np.float32), "order": "C"}


class ChecksMixin:
    """Checks data for `LinearStructuredClassifier`, whose docstring describes the forms of X and of y."""

    # The type of the weights. None means the type of X in the first call.
    _dtype = None

    def _check_X(self, structure, X):
        """Return the features of samples to predict as a RaggedArray."""
        dtype = self._current.dtype
        if is_flat(structure):
            X = _flat_rows(X)
            values = validate_data(self, X, **_CHECKS, reset=False)
            X = _one_row_each(values, dtype)
        else:
            _check_names_of_features(self, _split(structure, X)[0], reset=False)
            X = _check_structured(structure, X, self.n_features_in_, dtype, accepts_empty(structure))
        check_magnitude(X, dtype)
        return X

    def _check_data(self, structure, X, y, reset, classes=None, unknown=False):
        """Check training data; with `unknown`, labels of steps may be None.

        Returns
        -------
        X : RaggedArray
        codes : int array, RaggedArray or object array
            See `LinearStructuredModel`.
        classes : ndarray or None
            As given, or all labels in y; None if structures are not made of labels.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        dtype = self._dtype if reset else self._current.dtype
        if is_flat(structure):
            X, y = self._check_flat(X, y, reset, dtype)
            labels = y.tolist()
        else:
            X = self._check_sequences(structure, X, y, reset, dtype)
            labels = flatten_labels(y, X.lengths) if structure.labelled else None
            if labels is not None and not unknown and any(label is None for label in labels):
                raise ValueError(
                    "y has labels of None, which are unknown; only fit of StructuredSparseMAPClassifier learns from "
                    "samples with unknown labels"
                )
        check_magnitude(X, dtype or X.values.dtype)
        if not structure.labelled:
            codes = object_array(list(y))
        else:
            if classes is None:
                # np.unique keeps the type of a label array, which lists of Python objects would lose.
                classes = np.unique(y) if is_flat(structure) else sorted_labels(where_known(labels))
            if not is_flat(structure):
                check_padding(labels, X.lengths)
            codes = encode_labels(labels, classes, X.indptr, unknown=unknown and not is_flat(structure))
            codes = codes if is_flat(structure) else RaggedArray(codes, X.indptr)
        self.n_features_in_ = X.values.shape[1]
        return X, codes, classes

    def _check_flat(self, X, y, reset, dtype):
        """Check training data with one label for each sample; return the rows as samples, and the labels."""
        X = _flat_rows(X)
        check_target(y, SEVERAL_LABELS)
        may_hold_none = isinstance(y, list | tuple) or (isinstance(y, np.ndarray) and y.dtype == object)
        unlabelled = [i for i, label in enumerate(y) if label is None] if may_hold_none else []
        if unlabelled:
            raise ValueError(f"y[{unlabelled[0]}] is None; leave out samples without a label")
        values, y = validate_data(self, X, keep_text(y), **_CHECKS, reset=reset, multi_output=False)
        check_classification_targets(y)
        return _one_row_each(values, dtype or values.dtype), y

    def _check_sequences(self, structure, X, y, reset, dtype):
        """Check the features of structured training data, and that y has as many samples."""
        if isinstance(X, np.ndarray) and X.dtype != object and X.ndim == 2:
            raise ValueError(
                "X is one 2-D array, but this structure takes a list of them; for a single sample pass [X] and [y]"
            )
        _check_names_of_features(self, _split(structure, X)[0], reset=reset)
        X = _check_structured(structure, X, None if reset else self.n_features_in_, dtype)
        check_same_length(X, y)
        return X

    def _sample_weights(self, X, codes, classes, sample_weight):
        """Combine sample weights and class weights into one weight for each sample."""
        weights = check_sample_weight(sample_weight, len(X))
        if self.class_weight is None:
            return weights
        if classes is None:
            raise ValueError("class_weight is for structures made of labels; leave it at None")
        flat = codes.values if isinstance(codes, RaggedArray) else codes
        known = flat != UNKNOWN
        if isinstance(self.class_weight, str):
            of_class = compute_class_weight("balanced", classes=np.arange(len(classes)), y=flat[known])
        else:
            labels = set(classes.tolist())
            unknown = [label for label in self.class_weight if label not in labels]
            # As in scikit-learn, a label may be absent from this y. If other labels of y have no weight, it is probably
            # a typing error.
            if unknown and not labels <= set(self.class_weight):
                raise ValueError(f"class_weight names the label {unknown[0]!r}, which is not in y")
            of_class = np.array([self.class_weight.get(label, 1.0) for label in classes.tolist()], np.float64)
            if not ((of_class >= 0) & (of_class < np.inf)).all():
                raise ValueError("class_weight must be finite and not negative")
        # An unknown label has weight 1.
        weights = weights * np.add.reduceat(np.where(known, of_class[flat], 1.0), X.indptr[:-1]) / X.lengths
        if not weights.any():
            raise ValueError("class_weight and sample_weight leave no sample with a positive weight")
        return weights


def _one_row_each(values, dtype):
    """Return each row as a sample. Dense rows are converted to `dtype`; sparse rows are not copied."""
    values = values if sparse.issparse(values) else values.astype(dtype, copy=False)
    return RaggedArray._of_checked(values, np.arange(values.shape[0] + 1))


def _flat_rows(X):
    """Check X of flat data, which has one label for each sample."""
    if isinstance(X, RaggedArray):
        raise ValueError("X is a RaggedArray, but structure='auto' takes one row for each sample; name a structure")
    return check_matrix(X)


def _check_structured(structure, X, n_features, dtype, allow_empty=False):
    """Return structured samples as a RaggedArray; see `check_samples`, and for graphs `split`."""
    X, extras = _split(structure, X)
    # The rows of a sample have the axes of its scores, except the axis of outputs.
    n_axes = structure.score_ndim - int(structure.labelled or structure.row_outputs is not None)
    X = check_samples(X, n_features, n_axes, dtype, allow_empty)
    if extras is not None:
        X.extras = extras
    return X


def _split(structure, X):
    """Return the features of samples, and the extra arguments of the function of graphs, if any, else None."""
    return (X, None) if isinstance(structure, Structure) else structure.split(X)


def _check_names_of_features(estimator, X, *, reset):
    """Store the names of the features of structured samples, or check them as scikit-learn does for flat data.

    Samples have names if they are data frames with equal columns.

    Parameters
    ----------
    estimator : estimator
        With `reset`, it gets `feature_names_in_` if the samples have names.
    X : sequence of samples
        In the user's form.
    reset : bool
        Whether to store the names, in a fit, or to check them.

    Raises
    ------
    ValueError
        If columns differ between samples, or from those of the fit.
    """
    first = X[0] if isinstance(X, list | tuple) and len(X) else None
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1 and len(X):
        first = X[0]
    if not hasattr(first, "columns"):
        if reset and hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return
    names = list(first.columns)
    for i, sample in enumerate(X):
        if list(getattr(sample, "columns", ())) != names:
            raise ValueError(f"X[{i}] has other columns than X[0]; give all samples the same, in the same order")
    _check_feature_names(estimator, first, reset=reset)
