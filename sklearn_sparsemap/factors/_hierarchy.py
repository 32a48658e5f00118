"""Hierarchies of labels: each implies its parents."""

from __future__ import annotations

import numbers
from graphlib import CycleError, TopologicalSorter

import numpy as np

from .._core.annotations import Any, Sequence
from .._core.validation import quoted
from ._label_constraints import LabelConstraint, _index_of

_LONGEST_CYCLE = 12  # labels of a cycle that a message shows


class Hierarchy(LabelConstraint):
    """A label implies its parents: if it is on, they are on.

    If no label has more than one parent, inference is isotonic regression on trees: exact in one pass, for thousands of
    labels. Otherwise it is that of a factor graph.

    Parameters
    ----------
    parents : sequence, or dict
        The parent of each label, in the order of labels: a label by index, None (or -1) for roots, or a list of
        several, by name or index. A sequence of str contains a path such as ``"a/b/c"`` for each label: the path above
        is the parent, if it is a label. A dict contains the parents of the labels that have any.

    Raises
    ------
    ValueError
        If `parents` is not a sequence, or a parent is neither a label nor a list of labels. When the labels are known:
        if the number of entries is not that of the labels, a path is repeated, or a label is among its own ancestors.

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
        if isinstance(parents, str) or not hasattr(parents, "__len__"):
            raise ValueError(f"Hierarchy takes the parents of all labels, or paths such as 'a/b'; got {parents!r}")
        self._is_dict = isinstance(parents, dict)
        entries = list(parents.items()) if self._is_dict else list(enumerate(parents))
        self.paths = bool(entries) and not self._is_dict and all(isinstance(above, str) for _, above in entries)
        self.entries = tuple(
            (label, above if self.paths else _listed_parents(label, above)) for label, above in entries
        )
        if not self._is_dict and not self.paths:
            self._check_indices()

    def resolve_all(self, names: Sequence[Any]) -> list[Any]:
        """Return one implication for each pair of a label and a parent; see `LabelConstraint.resolve`."""
        return [(np.array(pair), np.array([-1.0, 1.0]), 1.0, np.inf) for pair in self.pairs(names)]

    def pairs(self, names: Sequence[Any]) -> list[tuple[int, int]]:
        """Return the indices of each label and its parents, for labels with these names."""
        if not self._is_dict and len(self.entries) != len(names):
            raise ValueError(f"{self!r} has {len(self.entries)} entries for {len(names)} labels; give one for each")
        if self.paths:
            index = {path: i for i, path in self.entries}
            if len(index) < len(names):
                raise ValueError(f"{self!r} has a path twice")
            found = [(i, index.get(path.rpartition("/")[0])) for path, i in index.items()]
            return [(i, parent) for i, parent in found if parent is not None]
        known = {name: i for i, name in enumerate(names)}

        def index_of(label):
            is_quick = isinstance(label, str | numbers.Integral) and label in known
            return known[label] if is_quick else _index_of(label, names, self)

        found = []
        for label, above in self.entries:
            child = index_of(label) if self._is_dict else label
            found += [(child, index_of(parent)) for parent in above]
        found = list(dict.fromkeys(found))
        self._check_acyclic(found, names)
        return found

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
            shown = [repr(names[label]) for label in cycle[:_LONGEST_CYCLE]]
            shown += ["..."] if len(cycle) > _LONGEST_CYCLE else []
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


def _listed_parents(label, above):
    if above is None or (isinstance(above, numbers.Integral) and above == -1):
        return ()
    if isinstance(above, str | numbers.Integral):
        above = (above,)
    listed = above if hasattr(above, "__iter__") else (above,)
    listed = tuple(parent.item() if isinstance(parent, np.generic) else parent for parent in listed)
    for parent in listed:
        if not isinstance(parent, str | numbers.Integral) or isinstance(parent, bool):
            raise ValueError(
                f"Hierarchy: the parent of label {quoted(label)} is {quoted(parent)}; write a label by its index or "
                "name, a list of labels, or None (or -1) at the top"
            )
    return listed
