"""Penalties that select groups of features: groups, their weights, and proximal operators."""

from ._group_weights import as_group_weights
from ._groups import Groups, as_groups
from ._names import groups_by_name, groups_from
from ._order import GroupOrder
from ._prox import L1, ElasticNet, GroupLasso, Penalty, SparseGroupLasso
from ._tree import GroupTree

__all__ = [
    "L1",
    "ElasticNet",
    "GroupLasso",
    "GroupOrder",
    "GroupTree",
    "Groups",
    "Penalty",
    "SparseGroupLasso",
    "as_group_weights",
    "as_groups",
    "groups_by_name",
    "groups_from",
]
