"""The rounds of a training: submission of tasks to the workers, and monitoring of their results.

Used by `_mixing.py`.
"""

from functools import reduce
from operator import or_

import numpy as np
from sklearn.utils.validation import _num_samples

from ..estimators._learners.held_out import held_out_fraction
from ..estimators._learners.learner import Learner
from ..estimators._partitions import agreement_score, as_classes, survey
from ..estimators._rounds import (
    Phase,
    Turn,
    add_outcomes,
    begin,
    classes_in,
    end_turn,
    fitted_by,
    learn,
    new_estimator,
    score_of,
    selects_first,
    state_after_selection,
    sums_of,
    tune,
)
from ._shards import Shard

# Relative fall of the loss in the last round above which a warning says that more rounds are needed. With smaller
# falls, accuracy was at least 98 % of that of `fit`.
_STILL_FALLS = 0.1
# Number of rounds from which on there is such a warning. The loss of the first rounds always falls.
_FEW_ROUNDS = 5
_FAN_IN = 8  # maximum number of outcomes that a task adds


class Training:
    """A fit of `ParameterMixing`: the shards, and the states at the end of its phases.

    Parameters
    ----------
    mixing : ParameterMixing
    engine : ThreadEngine or DaskEngine
    source : Source
    classes : sequence or None
    rng : RandomState

    Attributes
    ----------
    n_rounds : int
        Maximum number of rounds, in all phases.
    reached : list of (Phase, future of a TrainingState)
        The results of the phases; for the current phase, after its last complete round.
    """

    def __init__(self, mixing, engine, source, classes, rng):
        self.mixing, self.engine, self.reached = mixing, engine, []
        estimator = new_estimator(mixing.estimator, rng)
        self.seed = rng.randint(2**31 - 1)
        held = held_out_fraction(mixing)
        self.n_shards = source.count_shards(mixing.n_shards, held)
        self.shards, self.held_out = source.shards(engine, self.n_shards, held, rng)
        if source.parts:
            labels, self.n_samples = self._survey(estimator)
            classes = as_classes(labels) if classes is None else classes
            begun = engine.submit(begin, estimator, self.shards[0], classes).result()
        else:
            self.n_samples = _num_samples(source.X)
            classes = classes_in(estimator, source.y) if classes is None else classes
            # All data are checked together, so that messages have the indices of samples, and a label graph is made
            # from all labels.
            begun = begin(estimator, Shard(0, [], (source.X, source.y)), classes)
        self.estimator, state = begun
        self.blank, self.state = (engine.submit(_same, thing) for thing in (self.estimator, state))
        self.n_rounds = mixing.n_rounds + (estimator.debias_max_iter if self._debiases() else 0)

    def _survey(self, estimator):
        """Return the labels in all shards as `_labels_in` does, and the number of training samples."""
        surveys = [self.engine.submit(survey, shard, estimator) for shard in [*self.shards, *self.held_out]]
        found = [own.result() for own in surveys]
        labels = None if any(own is None for own, _ in found) else reduce(or_, [own for own, _ in found])
        return labels, sum(n for _, n in found[: self.n_shards])

    def _debiases(self):
        """Tell whether the weights of selected groups are learned again."""
        return selects_first(self.estimator)

    def _phase(self, number, columns=None):
        return Phase(number, self.n_samples, self.estimator.shuffle, columns)

    def run(self, monitor):
        """Run all rounds."""
        monitor.run(Rounds(self, self._phase(0), self.state, self.mixing.n_rounds))
        if not self._debiases() or monitor.stopped:
            return
        # With validation, the second phase starts from the best state of the first one, and is not validated.
        self.reached = monitor.model()
        monitor.validate = None
        phase, state = self.reached[0]
        state, columns = state_after_selection(phase, self.estimator, state.result())
        state = self.engine.submit(_same, state)
        monitor.run(Rounds(self, self._phase(1, columns), state, self.estimator.debias_max_iter))

    def _fraction(self, n_before):
        """Return the weight of a mixture in averaged weights, after `n_before` previous mixtures.

        None means the fraction of its steps, as in serial training, to which a single shard is equivalent.
        """
        recency = self.mixing.recency
        return None if self.n_shards == 1 or recency == 0 else (recency + 1.0) / (n_before + 1.0 + recency)

    def _learn(self, phase, state, turn):
        """Learn from all shards, starting from a state; return the future of the sum of their outcomes."""
        outcomes = [self.engine.submit(learn, phase, self.blank, state, shard, turn) for shard in self.shards]
        while len(outcomes) > 1:
            groups = (outcomes[start : start + _FAN_IN] for start in range(0, len(outcomes), _FAN_IN))
            outcomes = [self.engine.submit(add_outcomes, *group) for group in groups]
        return outcomes[0]

    def score(self, reached):
        """Return the score of a model, in the form of `reached`, on the held-out data."""
        phase, state = reached[-1]
        scores = [self.engine.submit(score_of, phase, state, self.blank, shard) for shard in self.held_out]
        return agreement_score(*np.sum([score.result() for score in scores], axis=0))

    def fitted(self, reached, monitor):
        """Return the fitted estimator, given the phases with their final states."""
        states = [(phase, state.result()) for phase, state in reached]
        self.n_inexact = sum(state.counters["n_inexact"] for _, state in states)
        estimator = fitted_by(states, self.estimator, monitor)
        # The seed that was drawn for this fit is replaced by the parameter.
        estimator.random_state = self.mixing.estimator.random_state
        if hasattr(estimator, "threshold"):
            shard = (self.held_out or self.shards)[0]
            estimator.threshold_ = self.engine.submit(tune, *reached[-1], self.blank, shard).result()
            estimator.n_violations_ = self.n_violations
        return estimator


class Rounds(Learner):
    """The rounds of a phase.

    Parameters
    ----------
    training : Training
    phase : Phase
    state : future of a TrainingState
        The start.
    n_rounds : int
    """

    def __init__(self, training, phase, state, n_rounds):
        self.training, self.phase, self.state, self.max_iter = training, phase, state, n_rounds
        self.step_name = "debiasing, round" if phase.number else "round"

    @property
    def has_started(self):
        return bool(self.training.reached)

    @property
    def unconverged(self):
        return self.training.n_inexact

    def model(self):
        return self.training.reached

    def run(self, on_iteration):
        training, phase, state = self.training, self.phase, self.state
        engine, before, n_pieces = training.engine, training.reached, training.mixing.n_mixes
        losses = []
        # A phase may have millions of columns, so it is sent to each worker only once.
        there = engine.submit(_same, phase)
        for number in range(self.max_iter):
            loss = weight = 0.0
            for piece in range(n_pieces):
                turn = Turn(training.seed, number, piece, n_pieces, training._fraction(number * n_pieces + piece))
                outcome = training._learn(there, state, turn)
                state = engine.submit(end_turn, there, training.blank, outcome, state, turn)
                sums = engine.submit(sums_of, outcome).result()
                loss, weight = loss + sums.loss, weight + sums.weight
                if phase.number == number == piece == 0:
                    training.n_violations = sums.n_violations
            # If the computation of the state failed, this raises the error before the state is stored.
            engine.submit(_nothing, state).result()
            training.reached = [*before, (phase, state)]
            losses.append(loss / max(weight, np.finfo(float).tiny))
            if on_iteration(losses[-1]):
                break
        else:
            falls = len(losses) >= _FEW_ROUNDS and losses[-2] - losses[-1] > _STILL_FALLS * losses[-1] > 0.0
            if falls and not training._debiases():
                return (
                    f"the loss fell by {1.0 - losses[-1] / losses[-2]:.0%} in the last of {self.max_iter} rounds, "
                    "so raise n_rounds"
                )
        return ""


def _same(thing):
    return thing


def _nothing(state):
    """Wait for a state on its worker."""
