"""Groups of features of the estimators that select groups, and a warning if scales decide the selection.

Used by `group_lasso.py`, `perceptron.py` and `size_warning.py`.
"""

from __future__ import annotations

import os

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError

from ..._core.annotations import Any, Mapping, NDArray
from ..._core.moments import whole
from ..._core.ragged import RaggedArray
from ..._core.tables import as_mapping
from ...penalties import GroupOrder, as_group_weights, as_groups
from ...penalties._groups import group_of_entry
from .._failures import warn_user

# Approximate memory of training in bytes, for each column and for each group.
_BYTES_PER_COLUMN, _BYTES_PER_GROUP = 48, 56
# Largest index of a column, a 32-bit integer.
_MAX_COLUMNS = 2**31 - 1
# Largest ratio of the scales of two columns without a warning. In the selection of 2 of 10 columns from 300 samples,
# nothing is lost if the two informative ones have a tenth of the scale of the others. With a thirtieth one of them is
# lost, with a hundredth both.
_LARGEST_RATIO = 20.0
# Largest ratio of the mean of a column to its deviation without a warning. If all columns have a mean of 2 deviations,
# nothing is lost; with 9, accuracy falls from 0.85 to 0.64.
_LARGEST_OFFSET = 7.5
# Minimum number of values of a column, and number of samples that are examined.
_MIN_VALUES, _MAX_SAMPLES = 10, 10_000


class GroupsMixin:
    """Reads the parameters `groups` and `group_weights`, and derives attributes from `selected_groups_`."""

    # The rule for groups that a dict of `group_weights` does not name.
    _weights_of_others = "sqrt"

    def _check_predict(self, X):
        try:
            return super()._check_predict(X)
        except NotFittedError:
            raise
        except ValueError as error:
            is_flat = self._structure.is_flat
            n_features = _n_columns(X, is_flat)
            if n_features != np.count_nonzero(self.get_support()) or n_features == self.n_features_in_:
                raise
            raise ValueError(
                f"{'X' if is_flat else 'X[0]'} has {n_features} features, but the model was fitted with "
                f"{self.n_features_in_}. As many are selected: give the others any value, such as 0 (after scaling), "
                "because their weights are zero, or fit a model to X[:, model.get_support()]"
            ) from error

    def _make_groups(self, X):
        n_features = X.values.shape[1]
        _check_memory(n_features, self.groups is None)
        self._template_names = X.group_names
        feature_groups = X.groups
        if isinstance(self.groups, str) and self.groups == "templates" and feature_groups is None:
            raise ValueError(
                "groups='templates' needs features with the groups of their templates: a RaggedArray with groups, as "
                "TemplateVectorizer makes it"
            )
        if not isinstance(self.groups, str | GroupOrder):
            feature_groups = None
        names = getattr(self, "feature_names_in_", None)
        groups = as_groups(self.groups, n_features, feature_groups=feature_groups, feature_names=names)
        sizes = groups.sizes
        if isinstance(self.groups, GroupOrder):
            # A coarse group contains all finer ones. If its size included their features, it would be discarded first,
            # together with them.
            sizes = np.bincount(groups.atom_of, minlength=groups.n_atoms)
        weights = "sqrt" if self.group_weights is None else self.group_weights
        if hasattr(weights, "iloc"):
            weights = as_mapping(weights, "group_weights")
        names = _names_of(self, groups) if isinstance(weights, Mapping) else None
        return groups, as_group_weights(weights, sizes, names, self._weights_of_others)

    @property
    def n_nonzero_coefs_(self) -> int:
        self = whole(self)
        coef = self._current.coef
        return int(coef.nnz if sparse.issparse(coef) else np.count_nonzero(coef))

    @property
    def selected_group_names_(self) -> list[Any]:
        self = whole(self)
        names = group_names(self)
        return [names[g] for g in self.selected_groups_]

    def get_support(self, indices: bool = False) -> NDArray[Any]:
        """Return the selected features.

        Parameters
        ----------
        indices : bool, default=False
            Whether to return indices instead of a mask.

        Returns
        -------
        support : bool ndarray of shape (n_features,), or int ndarray
            A feature is selected if all groups that contain it are selected.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_sparsemap import GroupLassoPerceptron
        >>> X = np.random.default_rng(0).normal(size=(90, 4))
        >>> model = GroupLassoPerceptron(groups={"a": [0, 2], "b": [1, 3]}, budget=1, shrink_every=30)
        >>> model = model.fit(X, X[:, 1] + X[:, 3] > 0)
        >>> model.get_support().tolist(), model.selected_group_names_
        ([False, True, False, True], ['b'])
        """
        self = whole(self)
        groups = self.groups_
        gone = np.ones(groups.n_groups, bool)
        gone[self.selected_groups_] = False
        dead = np.zeros(groups.n_atoms, bool)
        dead[groups.group_atoms[gone[group_of_entry(groups)]]] = True
        mask = ~dead[groups.atom_of]
        return np.flatnonzero(mask) if indices else mask


def _n_columns(X, is_flat):
    """Return the number of columns of X, or of its first sample; None if it has none."""
    try:
        rows = X.values if isinstance(X, RaggedArray) else X if is_flat else X[0]
        return (rows.shape if hasattr(rows, "shape") else np.shape(rows))[1]
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def _check_memory(n_columns, of_each):
    """Raise ValueError if there are more columns than fit into memory; the system would kill the process."""
    needed = n_columns * (_BYTES_PER_COLUMN + _BYTES_PER_GROUP * of_each)
    try:
        present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        # The size of the memory is unknown on this system.
        present = np.inf
    if n_columns > _MAX_COLUMNS or needed > present:
        why = f"take about {needed / 2**30:.1f} GiB" if needed > present else f"are more than {_MAX_COLUMNS}"
        remedy = "pass groups of columns, or hash features" if of_each else "hash features"
        each = ", with groups=None a group each," if of_each else ""
        raise ValueError(f"X has {n_columns} columns; these{each} {why}; {remedy} into fewer columns")


def group_names(estimator):
    """Return the names of the groups of a fitted estimator."""
    return _names_of(estimator, estimator.groups_)


def _names_of(estimator, groups):
    """Return the names of groups. Those of templates, and of single columns, come with the features."""
    names = getattr(estimator, "_template_names", None)
    if isinstance(estimator.groups, str) and names is not None:
        return list(names)
    columns = getattr(estimator, "feature_names_in_", None)
    return list(columns if estimator.groups is None and columns is not None else groups.names)


def warn_of_scales(X):
    """Warn if the scales of columns differ much, or their means are much larger than their deviations.

    Parameters
    ----------
    X : array or CSR of shape (n_rows, n_features)
        The first rows that an estimator learns from.
    """
    columns, scales, offsets = column_scales(X[:: max(1, -(-X.shape[0] // _MAX_SAMPLES))])
    if not len(columns):
        return
    low = scales.argmin()
    high = scales.argmax()
    offset = offsets.argmax()
    if scales[high] > _LARGEST_RATIO * scales[low]:
        reason = f"column {columns[high]} has {scales[high] / scales[low]:.3g} times the scale of column {columns[low]}"
    elif offsets[offset] > _LARGEST_OFFSET:
        reason = f"the mean of column {columns[offset]} is {offsets[offset]:.3g} times its standard deviation"
    else:
        return
    warn_user(
        f"{reason}, so the scales of the features decide which of them are selected; standardise X, for example by "
        "sklearn.preprocessing.StandardScaler in a pipeline"
    )


def column_scales(X):
    """Return the scale of columns, and the ratio of their means to their standard deviations.

    The scale is the standard deviation or, for columns with zeros, such as counts and indicators, the root mean square
    of the other values. The ratio is zero for columns with zeros.

    Parameters
    ----------
    X : array or CSR of shape (n_rows, n_features)

    Returns
    -------
    columns : int array of shape (n_columns,)
        The columns with ten nonzero values or more, except constant ones.
    scales, offsets : arrays of shape (n_columns,)
    """
    if sparse.issparse(X):
        # There can be more columns than fit into memory.
        columns, which = np.unique(X.indices, return_inverse=True)
        counts = np.bincount(which, X.data != 0.0)
        squares = np.bincount(which, X.data * X.data)
    else:
        columns = np.arange(X.shape[1])
        counts = np.count_nonzero(X, axis=0)
        squares = np.einsum("ij,ij->j", X, X)
    full = counts == X.shape[0]
    scales = np.sqrt(squares / np.maximum(counts, 1.0))
    offsets = np.zeros(len(columns))
    if full.any() and X.shape[0]:
        if sparse.issparse(X):
            # Indexing would allocate an array over all columns.
            rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            is_full = full[which]
            values = np.zeros((X.shape[0], np.count_nonzero(full)))
            places = np.cumsum(full) - 1
            np.add.at(values, (rows[is_full], places[which[is_full]]), X.data[is_full])
        else:
            values = X[:, full]
        means = np.abs(values.mean(axis=0))
        deviations = values.std(axis=0)
        # Rounding gives a constant column a tiny deviation.
        deviations[deviations <= 1e-12 * means] = 0.0
        scales[full] = deviations
        offsets[full] = np.divide(means, deviations, out=np.zeros(len(means)), where=deviations > 0.0)
    kept = (counts >= _MIN_VALUES) & (scales > 0.0)
    return columns[kept], scales[kept], offsets[kept]
