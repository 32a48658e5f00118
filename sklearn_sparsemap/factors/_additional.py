"""The additional scores of a graph's factors: the map from the scores of users to those of kernels.

Used by `_layout.py`.
"""

from math import prod

import numpy as np

from .._graphs.arrays import PAIR, SCORED, TABLE


class AdditionalScores:
    """Two orders of additional scores: the joined scores of users, and the scores of kernels, factor by factor.

    Factors with the same name have the same scores of users, and so have the tied pairs of one factor.

    Parameters
    ----------
    given, featured
        See `Layout`.

    Attributes
    ----------
    shapes, mixes
        See `Layout`.
    n_joined, n_seen : int
        Number of scores in the two orders.
    """

    def __init__(self, given, featured):
        self._given, self._featured_names = given, featured
        self.shapes, self.mixes, self.n_joined, self.n_seen = {}, [], 0, 0
        # The first joined score of each name; the joined score of each one that kernels see, in parts.
        self._firsts, self._sources = {}, []
        # The indices and the first weight of scores that come from features, by the names of factor and score.
        self._of_features = {}

    def add(self, factor):
        """Add the scores of a factor; return the shapes of those that kernels see, by name.

        The shapes are those of one of the pairs or structures that the factor stands for.
        """
        if factor.type not in SCORED:
            return {}
        shapes = self._given.get(factor.name, {}) if factor.name else {}
        shapes = shapes if isinstance(shapes, dict) else {None: shapes}
        size = sum(map(prod, shapes.values()))
        first = self.n_joined
        if size:
            first = self._firsts.setdefault(factor.name, first)
        if first == self.n_joined:
            self.shapes |= {(factor.name, name): shape for name, shape in shapes.items()}
            self.n_joined += size
        if factor.type == PAIR:
            seen = {None: ()}
        else:
            seen = factor.kernel_shapes(shapes, self._featured_names.get(factor.name, ()))
            self._note_features(factor, shapes, seen, first)
        n_seen = factor.count * sum(map(prod, seen.values()))
        self._sources.append(first + np.arange(n_seen) % max(size, 1))
        self.n_seen += n_seen
        return seen

    def _note_features(self, factor, given, seen, first):
        """Note the indices of scores that are products of features and the given weights."""
        start = self.n_seen
        if factor.type == TABLE:
            if factor.features is not None:
                stop = start + factor.count * factor.n_states**2
                self.mixes.append((slice(start, stop), first, factor.features))
            return
        for name, shape in seen.items():
            if name in self._featured_names.get(factor.name, ()):
                parts, _ = self._of_features.setdefault((factor.name, name), ([], first))
                parts.append(start + np.arange(prod(shape)))
            first = first + prod(given[name])
            start = start + prod(shape)

    def of_features(self):
        """Return (indices, first weight) of the scores that come from features, by the names of factor and score."""
        return {key: (_as_slice(np.concatenate(parts)), first) for key, (parts, first) in self._of_features.items()}

    def expand(self):
        """Return the joined score of each one that kernels see; None if the two orders are the same."""
        sources = np.concatenate(self._sources) if self._sources else np.zeros(0, np.int64)
        is_plain = not (self.mixes or self._of_features)
        return None if is_plain and np.array_equal(sources, np.arange(self.n_joined)) else sources


def _as_slice(indices):
    """Return indices that are adjacent as a slice, which copies nothing."""
    first = indices[0] if len(indices) else 0
    is_range = np.array_equal(indices, np.arange(len(indices)) + first)
    return slice(first, first + len(indices)) if is_range else indices
