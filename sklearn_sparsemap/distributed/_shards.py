"""Shards: the training data of each worker, one or more parts of the data."""

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
        self._laid_out, self._phase = {}, None

    def __getstate__(self):
        return self.__dict__ | {"_laid_out": {}, "_phase": None}

    def samples(self, phase, estimator):
        """Yield the task and the features of each part, for the optimiser of an estimator in a phase."""
        if self._phase != phase.number:
            self._laid_out, self._phase = {}, phase.number
        for place, source in enumerate(self.source):
            laid_out = self._laid_out.get(place)
            if laid_out is None:
                try:
                    laid_out = phase.lay_out(estimator, *read_partition(source, place))
                except ValueError as error:
                    if not self.names:
                        raise
                    raise ValueError(f"{self.names[place]}: {error}") from error
                if isinstance(source, tuple):
                    self._laid_out[place] = laid_out
            yield laid_out
            # Free memory before the next part is read.
            del laid_out


def join_parts(X, y):
    """Return a partition (X, y) whose parts were computed separately; partitions of bags are iterables."""
    return tuple(part if hasattr(part, "__len__") else list(part) for part in (X, y))


def unzip_part(samples):
    """Convert a partition of pairs (x, y) to a pair (X, y)."""
    X, y = zip(*samples)
    return list(X), list(y)
