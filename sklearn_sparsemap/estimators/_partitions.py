"""fit_partitions: training on data of which one partition at a time is in memory.

Used by `distributed`, `estimators/_multilabel`, `estimators/_structured` and `_rounds.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set, Sized
from contextlib import contextmanager
from copy import copy
from functools import partial
from itertools import chain, count
from os import PathLike

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

from .._core.annotations import Any, Self
from .._core.errors import SampleError
from .._core.moments import view_of
from .._core.partition_files import load_partition
from .._core.ragged import RaggedArray
from .._core.validation import plain_list, quoted
from .._training._task import agreement_score
from ._failures import restore_on_error
from ._learners.epochs import OnlineLearner
from ._learners.held_out import held_out_fraction
from ._monitor import Monitor, Progress, report, with_callbacks
from ._state.fitted import FittedState


class Partitions:
    """Partitions of data, read on demand.

    Parameters
    ----------
    source : sequence, iterable or callable
        As in `fit_partitions`.
    shuffle : bool
        Whether partitions of a sequence, and the samples of each, are visited in random order.
    name : str, default="partitions[{}]"
        The name of a partition in messages, with its number.

    Attributes
    ----------
    latest : int
        The number of the partition that was read last.
    """

    def __init__(self, source, shuffle=True, name="partitions[{}]"):
        if isinstance(source, Iterator):
            raise ValueError(
                "partitions is an iterator, which can be used only once; pass a list, or the function that returns the "
                "iterator"
            )
        if isinstance(source, str | bytes | dict) or not (callable(source) or isinstance(source, Iterable)):
            raise ValueError(f"partitions must be a list of them, or a function that yields them; got {quoted(source)}")
        self.source, self.shuffle, self.name = source, shuffle, name
        self.indices = np.arange(len(source)) if isinstance(source, Sequence) else None
        if self.indices is not None and not len(source):
            raise ValueError("partitions is empty; give at least one")

    def take(self, indices):
        """Return a selection of the partitions of a sequence."""
        found = copy(self)
        found.indices = indices
        return found

    def parts(self, rng=None):
        """Yield the partitions; in a random order if they are a sequence and `rng` is given."""
        if self.indices is None:
            source = self.source() if callable(self.source) else self.source
            for number, partition in enumerate(source):
                self.latest = number
                yield read_partition(partition, number)
            return
        order = self.indices if rng is None or not self.shuffle else rng.permutation(self.indices)
        for number in order.tolist():
            self.latest = number
            yield read_partition(self.source[number], number)

    def read_first(self):
        """Read the first partition."""
        for part in self.parts():
            return part
        raise ValueError("partitions yields none; give at least one")

    @contextmanager
    def naming(self):
        """Let errors of samples name the partition that was read last."""
        try:
            yield
        except SampleError as error:
            error.within(self.name_of(self.latest))
            raise

    def name_of(self, number):
        """Return the name of a partition in messages."""
        return self.name.format(number)

    def run_epoch(self, estimator, optimizer, rng):
        """Let an optimiser visit all samples once; return their mean loss.

        Parameters
        ----------
        estimator : estimator
            Lays out the samples.
        optimizer : optimizer
        rng : RandomState
        """
        total = weight = 0.0
        estimator._reset_pass()
        for X, y in self.parts(rng):
            with self.naming():
                task, X = estimator._prepare_stream(X, y)
            if task is not None:
                task, X = estimator._data_of(optimizer, task, X)
                order = rng.permutation(len(X)) if self.shuffle else np.arange(len(X))
                total += task.epochs(optimizer, X, remember=False)(order)
                weight += task.weights.sum()
            # Free memory before the next partition is read.
            del task, X, y
        return total / max(weight, np.finfo(float).tiny)


def read_partition(partition, number):
    """Return (X, y) of a partition: a pair, a function that returns one, or the path of a file that holds one."""
    name = f"partitions[{number}]"
    if isinstance(partition, str | PathLike):
        return load_partition(partition)
    if callable(partition):
        partition = partition()
        name = f"{name}()"
    if not isinstance(partition, tuple | list) or len(partition) != 2:
        raise ValueError(f"{name} is {quoted(partition)}; it must be a pair (X, y), or a function or file that has one")
    return tuple(partition)


def survey(source, estimator):
    """Return all labels as `_labels_in` does, and the number of samples."""
    labels = None
    n_samples = 0
    numbers = count(1)
    # `enumerate` would keep a partition while the next one is read.
    for X, y in source.parts():
        report(estimator, "labels of partition", next(numbers), None if source.indices is None else len(source.indices))
        found = estimator._labels_in(y)
        labels = found if labels is None else labels | found
        n_samples += _num_samples(X)
        del X, y
    return labels, n_samples


def as_classes(labels):
    """Return the result of `_labels_in` as the argument `classes` of a stream."""
    return list(labels) if isinstance(labels, dict) else labels


def flat_labels(y):
    """Return labels of samples, or of their steps, as a flat list of Python objects."""
    if isinstance(y, RaggedArray):
        return y.values.tolist()
    y = plain_list(y)
    if y and isinstance(y[0], Sized) and not isinstance(y[0], str | bytes | Set):
        return list(chain.from_iterable(map(plain_list, y)))
    return y


class PartitionsMixin:
    """Gives an estimator `fit_partitions`; rounds of `distributed` call its private methods, too.

    A subclass has `_prepare_stream`, `_check_params`, `_labels_in`, `_agreement_with` and `_iteration_limit`, and may
    replace these attributes. `GroupLassoPerceptron` replaces `_learn_partitions`, and calls `_take_first`.
    """

    # The class of the monitor that watches training, `Monitor` or a subclass.
    monitor_class: type[Monitor] = Monitor
    # An attribute that exists once the estimator has been fitted.
    _fitted_mark = "_structure"
    # Whether step sizes depend on the number of samples in all partitions.
    _counts_samples = False

    @with_callbacks
    @restore_on_error
    def fit_partitions(
        self,
        partitions: Sequence[Any] | Iterable[Any] | Callable[[], Iterable[Any]],
        *,
        classes: Sequence[Any] | None = None,
        validation: Any = None,
    ) -> Self:
        """Learn from data larger than memory: like online `fit`, with one partition in memory at a time.

        Parameters
        ----------
        partitions : sequence, iterable, or function without arguments
            The data. A partition is a pair (X, y), a function without arguments that returns one, or the path of a file
            written by `sklearn_sparsemap.datasets.save_partition`. A sequence is visited in a new random order in each
            epoch. Any other iterable, or the result of the function, is iterated once in each epoch, in its order.
            Samples are shuffled within a partition.
        classes : sequence, default=None
            All labels that occur, if structures are made of labels. By default, all partitions are read once to collect
            them.
        validation : partition, default=None
            Held-out data for early stopping, and for selecting the best model. By default, if the parameter
            `early_stopping` is set, its fraction of the partitions of a sequence is held out.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As in `fit`; also if there are no partitions, or they are an iterator, which could be used only once.

        Notes
        -----
        The solver is that of `partial_fit`, with at most `max_iter` epochs. Sample weights are absolute, as there.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
        >>> def partition(seed):
        ...     X = np.random.default_rng(seed).normal(size=(50, 2))
        ...     return X, np.where(X[:, 0] > 0, "right", "left")
        >>> model = StructuredSparseMAPClassifier(random_state=0)
        >>> model.fit_partitions([lambda seed=seed: partition(seed) for seed in range(4)]).predict([[1.0, 0.0]])
        array(['right'], dtype='<U5')
        """
        self._check_params()
        rng = check_random_state(self.random_state)
        source = Partitions(partitions, self.shuffle)
        source, held = self._validation_of(source, validation, rng)
        if not getattr(self, "warm_start", False):
            self.__dict__.pop(self._fitted_mark, None)
        elif self._learned.optimizer is not None:
            # Other threads may read the former model during the whole training.
            self._learned = self._learned.apart()
        n_samples = None
        if self._counts_samples or (classes is None and self._labels_in(source.read_first()[1]) is not None):
            labels, n_samples = survey(source, self)
            classes = as_classes(labels) if classes is None else classes
        return self._learn_partitions(source, classes, n_samples, held, rng)

    def _validation_of(self, source, validation, rng):
        """Return the training partitions, and the held-out ones or None."""
        if validation is None and not getattr(self, "early_stopping", False):
            return source, None
        if not hasattr(self, "n_iter_no_change"):
            raise ValueError(f"{type(self).__name__} learns for a fixed number of epochs; leave validation at None")
        if validation is not None:
            return source, Partitions([validation], name="validation")
        n = 0 if source.indices is None else len(source.indices)
        if n < 2:
            raise ValueError("early_stopping holds out partitions of a sequence of two or more; pass validation")
        n_held = min(n - 1, int(np.ceil(held_out_fraction(self) * n)))
        indices = rng.permutation(n)
        return source.take(np.sort(indices[n_held:])), source.take(np.sort(indices[:n_held]))

    def _learn_partitions(self, source, classes, n_samples, held, rng):
        """Run the epochs; see `fit_partitions`."""
        self._take_first(source, classes)
        self._configure_epoch(n_samples)
        optimizer = self._learned.optimizer
        validate = None if held is None else partial(self._held_out_score, held)
        max_iter = self._iteration_limit()
        monitor = self.monitor_class(self, Progress(self, source.source, None, max_iter), validate, watch_loss=True)
        monitor.run(OnlineLearner(optimizer, partial(source.run_epoch, self, optimizer, rng), max_iter))
        monitor.store()
        self._end_partitions(source if held is None else held)
        monitor.end()
        return self

    def _take_first(self, source, classes):
        """Lay out partitions until one has a usable sample, so that there is an optimiser."""
        for X, y in source.parts():
            with source.naming():
                self._prepare_stream(X, y, classes)
            del X, y
            if self._learned.optimizer is not None:
                return
        raise ValueError("no partition has a sample to learn from; mend their labels or structures")

    def _held_out_score(self, held, model):
        """Return the score of a model on the samples of some partitions together."""
        return agreement_score(*self._agreement_on(held, model))

    def _agreement_on(self, source, model):
        """Return the agreement of a model's predictions with partitions; see `Task.agreement`."""
        shadow = view_of(self)
        total = np.zeros(2)
        shadow._learned = FittedState(model)
        for X, y in source.parts():
            with source.naming():
                total += shadow._agreement_with(X, y)
            del X, y
        return total

    def _data_of(self, optimizer, task, X):
        """Return task and features in the form in which an optimiser learns from them."""
        return task, X

    def _reset_pass(self):
        """Reset the counts of an epoch."""

    def _configure_epoch(self, n_samples, number=0):
        """Configure the optimiser for an epoch over `n_samples` samples; `number` counts the epochs from 0."""

    def _end_partitions(self, held):
        """Set attributes that depend on the final model."""
