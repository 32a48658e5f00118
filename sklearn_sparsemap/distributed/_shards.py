"""Shards: the training data of each worker, one or more parts of the data."""

from ..estimators._partitions import Partitions, read_partition


class Shard(Partitions):
    """Parts of the data that are learned from one after the other.

    On the worker that holds it a shard keeps its samples laid out, so that this is done once and not in each round;
    elsewhere, and after it was pickled, they are laid out again. Parts that are functions or files are read when they
    are visited, and not kept.

    Parameters
    ----------
    number : int
        Tells orders of samples apart.
    names : list of str
        Names of the parts in messages; empty if samples have their own numbers.
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
        """Yield the samples of each part as a phase lays them out for the optimiser of an estimator."""
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
            # Before the next one is read.
            del laid_out


def join_parts(X, y):
    """Return the pair (X, y) of separately computed parts; bags are iterables."""
    return tuple(part if hasattr(part, "__len__") else list(part) for part in (X, y))


def unzip_part(samples):
    """Return the pair (X, y) of samples (x, y)."""
    X, y = zip(*samples)
    return list(X), list(y)
