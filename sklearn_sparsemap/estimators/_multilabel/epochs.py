"""Linear scores and networks of label sets, trained by Adam on mini-batches.

Used by `comparison.py`, `solvers.py` and `trials.py`.
"""

from copy import copy
from functools import partial

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from ..._core.blocks import dense
from ..._training._minibatch import MinibatchOptimizer
from .._learners.epochs import OnlineLearner, make_epoch
from .._learners.held_out import held_out_fraction
from .._monitor import report
from .._strengths import relative
from .adam import configure, initial_network, max_epochs
from .data import in_folds, strata_of
from .decisions import ObservedLabelSets

# Maximum number of cells of an indicator matrix that is stored as a dense array in training, which is faster.
_MAX_DENSE = 2**23
# Seed of the second model, on whose held-out samples, one in three, the probabilities are calibrated.
_TWIN_SEED, _TWIN_FOLDS = 0, 3
# Minimum number of held-out samples; with fewer, the threshold is tuned on the training samples.
_MIN_HELD_OUT = 50


def epochs_of(estimator, X, task, network, rng, n_epochs=None):
    """Return the learner of a new model by Adam.

    Parameters
    ----------
    network : Network or None
        None for linear scores.
    n_epochs : int, default=None
        The number of epochs, if it is known to be the best.
    """
    initial = initial_network(network, X.values.shape[1], task, rng)
    optimizer = configure(estimator, MinibatchOptimizer(initial, rng), len(X), network)
    run_epoch = make_epoch(estimator, optimizer, task, X, rng)
    most = n_epochs or max_epochs(estimator, network)
    return OnlineLearner(optimizer, run_epoch, most, is_enough=n_epochs is not None)


class AdamTraining:
    """Training by Adam on mini-batches. The threshold is tuned, and training is stopped early, on held-out samples.

    Parameters
    ----------
    estimator : MultilabelLPSparseMAP
    inference : LabelInference
    X : RaggedArray
    task : LabelTask
    description : Network or None
        None for linear scores.
    trials : Trials, default=None
        Gives the number of epochs, and the held-out samples. By default, the parameters of the estimator do.
    held_out : (X, LabelTask), default=None
        The user's validation samples. By default, some samples are held out if the estimator asks for it.

    Attributes
    ----------
    training_part : LabelTask
        The samples that are learned from.
    alpha, learner, watch, chosen
        As in `CrossValidation`.
    """

    def __init__(self, estimator, inference, X, task, description, trials=None, held_out=None):
        rng = check_random_state(estimator.random_state)
        if estimator.shuffle:
            # The order of the samples has no effect.
            X, task, _ = in_folds(X, task)
        self.estimator, self.inference = estimator, inference
        self.description, self.trials = description, trials
        self.chosen = None if trials is None else trials.chosen
        self.held_out, self.X, self.whole, self.training_part = held_out, X, task, task
        if trials is None and held_out is None:
            self.X, self.training_part = self._hold_out(X, task, rng)
        self.task = for_epochs(copy(self.training_part))
        self.watch = {"watch_loss": trials is None}
        if self.held_out and (estimator.early_stopping or held_out is not None):
            features, held = self.held_out
            self.watch["validate"] = partial(inference.validate, X=features, task=held)
            self.watch["held_out_loss"] = partial(inference.held_out_loss, X=features, task=held)
        self.learner = epochs_of(estimator, self.X, self.task, description, rng, trials and trials.n_steps)
        self.alpha = self.learner.optimizer.alphas[0]

    def cross_validate(self):
        """Return this solver: its parameters are given."""
        return self

    def finish(self, model):
        """Calibrate, choose rule and threshold of the fitted model, and store the label sets of all samples."""
        inference = self.inference
        rule = None
        held_out = self._scored_samples(model)
        if held_out is not None:
            inference.calibrate(*held_out[:2])
        if inference.tunes_threshold:
            if held_out is None:
                held_out = inference.evidence(model, self.X.values), self.task, None
            inference.cut, rule, _ = inference.choose_rule([held_out])
        elif held_out is not None and held_out[2] is not None:
            _, rule, _ = inference.choose_rule([held_out])
        inference.store_label_sets(self.whole, rule)

    def _scored_samples(self, model):
        """Return held-out samples as `choose_rule` takes them: (evidence, LabelTask, ObservedLabelSets or None).

        They are those of the trials, the held-out ones, or a third of the samples, scored by a second model that
        learns from the others for as many epochs. The label sets are those of the samples that were learned from.
        Without such samples, return None.
        """
        estimator = self.estimator
        if self.trials is not None:
            return self.trials.held_out
        if self.held_out:
            X, task = self.held_out
            evidence = self.inference.evidence(model, X)
            sets = self.inference.sets
        else:
            X, whole, folds = in_folds(self.X, self.whole, _TWIN_FOLDS)
            if not folds:
                return None
            train, held = folds[0]
            part = whole.take(train)
            task = whole.take(held)
            sets = ObservedLabelSets.of_samples(part.gold, part.weights) if task.varies else None
            twin = epochs_of(estimator, X[train], for_epochs(part), self.description, check_random_state(_TWIN_SEED))
            for k in range(estimator.n_iter_):
                report(estimator, "calibration, epoch", k + 1, estimator.n_iter_)
                twin.run_epoch()
            evidence = self.inference.evidence(twin.model(), X.values[held])
        return evidence, task, sets if task.known is None else None

    def _hold_out(self, X, task, rng):
        """Split off the held-out samples, if any; return the others."""
        estimator = self.estimator
        stops = estimator.early_stopping
        fraction = held_out_fraction(estimator) or estimator.validation_fraction
        n_held = int(np.ceil(fraction * len(X))) if stops or self.inference.tunes_threshold else 0
        if not n_held or (not stops and n_held < _MIN_HELD_OUT):
            return X, task
        train, held = self._split(task.gold, fraction, rng)
        if not task.weights[train].any():
            return X, task
        held_task = task.take(held)
        if not held_task.weights.any():
            held_task.weights = np.ones(len(held))
        self.held_out = X.values[held], held_task
        return X[train], task.take(train)

    def _split(self, gold, fraction, rng):
        """Return the indices of the samples to train on, and of those to hold out."""
        n = gold.shape[0]
        n_held = int(np.ceil(fraction * n))
        if n_held >= n:
            raise ValueError(
                f"early stopping would hold out the fraction {fraction!r} of the samples, which is all {n}; hold out a "
                "smaller fraction, or use more samples"
            )
        strata = None if self.whole.varies else strata_of(gold, n_held)
        return train_test_split(np.arange(n), test_size=fraction, random_state=rng.randint(2**31 - 1), stratify=strata)


def for_epochs(task):
    """Scale the weights of a task to mean 1, and store its gold labels as a dense array if they are few; return it."""
    task.weights = relative(task.weights)
    if np.prod(task.gold.shape) <= _MAX_DENSE:
        task.gold = dense(task.gold) > 0.0
    return task
