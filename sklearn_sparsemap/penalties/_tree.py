"""Nested groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.tables import as_mapping
from .._core.validation import is_missing
from ._order import GroupOrder


class GroupTree(GroupOrder):
    """Nested groups: the group of a node contains its own features and those of all its descendants.

    If the group of a node is zero, the groups of all its descendants are zero. The proximal operator shrinks from the
    leaves to the root, which is exact.

    Parameters
    ----------
    parents : dict or Series of name -> name of the parent, or int array-like of shape (n_nodes,)
        The parent of each node; None, or -1 in an array, for roots. There may be several roots.
    columns : dict of name -> columns, or list, default=None
        The features of each node itself; nodes that are omitted have none. None means that they come with the data, see
        `GroupOrder`.

    Attributes
    ----------
    parents : int ndarray of shape (n_nodes,)
        -1 for roots.
    names, n_groups, precedes, covers, levels
        See `GroupOrder`; levels are depths.

    Raises
    ------
    ValueError
        If there is a cycle, a name is unknown, or columns are wrong.

    Examples
    --------
    >>> from sklearn_sparsemap.penalties import GroupTree, as_groups
    >>> tree = GroupTree({"all": None, "lexical": "all", "syntax": "all"},
    ...                  {"lexical": [0, 1, 2], "syntax": [3, 4]})
    >>> groups = as_groups(tree, n_features=5)
    >>> groups.sizes
    array([5, 3, 2])
    >>> [groups.names[g] for g in groups.order]
    ['lexical', 'syntax', 'all']
    """

    def __init__(self, parents: Any, columns: Any = None) -> None:
        named = as_mapping(parents, "parents")
        if named is not parents:
            parents = {name: None if is_missing(parent) else parent for name, parent in named.items()}
        parents = parents if isinstance(parents, dict) else _parents_by_index(parents)
        names = tuple(parents)
        pairs = [(parent, name) for name, parent in parents.items() if parent is not None]
        for parent, name in pairs:
            if parent == name:
                raise ValueError(f"node {name!r} is its own parent; use None (in an array -1) for a root")
            if parent not in names:
                raise ValueError(f"the parent of {name!r} is {parent!r}, which is not a node; add it with parent None")
        columns = as_mapping(columns, "columns")
        if isinstance(columns, dict):
            unknown = [name for name in columns if name not in names]
            if unknown:
                raise ValueError(f"columns has {unknown[0]!r}, which is not a node of the tree")
            columns = {name: columns.get(name, ()) for name in names}
        super().__init__(pairs, names=names, columns=columns)
        place = {name: i for i, name in enumerate(names)}
        self.parents = np.full(len(names), -1, dtype=np.int64)
        for parent, name in pairs:
            self.parents[place[name]] = place[parent]

    @classmethod
    def from_nested(cls, nested: Any) -> GroupTree:
        """Make a tree from a dict of dicts whose innermost values are columns.

        Parameters
        ----------
        nested : dict
            A dict from names to the columns of a leaf, or to a dict of children. Names must be distinct.

        Returns
        -------
        tree : GroupTree

        Examples
        --------
        >>> from sklearn_sparsemap.penalties import GroupTree
        >>> tree = GroupTree.from_nested({"body": {"arm": [0, 1], "leg": {"knee": [2], "foot": [3, 4]}}})
        >>> tree.names, tree.levels.tolist()
        (('body', 'arm', 'leg', 'knee', 'foot'), [0, 1, 1, 2, 2])
        """
        parents, columns = {}, {}

        def add(branch, parent):
            for name, below in branch.items():
                if name in parents:
                    raise ValueError(f"there are two groups with the name {name!r}; rename one")
                parents[name] = parent
                if isinstance(below, dict):
                    add(below, name)
                else:
                    columns[name] = below

        if not isinstance(nested, dict):
            raise ValueError(f"nested must be a dict; got {type(nested).__name__}")
        add(nested, None)
        return cls(parents, columns)


def _parents_by_index(parents):
    """Check an array of parents; return it as a dict from each node to its parent, or None for roots."""
    array = np.asarray(parents)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise ValueError(f"parents must be a dict, or a 1-D array of integers; got {parents!r}")
    wrong = np.flatnonzero((array < -1) | (array >= len(array)))
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(f"parents[{i}] is {array[i]}; use -1 for a root, else a node of the tree")
    return {node: parent if parent >= 0 else None for node, parent in enumerate(array.tolist())}
