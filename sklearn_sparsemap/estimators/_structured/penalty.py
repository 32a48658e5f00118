"""The strength of the penalty of `StructuredSparseMAPClassifier`: its default, and its choice on held-out samples.

Used by `classifier.py` and `score_model.py`.
"""

from functools import partial

import numpy as np

from ..._training._partial_task import PartialTask
from ..._training._structure_task import UNKNOWN
from .._failures import check_finite_loss
from .._learners.initial import zero_weights
from .._learners.lbfgs import LBFGSLearner
from .._monitor import report
from .._strengths import Choice, choose_strength, has_stalled, nearest_to_usual, relative, try_strengths

# Strengths that are tried, as multiples of the usual one, the strongest first.
_PATH = 10.0 ** np.arange(1, -3, -1)
_USUAL = 1  # index of the usual strength
# Minimum number of samples for a choice.
_MIN_SAMPLES = 6
# Minimum number of samples of which one part in `_N_PARTS` is held out; with fewer, each part of three is, in turn.
_MANY, _N_PARTS, _FEW_PARTS = 200, 5, 3
# Number of groups of the held-out samples of a part, for the standard error of the differences between losses.
_N_GROUPS = 20
# Number of epochs for each strength of a path. With two, weights stay too close to those of the previous strength.
_EPOCHS = 4
# On a path, L-BFGS ends if the loss falls by less than this fraction in an iteration; see `has_stalled`. With a third
# of it, the choice for letters takes half as long again and is the same.
_LOSS_TOL = 1e-3
# Seed of the parts and of the order of samples on a path, so that the choice does not depend on `random_state`.
_SEED = 0


class HeldOutPart:
    """Some samples, and a model that learns from the others with one strength after the other.

    Parameters
    ----------
    estimator : StructuredSparseMAPClassifier
    task : Task
    X : RaggedArray
    gold : array or RaggedArray
    train, held : int arrays
        Indices of the samples; those of `held` in random order.
    """

    def __init__(self, estimator, task, X, gold, train, held):
        self.estimator = estimator
        part = task.take(train)
        part.weights = relative(part.weights)
        start = zero_weights(part, X.values, estimator.solver)
        rng = np.random.RandomState(_SEED)
        self.learner = estimator._learner(part, X[train], start, rng)
        groups = [np.sort(group) for group in np.array_split(held, min(_N_GROUPS, len(held)))]
        self.groups = [(task.take(group), self.learner.narrow(X[group]), gold[group]) for group in groups]
        self.weight = sum(group.weights.sum() for group, *_ in self.groups)

    def losses(self, alpha):
        """Train with a strength, starting from the model of the previous one; return the sum of each group's losses."""
        learner = self.learner
        learner.restart(alpha)
        if isinstance(learner, LBFGSLearner):
            learner.run(partial(has_stalled, _LOSS_TOL, learner.losses))
        else:
            for _ in range(min(_EPOCHS, learner.max_iter)):
                learner.run_epoch()
        return self.losses_of(learner.model())

    def losses_of(self, model):
        """Return the sum of the losses of each group of held-out samples under a model of the learner."""
        if self.groups[0][0].loss == "perceptron":
            return self._disagreements(model)
        return np.array([self._loss(model, *group) for group in self.groups])

    def _disagreements(self, model):
        """Return the disagreement of each group of held-out samples, of which the sum is proportional to 1 - `score`.

        The perceptron's loss is proportional to the weights, so its models are compared by their predictions.
        """
        found = np.zeros((len(self.groups), 2))
        for counts, (task, X, gold) in zip(found, self.groups):
            if not (isinstance(task, PartialTask) and (task.codes == UNKNOWN).all()):
                counts[:] = self.estimator._agreement(task, X, gold, task.weights, model)
        n_agreeing, n_parts = found.T
        return self.weight * (n_parts - n_agreeing) / max(n_parts.sum(), np.finfo(float).tiny)

    def _loss(self, model, task, X, gold):
        """Return the sum of the losses of held-out samples."""
        estimator = self.estimator
        scores = model.scores(X.values, estimator.n_jobs)
        loss, *_ = task.loss_gradient(scores, model.additional.astype(np.float64), estimator.n_jobs)
        check_finite_loss(loss, estimator._step_size)
        return loss


def held_out_parts(estimator, task, X, gold):
    """Return a part of many samples, each part of few samples, or no parts if there are too few."""
    rows = np.flatnonzero(task.weights > 0.0)
    if len(rows) < _MIN_SAMPLES:
        return []
    order = np.random.default_rng(_SEED).permutation(rows)
    is_many = len(rows) >= _MANY
    held_parts = np.array_split(order, _N_PARTS if is_many else _FEW_PARTS)[: 1 if is_many else None]
    return [HeldOutPart(estimator, task, X, gold, np.setdiff1d(rows, held), held) for held in held_parts]


def choose_penalty(estimator, task, X, gold):
    """Choose the strength of the penalty of an estimator by the loss of held-out samples; return a `Choice`.

    Strengths are multiples of the usual one, which is `alpha_` before. With fewer than six samples, it is the choice.
    """
    usual = estimator.alpha_
    parts = held_out_parts(estimator, task, X, gold)
    if not parts:
        return Choice(usual, np.array([usual]), np.array([np.nan]), [])
    total = sum(part.weight for part in parts)
    alphas, losses, results, tried = usual * _PATH, [], [], []
    for alpha in try_strengths(alphas, losses, results):
        report(estimator, "held-out samples, strength", len(losses) + 1, f"at most {len(alphas)}")
        tried.append(np.concatenate([part.losses(alpha) for part in parts]))
        losses.append(tried[-1].sum() / total)
        results.append([tried[-1]])
    choice = choose_strength(alphas, losses, results)
    return choice._replace(alpha=nearest_to_usual(usual, tried[_USUAL], choice.alpha, *choice.results))
