"""Groups of features in a normal form.

Used by `_training`, `estimators` and `_prox.py`.
"""

from __future__ import annotations

from collections.abc import Sized
from copy import copy
from functools import cached_property

import numpy as np
from scipy import sparse

from .._core.annotations import Any, ArrayLike, NDArray, Sequence
from .._core.indices import are_ends, are_indices
from .._core.jit import readonly
from .._core.tables import aligned
from .._core.validation import check_positive, first_of
from ._columns import check_group, check_ids, check_names, name_columns, resolve_columns
from ._names import resolve_function
from ._order import GroupOrder


class Groups:
    """Groups of features, represented by atoms: sets of features that belong to exactly the same groups.

    `as_groups` makes them. The atoms of groups are fixed. Features may be added, see `with_features`.

    Attributes
    ----------
    names : sequence
        The name of each group.
    n_groups, n_atoms, n_features : int
    atom_of : int64 ndarray of shape (n_features,)
        The atom of each feature. For groups that do not overlap, this is its group.
    sizes : int64 ndarray of shape (n_groups,)
        Number of features of each group.
    group_indptr, group_atoms : int64 ndarrays
        The atoms of group g are ``group_atoms[group_indptr[g]:group_indptr[g + 1]]``.
    family : int64 ndarray of shape (n_groups,)
        The family of each group. Groups of a family do not overlap. A group is in a later family than all groups inside
        it, so families go from the leaves to the root of a tree, and from fine to coarse in an order.
    order : int64 ndarray of shape (n_groups,)
        Indices of the groups, family by family: the order of shrinkage.
    is_partition : bool
        Whether no groups overlap.
    is_nested : bool
        Whether any two groups are disjoint or nested. Shrinkage in `order` is then exact.

    Examples
    --------
    >>> from sklearn_sparsemap.penalties import as_groups
    >>> groups = as_groups({"left": [0, 1], "right": [2, 3, 4]}, 5)
    >>> groups.names, groups.sizes.tolist(), groups.is_partition
    (('left', 'right'), [2, 3], True)
    """

    def __init__(
        self, names: Sequence[Any], group_indptr: ArrayLike, group_atoms: ArrayLike, n_atoms: int, atom_of: ArrayLike
    ) -> None:
        self.names = names
        self.n_groups = len(names)
        self.n_atoms = n_atoms
        self.group_indptr, self.group_atoms = (readonly(a, np.int64) for a in (group_indptr, group_atoms))
        if not (
            are_ends(self.group_indptr, len(self.group_atoms), self.n_groups) and are_indices(self.group_atoms, n_atoms)
        ):
            raise ValueError("group_indptr and group_atoms do not cut atoms from 0 to n_atoms into groups")
        # Groups that do not overlap are one family.
        self.family = np.zeros(self.n_groups, dtype=np.int64)
        if not self.is_partition:
            self.family = _color_families(group_indptr, group_atoms, n_atoms)
        self.order = np.argsort(self.family, kind="stable").astype(np.int64, copy=False)
        self.atom_of = readonly(atom_of, np.int64)
        if not are_indices(self.atom_of, n_atoms):
            raise ValueError(f"atom_of must be a 1-D array of atoms, from 0 to {n_atoms - 1}")
        self.n_features = len(self.atom_of)
        self.sizes = self.group_sums(np.bincount(self.atom_of, minlength=n_atoms))

    @classmethod
    def partition(cls, group_of: ArrayLike, names: Sequence[Any] | None = None) -> Groups:
        """Make groups that do not overlap.

        Parameters
        ----------
        group_of : int ndarray of shape (n_features,)
            The group of each feature, as checked by `as_groups`.
        names : sequence, default=None
            Names of the groups. Default: their indices.

        Returns
        -------
        groups : Groups
        """
        n_groups = len(names) if names is not None else int(group_of.max(initial=-1)) + 1
        names = range(n_groups) if names is None else names
        indptr = np.arange(n_groups + 1, dtype=np.int64)
        return cls(names, indptr, indptr[:-1], n_groups, group_of)

    @property
    def is_partition(self) -> bool:
        return len(self.group_atoms) == self.n_atoms

    @cached_property
    def is_nested(self) -> bool:
        if self.is_partition:
            return True
        membership = self._membership()
        common = (membership @ membership.T).tocoo()
        n_atoms = np.diff(self.group_indptr)
        return bool((common.data == np.minimum(n_atoms[common.row], n_atoms[common.col])).all())

    def _membership(self):
        """Return the sparse 0/1 matrix of groups and atoms."""
        ones = np.ones(len(self.group_atoms), np.int64)
        return sparse.csr_array((ones, self.group_atoms, self.group_indptr), shape=(self.n_groups, self.n_atoms))

    def with_features(self, atom_of: ArrayLike) -> Groups:
        """Return the same groups over different features, for example if a stream contains new features.

        Parameters
        ----------
        atom_of : int array-like of shape (n_features,)
            The atom of each feature. For groups by templates, this is its template.

        Returns
        -------
        groups : Groups

        Raises
        ------
        ValueError
            If an entry is not an atom.
        """
        other = copy(self)
        other.atom_of = readonly(check_ids(atom_of, n_groups=self.n_atoms, what="atom_of"), np.int64)
        other.n_features = len(other.atom_of)
        other.sizes = self.group_sums(np.bincount(other.atom_of, minlength=self.n_atoms))
        return other

    def group_sums(self, of_atoms: ArrayLike) -> NDArray[Any]:
        """Sum values of atoms, such as squared norms or counts, over the atoms of each group.

        Parameters
        ----------
        of_atoms : ndarray of shape (n_atoms,)
            A value for each atom.

        Returns
        -------
        of_groups : ndarray of shape (n_groups,)
            The sum for each group.
        """
        if self.is_partition and self.n_groups == self.n_atoms:
            return of_atoms[self.group_atoms]
        # Groups may be empty, and differences of cumulative sums would lose small values.
        sums = np.zeros(self.n_groups, dtype=of_atoms.dtype)
        np.add.at(sums, group_of_entry(self), of_atoms[self.group_atoms])
        return sums

    def atom_norms(self, weights: Any) -> NDArray[np.float64]:
        """Return the Euclidean norm of the weights of each atom.

        Parameters
        ----------
        weights : ndarray of shape (n_features,) or (n_features, n_outputs)

        Returns
        -------
        norms : ndarray of shape (n_atoms,)
        """
        squares = weights**2 if weights.ndim == 1 else (weights**2).sum(axis=1)
        return np.sqrt(np.bincount(self.atom_of, squares, minlength=self.n_atoms))

    def norms(self, weights: Any) -> NDArray[np.float64]:
        """Return the Euclidean norm of the weights of each group.

        Parameters
        ----------
        weights : ndarray of shape (n_features,) or (n_features, n_outputs)

        Returns
        -------
        norms : ndarray of shape (n_groups,)
        """
        return np.sqrt(self.group_sums(self.atom_norms(weights) ** 2))

    def ancestors(self, group: int) -> NDArray[np.int64]:
        """Return the groups that properly contain a group, from the smallest to the largest.

        Parameters
        ----------
        group : int
            Index of the group.

        Returns
        -------
        ancestors : int ndarray
            Indices of groups.
        """
        own = self.group_atoms[self.group_indptr[group] : self.group_indptr[group + 1]]
        n_atoms = np.diff(self.group_indptr)
        common = self._membership()[:, own].sum(axis=1)
        around = np.flatnonzero((common == len(own)) & (n_atoms > len(own)))
        return around[np.argsort(n_atoms[around], kind="stable")]

    def __repr__(self):
        kind = "" if self.is_partition else ", nested" if self.is_nested else ", overlapping"
        return f"Groups({self.n_groups} groups of {self.n_features} features{kind})"


def as_groups(
    groups: Any,
    n_features: int | None = None,
    *,
    feature_groups: ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    names: Sequence[Any] | None = None,
    allow_overlap: bool = True,
) -> Groups:
    """Convert groups of features in any form to `Groups`.

    Parameters
    ----------
    groups : None, array-like, dict, list, str, callable, GroupTree, GroupOrder or Groups
        The groups. None means one group for each feature. An int array-like of shape (n_features,) holds the group of
        each feature, counted from 0; one of str holds its name. A Series with an index is matched with
        `feature_names`. A dict maps names to columns, and a list contains lists
        of columns; these groups may overlap. Columns are indices or, with `feature_names`, names. ``"templates"`` means
        `feature_groups`. A callable maps `feature_names` to groups in another form; ``"columns"`` means
        `groups_by_name`.
    n_features : int, default=None
        Number of features. Optional if it follows from the other parameters.
    feature_groups : int array-like of shape (n_features,), default=None
        The base group of each feature, such as its template (``X.groups`` of `TemplateVectorizer`), for
        ``"templates"`` and for a GroupTree or GroupOrder without columns. It may be empty, because features may be
        added later; see `Groups.with_features`.
    feature_names : sequence of str of length n_features, default=None
        Names of the features, such as ``feature_names_in_`` of an estimator.
    names : sequence, default=None
        Names of the groups, for an array of groups, a list or ``"templates"``. With an array or ``"templates"``, groups
        without features are possible.
    allow_overlap : bool, default=True
        Whether groups may overlap. False requires a partition.

    Returns
    -------
    groups : Groups

    Raises
    ------
    ValueError
        If a group is empty, a column is out of range, given twice in a group or in no group, the array has the wrong
        length or negative entries, or groups overlap although this is not allowed.

    Examples
    --------
    >>> from sklearn_sparsemap.penalties import as_groups
    >>> as_groups([0, 0, 1, 1, 1], n_features=5).sizes
    array([2, 3])
    >>> groups = as_groups({"left": [0, 1, 2], "right": [2, 3]}, n_features=4)
    >>> groups.is_partition, groups.atom_of.tolist(), groups.family.tolist()
    (False, [0, 0, 1, 2], [0, 1])
    """
    if n_features is not None:
        check_positive("n_features", n_features, integer=True, zero=True)
    if feature_groups is not None:
        feature_groups = _by_features(feature_groups, "feature_groups", n_features, feature_names)
        feature_groups = check_ids(feature_groups, n_features, what="feature_groups")
    if callable(groups) or (isinstance(groups, str) and groups == "columns"):
        groups = resolve_function(groups, feature_names)
    if hasattr(groups, "to_numpy"):  # a Series or an Index
        groups = _by_features(groups, "groups", n_features, feature_names)
    is_list = isinstance(groups, list | tuple)
    if ((isinstance(groups, dict) or is_list) and not groups) or (isinstance(groups, np.ndarray) and groups.size == 0):
        raise ValueError("there are no groups; use groups=None for one for each feature")
    if groups is None:
        return _one_for_each(n_features, feature_groups)
    if isinstance(groups, Groups):
        if n_features is not None and groups.n_features != n_features:
            raise ValueError(f"the groups have {groups.n_features} features, but there are {n_features}")
        built = check_groups(groups)
    elif isinstance(groups, GroupOrder):
        built = _from_order(groups.with_feature_names(feature_names), n_features, feature_groups)
    elif isinstance(groups, str):
        built = _from_templates(groups, feature_groups, names)
    elif isinstance(groups, dict):
        built = _from_columns(list(groups.values()), check_names(groups), n_features, feature_names)
    elif _are_names_of_groups(groups, n_features, feature_names):
        order = list(dict.fromkeys(groups if is_list else groups.tolist()))
        ids = list(map({name: place for place, name in enumerate(order)}.get, groups))
        built = _from_ids(ids, tuple(order) if names is None else names, "groups", n_features)
    elif is_list and any(np.ndim(group) or isinstance(group, Sized) for group in groups):
        names = range(len(groups)) if names is None else check_names(names, len(groups))
        built = _from_columns(groups, names, n_features, feature_names)
    elif is_list or hasattr(groups, "__array__"):
        built = _from_ids(groups, names, "groups", n_features)
    else:
        raise ValueError(
            "groups must be None, an int array, a dict or list of columns, 'templates', a GroupTree or a GroupOrder; "
            f"got {groups!r}"
        )
    if not (allow_overlap or built.is_partition):
        raise ValueError(f"{_describe_overlap(built)}; each feature must be in only one group")
    return built


def _by_features(series, name, n_features, feature_names):
    """Return the group of each feature as an array, in the order of the names of features if it is a Series of names.

    It may name more features than there are.
    """
    features = range(len(series) if n_features is None else n_features) if feature_names is None else feature_names
    return aligned(series, list(features), name=name, whose="the names of the features", more=True)


def _are_names_of_groups(groups, n_features, feature_names):
    """Tell whether groups are the name of the group of each feature; columns may have the same form."""
    if isinstance(groups, np.ndarray):
        groups = groups.tolist() if groups.ndim == 1 and groups.dtype.kind in "OU" else []
    if not isinstance(groups, list | tuple) or not groups or not all(isinstance(name, str) for name in groups):
        return False
    columns = set() if feature_names is None else {*map(str, feature_names)}
    if n_features in (None, len(groups)):
        return len({*groups}) < len(groups) or not {*groups} <= columns
    return columns.isdisjoint(groups)


def _one_for_each(n_features, feature_groups):
    """Make one group for each feature."""
    if n_features is None and feature_groups is None:
        raise ValueError("n_features is needed to make groups; pass it")
    return Groups.partition(np.arange(len(feature_groups) if n_features is None else n_features))


def _from_templates(groups, feature_groups, names):
    """Make groups from the template of each feature; the string `groups` must be "templates"."""
    if groups != "templates":
        raise ValueError(f"groups={groups!r} is not one of 'templates', 'columns'")
    if feature_groups is None:
        raise ValueError("groups='templates' needs the template of each feature, as X.groups of TemplateVectorizer")
    return _from_ids(feature_groups, names, "feature_groups", len(feature_groups))


def _from_ids(ids, names, what, n_features):
    """Make groups that do not overlap from the group of each feature; `what` is the name of `ids` in messages."""
    if names is not None:
        names = check_names(names)
    ids = check_ids(ids, n_features, None if names is None else len(names), what)
    if names is None and what == "groups":
        present = np.unique(ids)
        empty = np.flatnonzero(present != np.arange(len(present)))
        if len(empty):
            raise ValueError(
                f"group {empty[0]} is empty, although there are groups up to {ids.max()}; use the "
                "numbers as names, list(map(str, groups)), or number the groups without gaps: "
                "np.unique(groups, return_inverse=True)[1]"
            )
    return Groups.partition(ids, names)


def _from_columns(columns, names, n_features, feature_names=None, allow_empty=False):
    """Make groups from the columns of each group, which may overlap."""
    if name_columns(columns, feature_names is not None):
        columns = resolve_columns(columns, names, feature_names)
    columns = [check_group(group, name, n_features, allow_empty) for name, group in zip(names, columns)]
    indices = np.concatenate(columns)
    group = np.repeat(np.arange(len(names)), [len(own) for own in columns])
    if n_features is None:
        n_features = int(indices.max(initial=-1)) + 1
    counts = np.bincount(indices, minlength=n_features)
    missing = np.flatnonzero(counts == 0)
    if len(missing):
        raise ValueError(
            f"{len(missing)} of {n_features} features are in no group: {first_of(missing)}; add them to a group, or "
            "make a group for each"
        )
    if counts.max(initial=1) == 1:
        group_of = np.empty(n_features, dtype=np.int64)
        group_of[indices] = group
        return Groups.partition(group_of, names)
    # Features with equal lists of groups form an atom.
    by_feature = group[np.argsort(indices, kind="stable")]
    bounds = np.concatenate([[0], np.cumsum(counts)]).tolist()
    atoms = {}
    atom_of = np.empty(n_features, dtype=np.int64)
    for f in range(n_features):
        atom_of[f] = atoms.setdefault(by_feature[bounds[f] : bounds[f + 1]].tobytes(), len(atoms))
    members = np.unique(group * len(atoms) + atom_of[indices])
    return _from_members(*np.divmod(members, len(atoms)), names, len(atoms), atom_of)


def _from_members(group, atom, names, n_atoms, atom_of):
    """Make groups from pairs of a group and one of its atoms, in order."""
    n_atoms_of = np.bincount(group, minlength=len(names))
    return Groups(names, np.concatenate([[0], np.cumsum(n_atoms_of)]), atom, n_atoms, atom_of)


def _from_order(order, n_features, feature_groups):
    """Make the groups of a partial order."""
    # The atoms are the base groups, because no two of them are in exactly the same groups.
    name = type(order).__name__
    if order.columns is None:
        if feature_groups is None:
            raise ValueError(
                f"the {name} has no columns; give it some, or pass the base group of each feature "
                "(X.groups of TemplateVectorizer)"
            )
        atom_of = check_ids(feature_groups, n_features, order.n_groups, "feature_groups")
    else:
        base = _from_columns(order.columns, order.names, n_features, allow_empty=True)
        if not base.is_partition:
            raise ValueError(f"{_describe_overlap(base)}; a feature must be in only one base group of a {name}")
        atom_of = base.atom_of
    built = _from_members(*np.nonzero(order.precedes), order.names, order.n_groups, atom_of)
    if order.columns is not None and (built.sizes == 0).any():
        empty = order.names[int((built.sizes == 0).argmax())]
        raise ValueError(f"group {empty!r} is empty: neither it nor a finer group has columns; leave it out")
    return built


def _describe_overlap(groups):
    n_groups_of_atom = np.bincount(groups.group_atoms, minlength=groups.n_atoms)
    atom = int((n_groups_of_atom > 1).argmax())
    owners = group_of_entry(groups)[groups.group_atoms == atom]
    first, second = (groups.names[g] for g in owners[:2])
    features = np.flatnonzero(groups.atom_of == atom)
    where = f" in feature {features[0]}" if len(features) else ""
    return f"groups {first!r} and {second!r} overlap{where}"


def _color_families(group_indptr, group_atoms, n_atoms):
    """Assign groups to families of disjoint groups, such that a group is in a later family than all groups inside it.

    The method is greedy: from the smallest group to the largest, each group joins the first family in which it overlaps
    no group. If A is inside B, a group that keeps A out of a family overlaps B, too. So B is in a later family than A,
    trees are ordered from the leaves to the root, and partial orders from fine to coarse.

    Returns
    -------
    family : int64 array of shape (n_groups,)
        The family of each group, counted from 0.
    """
    n_groups = len(group_indptr) - 1
    family = np.zeros(n_groups, dtype=np.int64)
    # A bit set for each atom: the families that contain it already.
    taken = [0] * n_atoms
    atoms = group_atoms.tolist()
    bounds = group_indptr.tolist()
    for g in np.argsort(np.diff(group_indptr), kind="stable").tolist():
        own = atoms[bounds[g] : bounds[g + 1]]
        union = 0
        for a in own:
            union |= taken[a]
        first_free = ~union & (union + 1)
        family[g] = first_free.bit_length() - 1
        for a in own:
            taken[a] |= first_free
    return family


def check_groups(groups, n_features=None):
    """Raise ValueError unless all indices are within bounds, on which kernels rely.

    Attributes may have been assigned, or read from a file.

    Parameters
    ----------
    groups : Groups
    n_features : int, default=None
        Required number of features.

    Returns
    -------
    groups : Groups
    """
    n_features = groups.n_features if n_features is None else n_features
    if not (
        are_ends(groups.group_indptr, len(groups.group_atoms), groups.n_groups)
        and are_indices(groups.group_atoms, groups.n_atoms)
        and are_indices(groups.atom_of, groups.n_atoms, n_features)
        and are_indices(groups.order, groups.n_groups, groups.n_groups)
    ):
        raise ValueError(f"the groups do not fit {n_features} features; make them again by as_groups")
    return groups


def group_of_entry(groups):
    """Return the group of each entry of `group_atoms` of `Groups`: int array."""
    return np.repeat(np.arange(groups.n_groups), np.diff(groups.group_indptr))
