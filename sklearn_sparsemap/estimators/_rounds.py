"""The parts of a training in rounds: learn from a shard, add up the results, and end the round.

`distributed` lets workers do them.

If training has two phases (selecting groups, and learning their weights again), each phase is a series of rounds. Tasks
exchange training states and a blank estimator, which has the classes and the structure, but no weights. On threads, all
tasks get the same objects, so a task must not write to its arguments.

Used by `distributed`.
"""

from collections import namedtuple
from contextlib import nullcontext
from functools import partial
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone

from .._core.moments import view_of
from ._failures import check_finite_loss
from ._partitions import as_classes
from ._state.fitted import FittedState
from ._state.mixture import add_partial, finish_mixture, partial_mixture
from ._state.optimizers import optimizer_of, read_optimizer
from ._state.state import TrainingState

# A part of a round: the seed of the training, the index of the round, the index of the piece of each shard, the number
# of pieces, and the weight of the mixture in averaged weights, see `fraction` of `average_states`.
Turn = namedtuple("Turn", ["seed", "round", "piece", "n_pieces", "fraction"])
# The result of a part of a round on one or more shards: a partial mixture, the sums of losses and of sample weights,
# the number of samples, and the number of violated constraints.
Outcome = namedtuple("Outcome", ["partial", "loss", "weight", "n_samples", "n_violations"])


class LearnsInRounds(Protocol):
    """The members of an estimator that rounds use.

    `StructuredSparseMAPClassifier`, `MultilabelLPSparseMAP` and `GroupLassoPerceptron` have them. The last one also has
    two phases, by `_new_optimizer`, `_has_penalty`, `_debiasing_optimizer`, `_end_round` and `_learned_columns`.

    Attributes
    ----------
    random_state
        The seed, as in scikit-learn.
    _learned : FittedState
        The optimiser that learns, or the model of a finished training.
    _step_size : str
        The parameter that is too large if the loss diverges, for messages.
    """

    random_state: Any
    _learned: FittedState
    _step_size: str

    def _check_params(self) -> Any:
        """Check the parameters."""

    def _labels_in(self, y: Any) -> Any:
        """Return the labels that occur; None if structures have none."""

    def _prepare_stream(self, X: Any, y: Any, classes: Any = None) -> tuple[Any, Any]:
        """Lay out samples, and make sure that there is an optimiser; return the task, or None, and X."""

    def _data_of(self, optimizer: Any, task: Any, X: Any) -> tuple[Any, Any]:
        """Return the task and the features that an optimiser learns from."""

    def _configure_epoch(self, n_samples: int, number: int) -> None:
        """Apply the parameters to the optimiser before the visits of a round."""

    def _reset_pass(self) -> None:
        """Forget what is counted in a pass over the samples, such as violated constraints."""

    def _agreement_on(self, source: Any, model: Any) -> Any:
        """Return the agreement of a model's predictions with samples; see `Task.agreement`."""

    def _end_partitions(self, held: Any) -> None:
        """Tune on held-out samples what is tuned at the end of a training."""

    def _take_rounds(self, optimizers: list[Any], monitor: Any) -> None:
        """Become the fitted estimator, given the optimisers of the phases."""


class Phase:
    """A series of rounds with one kind of optimiser.

    Parameters
    ----------
    number : int
        Index of the phase.
    n_samples : int
        Number of samples in all shards together.
    shuffle : bool
        Whether workers visit their samples in random order.
    columns : int array, default=None
        The features whose weights are learned again after the selection of groups. None for the first phase.
    """

    def __init__(self, number, n_samples, shuffle, columns=None):
        self.number, self.n_samples, self.shuffle, self.columns = number, n_samples, shuffle, columns

    def restore(self, blank, state, rng=None):
        """Return an estimator with an optimiser that continues from a state."""
        estimator = view_of(blank)
        make = getattr(blank, "_new_optimizer", None)
        make_groups = None if make is None else partial(make, columns=self.columns)
        estimator._learned = FittedState(optimizer=optimizer_of(state, make_groups, rng))
        return estimator

    def training_data(self, estimator, X, y):
        """Return the task and X of samples; the task is None if there is nothing to learn from."""
        estimator._learned_columns = self.columns
        task, X = estimator._prepare_stream(X, y)
        return (task, X) if task is None else estimator._data_of(estimator._learned.optimizer, task, X)


def state_of(optimizer):
    """Return the training state of an optimiser, without attributes of an estimator."""
    return TrainingState(**read_optimizer(optimizer))


def new_estimator(given: LearnsInRounds, rng):
    """Return an unfitted copy of an estimator, with checked parameters and a seed."""
    estimator = clone(given)
    if estimator.random_state is None:
        estimator.random_state = rng.randint(2**31 - 1)
    estimator._check_params()
    return estimator


def classes_in(estimator: LearnsInRounds, y):
    """Return the argument `classes` for the labels that occur."""
    return as_classes(estimator._labels_in(y))


def selects_first(estimator):
    """Tell whether a training selects groups, and then learns the weights of the selected ones again."""
    return getattr(estimator, "debias", None) is not None and estimator._has_penalty


def state_after_selection(phase, blank, state):
    """Return the state from which the weights of the selected groups are learned again, and their columns."""
    estimator = phase.restore(blank, state)
    optimizer = estimator._debiasing_optimizer(estimator._learned.optimizer, phase.n_samples)
    return state_of(optimizer), optimizer.columns


def fitted_by(reached, blank, monitor):
    """Return the estimator after a training; `reached` are the phases with their final states."""
    awake = [phase.restore(blank, state) for phase, state in reached]
    awake[-1]._take_rounds([each._learned.optimizer for each in awake], monitor)
    return awake[-1]


def begin(estimator: LearnsInRounds, shard, classes):
    """Return a blank estimator, checked with the first samples of a shard, and the initial training state."""
    estimator = view_of(estimator)
    for X, y in shard.parts():
        with shard.naming() if shard.names else nullcontext():
            estimator._prepare_stream(X, y, classes)
        if estimator._learned.optimizer is not None:
            break
    else:
        raise ValueError("the first shard has no sample to learn from; correct its labels, or leave it out")
    state = state_of(estimator._learned.optimizer)
    estimator._learned = FittedState()
    return estimator, state


def learn(phase, blank, state, shard, turn):
    """Learn from a piece of a shard, starting from the common state; return the `Outcome`."""
    # All pieces of a round have the same order of samples.
    key = [turn.seed, phase.number, turn.round, shard.number]
    rng = np.random.RandomState(key)
    dropout = np.random.RandomState([*key, turn.piece])
    estimator = phase.restore(blank, state.without_history(), dropout)
    optimizer, n_samples, loss, weight = estimator._learned.optimizer, 0, 0.0, 0.0
    estimator._reset_pass()
    for task, X in shard.samples(phase, estimator):
        if task is None:
            continue
        order = rng.permutation(len(X)) if phase.shuffle else np.arange(len(X))
        first, stop = (len(X) * place // turn.n_pieces for place in (turn.piece, turn.piece + 1))
        if first < stop:
            estimator._configure_epoch(phase.n_samples, turn.round)
            loss += task.epochs(optimizer, X, remember=False)(order[first:stop])
            weight += task.weights[order[first:stop]].sum()
            n_samples += stop - first
    check_finite_loss(loss, estimator._step_size)
    mixture = partial_mixture(state_of(optimizer), float(n_samples))
    return Outcome(mixture, loss, weight, n_samples, getattr(estimator, "n_violations_", 0))


def add_outcomes(first, *others):
    """Add outcomes in their order."""
    for other in others:
        first = Outcome(add_partial(first.partial, other.partial), *map(sum, zip(first[1:], other[1:])))
    return first


def end_turn(phase, blank, outcome, start, turn):
    """Return the state of the mixture of all shards, shrunk if groups are selected."""
    if outcome.n_samples == 0:
        return start
    mixture = finish_mixture(outcome.partial, start, turn.fraction)
    if mixture.groups is None or phase.columns is not None:
        return mixture
    estimator = phase.restore(blank, mixture)
    estimator._end_round(phase.n_samples, turn.round)
    return state_of(estimator._learned.optimizer)


def sums_of(outcome):
    """Return an outcome without the mixture, which is large."""
    return outcome._replace(partial=None)


def score_of(phase, state, blank, shard):
    """Return the agreement of predictions with a shard; see `Task.agreement`."""
    estimator = phase.restore(blank, state)
    return estimator._agreement_on(shard, estimator._learned.model)


def tune(phase, state, blank, shard):
    """Return the threshold of label sets, tuned on the first part of a shard."""
    estimator = phase.restore(blank, state)
    estimator._end_partitions(shard)
    return getattr(estimator, "threshold_", None)
