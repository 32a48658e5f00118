"""Coarse-to-fine groups from a partial order.

Used by `_groups.py` and `_tree.py`.
"""

from __future__ import annotations

from collections.abc import Sized
from copy import copy
from graphlib import CycleError, TopologicalSorter
from numbers import Integral

import numpy as np

from .._core.annotations import Any, Iterable, NDArray, Self, Sequence
from .._core.tables import as_mapping, column_names, rows_of
from .._core.template_grammar import read_offsets
from ._columns import check_group, check_names, name_columns, resolve_columns


class GroupOrder:
    """Overlapping groups from a partial order of base groups: discarding a coarse group discards all finer groups.

    The group G_a of a base group `a` contains the features of every b with a <= b. If G_a is zero, G_b is zero for each
    finer b. So if a group survives, all coarser groups survive ([1]_, section 4).

    Parameters
    ----------
    pairs : sequence of (coarse, fine)
        The order, by names or indices of base groups. Its transitive closure is taken.
    names : sequence, default=None
        The names of all base groups. Default: the keys of `columns` or, without them, the names in `pairs`.
    columns : dict of name -> columns, or list, default=None
        The features of each base group. None means that they come with the data, as with templates: base group k then
        has the features for which ``feature_groups`` of `as_groups` is k.

    Attributes
    ----------
    names : tuple
    n_groups : int
    precedes : bool ndarray of shape (n_groups, n_groups)
        Whether group i <= group j. The relation is reflexive and transitive.
    covers : int ndarray of shape (n_covers, 2)
        The edges (coarse, fine) of the Hasse diagram, the transitive reduction of the order.
    levels : int ndarray of shape (n_groups,)
        Length of the longest path of covers from a coarsest group.

    Raises
    ------
    ValueError
        If there is a cycle, a name is unknown or given twice, or columns are wrong.

    References
    ----------
    .. [1] Martins, Smith, Aguiar and Figueiredo. Structured Sparsity in Structured Prediction. EMNLP 2011.

    Examples
    --------
    >>> from sklearn_sparsemap.penalties import GroupOrder, as_groups
    >>> order = GroupOrder([("pos", "word"), ("word", "word+pos"), ("pos", "word+pos")],
    ...                    columns={"pos": [0, 1], "word": [2, 3], "word+pos": [4]})
    >>> order.covers.tolist(), order.levels.tolist()
    ([[0, 1], [1, 2]], [0, 1, 2])
    >>> as_groups(order, n_features=5).sizes
    array([5, 3, 1])
    """

    def __init__(
        self, pairs: Iterable[tuple[Any, Any]], *, names: Sequence[Any] | None = None, columns: Any = None
    ) -> None:
        pairs = pairs if column_names(pairs, "pairs") is None else rows_of(pairs)
        pairs = [self._check_pair(pair) for pair in pairs]
        columns = as_mapping(columns, "columns")
        if isinstance(columns, dict):
            given = tuple(columns)
            columns = list(columns.values())
            if names is not None:
                unknown = set(given) ^ set(names)
                if unknown:
                    raise ValueError(
                        f"names and columns must have the same groups; they differ in {min(unknown, key=str)!r}"
                    )
                columns = [columns[given.index(name)] for name in names]
            names = given if names is None else names
        elif names is None:
            names = self._names_of(pairs, columns)
        self.names = check_names(names)
        self.n_groups = len(self.names)
        if not self.n_groups:
            raise ValueError("there are no groups; name at least one")
        if columns is not None and len(columns) != self.n_groups:
            raise ValueError(f"columns has {len(columns)} entries for {self.n_groups} groups; give one for each")
        # Names of columns are resolved later.
        if columns is not None and not name_columns(columns):
            columns = [check_group(group, name, allow_empty=True) for name, group in zip(self.names, columns)]
        self.columns = columns
        place = {name: i for i, name in enumerate(self.names)}
        for pair in pairs:
            for name in pair:
                if name not in place:
                    raise ValueError(f"{pair!r} names {name!r}, which is not a group; there are {_some(self.names)}")
        self.precedes = close_order([(place[a], place[b]) for a, b in pairs], self.names)

    def with_feature_names(self, feature_names: Sequence[str] | None) -> Self:
        """Return the order with columns by index instead of by name.

        Parameters
        ----------
        feature_names : sequence of str
            Names of all features.

        Returns
        -------
        order : the class
            The same object if columns are not given by name.

        Raises
        ------
        ValueError
            If the features have no names, or a name is unknown.
        """
        if self.columns is None or not name_columns(self.columns):
            return self
        found = copy(self)
        found.columns = resolve_columns(self.columns, self.names, feature_names)
        return found

    @staticmethod
    def _check_pair(pair):
        if isinstance(pair, str) or not isinstance(pair, Sized) or len(pair) != 2:
            raise ValueError(f"an order consists of pairs (coarse, fine); got {pair!r}")
        return tuple(int(name) if isinstance(name, Integral) else name for name in pair)

    @staticmethod
    def _names_of(pairs, columns):
        if columns is not None:
            return range(len(columns))
        names = list(dict.fromkeys(name for pair in pairs for name in pair))
        if names and all(isinstance(name, Integral) for name in names):
            if min(names) < 0:
                raise ValueError(f"groups are counted from 0; got {min(names)}")
            return range(max(names) + 1)
        return names

    @classmethod
    def from_templates(
        cls, templates: Sequence[Any], coarser: Iterable[tuple[str, str]] = (("pos", "word"), ("shape", "word"))
    ) -> GroupOrder:
        """Derive the order from the fields of templates, position by position.

        ``a <= b`` if for each field of a, b has the same field or a finer one at the same position. For example
        ``pos[0] <= word[0]`` and ``pos[0] <= pos[-1]|pos[0] <= pos[-1]|word[0]``.

        Parameters
        ----------
        templates : sequence of str, Template or ArcTemplate
            The templates, for example `TemplateVectorizer.templates_`. Base group k has template k.
        coarser : sequence of (coarse field, fine field), default=(("pos", "word"), ("shape", "word"))
            The order of the fields: in each pair, the first field is less specific than the second.

        Returns
        -------
        order : GroupOrder
            The names of groups are the templates as strings.

        Raises
        ------
        ValueError
            If a template cannot be read, or the order of the fields has a cycle.

        Examples
        --------
        >>> from sklearn_sparsemap.penalties import GroupOrder
        >>> order = GroupOrder.from_templates(["pos[0]", "word[0]", "pos[-1]|pos[0]", "pos[-1]|word[0]"])
        >>> [(order.names[a], order.names[b]) for a, b in order.covers]
        [('pos[0]', 'word[0]'), ('pos[0]', 'pos[-1]|pos[0]'), ('word[0]', 'pos[-1]|word[0]'),
         ('pos[-1]|pos[0]', 'pos[-1]|word[0]')]
        """
        if isinstance(templates, str):
            raise ValueError(f"templates must be a list of templates; write [{templates!r}]")
        names = tuple(map(str, templates))
        coarser_fields = _coarser_fields(coarser)
        bits = {}
        own, below = [], []
        for name in names:
            atoms = read_offsets(name)
            down = {(place, field) for place, fine in atoms for field in coarser_fields.get(fine, {fine})}
            # Bit sets are fast for the many pairs of templates.
            own.append(sum(1 << bits.setdefault(atom, len(bits)) for atom in set(atoms)))
            below.append(sum(1 << bits.setdefault(atom, len(bits)) for atom in down))
        pairs = []
        for i in range(len(names)):
            for j in range(len(names)):
                if own[i] & ~below[j]:
                    continue
                # If each is finer than the other (such as word, and word with pos), the one with fewer fields is
                # coarser.
                if own[j] & ~below[i] or (own[i] != own[j] and not own[i] & ~own[j]):
                    pairs.append((names[i], names[j]))
        return cls(pairs, names=names)

    @property
    def _strict(self):
        return self.precedes & ~np.eye(self.n_groups, dtype=bool)

    @property
    def covers(self) -> NDArray[np.int64]:
        strict = self._strict.astype(np.float32)
        return np.argwhere((strict > 0) & (strict @ strict == 0))

    @property
    def levels(self) -> NDArray[np.int64]:
        levels = np.zeros(self.n_groups, dtype=np.int64)
        strict = self._strict
        # Coarse groups come first, because they have fewer predecessors.
        for i in np.argsort(strict.sum(axis=0), kind="stable"):
            if strict[:, i].any():
                levels[i] = levels[strict[:, i]].max() + 1
        return levels

    def __repr__(self):
        return f"{type(self).__name__}({self.n_groups} groups: {_some(self.names)})"


def close_order(edges, names):
    """Return the reflexive and transitive closure of an order as a bool matrix; raise ValueError for a cycle."""
    finer = {i: set() for i in range(len(names))}
    for a, b in edges:
        if a != b:
            finer[a].add(b)
    try:
        from_fine_to_coarse = list(TopologicalSorter(finer).static_order())
    except CycleError as error:
        cycle = " <= ".join(repr(names[i]) for i in reversed(error.args[1]))
        raise ValueError(f"the order has a cycle, {cycle}; remove one of these pairs") from None
    closure = np.eye(len(names), dtype=bool)
    for a in from_fine_to_coarse:
        for b in finer[a]:
            closure[a] |= closure[b]
    return closure


def _coarser_fields(pairs):
    """Map each field to the set of fields that are equal or coarser."""
    fields = list(dict.fromkeys(field for pair in pairs for field in GroupOrder._check_pair(pair)))
    place = {field: i for i, field in enumerate(fields)}
    closure = close_order([(place[a], place[b]) for a, b in pairs], fields)
    return {fine: {fields[i] for i in np.flatnonzero(closure[:, place[fine]])} for fine in fields}


def _some(names):
    return ", ".join(repr(name) for name in names[:4]) + (", ..." if len(names) > 4 else "")
