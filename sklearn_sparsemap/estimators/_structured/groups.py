"""Groups of features of the estimators that select groups."""

from __future__ import annotations

import os

import numpy as np
from scipy import sparse

from ..._core.annotations import Any, Mapping, NDArray
from ...penalties import GroupOrder, as_group_weights, as_groups

# Approximate memory of training in bytes, for each column and for each group.
_BYTES_PER_COLUMN, _BYTES_PER_GROUP = 48, 56
# Largest index of a column, a 32-bit integer.
_MOST_COLUMNS = 2**31 - 1


class GroupsMixin:
    """Reads the parameters `groups` and `group_weights`, and derives attributes from `selected_groups_`."""

    # The rule for groups that a dict of `group_weights` does not name.
    _weights_of_others = "sqrt"

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
        names = _names_of(self, groups) if isinstance(weights, Mapping) else None
        return groups, as_group_weights(weights, sizes, names, self._weights_of_others)

    @property
    def n_nonzero_coefs_(self) -> int:
        coef = self._current.coef
        return int(coef.nnz if sparse.issparse(coef) else np.count_nonzero(coef))

    @property
    def selected_group_names_(self) -> list[Any]:
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
        groups = self.groups_
        gone = np.ones(groups.n_groups, bool)
        gone[self.selected_groups_] = False
        dead = np.zeros(groups.n_atoms, bool)
        dead[groups.group_atoms[gone[groups._group_of_entry]]] = True
        mask = ~dead[groups.atom_of]
        return np.flatnonzero(mask) if indices else mask


def _check_memory(n_columns, of_each):
    """Raise ValueError if there are more columns than fit into memory; the system would kill the process."""
    needed = n_columns * (_BYTES_PER_COLUMN + _BYTES_PER_GROUP * of_each)
    try:
        present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        # The size of the memory is unknown on this system.
        present = np.inf
    if n_columns > _MOST_COLUMNS or needed > present:
        why = f"take about {needed / 2**30:.1f} GiB" if needed > present else f"are more than {_MOST_COLUMNS}"
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
