"""Hierarchies of labels: each implies its parents.

Used by `estimators`.
"""

from __future__ import annotations

import numbers
import warnings
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import numpy as np
from scipy import sparse

from .._core.annotations import Any, NDArray, Self, Sequence
from .._core.indicators import in_order, read_known
from .._core.tables import are_default, column_names, read_arcs, row_names, rows_of
from .._core.validation import check_numbers, is_missing, quoted
from ._label_constraints import LabelConstraint, _index_of

_MAX_CYCLE = 12  # labels; a message shows at most this many of a cycle


class Hierarchy(LabelConstraint):
    """A label implies its parents: if it is on, they are on.

    If no label has more than one parent, inference is isotonic regression on trees: exact in one pass, for thousands of
    labels. Otherwise it is that of a factor graph.

    Parameters
    ----------
    parents : sequence, or dict
        The parent of each label, in the order of labels: a label by index, None (or -1) for roots, or a list of
        several, by name or index. A sequence of str contains a path such as ``"a/b/c"`` for each label. The parent is
        the label of the path without its last part, if there is one. A dict contains the parents of the labels that
        have any. A table (DataFrame or 2-D array of text) has a column for each level, as hiclass takes it; its labels
        are the paths of all rows, with their ancestors. A ``networkx.DiGraph`` has edges from parents to children, and
        a Series with an index the parent of each label. Both are read as by `from_edges`.

    Attributes
    ----------
    labels : list or None
        The labels in their order: paths, indices, or those of `from_edges`. None if `parents` is a dict.

    Raises
    ------
    ValueError
        If `parents` is not a sequence, or a parent is neither a label nor a list of labels. When the labels are known:
        if the number of entries is not that of the labels, a path is repeated, or a label is among its own ancestors.

    Warns
    -----
    UserWarning
        If there are several labels, and none of them has a parent.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import MultilabelLPSparseMAP
    >>> from sklearn_sparsemap.factors import Hierarchy
    >>> Hierarchy(["music", "music/jazz"]) == Hierarchy([None, 0])
    False
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> Y = np.stack([X[:, 0] > 0, (X > 0).all(axis=1)], axis=1).astype(int)
    >>> model = MultilabelLPSparseMAP(constraints=Hierarchy(["music", "music/jazz"])).fit(X, Y)
    >>> model.predict([[2.0, 2.0], [2.0, -2.0], [-2.0, 2.0]])
    array([[1, 1],
           [1, 0],
           [0, 0]])
    """

    def __init__(self, parents: Any) -> None:
        edges = _edges_of(parents)
        if edges is not None:
            self.__dict__.update(vars(self.from_edges(edges)))
            return
        if hasattr(parents, "to_list"):
            parents = [None if _is_absent(above) else _whole(above) for above in parents.to_list()]
        if is_table(parents):
            parents = _paths_of_levels(parents)
        if isinstance(parents, str) or not hasattr(parents, "__len__"):
            raise ValueError(f"Hierarchy takes the parents of all labels, or paths such as 'a/b'; got {parents!r}")
        # Files hold the parents, made from `_is_dict` and `entries`, and `labels`; see `estimators/_state/plain.py`.
        self._is_dict = isinstance(parents, dict)
        entries = list(parents.items()) if self._is_dict else list(enumerate(parents))
        self.paths = bool(entries) and not self._is_dict and all(isinstance(above, str) for _, above in entries)
        self.entries = tuple(
            (label, above if self.paths else _listed_parents(label, above)) for label, above in entries
        )
        self.labels = None if self._is_dict else [above if self.paths else label for label, above in self.entries]
        if not self._is_dict and not self.paths:
            self._check_indices()
        self._warn_if_flat()

    @classmethod
    def from_edges(cls, edges: Sequence[tuple[Any, Any]]) -> Self:
        """Make a hierarchy from pairs of a label and its parent.

        Parameters
        ----------
        edges : sequence of (child, parent), DataFrame, Series, or networkx.DiGraph
            Names or indices of labels. A label may have several parents. The columns of a table are called parent,
            parent_id, source, from or tail, and child, child_id, id, target, to or head; two columns without names are
            child and parent. The index of a Series contains the children, and the edges of a graph lead from parents
            to children. A parent that is missing (None, NaN or ``""``) makes its child a root. Floats that are whole
            numbers become integers, because missing values turn columns of integers into floats.

        Returns
        -------
        hierarchy : Hierarchy
            Its `labels` are all that occur, parents before their children, otherwise in the order of the edges.

        Raises
        ------
        ValueError
            If an edge is no pair, the edges have a cycle, a table has other columns, or a graph is not directed.

        Warns
        -----
        UserWarning
            If no label has a parent.

        Examples
        --------
        >>> from sklearn_sparsemap.factors import Hierarchy
        >>> hierarchy = Hierarchy.from_edges([("dog", "animal"), ("cat", "animal"), ("poodle", "dog")])
        >>> hierarchy.labels
        ['animal', 'dog', 'cat', 'poodle']
        >>> hierarchy.binarize(["cat", ["poodle"], []])
        array([[1, 0, 1, 0],
               [1, 1, 0, 1],
               [0, 0, 0, 0]])
        """
        above = {}
        for number, edge in enumerate(_rows_of_edges(edges)):
            if isinstance(edge, str) or not hasattr(edge, "__len__") or len(edge) != 2:
                raise ValueError(f"edges[{number}] is {edge!r}; an edge is a pair of a label and its parent")
            child, parent = map(_whole, edge)
            if _is_absent(child):
                raise ValueError(f"edges[{number}] is {edge!r}, without a child; an edge is a label and its parent")
            parents = [] if _is_absent(parent) else [parent]
            for each in parents:
                above.setdefault(each, [])
            above.setdefault(child, []).extend(parents)
        hierarchy = cls({child: list(dict.fromkeys(parents)) for child, parents in above.items() if parents})
        # Raises ValueError if there is a cycle.
        hierarchy.pairs(list(above))
        depths = {}
        for label in TopologicalSorter(above).static_order():
            depths[label] = 1 + max((depths[parent] for parent in above[label]), default=-1)
        hierarchy.labels = sorted(above, key=depths.get)
        return hierarchy

    @property
    def is_named(self) -> bool:
        """Whether the labels have names and an order, as those of `from_edges`."""
        return self._is_dict and self.labels is not None

    def close(self, Y: Any, classes: Sequence[Any] | None = None) -> Any:
        """Add the ancestors of all labels of an indicator matrix.

        Parameters
        ----------
        Y : array-like, sparse matrix or DataFrame of shape (n_samples, n_labels)
            Columns are `labels`, or `classes`, those of a DataFrame in any order. NaN is an unknown label; it is on if
            one of its descendants is.
        classes : sequence of length n_labels, default=None
            The names of the columns. Needed if `labels` is None.

        Returns
        -------
        closed : ndarray, sparse matrix or DataFrame
            In the type of `Y`.

        Raises
        ------
        ValueError
            If `Y` is no matrix of zeros and ones, the number of columns is not that of the labels, or their names are
            not known.
        """
        names = self._names(classes)
        columns = column_names(Y)
        # Raises ValueError if the columns have other names.
        in_order(Y, names)
        names = columns if columns is not None and set(columns) == set(names) else names
        filled, known = read_known(Y)
        values = filled if sparse.issparse(filled) else _as_matrix(filled)
        if known is not None:
            values = np.where(known, values, np.nan)
        if values.ndim != 2 or values.shape[1] != len(names):
            raise ValueError(
                f"Y has shape {values.shape}, but the hierarchy has {len(names)} labels, one for each column"
            )
        entries = np.unique(values.data if sparse.issparse(values) else values)
        if not np.isin(entries[~np.isnan(entries)], (0, 1)).all():
            raise ValueError(f"Y must hold zeros and ones (NaN if unknown); got {entries[:3].tolist()} among others")
        closed = close_upwards(values, self.pairs(names))
        if hasattr(Y, "iloc"):
            return type(Y)(closed, index=Y.index, columns=Y.columns).astype(Y.dtypes)
        if columns is not None:
            # A table of polars. Its nulls were NaN.
            return type(Y)(closed, schema=columns, orient="row", nan_to_null=True).cast(dict(Y.schema))
        return closed

    def binarize(self, samples: Sequence[Any]) -> NDArray[np.int64]:
        """Make an indicator matrix from the labels of samples, with all ancestors.

        Parameters
        ----------
        samples : sequence, or table
            For each sample a label, or a list of labels: by name, by index, or as a path ``"animal/dog"`` from any
            ancestor down. If the labels are paths, the last part alone is a name, unless another path ends in it. A
            table (DataFrame, 2-D array of text, or lists of one length of which some end with ``""``) has a column for
            each level, as hiclass takes it: a row is one path.

        Returns
        -------
        Y : int ndarray of shape (n_samples, n_labels)
            Columns are `labels`.

        Raises
        ------
        ValueError
            If a label is not in the hierarchy (the message names the sample), a path does not go from parents to
            children, or the hierarchy is a dict, whose labels have no order.
        """
        if isinstance(samples, str) or not hasattr(samples, "__len__"):
            raise ValueError(f"samples must be a sequence of labels or lists of labels; got {samples!r}")
        names = self._names(None)
        index = {name: j for j, name in enumerate(names)}
        last_parts = [name.rpartition("/")[2] for name in names] if self.paths else []
        counts = Counter(last_parts)
        for j, part in enumerate(last_parts):
            if part not in index and counts[part] == 1:
                index[part] = j
        for j in range(len(names)):
            index.setdefault(j, j)
        pairs = self.pairs(names)
        known_pairs = set(pairs)
        endings = _Endings(names)
        if is_table(samples) or _are_levels(samples):
            rows = _rows_of_levels(samples)
            samples = [["/".join(levels)] if levels else [] for levels in rows]
        Y = np.zeros((len(samples), len(names)), np.int64)
        for i, given in enumerate(samples):
            for label in [given] if isinstance(given, str) or not hasattr(given, "__iter__") else given:
                Y[i, _index_by_path(label, index, known_pairs, endings, f"samples[{i}]")] = 1
        return close_upwards(Y, pairs)

    def _names(self, classes):
        if classes is None and self.labels is None:
            raise ValueError(f"{self!r} does not know the order of the labels; make it by Hierarchy.from_edges")
        return self.labels if classes is None else list(classes)

    def resolve_all(self, names: Sequence[Any]) -> list[Any]:
        """Return one implication for each pair of a label and a parent; see `LabelConstraint.resolve`."""
        return [(np.array(pair), np.array([-1.0, 1.0]), 1.0, np.inf) for pair in self.pairs(names)]

    def pairs(self, names: Sequence[Any]) -> list[tuple[int, int]]:
        """Return the indices of each label and its parents, for labels with these names.

        If the names are the paths, paths are found by name, in any order. Otherwise they are in the order of the names.
        """
        if not self._is_dict and len(self.entries) != len(names):
            raise ValueError(f"{self!r} has {len(self.entries)} entries for {len(names)} labels; give one for each")
        if self.paths:
            index = {path: i for i, path in self.entries}
            if len(index) < len(names):
                raise ValueError(f"{self!r} has a path twice")
            if index.keys() == set(names):
                index = {path: i for i, path in enumerate(names)}
            moved = [name for i, name in enumerate(names) if isinstance(name, str) and index.get(name, i) != i]
            if moved:
                raise ValueError(
                    f"{self!r} has the path {moved[0]!r}, which the labels have at another place; give the paths in "
                    "the order of the labels, or name all labels by their paths"
                )
            pairs = [(i, index.get(path.rpartition("/")[0])) for path, i in index.items()]
            return [(i, parent) for i, parent in pairs if parent is not None]
        known = {name: i for i, name in enumerate(names)}

        def index_of(label):
            is_quick = isinstance(label, str | numbers.Integral) and label in known
            return known[label] if is_quick else _index_of(label, names, self)

        pairs = []
        for label, above in self.entries:
            child = index_of(label) if self._is_dict else label
            pairs += [(child, index_of(parent)) for parent in above]
        pairs = list(dict.fromkeys(pairs))
        self._check_acyclic(pairs, names)
        return pairs

    def _warn_if_flat(self):
        """Warn if no label has a parent, which is probably a hierarchy in another form than it was read in."""
        if self.paths:
            paths = {path for _, path in self.entries}
            # Repeated paths are an error once the labels are known.
            repeated = len(paths) < len(self.entries)
            is_flat = not repeated and not any(path.rpartition("/")[0] in paths for path in paths)
        else:
            is_flat = not any(above for _, above in self.entries)
        if is_flat and len(self.entries) != 1:
            warnings.warn(
                f"no label of this hierarchy of {len(self.entries)} entries has a parent, so it has no effect; write "
                "paths with '/', such as 'music/jazz' beside 'music', the index of each parent, or pairs (child, "
                "parent) to Hierarchy.from_edges",
                stacklevel=3,
            )

    def _check_indices(self):
        """Refuse cycles if all parents are indices; cycles of names are detected when the labels are known."""
        n = len(self.entries)
        pairs = [(label, parent) for label, above in self.entries for parent in above]
        if all(isinstance(parent, numbers.Integral) and 0 <= parent < n for _, parent in pairs):
            self._check_acyclic(pairs, range(n))

    def _check_acyclic(self, pairs, names):
        above = {}
        for child, parent in pairs:
            above.setdefault(child, []).append(parent)
        try:
            TopologicalSorter(above).prepare()
        except CycleError as error:
            # From child to parent, so that the message reads upwards.
            cycle = error.args[1][::-1]
            shown = [repr(names[label]) for label in cycle[:_MAX_CYCLE]]
            shown += ["..."] if len(cycle) > _MAX_CYCLE else []
            raise ValueError(
                f"{self!r} puts the label {names[cycle[0]]!r} above itself: {' -> '.join(shown)}, from labels to their "
                "parents; remove one of these"
            ) from None

    def __eq__(self, other):
        return type(self) is type(other) and (self.paths, self.entries) == (other.paths, other.entries)

    def __hash__(self):
        return hash((self.paths, self.entries))

    def __repr__(self):
        return f"Hierarchy(<{len(self.entries)} labels>)"


def close_upwards(Y, pairs):
    """Add the ancestors of all labels, given pairs of a label and its parent; return a matrix of the same type."""
    n = Y.shape[1]
    if sparse.issparse(Y):
        children, parents = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        above = sparse.csr_array((np.ones(len(pairs), bool), (children, parents)), shape=(n, n))
        added = closed = sparse.csr_array(Y.astype(bool))
        # From level to level, because all ancestors of all labels may be many more than those of these.
        while (added := added @ above).nnz:
            closed = closed + added
        return type(Y)(closed.astype(Y.dtype))
    # A row for each label. NaN is not positive.
    implied = np.ascontiguousarray((Y > 0).T)
    above = {}
    for child, parent in pairs:
        above.setdefault(child, []).append(parent)
    # Parents come first in the order of the sorter.
    for child in reversed([*TopologicalSorter(above).static_order()]):
        for parent in above.get(child, ()):
            implied[parent] |= implied[child]
    return np.where(implied.T, np.ones(1, Y.dtype), Y)


def _as_matrix(Y):
    """Return an indicator matrix as an array of its own type; raise ValueError if its entries are not numbers."""
    try:
        values = np.asarray(Y)
    except ValueError as error:
        raise ValueError("the rows of Y differ in length; give each a column for each label") from error
    return values if values.dtype.kind in "biuf" else check_numbers(values, "Y")


def is_table(samples):
    """Return whether this is a DataFrame, or a 2-D array of text or objects."""
    if isinstance(samples, np.ndarray):
        return samples.ndim == 2 and samples.dtype.kind in "OU"
    return column_names(samples) is not None


def _are_levels(samples):
    """Return whether lists have one length, and some end with an absent level, which is no label."""
    if not all(isinstance(row, list | tuple) for row in samples):
        return False
    return len({len(row) for row in samples}) == 1 and any(row and _is_absent(row[-1]) for row in samples)


def _whole(label):
    """Return a label as a Python object, with whole floats as ints: missing values make integers of a column floats."""
    label = label.item() if isinstance(label, np.generic) else label
    return int(label) if isinstance(label, float) and label.is_integer() else label


def _rows_of_levels(table):
    """Return the levels of each row of a table as a list of str, without the absent ones at its end."""
    rows = []
    for i, row in enumerate(rows_of(table)):
        absent = [_is_absent(level) for level in row]
        n = absent.index(True) if any(absent) else len(row)
        if not all(absent[n:]):
            raise ValueError(f"row {i} of the table, {row!r}, has a gap; levels may be absent at the end only")
        if any(isinstance(level, str) and "/" in level for level in row[:n]):
            raise ValueError(f"row {i} of the table, {row!r}, has a level with '/', which separates levels; rename it")
        rows.append([str(_whole(level)) for level in row[:n]])
    return rows


def _paths_of_levels(table):
    """Return the distinct paths of a table with a column for each level, parents before their children."""
    prefixes = [levels[:depth] for levels in _rows_of_levels(table) for depth in range(1, len(levels) + 1)]
    if not prefixes:
        raise ValueError("the table of levels has no labels; give a row for each path")
    paths = dict.fromkeys(map("/".join, prefixes))
    return sorted(paths, key=lambda path: path.count("/"))


def _edges_of(parents):
    """Return a directed graph, or a Series of parents with an index, as edges (child, parent); None for other objects.

    A Series of text with an index of integers, such as a part of a column of paths, is a sequence.
    """
    if hasattr(parents, "is_directed"):
        if not parents.is_directed():
            raise ValueError("the graph is not directed; pass a networkx.DiGraph with edges from parents to children")
        roots = [(node, None) for node in parents.nodes]
        # A graph with several edges between two nodes gives triples, unless `edges` is called.
        return [*roots, *((child, parent) for parent, child in parents.edges())]
    names = row_names(parents) if getattr(parents, "ndim", 0) == 1 else None
    if names is None or are_default(names):
        return None
    values = parents.tolist()
    if all(isinstance(name, numbers.Integral) for name in names) and all(isinstance(value, str) for value in values):
        return None
    return list(zip(names, values))


def _rows_of_edges(edges):
    """Return edges as rows (child, parent)."""
    if type(edges).__module__.startswith("networkx.classes.reportviews"):
        raise ValueError(
            "edges are those of a graph, whose pairs usually lead from parents to children; pass the graph itself, or "
            "list(edges) if they are (child, parent)"
        )
    found = _edges_of(edges)
    if found is not None:
        return found
    names = column_names(edges, "edges")
    if names is None:
        return edges
    remedy = "or pass pairs (child, parent), or a table with a column for each level to Hierarchy"
    rows = read_arcs(edges, "edges", remedy)
    return rows if are_default(names) else [row[::-1] for row in rows]


def _is_absent(label):
    return label is None or (isinstance(label, str) and label == "") or is_missing(label)


class _Endings:
    """Counts of the paths that end in other ones, from a tree of all parts, the last part first.

    Parameters
    ----------
    names : list
        Of labels. The tree is made when it is needed, and takes as much time as reading the names.
    """

    def __init__(self, names):
        self._names, self._nodes, self._paths = names, None, []

    def of(self, label):
        """Return the number of names that end in ``/label``, and the first of them or None."""
        if self._nodes is None:
            self._nodes = {}
            for name in self._names:
                node = 0
                for part in reversed(name.split("/") if isinstance(name, str) else []):
                    node = self._nodes.setdefault((node, part), len(self._nodes) + 1)
                    if node > len(self._paths):
                        self._paths.append([0, name])
                    self._paths[node - 1][0] += 1
        node = 0
        for part in reversed(str(label).split("/")):
            node = self._nodes.get((node, part))
            if node is None:
                return 0, None
        return tuple(self._paths[node - 1])


def _index_by_path(label, index, pairs, endings, where):
    """Return the index of a label, by its name or by a path down to it."""
    label = _whole(label)
    if label in index:
        return index[label]
    parts = label.split("/") if isinstance(label, str) else []
    numbers = [index.get(part) for part in parts]
    n_paths, first = endings.of(label)
    if n_paths > 1:
        raise ValueError(f"{where} has {quoted(label)}, which {n_paths} paths end in; write {first!r}")
    if len(parts) < 2 or None in numbers:
        raise ValueError(
            f"{where} has {quoted(label)}, which is no label of the hierarchy; correct it, add it, or join the levels "
            "of a path by '/'"
        )
    for parent, child in pairwise(numbers):
        if (child, parent) not in pairs:
            raise ValueError(f"{where} has the path {quoted(label)}, which does not go from parents to their children")
    return numbers[-1]


def _listed_parents(label, above):
    if above is None or (isinstance(above, numbers.Integral) and above == -1):
        return ()
    if isinstance(above, str | numbers.Integral):
        above = (above,)
    listed = above if hasattr(above, "__iter__") else (above,)
    listed = tuple(parent.item() if isinstance(parent, np.generic) else parent for parent in listed)
    for parent in listed:
        # A tuple is the name of a column with several levels.
        if not isinstance(parent, str | numbers.Integral | tuple) or isinstance(parent, bool):
            raise ValueError(
                f"Hierarchy: the parent of label {quoted(label)} is {quoted(parent)}; write a label by its index or "
                "name, a list of labels, or None (or -1) at the top"
            )
    return listed


def parents_of(hierarchy):
    """Return the argument `parents` of which a `Hierarchy` was made."""
    entries = dict(hierarchy.entries)
    return entries if hierarchy._is_dict else list(entries.values())
