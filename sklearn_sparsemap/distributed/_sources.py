"""The division of the data of `ParameterMixing.fit` into shards: tasks of dask, functions, files, or data in memory.

Used by `_mixing.py`.
"""

from collections.abc import Sized

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from .._core.ragged import RaggedArray
from .._core.validation import check_matrix, check_same_length, quoted
from ._engines import is_lazy
from ._shards import Shard, join_parts, unzip_part

# Default number of shards of data in memory. It does not depend on the number of workers, so neither does the result.
_N_SHARDS = 4


class Source:
    """The data of a training, which are divided into shards.

    Parameters
    ----------
    X, y
        As in `ParameterMixing.fit`.

    Attributes
    ----------
    parts : list of tuples
        For each partition, a function that makes it and the arguments of the function, or None and the partition. Empty
        for data in memory.
    """

    def __init__(self, X, y):
        self.X, self.y, self.parts = X, y, []
        if y is None and hasattr(X, "to_delayed"):
            self.parts = [(unzip_part, part) for part in _delayed(X)]
        elif y is None:
            if isinstance(X, str | bytes | dict) or not isinstance(X, Sized) or hasattr(X, "shape"):
                raise ValueError(
                    f"without y, X must be a list of partitions, or a bag of pairs (x, y); got {quoted(X)}"
                )
            if not len(X):
                raise ValueError("there are no partitions; give at least one")
            self.parts = [(None, part) for part in X]
        elif hasattr(X, "to_delayed") or hasattr(y, "to_delayed") or _are_lazy(X):
            pair = [_delayed(part) if hasattr(part, "to_delayed") else list(part) for part in (X, y)]
            if len(pair[0]) != len(pair[1]):
                raise ValueError(f"X has {len(pair[0])} partitions, but y has {len(pair[1])}; partition both alike")
            self.parts = [(join_parts, *parts) for parts in zip(*pair)]
        else:
            check_matrix(X)
            check_matrix(y, "y")
            check_same_length(X, range(y.shape[0]) if hasattr(y, "columns") else y)

    @property
    def lazy(self):
        """The futures and lazy objects of dask."""
        return [thing for _, *things in self.parts for thing in things if is_lazy(thing)]

    def count_shards(self, n_shards, held):
        """Return the number of shards if a fraction of the data is held out."""
        if n_shards is not None:
            return n_shards
        n = len(self.parts)
        return max(1, n - int(np.ceil(held * n))) if n else min(_N_SHARDS, _num_samples(self.X))

    def shards(self, engine, n_shards, held, rng):
        """Make shards on an engine.

        Parameters
        ----------
        engine : ThreadEngine or DaskEngine
        n_shards : int
        held : float
            The fraction of the data to hold out.
        rng : RandomState

        Returns
        -------
        shards : list
            Futures of the shards for training.
        held_out : list
            Futures of the shards for validation.
        """
        if not self.parts:
            n = _num_samples(self.X)
            order = rng.permutation(n)
            n_held = int(np.ceil(held * n))
            _check_enough(n - n_held, n_shards, "samples")

            def make_shard(k, rows):
                rows = np.sort(rows)
                return engine.submit(Shard, k, [], (_samples(self.X, rows), _samples(self.y, rows)))

            learned = [make_shard(k, order[n_held + k :: n_shards]) for k in range(n_shards)]
            return learned, [make_shard(0, order[:n_held])] if n_held else []
        parts = self._held_parts(engine)
        n = len(parts)
        n_held = int(np.ceil(held * n))
        _check_enough(n - n_held, n_shards, "partitions")
        order = rng.permutation(n) if n_held else np.arange(n)
        held_places = np.sort(order[:n_held])
        places = np.sort(order[n_held:])

        def make_shard(k, indices):
            return engine.submit(Shard, k, [f"partitions[{i}]" for i in indices], *(parts[i] for i in indices))

        learned = [make_shard(k, places[k::n_shards].tolist()) for k in range(n_shards)]
        return learned, [make_shard(k, [i]) for k, i in enumerate(held_places.tolist())]

    def _held_parts(self, engine):
        """Return the partitions; those that must be computed first are futures."""
        things = iter(engine.hold([thing for _, *things in self.parts for thing in things]))
        found = []
        for function, *own in self.parts:
            own = [next(things) for _ in own]
            found.append(own[0] if function is None else engine.submit(function, *own))
        return found


def _delayed(collection):
    """Return the partitions of a bag, an array in blocks of rows, or a data frame of dask as delayed objects."""
    parts = np.asarray(collection.to_delayed(), dtype=object)
    if parts.ndim == 2 and parts.shape[1] > 1:
        raise ValueError(f"X has {parts.shape[1]} blocks of columns; rechunk it to one: X.rechunk({{1: -1}})")
    return parts.ravel().tolist()


def _are_lazy(X):
    return isinstance(X, list | tuple) and len(X) > 0 and all(map(is_lazy, X))


def _samples(values, rows):
    """Return some of the samples of an array, a list or a RaggedArray."""
    return values[rows] if isinstance(values, RaggedArray) else _safe_indexing(values, rows)


def _check_enough(n, n_shards, what):
    if n < n_shards:
        raise ValueError(f"{n} {what} are left for training, too few for n_shards={n_shards}; lower n_shards")
