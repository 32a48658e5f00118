"""InformationGainSelector: selection of groups of features by their mutual information with the labels."""

from __future__ import annotations

from collections.abc import Sized
from itertools import chain
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .._core.annotations import Any, ArrayLike, Self
from .._core.doc_link import DocLinkMixin
from .._core.errors import SampleError
from .._core.indices import are_indices
from .._core.moments import in_one_step
from .._core.pickles import PickleMixin
from .._core.ragged import RaggedArray
from .._core.sklearn_bases import MYPY, BaseEstimator
from .._core.validation import (
    check_matrix,
    check_names_of_features,
    check_no_missing,
    check_same_length,
    check_samples,
    quoted,
)

if MYPY:
    from .._core.sklearn_bases import SelectorMixin
else:
    from sklearn.feature_selection import SelectorMixin


class InformationGainSelector(SelectorMixin, DocLinkMixin, PickleMixin, BaseEstimator):
    """Select groups of features, such as templates, by their information gain.

    The gain of a group is the sum of its features' mutual information with the label, in bits, restricted to rows in
    which the feature occurs (is not zero)::

        sum over features f of the group, labels a:  P(f, a) log2( P(f, a) / (P(f) P(a)) )

    This is a cheap filter. It ignores redundancy between groups, and favours groups of many rare features.

    Parameters
    ----------
    n_groups_to_select : int or float, default=None
        Number of groups to keep; a float in (0, 1] is a fraction of all. By default, half.
    groups : array-like of int of shape (n_features,), default=None
        The group of each feature, numbered from 0. By default, the groups of the `RaggedArray` that a
        `TemplateVectorizer` returns; if there are none, each feature is a group.

    Attributes
    ----------
    scores_ : ndarray of shape (n_groups,)
        The gain of each group; 0 for numbers that no feature has.
    groups_ : int64 array of shape (n_features,)
        The group of each feature.
    selected_groups_ : int64 array
        The numbers of the groups that are kept, ascending.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : object array
        Their names, if `X` was a data frame, or a list of them.

    See Also
    --------
    TemplateVectorizer : Its ``template_names_`` name the groups.
    sklearn.feature_selection.mutual_info_classif : For single features, including rows in which they do not occur.

    References
    ----------
    .. [1] Martins, Smith, Aguiar and Figueiredo. Structured Sparsity in Structured Prediction. EMNLP 2011, eq. 16.

    Examples
    --------
    >>> from sklearn_sparsemap.features import InformationGainSelector, TemplateVectorizer
    >>> sentences = [["the", "dog", "barks"], ["a", "dog", "sleeps"]]
    >>> labels = [["D", "N", "V"], ["D", "N", "V"]]
    >>> vectorizer = TemplateVectorizer(["word[0]", "case[0]", "word[-1]"])
    >>> X = vectorizer.fit_transform(sentences)
    >>> selector = InformationGainSelector(n_groups_to_select=2).fit(X, labels)
    >>> selector.scores_.round(3)
    array([1.585, 0.   , 1.585])
    >>> [vectorizer.template_names_[group] for group in selector.selected_groups_]
    ['word[0]', 'word[-1]']
    >>> selector.transform(X)
    RaggedArray(n_samples=2, n_rows=6, n_features=9, CSR)
    """

    def __init__(self, n_groups_to_select: float | None = None, *, groups: ArrayLike | None = None) -> None:
        self.n_groups_to_select = n_groups_to_select
        self.groups = groups

    @in_one_step
    def fit(self, X: Any, y: Any) -> Self:
        """Compute the gain of each group and select the best; ties are broken by the lowest numbers.

        Parameters
        ----------
        X : RaggedArray, sequence of 2-D arrays, or array-like or sparse matrix of shape (n_samples, n_features)
            Structured samples, which have one row for each label, or flat ones.
        y : sequence of label sequences, or array-like of shape (n_samples,)
            The labels of each sample's rows, or of flat samples.

        Returns
        -------
        self : InformationGainSelector

        Raises
        ------
        ValueError
            If rows and labels do not match, or a parameter is invalid.
        """
        if _is_structured(X):
            ragged = check_samples(X if isinstance(X, RaggedArray) else list(X))
            rows, groups = ragged.values, ragged.groups
            codes, n_labels = _encode(_flatten_labels(y, ragged.lengths))
            self.n_features_in_ = rows.shape[1]
            check_names_of_features(self, X, reset=True)
        else:
            rows, y = validate_data(self, check_matrix(X), y, accept_sparse="csr")
            check_classification_targets(y)
            if y.ndim != 1:
                raise ValueError(f"y must hold one label a sample; got an array of shape {y.shape}")
            groups = None
            codes, n_labels = _encode(y.tolist())
        self.groups_ = self._check_groups(groups)
        n_selected = self._check_number(len(np.unique(self.groups_)))
        gains = _gains_of_features(rows, codes, n_labels)
        self.scores_ = np.bincount(self.groups_, weights=gains)
        # Numbers without features are never selected.
        order = np.where(np.bincount(self.groups_) > 0, self.scores_, -np.inf)
        self.selected_groups_ = np.sort(np.argsort(-order, kind="stable")[:n_selected])
        return self

    def transform(self, X: Any) -> Any:
        """Return the features of the selected groups.

        Parameters
        ----------
        X : as for `fit`

        Returns
        -------
        selected : RaggedArray, or array or sparse matrix of shape (n_samples, n_selected_features)
            Structured samples are returned as a `RaggedArray`, whose `groups` keep their numbers.

        Raises
        ------
        NotFittedError
            If `fit` was not called before.
        ValueError
            If `X` has another number of features than in `fit`.
        """
        if not _is_structured(X):
            return super().transform(check_matrix(X))
        check_is_fitted(self)
        check_names_of_features(self, X, reset=False)
        # A RaggedArray keeps its type.
        X = check_matrix(X) if isinstance(X, RaggedArray) else check_samples(list(X), self.n_features_in_)
        if X.values.ndim != 2 or X.values.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X must have rows of {self.n_features_in_} features, as in fit; got {X!r}; use the same vectorizer"
            )
        mask = self._get_support_mask()
        return RaggedArray(X.values[:, mask], X.indptr, self.groups_[mask], X.shapes, X.group_names)

    def _get_support_mask(self):
        check_is_fitted(self)
        n_groups = len(self.scores_)
        n_features = self.n_features_in_
        if not (are_indices(self.selected_groups_, n_groups) and are_indices(self.groups_, n_groups, n_features)):
            raise ValueError("selected_groups_, groups_, scores_ and n_features_in_ do not go together; fit again")
        is_selected = np.zeros(n_groups, dtype=bool)
        is_selected[self.selected_groups_] = True
        return is_selected[self.groups_]

    def _check_groups(self, of_data):
        """Return the group of each feature, from the parameter or from `X`."""
        groups, name = (of_data, "X.groups") if self.groups is None else (self.groups, "groups")
        if groups is None:
            return np.arange(self.n_features_in_)
        groups = np.asarray(groups)
        if groups.shape != (self.n_features_in_,):
            raise ValueError(
                f"{name} must have shape ({self.n_features_in_},), one group a feature; got {groups.shape}"
            )
        if groups.dtype.kind not in "iu" or groups.min() < 0:
            raise ValueError(
                f"{name} must be integers from 0; number others by numpy.unique(groups, return_inverse=True)[1]"
            )
        return groups.astype(np.int64)

    def _check_number(self, n_groups):
        """Return the number of groups to keep."""
        number = self.n_groups_to_select
        if number is None:
            return max(1, n_groups // 2)
        if isinstance(number, Integral) and not isinstance(number, bool) and 1 <= number <= n_groups:
            return int(number)
        if isinstance(number, Real) and not isinstance(number, Integral) and 0 < number <= 1:
            return max(1, int(n_groups * number))
        raise ValueError(
            f"n_groups_to_select must be an integer from 1 to the number of groups, {n_groups}, a fraction in (0, 1] "
            f"or None; got {number!r}"
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _is_structured(X):
    """Return whether X consists of samples with several rows; otherwise it is one matrix of flat samples."""
    if isinstance(X, RaggedArray):
        return True
    if isinstance(X, np.ndarray) and X.dtype != object:
        return X.ndim == 3
    if hasattr(X, "iloc") and X.ndim == 1:
        X = X.tolist()
    is_sequence = isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.ndim == 1)
    return is_sequence and len(X) > 0 and getattr(X[0], "ndim", 0) == 2


def _flatten_labels(y, lengths):
    """Return the labels of all rows as a list, after checking that there is one for each."""
    if isinstance(y, str) or not isinstance(y, Sized):
        raise ValueError(f"y must be a sequence of label sequences; got {y!r}")
    check_same_length(lengths, y)
    samples = list(y)
    for i, (sample, length) in enumerate(zip(samples, lengths)):
        if isinstance(sample, str) or not isinstance(sample, Sized) or getattr(sample, "ndim", 1) != 1:
            raise SampleError("y", i, f" is {quoted(sample)}, not a sequence of labels; X[{i}] has {length} rows")
        if len(sample) != length:
            raise SampleError("y", i, f" has {len(sample)} labels, but X[{i}] has {length} rows; give one label a row")
    labels = list(chain.from_iterable(samples))
    check_no_missing(labels)
    return labels


def _encode(labels):
    """Number the labels by first appearance; return the number of each row's label, and the number of labels."""
    index = {}
    codes = np.array([index.setdefault(label, len(index)) for label in labels], dtype=np.int64)
    return codes, len(index)


def _gains_of_features(rows, codes, n_labels):
    """Return the information gain of each feature, in bits: array of shape (n_features,)."""
    n_rows, n_features = rows.shape
    rows = sparse.csr_array(rows)
    if not np.all(rows.data):
        rows = rows.copy()
        rows.eliminate_zeros()
    columns, row_ptr = rows.indices, rows.indptr
    count_type = np.int32 if n_rows < 2**31 else np.int64
    occurs = sparse.csr_array((np.ones(len(columns), dtype=count_type), columns, row_ptr), shape=rows.shape)
    ones = np.ones(n_rows, dtype=count_type)
    labels = sparse.csr_array((ones, (codes, np.arange(n_rows))), shape=(n_labels, n_rows))
    # The product is labels @ occurs, because a transpose of the large matrix would take longer than all the rest.
    joint = labels @ occurs
    n_with_feature = np.bincount(columns, minlength=n_features)
    n_with_label = np.repeat(np.bincount(codes), np.diff(joint.indptr))
    counts = joint.data.astype(np.float64)
    ratios = counts * n_rows / (n_with_feature[joint.indices] * n_with_label)
    return np.bincount(joint.indices, weights=counts / n_rows * np.log2(ratios), minlength=n_features)
