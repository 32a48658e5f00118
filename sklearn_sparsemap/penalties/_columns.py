"""Checks of the columns of groups; columns may be names of features.

Used by `_groups.py` and `_order.py`.
"""

from collections.abc import Iterable, Sized

import numpy as np

from .._core.tables import refuse_names
from .._core.validation import quoted


def check_names(names, n_groups=None):
    """Return the groups' names as a tuple; they must be distinct."""
    names = tuple(names)
    if n_groups is not None and len(names) != n_groups:
        raise ValueError(f"names has {len(names)} entries for {n_groups} groups; give one for each")
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"there are two groups with the name {twice!r}; rename one")
    return names


def check_group(group, name, n_features=None, allow_empty=False):
    """Check the columns of a group.

    Parameters
    ----------
    group : array-like of int
        The columns.
    name : str
        Name of the group, for messages.
    n_features : int, default=None
        Number of features, if known.
    allow_empty : bool, default=False
        Whether the group may be empty.

    Returns
    -------
    columns : int64 array
        Sorted.

    Raises
    ------
    ValueError
        If columns are not integers, negative, out of range or given twice, or the group is empty.
    """
    if isinstance(group, str | bytes | dict):
        raise ValueError(f"group {name!r} must be a list of columns; got {group!r}")
    array = np.asarray(group if isinstance(group, Sized) else [group])
    if array.ndim != 1:
        raise ValueError(f"group {name!r} must be a flat list of columns; got shape {array.shape}")
    if array.size == 0:
        if not allow_empty:
            raise ValueError(f"group {name!r} is empty; give it a column, or leave it out")
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iu":
        raise ValueError(f"group {name!r} must hold integers, the indices of columns; got {array[0]!r}")
    array = np.sort(array.astype(np.int64))
    if array[0] < 0:
        raise ValueError(f"group {name!r} has column {array[0]}; columns are counted from 0")
    if n_features is not None and array[-1] >= n_features:
        raise ValueError(f"group {name!r} has column {array[-1]}, but there are {n_features} features")
    twice = np.flatnonzero(array[1:] == array[:-1])
    if len(twice):
        raise ValueError(f"group {name!r} has column {array[twice[0]]} more than once; give it once")
    return array


def check_ids(ids, n_features=None, n_groups=None, what="groups"):
    """Check an array with the group of each feature; return it as int64."""
    if hasattr(ids, "to_numpy"):
        refuse_names(ids, what)
    ids = np.asarray(ids)
    if ids.ndim != 1:
        raise ValueError(f"{what} must be a 1-D array with the group of each feature; got shape {ids.shape}")
    if n_features is not None and len(ids) != n_features:
        raise ValueError(f"{what} has {len(ids)} entries for {n_features} features; give one for each")
    if ids.size and ids.dtype.kind not in "iu":
        raise ValueError(f"{what} must hold integers, the group of each feature; got {ids.dtype} values")
    ids = np.ascontiguousarray(ids, dtype=np.int64)
    if ids.size and ids.min() < 0:
        i = int(ids.argmin())
        raise ValueError(f"{what}[{i}] is {ids[i]}; groups are counted from 0, and each feature needs one")
    if n_groups is not None and ids.size and ids.max() >= n_groups:
        i = int(ids.argmax())
        raise ValueError(f"{what}[{i}] is {ids[i]}, but there are {n_groups} groups")
    return ids


def name_columns(columns, alone=True):
    """Tell whether lists of columns contain names; with `alone`, a single name counts as a list."""
    return any(
        (alone and isinstance(group, str))
        or (
            isinstance(group, Iterable) and not isinstance(group, str | dict) and any(isinstance(c, str) for c in group)
        )
        for group in columns
    )


def resolve_columns(columns, names, feature_names):
    """Replace names of features by their indices.

    Parameters
    ----------
    columns : list of lists
        Indices or names for each group. A single name need not be in a list.
    names : sequence
        Names of the groups, for messages.
    feature_names : sequence of str, or None

    Returns
    -------
    columns : list of lists of int

    Raises
    ------
    ValueError
        If features have no names, or a name is unknown or ambiguous.
    """
    if feature_names is None:
        raise ValueError(
            "the groups name columns, but the features have no names: fit on a DataFrame, or pass indices of columns"
        )
    place_of = {}
    for place, name in enumerate(feature_names):
        place_of.setdefault(str(name), []).append(place)
    found = []
    for group, own in zip(names, columns):
        own = own if isinstance(own, Iterable) and not isinstance(own, str) else [own]
        places = []
        for column in own:
            if not isinstance(column, str):
                places.append(column)
            elif len(place_of.get(column, ())) != 1:
                what = "there are several features" if column in place_of else "there is no feature"
                shown = ", ".join(map(repr, list(place_of)[:5])) + (", ..." if len(place_of) > 5 else "")
                raise ValueError(f"group {group!r} has {quoted(column)}, but {what} of this name; features are {shown}")
            else:
                places += place_of[column]
        found.append(places)
    return found
