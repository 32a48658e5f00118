"""Shards: the training data of each worker, one or more parts of the data.

Used by `_rounds.py` and `_sources.py`.
"""

from collections.abc import Sized

from .._core.errors import SampleError
from ..estimators._partitions import Partitions, read_partition


class Shard(Partitions):
    """The data of a worker: one or more parts, which it visits one after the other.

    The worker lays out the samples in the first round, and stores the result for the following rounds, but not in
    pickles. Parts that are functions or files are read in each round, and not stored.

    Parameters
    ----------
    number : int
        Index of the shard, which is part of the seed of the order of its samples.
    names : list of str
        Names of the parts in messages. Empty for data in memory.
    parts : partitions
        See `fit_partitions`.
    """

    def __init__(self, number, names, *parts):
        super().__init__(parts)
        self.number, self.names = number, names
        self._training_data, self._phase = {}, None

    def __getstate__(self):
        return self.__dict__ | {"_training_data": {}, "_phase": None}

    def name_of(self, number):
        return self.names[number]

    def samples(self, phase, estimator):
        """Yield the task and the features of each part, for the optimiser of an estimator in a phase."""
        if self._phase != phase.number:
            self._training_data, self._phase = {}, phase.number
        for k, source in enumerate(self.source):
            training_data = self._training_data.get(k)
            if training_data is None:
                try:
                    training_data = phase.training_data(estimator, *read_partition(source, k))
                except ValueError as error:
                    if not self.names:
                        raise
                    if isinstance(error, SampleError):
                        raise error.within(self.names[k]) from error.__cause__
                    raise ValueError(f"{self.names[k]}: {error}") from error
                if isinstance(source, tuple):
                    self._training_data[k] = training_data
            yield training_data
            # Free memory before the next part is read.
            del training_data


def join_parts(X, y):
    """Return a partition (X, y) whose parts were computed separately; partitions of bags are iterables."""
    return tuple(part if isinstance(part, Sized) else list(part) for part in (X, y))


def unzip_part(samples):
    """Convert a partition of pairs (x, y) to a pair (X, y)."""
    X, y = zip(*samples)
    return list(X), list(y)
