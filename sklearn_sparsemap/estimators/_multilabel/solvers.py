"""The two ways to fit label sets: L-BFGS over all samples, and Adam on mini-batches."""

from __future__ import annotations

from copy import copy
from functools import partial

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from ..._core.validation import pair_of
from ...training._data import LinearModel
from ...training._minibatch import MinibatchOptimizer
from ...training._network import Network
from .._fitting import Batch, Epochs, held_out_fraction, relative, visits
from .data import automatic_alpha, folds_by_content
from .sets import SeenSets

# Tolerance of the gradient of L-BFGS, if the estimator's `tol` is None.
_LBFGS_TOL = 1e-5
# Indicator matrices with at most this many cells are stored as dense arrays in training, which is faster.
_DENSE_CELLS = 2**23
# With fewer held-out samples than this, a threshold is tuned on the training samples.
_FEWEST_HELD_OUT = 50


class LbfgsFit:
    """A fit of linear scores by L-BFGS over all samples; a threshold is tuned by cross-validation.

    Parameters
    ----------
    estimator : MultilabelLPSparseMAP
    X : RaggedArray
    task : LabelTask
    hidden : list of int
        Sizes of the hidden layers, none.

    Attributes
    ----------
    learner : Learner
    watch : dict
        Arguments of the monitor.
    """

    def __init__(self, estimator, X, task, hidden):
        self.estimator, self.watch = estimator, {}
        kept = np.flatnonzero(task.weights)
        if len(kept) < len(X):
            X, task = X[kept], task.take(kept)
        self.X, self.gold, self.task = X, task.gold, task
        task.gold = task.gold.astype(bool).toarray()
        estimator._watch_sets(task)
        self.learner = self._batch(task, X)

    def finish(self):
        """Tune the threshold of the fitted estimator, if it should be tuned."""
        estimator, task = self.estimator, self.task
        if not estimator._tunes_threshold():
            return
        tuning, model, sets = estimator._new_tuning(), estimator._learned.model, None
        folds = folds_by_content(self.X.values, self.gold)
        for train, held in folds or [(np.arange(len(task.weights)),) * 2]:
            if folds:
                part = self._batch(task.take(train), self.X[train])
                part.run(lambda loss: False)
                model = part.expand(part.model())
                sets = SeenSets(self.gold[train], task.weights[train]) if task.known is None else None
            estimator._tune(tuning, model, self.X.values[held], task.take(held), sets)
        estimator.threshold_, estimator._draws = tuning.best()

    def _batch(self, task, X):
        """Return the learner of linear scores."""
        estimator = self.estimator
        alpha, _ = pair_of(estimator.alpha, None)
        return Batch(
            task,
            X,
            LinearModel.zeros(X.values.shape[1], task.n_outputs, 0),
            _as_network,
            alpha=automatic_alpha(X.values, task.weights) if alpha == "auto" else alpha,
            tol=_LBFGS_TOL if estimator.tol is None else estimator.tol,
            max_iter=estimator._most_iter("lbfgs"),
            n_jobs=estimator.n_jobs,
        )


class AdamFit:
    """A fit by Adam on mini-batches; a threshold is tuned, and training stopped, on held-out samples.

    Parameters and attributes are those of `LbfgsFit`.
    """

    def __init__(self, estimator, X, task, hidden):
        rng = check_random_state(estimator.random_state)
        self.estimator, self.whole, self.held_out = estimator, task, None
        X, task = self._hold_out(X, task, rng)
        estimator._watch_sets(task)
        task.weights = relative(task.weights)
        if np.prod(task.gold.shape) <= _DENSE_CELLS:
            task.gold = task.gold.astype(bool).toarray()
        self.X, self.task = X, task
        self.watch = {"watch_loss": True}
        if estimator.early_stopping and self.held_out:
            features, held = self.held_out
            self.watch["validate"] = partial(estimator._validate, X=features, task=held)
            self.watch["held_out_loss"] = partial(estimator._held_out_loss, X=features, task=held)
        model = estimator._initial(X.values, hidden, rng)
        optimizer = estimator._configure(MinibatchOptimizer(model, rng), len(X))
        self.learner = Epochs(optimizer, visits(estimator, optimizer, task, X, rng), estimator._most_iter("adam"))

    def finish(self):
        """Tune the threshold of the fitted estimator, if it should be tuned, and keep the label sets of all samples."""
        estimator, draws = self.estimator, None
        if estimator._tunes_threshold():
            tuning, sets = estimator._new_tuning(), estimator._sets if self.held_out else None
            estimator._tune(tuning, estimator._learned.model, *(self.held_out or (self.X.values, self.task)), sets)
            estimator.threshold_, draws = tuning.best()
        estimator._watch_sets(self.whole, draws)

    def _hold_out(self, X, task, rng):
        """Split off the held-out samples, if any; return the others."""
        estimator = self.estimator
        stops, fraction = estimator.early_stopping, held_out_fraction(estimator) or estimator.validation_fraction
        n_held = int(np.ceil(fraction * len(X))) if stops or estimator._tunes_threshold() else 0
        if not n_held or (not stops and n_held < _FEWEST_HELD_OUT):
            return X, copy(task)
        train, held = self._split(task.gold, fraction, rng)
        if not task.weights[train].any():
            return X, copy(task)
        held_task = task.take(held)
        if not held_task.weights.any():
            held_task.weights = np.ones(len(held))
        self.held_out = X.values[held], held_task
        return X[train], task.take(train)

    def _split(self, gold, fraction, rng):
        """Return the places of the samples to train on, and of those to hold out."""
        n = gold.shape[0]
        n_held = int(np.ceil(fraction * n))
        if n_held >= n:
            raise ValueError(
                f"early stopping would hold out the fraction {fraction!r} of the samples, which is all {n}; hold out a "
                "smaller fraction, or take more samples"
            )
        single = self.estimator._single
        counts = np.bincount(gold.indices, minlength=gold.shape[1]) if single else np.zeros(1)
        can_stratify = single and counts[counts > 0].min() > 1 and (counts > 0).sum() <= min(n_held, n - n_held)
        return train_test_split(
            np.arange(n),
            test_size=fraction,
            random_state=rng.randint(2**31 - 1),
            stratify=gold.indices if can_stratify else None,
        )


def _as_network(model):
    """Return a linear model as a network without hidden layers."""
    return Network([model.coef.copy()], [model.intercept.copy()], np.zeros(0))
