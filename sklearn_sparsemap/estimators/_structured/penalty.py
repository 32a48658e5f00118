"""The strength of the penalty of `StructuredSparseMAPClassifier`: its default, and its choice on held-out samples."""

from functools import partial

import numpy as np

from ..._core.validation import pair_of
from ..._training._scores import linear_scores
from .._failures import check_finite_loss
from .._learners import LBFGSLearner, relative, zero_weights
from .._strengths import choose_strength, folds_of, has_stalled

# Strengths that are tried, as multiples of the default, the strongest first.
_PATH = 10.0 ** np.arange(2, -3, -1)
# Minimum number of samples of which one part in `_N_PARTS` is held out; with fewer, each part of three is, in turn.
_MANY, _N_PARTS, _FEW_PARTS = 500, 5, 3
# Number of epochs for each strength of a path. With two, weights stay too close to those of the previous strength.
_EPOCHS = 4
# Seed of the parts and of the order of samples on a path, so that the choice does not depend on `random_state`.
_SEED = 0


def default_strength(loss):
    """Return the strength of the penalty for a loss."""
    return 1e-4


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
            learner.run(partial(has_stalled, learner.losses))
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

    Strengths are multiples of the default. With fewer than six samples, the choice is the default.
    """
    usual, rows = default_strength(task.loss), np.flatnonzero(task.weights > 0.0)
    positions, is_many = np.random.default_rng(_SEED).permutation(len(rows)), len(rows) >= _MANY
    folds = folds_of(positions, _N_PARTS if is_many else _FEW_PARTS)[: 1 if is_many else None]
    parts = [HeldOutPart(estimator, task, X, gold, *(rows[own] for own in fold)) for fold in folds]
    total = sum(part.task.weights.sum() for part in parts)
    alphas = usual * _PATH if parts else [usual]
    return choose_strength(alphas, lambda alpha: (sum(part.loss(alpha) for part in parts) / max(total, 1.0), []))
