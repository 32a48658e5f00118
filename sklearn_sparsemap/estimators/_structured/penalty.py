"""The strength of the penalty of `StructuredSparseMAPClassifier`: its default, and its choice on held-out samples."""

from functools import partial

import numpy as np

from ..._core.validation import pair_of
from ..._training._scores import linear_scores
from ...losses import LOSSES
from .._failures import check_finite_loss
from .._learners import LBFGSLearner, relative, zero_weights
from .._monitor import report
from .._strengths import Choice, choose_strength, has_stalled, try_strengths

# Strengths that are tried, as multiples of the usual one, the strongest first.
_PATH = 10.0 ** np.arange(1, -3, -1)
# Relative decrease of the held-out loss that a tenth of the strength must bring; that of log losses. Their weights grow
# for many epochs if the penalty is weak, so on a path they overfit less than in a whole fit.
_MIN_DECREASE, _MIN_LOG_DECREASE = 0.005, 0.02
# Minimum number of samples for a choice.
_MIN_SAMPLES = 6
# Minimum number of samples of which one part in `_N_PARTS` is held out; with fewer, each part of three is, in turn.
_MANY, _N_PARTS, _FEW_PARTS = 200, 5, 3
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
        Indices of the samples.
    """

    def __init__(self, estimator, task, X, gold, train, held):
        self.estimator, part, self.task = estimator, task.take(train), task.take(held)
        part.weights = relative(part.weights)
        solver, _ = pair_of(estimator.solver, None)
        start, rng = zero_weights(part, X.values, solver), np.random.RandomState(_SEED)
        self.learner = estimator._learner(part, X[train], start, rng)
        self.X, self.gold = self.learner.narrow(X[held]), gold[held]

    def loss(self, alpha):
        """Train with a strength, starting from the model of the previous one; return the sum of the held-out losses.

        The perceptron's loss is proportional to the weights, so its models are compared by the fraction of wrong parts.
        """
        learner, estimator, task, weights = self.learner, self.estimator, self.task, self.task.weights
        learner.restart(alpha)
        if isinstance(learner, LBFGSLearner):
            learner.run(partial(has_stalled, _LOSS_TOL, learner.losses))
        else:
            for _ in range(min(_EPOCHS, learner.max_iter)):
                learner.run_epoch()
        model = learner.model()
        if task.loss == "perceptron":
            codes = estimator._predict_codes(task, self.X, model)
            return weights.sum() * (1.0 - task.agreement(self.gold, codes, weights))
        scores = linear_scores(self.X.values, model, estimator.n_jobs)
        loss, *_ = task.loss_gradient(scores, model.additional.astype(np.float64), estimator.n_jobs)
        check_finite_loss(loss, estimator._step_size)
        return loss


def choose_penalty(estimator, task, X, gold):
    """Choose the strength of the penalty of an estimator by the loss of held-out samples; return a `Choice`.

    Strengths are multiples of the usual one, which is `alpha_` before. With fewer than six samples, it is the choice.
    """
    usual = estimator.alpha_
    rows = np.flatnonzero(task.weights > 0.0)
    if len(rows) < _MIN_SAMPLES:
        return Choice(usual, np.array([usual]), np.array([np.nan]), [])
    order, is_many = np.random.default_rng(_SEED).permutation(rows), len(rows) >= _MANY
    held_parts = np.array_split(order, _N_PARTS if is_many else _FEW_PARTS)[: 1 if is_many else None]
    parts = [HeldOutPart(estimator, task, X, gold, np.setdiff1d(rows, held), np.sort(held)) for held in held_parts]
    total = sum(part.task.weights.sum() for part in parts)
    min_decrease = _MIN_LOG_DECREASE if LOSSES[task.loss].argmax == "gibbs" else _MIN_DECREASE
    alphas, losses, results = usual * _PATH, [], []
    for alpha in try_strengths(alphas, losses, results, min_decrease):
        report(estimator, "held-out samples, strength", len(losses) + 1, f"at most {len(alphas)}")
        losses.append(sum(part.loss(alpha) for part in parts) / total)
        results.append([])
    return choose_strength(alphas, losses, results, min_decrease)
