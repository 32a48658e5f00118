"""The two optimisers of label sets: L-BFGS over all samples, and Adam on mini-batches."""

from __future__ import annotations

from copy import copy
from functools import partial

import numpy as np
from scipy import sparse
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from ..._core.blocks import dense
from ..._core.validation import pair_of
from ...training._data import LinearModel
from ...training._minibatch import MinibatchOptimizer
from ...training._network import Network
from .._learners import Batch, Epochs, held_out_fraction, relative, visits
from .data import automatic_alpha, folds_of, order_of_samples
from .sets import SeenSets

SOLVERS = ("auto", "lbfgs", "adam")
# Default of `tol`: largest entry of the gradient at the end of L-BFGS.
_LBFGS_TOL = 1e-5
# Strengths of the penalty that are tried, as multiples of `automatic_alpha`, the strongest first.
_PATH = 10.0 ** np.arange(2.0, -2.1, -0.5)
# Smallest relative decrease of the log loss that counts as progress along the path. On bibtex the loss falls by less
# than this to the end of the path, where fits take several times as long.
_PROGRESS = 1e-3
# The path ends at the first strength without progress if the loss has fallen by this fraction since the strongest one,
# else at the second in a row: the loss can rise at first, while there are hardly any weights.
_CLEAR = 0.01
# In cross-validation, L-BFGS ends if the loss falls by less than `_ROUGH` times itself on average over `_FEW`
# iterations, or if no entry of the gradient exceeds `_ROUGH_TOL`.
_ROUGH, _FEW, _ROUGH_TOL = 1e-4, 3, 1e-4
_ARRAYS = "coef", "intercept", "additional"
# Maximum number of cells of an indicator matrix that is stored as a dense array in training, which is faster.
_DENSE_CELLS = 2**23
# Seed of the second model, on whose held-out samples, one in three, the probabilities are calibrated.
_TWIN_SEED, _TWIN_FOLDS = 0, 3
# Minimum number of held-out samples; with fewer, the threshold is tuned on the training samples.
_FEWEST_HELD_OUT = 50
# The network that hidden_layer_sizes="auto" compares with linear scores: its hidden layers, and its dropout. Of 100 and
# 300 units, and dropout of 0 and 0.3, it has the lowest log loss in cross-validation on ImCLEF07A.
AUTO_HIDDEN, AUTO_DROPOUT = [300], 0.3
# Smallest number of samples, and of samples for each feature and each label, for the comparison. With fewer, networks
# are rarely better, and the comparison takes longer than the fit of linear scores.
_FEWEST_COMPARED, _FEWEST_FOR_EACH = 2000, 20
# Number of samples that the network visits until it is compared, and bounds of its epochs. With more visits, the
# comparison takes longer. Of two and five epochs with 13,000 samples, only five showed that products matter.
_TRIAL_VISITS, _TRIAL_EPOCHS = 40_000, (5, 30)
# Number of standard errors by which the log loss of the network must then be lower.
_CLEARLY = 2.0
# Number of epochs between measurements of the log loss afterwards. Training ends after two without progress.
_STRIDE = 5


def in_folds(X, task, *most):
    """Deal the samples of positive weight to folds, in the order of `order_of_samples`; return X, the task, the folds.

    Samples are then visited in a random order that depends on their content only. The optional last argument is the
    maximum number of folds.
    """
    rows = np.flatnonzero(task.weights > 0.0)
    known = None if task.known is None else task.known[rows]
    order = order_of_samples(X.values[rows], task.gold[rows], known)
    places = np.random.default_rng(0).permutation(len(rows))
    rows = rows[order[places]]
    return X[rows], task.take(rows), folds_of(places, *most)


def way_of_fit(estimator, X, task, hidden):
    """Return the fit of an estimator to samples: `LbfgsFit` or `AdamFit`.

    Parameters
    ----------
    estimator : MultilabelLPSparseMAP
    X : RaggedArray
    task : LabelTask
    hidden : list of int or None
        Sizes of the hidden layers. With None, linear scores or a network, whichever is better on held-out samples.

    Raises
    ------
    ValueError
        If the estimator asks for L-BFGS, but its loss is not smooth.
    """
    obstacles = {
        "hidden_layer_sizes": bool(hidden),
        "label_graph": len(estimator._graph.edges) > 0,
        "loss='hinge'": estimator.loss == "hinge",
        "early_stopping": estimator.early_stopping,
    }
    named = [name for name, is_there in obstacles.items() if is_there]
    if estimator.solver == "lbfgs" and named:
        raise ValueError(
            "solver='lbfgs' is for linear scores and smooth losses, without edges and early stopping; it cannot be "
            f"used with {' and '.join(named)}; use solver='auto'"
        )
    if named or estimator.solver == "adam":
        return AdamFit(estimator, X, task, hidden or [])
    linear = LbfgsFit(estimator, X, task)
    if hidden is None and estimator.solver == "auto" and _is_for_networks(linear):
        trial = Trial(linear)
        if trial.is_better():
            return AdamFit(estimator, X, task, AUTO_HIDDEN, trial)
    return linear


def _is_for_networks(linear):
    """Tell whether features are dense, and samples are enough for a network to be worth a trial."""
    X, n_labels = linear.learner.X.values, linear.task.n_outputs
    n_samples, n_features = X.shape
    return not sparse.issparse(X) and n_samples >= max(_FEWEST_COMPARED, _FEWEST_FOR_EACH * max(n_features, n_labels))


class Trial:
    """A network that learns from the samples of the first fold of linear scores, and is compared on the held-out ones.

    Parameters
    ----------
    linear : LbfgsFit

    Attributes
    ----------
    n_epochs : int
        Number of epochs with the lowest log loss.
    unseen : (evidence, LabelTask, SeenSets)
        The held-out samples, scored by the network after that many epochs, and the label sets of the other samples.
    """

    def __init__(self, linear):
        estimator, X, (train, held) = linear.estimator, linear.learner.X, linear.folds[0]
        evidence, self.task, sets = next(linear.held_out_parts())
        self.estimator, self.held = estimator, X.values[held]
        part = linear.task.take(train)
        part.weights = relative(part.weights)
        self.learner = epochs_of(estimator, X[train], part, AUTO_HIDDEN, check_random_state(_TWIN_SEED))
        self.linear_losses = self._losses(evidence)
        self.sets = None if estimator._single else sets
        self.n_first = int(np.clip(np.ceil(_TRIAL_VISITS / len(train)), *_TRIAL_EPOCHS))

    def is_better(self):
        """Train the network until its log loss no longer falls; return whether it is clearly below the linear one.

        If it is not after the first epochs, or if training diverges, training ends there.
        """
        most, done, lowest = self.learner.max_iter, min(self.n_first, self.learner.max_iter), np.inf
        if not self._visit(done):
            return False
        while True:
            evidence = self.estimator._evidence(self.learner.model(), self.held)
            losses = self._losses(evidence)
            if lowest == np.inf and least_gain(self.linear_losses - losses, self.task.weights) <= 0.0:
                return False
            if losses.sum() < (1.0 - _PROGRESS) * lowest:
                lowest, self.n_epochs, self.unseen = losses.sum(), done, (evidence, self.task, self.sets)
            more = min(_STRIDE, most - done)
            if not more or done - self.n_epochs >= 2 * _STRIDE or not self._visit(more):
                return True
            done += more

    def _visit(self, n_epochs):
        """Train for some epochs; return whether the loss is finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            return all(np.isfinite(self.learner.visit()) for _ in range(n_epochs))

    def _losses(self, evidence):
        """Return the log loss of each held-out sample, calibrated on the other half of them."""
        estimator, gold, weights = self.estimator, dense(self.task.gold), self.task.label_weights
        losses = np.empty(len(evidence))
        halves = slice(0, None, 2), slice(1, None, 2)
        for own, other in (halves, halves[::-1]):
            calibration = estimator._calibrated(evidence[other], gold[other], weights[other])
            losses[own] = calibration.losses(evidence[own], gold[own], weights[own])
        return losses


def least_gain(gains, weights):
    """Return the mean gain of samples minus a multiple of its standard error.

    Parameters
    ----------
    gains : array of shape (n_samples,)
        Gains of the samples, multiplied by their weights.
    weights : array of shape (n_samples,)
    """
    deviations = gains - weights * gains.sum() / weights.sum()
    return (gains.sum() - _CLEARLY * np.sqrt(deviations @ deviations)) / weights.sum()


def epochs_of(estimator, X, task, hidden, rng, n_epochs=None):
    """Return the learner of a new model by Adam; `n_epochs` is its number of epochs, if it is known to be the best."""
    optimizer = MinibatchOptimizer(estimator._initial(X.values, hidden, rng), rng)
    estimator._configure(optimizer, len(X))
    visit = visits(estimator, optimizer, task, X, rng)
    return Epochs(optimizer, visit, n_epochs or estimator._most_iter("adam"), is_enough=n_epochs is not None)


class LbfgsFit:
    """A fit of linear scores by L-BFGS over all samples.

    The strength of the penalty, the calibration and the threshold are chosen by cross-validation, all with the same
    models of three to five folds. The fit starts from the mean of these models.

    Parameters
    ----------
    estimator : MultilabelLPSparseMAP
    X : RaggedArray
    task : LabelTask

    Attributes
    ----------
    learner : Learner
    watch : dict
        Arguments of the monitor.
    """

    def __init__(self, estimator, X, task):
        self.estimator, self.watch = estimator, {}
        self.tol = _LBFGS_TOL if estimator.tol is None else estimator.tol
        X, task, self.folds = in_folds(X, task)
        self.gold, self.task = task.gold, task
        task.gold = task.gold.astype(bool).toarray()
        estimator._watch_sets(task)
        alpha, _ = pair_of(estimator.alpha, None)
        usual = automatic_alpha(X.values, task.weights)
        alphas = [usual * factor for factor in _PATH] if alpha == "auto" else [alpha]
        start = LinearModel.zeros(X.values.shape[1], task.n_outputs, 0)
        if self.folds:
            estimator.alpha_, self.evidence, start = self._cross_fit(X, start, alphas)
        else:
            estimator.alpha_, self.evidence = usual if alpha == "auto" else alpha, None
        self.learner = self._batch(task, X, start, estimator.alpha_, self.tol)

    def _cross_fit(self, X, start, alphas):
        """Choose the strength of the penalty by the log loss of calibrated probabilities on the held-out parts.

        Strengths are tried in descending order, each from the models of the previous one, until the loss no longer
        falls. The choice lies between the best strength and its neighbours, at the minimum of a parabola through their
        losses. So the choice changes little if two losses are nearly equal.

        Returns
        -------
        alpha : float
        evidence : array of shape (n_samples, n_labels)
            Scores of the held-out samples. Between two strengths, they are interpolated.
        start : LinearModel
            The mean of the models, interpolated likewise.
        """
        estimator, task, losses, found = self.estimator, self.task, [], []
        parts = [(task.take(train), X[train], X[held]) for train, held in self.folds]
        models = [start] * len(parts)
        for alpha in alphas:
            evidence = np.empty(task.gold.shape)
            for k, (part, features, held) in enumerate(parts):
                learner = self._batch(part, features, models[k], alpha, max(_ROUGH_TOL, self.tol))
                learner.run(partial(_is_settled, learner.losses))
                models[k] = learner.model()
                evidence[self.folds[k][1]] = estimator._evidence(_as_network(models[k]), held.values)
            mean = (np.mean([getattr(model, name) for model in models], axis=0) for name in _ARRAYS)
            found.append((evidence, *mean))
            losses.append(estimator._calibrate(evidence, task) * (1.0 + _PROGRESS) ** len(losses))
            best = int(np.argmin(losses))
            # Only the neighbours of the best strength are needed.
            found[: max(best - 1, 0)] = [None] * max(best - 1, 0)
            if len(losses) - 1 - best >= (1 if losses[best] < (1.0 - _CLEAR) * losses[0] else 2):
                break
        place = lowest_place(losses)
        k = int(place)
        low, high, fraction = alphas[k], alphas[min(k + 1, len(losses) - 1)], place - k
        evidence, *arrays = (a + fraction * (b - a) for a, b in zip(found[k], found[min(k + 1, len(losses) - 1)]))
        estimator._calibrate(evidence, task)
        return low * (high / low) ** fraction if fraction else low, evidence, LinearModel(*arrays)

    def finish(self):
        """Choose the rule of decision="auto" and, if it is "auto", the threshold of the fitted estimator."""
        estimator = self.estimator
        if estimator._tunes_threshold() or (self.folds and not estimator._single and self.task.known is None):
            estimator.threshold_, estimator._rule, _ = estimator._tuned(self.held_out_parts())

    def held_out_parts(self):
        """Yield the held-out samples of each fold, as `_tuned` takes them; without folds, all samples."""
        task = self.task
        for train, held in self.folds:
            # The rows of samples with unknown labels are not their label sets.
            sets = SeenSets(self.gold[train], task.weights[train]) if task.known is None else None
            yield self.evidence[held], task.take(held), sets
        if not self.folds:
            yield self.estimator._evidence(self.estimator._learned.model, self.learner.X.values), task, None

    def _batch(self, task, X, start, alpha, tol):
        """Return the learner of linear scores."""
        estimator = self.estimator
        return Batch(
            task, X, start, _as_network, alpha=alpha, tol=tol, max_iter=estimator._most_iter("lbfgs"),
            n_jobs=estimator.n_jobs,
        )  # fmt: skip


def lowest_place(losses):
    """Return the place of the minimum of a curve, between indices: float.

    It is the minimum of the parabola through the lowest of the losses and its neighbours.

    Parameters
    ----------
    losses : sequence of float
        At places 0, 1, and so on.
    """
    best, last = int(np.argmin(losses)), len(losses) - 1
    if last < 2:
        return float(best)
    middle = min(max(best, 1), last - 1)
    before, here, after = losses[middle - 1 : middle + 2]
    curvature = before - 2.0 * here + after
    if curvature <= 0.0:
        return float(best)
    return float(np.clip(middle + 0.5 * (before - after) / curvature, max(best - 0.5, 0.0), min(best + 0.5, last)))


def _is_settled(losses, loss):
    """Tell whether the loss of L-BFGS, the last of a list, hardly decreases; a rough criterion for cross-validation."""
    return len(losses) > _FEW and losses[-1 - _FEW] - loss <= _FEW * _ROUGH * abs(loss)


class AdamFit:
    """A fit by Adam on mini-batches. The threshold is tuned, and training is stopped early, on held-out samples.

    Attributes are those of `LbfgsFit`, and so are the first three parameters.

    Parameters
    ----------
    hidden : list of int
        Sizes of the hidden layers.
    trial : Trial, default=None
        Gives the number of epochs, and the held-out samples. By default, the parameters of the estimator do.
    """

    def __init__(self, estimator, X, task, hidden, trial=None):
        rng = check_random_state(estimator.random_state)
        if estimator.shuffle:
            # The order of the samples has no effect.
            X, task, _ = in_folds(X, task)
        self.estimator, self.hidden, self.whole, self.held_out, self.trial = estimator, hidden, task, None, trial
        X, task = self._hold_out(X, task, rng) if trial is None else (X, copy(task))
        estimator._watch_sets(task)
        self.X, self.task = X, _for_epochs(task)
        self.watch = {"watch_loss": trial is None}
        if estimator.early_stopping and self.held_out:
            features, held = self.held_out
            self.watch["validate"] = partial(estimator._validate, X=features, task=held)
            self.watch["held_out_loss"] = partial(estimator._held_out_loss, X=features, task=held)
        self.learner = epochs_of(estimator, X, task, hidden, rng, trial and trial.n_epochs)
        estimator.alpha_ = self.learner.optimizer.alphas[0]

    def finish(self):
        """Calibrate, choose rule and threshold of the fitted estimator, and store the label sets of all samples."""
        estimator, rule, unseen = self.estimator, None, self._unseen()
        if unseen is not None:
            estimator._calibrate(*unseen[:2])
        if estimator._tunes_threshold():
            if unseen is None:
                unseen = estimator._evidence(estimator._learned.model, self.X.values), self.task, None
            estimator.threshold_, rule, _ = estimator._tuned([unseen])
        elif unseen is not None and unseen[2] is not None:
            _, rule, _ = estimator._tuned([unseen])
        estimator._watch_sets(self.whole, rule)

    def _unseen(self):
        """Return held-out samples as `_tuned` takes them: (evidence, LabelTask, SeenSets or None).

        They are those of the trial, the held-out ones, or a third of the samples, scored by a second model that learns
        from the others for as many epochs. The label sets are those of the samples that were learned from. Without
        such samples, return None.
        """
        estimator = self.estimator
        if self.trial is not None:
            return self.trial.unseen
        if self.held_out:
            X, task = self.held_out
            evidence, sets = estimator._evidence(estimator._learned.model, X), estimator._sets
        else:
            X, whole, folds = in_folds(self.X, self.whole, _TWIN_FOLDS)
            if not folds:
                return None
            train, held = folds[0]
            part, task = whole.take(train), whole.take(held)
            sets = None if estimator._single else SeenSets(part.gold, part.weights)
            twin = epochs_of(estimator, X[train], _for_epochs(part), self.hidden, check_random_state(_TWIN_SEED))
            for _ in range(estimator.n_iter_):
                twin.visit()
            evidence = estimator._evidence(twin.model(), X.values[held])
        return evidence, task, sets if task.known is None else None

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
                "smaller fraction, or use more samples"
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


def _for_epochs(task):
    """Scale the weights of a task to mean 1, and store its gold labels as a dense array if they are few; return it."""
    task.weights = relative(task.weights)
    if np.prod(task.gold.shape) <= _DENSE_CELLS:
        task.gold = dense(task.gold) > 0.0
    return task


def _as_network(model):
    """Return a linear model as a network without hidden layers."""
    return Network([model.coef.copy()], [model.intercept.copy()], np.zeros(0))
