"""The groups of features of estimators that select some, and the budget of groups or weights."""

from __future__ import annotations

import os
from collections import namedtuple

import numpy as np

from ..._core.validation import pair_of
from ...penalties import GroupOrder, as_group_weights, as_groups

# Approximate memory of training for each column, and for each group.
_BYTES_PER_COLUMN, _BYTES_PER_GROUP = 48, 56
# Columns are 32-bit integers.
_MOST_COLUMNS = 2**31 - 1
# Maximum numbers of groups and of weights; at most one of them is not None.
Budget = namedtuple("Budget", ["groups", "weights"], defaults=(None, None))


class GroupsMixin:
    """Reads the parameters `groups` and `group_weights`."""

    def _make_groups(self, X):
        n_features = X.values.shape[1]
        _check_memory(n_features, self.groups is None)
        self._template_names = X.group_names
        feature_groups = X.groups
        if isinstance(self.groups, str) and self.groups == "templates" and feature_groups is None:
            raise ValueError(
                "groups='templates' needs features that know their templates: a RaggedArray with groups, as "
                "TemplateVectorizer makes it"
            )
        if not isinstance(self.groups, str | GroupOrder):
            feature_groups = None
        names = getattr(self, "feature_names_in_", None)
        groups = as_groups(self.groups, n_features, feature_groups=feature_groups, feature_names=names)
        self._check_budget(groups)
        sizes = groups.sizes
        if isinstance(self.groups, GroupOrder):
            # A coarse group contains all finer ones. With all their features as its size it would be the first to be
            # discarded, together with them.
            sizes = np.bincount(groups.atom_of, minlength=groups.n_atoms)
        return groups, as_group_weights("sqrt" if self.group_weights is None else self.group_weights, sizes)

    def _check_budget(self, groups):
        """Raise ValueError if the groups do not fit other parameters."""


class BudgetsMixin(GroupsMixin):
    """Reads the parameters `groups`, `group_weights` and `budget`."""

    def _check_budget(self, groups):
        if self._budget.groups is not None and self._budget.groups > groups.n_groups:
            raise ValueError(f"budget={self.budget} is more than the {groups.n_groups} groups; lower it, or use None")

    @property
    def _budget(self):
        number, unit = pair_of(self.budget, "groups")
        return Budget(**{unit: number})


def _check_memory(n_columns, of_each):
    """Raise ValueError if there are more columns than fit into memory, because the system would kill the process."""
    needed = n_columns * (_BYTES_PER_COLUMN + _BYTES_PER_GROUP * of_each)
    try:
        present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        # The system does not tell its memory.
        present = np.inf
    if n_columns > _MOST_COLUMNS or needed > present:
        why = f"take about {needed / 2**30:.1f} GiB" if needed > present else f"are more than {_MOST_COLUMNS}"
        remedy = "pass groups of columns, or hash features" if of_each else "hash features"
        each = ", with groups=None a group each," if of_each else ""
        raise ValueError(f"X has {n_columns} columns; these{each} {why}; {remedy} into fewer columns")
