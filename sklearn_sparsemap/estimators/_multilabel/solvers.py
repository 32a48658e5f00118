"""The two optimisers of label sets: L-BFGS over all samples, and Adam on mini-batches."""

from __future__ import annotations

from copy import copy
from functools import partial

import numpy as np
from scipy import sparse
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from ..._core.blocks import dense
from ..._training._minibatch import MinibatchOptimizer
from ..._training._network import NetworkModel
from ..._training.score_models import LinearModel
from .._learners.epochs import OnlineLearner, make_epoch
from .._learners.held_out import held_out_fraction
from .._learners.lbfgs import LBFGSLearner
from .._monitor import report
from .._strengths import MIN_DECREASE, PATH, choose_strength, has_stalled, relative, total_variance, try_strengths
from .adam import configure, initial_network, max_epochs
from .calibration import Calibration
from .data import in_folds, strata_of
from .decisions import ObservedLabelSets
from .descriptions import AUTO_NETWORK

# The docstring of `MultilabelLPSparseMAP` repeats the defaults and sizes below.
SOLVERS = ("auto", "lbfgs", "adam")
# Defaults of `tol`, the largest entry of the gradient at the end of L-BFGS, and of `max_iter`.
_LBFGS_TOL, _LBFGS_MAX_ITER = 1e-5, 1000
# Factor of the usual penalty: the variance of the features over the square root of the number of samples, as suggested
# by generalisation bounds. Cross-validation chooses a multiple of it.
_STRENGTH = 0.02
# In cross-validation, L-BFGS ends if the loss falls by less than `_CV_LOSS_TOL` times itself (see `has_stalled`), or
# if no entry of the gradient exceeds `_CV_GRADIENT_TOL`.
_CV_LOSS_TOL, _CV_GRADIENT_TOL = 1e-4, 1e-4
_ARRAYS = "coef", "intercept", "additional"
# Maximum number of cells of an indicator matrix that is stored as a dense array in training, which is faster.
_MAX_DENSE = 2**23
# Seed of the second model, on whose held-out samples, one in three, the probabilities are calibrated.
_TWIN_SEED, _TWIN_FOLDS = 0, 3
# Minimum number of held-out samples; with fewer, the threshold is tuned on the training samples.
_MIN_HELD_OUT = 50
# Smallest number of samples, and of samples for each feature and each label, for the comparison. With fewer, networks
# are rarely better, and the comparison takes longer than the fit of linear scores.
_MIN_COMPARED, _MIN_FOR_EACH = 2000, 20
# Number of samples that the network visits until it is compared, and bounds of its epochs. With more visits, the
# comparison takes longer. Of two and five epochs with 13,000 samples, only five showed that products matter.
_COMPARED_VISITS, _COMPARED_EPOCHS = 40_000, (5, 30)
# Number of standard errors by which the log loss of the network must then be lower.
_MIN_STANDARD_ERRORS = 2.0
# Number of epochs between measurements of the log loss afterwards. Training ends after two without progress.
_STRIDE = 5


def choose_solver(estimator, inference, X, task, description, held_out=None):
    """Return the solver of a fit: `LBFGSCrossValidation` or `AdamTraining`.

    Parameters
    ----------
    estimator : MultilabelLPSparseMAP
        Solvers read its parameters only.
    inference : LabelInference
        The solver fits its calibration, threshold, rule and label sets.
    X : RaggedArray
    task : LabelTask
    description : Network or None
        The score model. None for linear scores and for "auto".
    held_out : (X, LabelTask), default=None
        The user's validation samples.

    Raises
    ------
    ValueError
        If the estimator asks for L-BFGS, but its loss is not smooth.
    """
    obstacles = {
        "a network": description is not None,
        "label_graph": len(task.graph.edges) > 0,
        "loss='hinge'": estimator.loss == "hinge",
        "early_stopping": estimator.early_stopping,
        "X_val": held_out is not None,
    }
    named = [name for name, is_there in obstacles.items() if is_there]
    if estimator.solver == "lbfgs" and named:
        raise ValueError(
            "solver='lbfgs' is for linear scores and smooth losses, without edges and early stopping; it cannot be "
            f"used with {' and '.join(named)}; use solver='auto'"
        )
    if named or estimator.solver == "adam":
        return AdamTraining(estimator, inference, X, task, description, held_out=held_out)
    compares = estimator.score_model == "auto" and estimator.solver == "auto"
    return LBFGSCrossValidation(estimator, inference, X, task, compares)


class NetworkComparison:
    """A network that learns from the samples of the first fold of linear scores, and is compared on the held-out ones.

    Parameters
    ----------
    linear : LBFGSCrossValidation

    Attributes
    ----------
    n_epochs : int
        Number of epochs with the lowest log loss.
    held_out : (evidence, LabelTask, ObservedLabelSets)
        The held-out samples, scored by the network after that many epochs, and the label sets of the other samples.
    """

    def __init__(self, linear):
        estimator, X, (train, held) = linear.estimator, linear.X, linear.folds[0]
        self.linear_evidence, self.task, sets = next(linear.held_out_folds())
        self.estimator, self.inference, self.held = estimator, linear.inference, X.values[held]
        part = linear.task.take(train)
        part.weights = relative(part.weights)
        self.learner = epochs_of(estimator, X[train], part, AUTO_NETWORK, check_random_state(_TWIN_SEED))
        self.sets = sets
        self.n_done = 0
        self.n_first = int(np.clip(np.ceil(_COMPARED_VISITS / len(train)), *_COMPARED_EPOCHS))

    def is_better(self):
        """Train the network until its log loss no longer falls; return whether it is clearly below the linear one.

        If it is not after the first epochs, or if training diverges, training ends there.
        """
        most = self.learner.max_iter
        done = min(self.n_first, self.learner.max_iter)
        lowest = np.inf
        linear_losses = self._losses(self.linear_evidence)
        if not self._run_epochs(done):
            return False
        while True:
            evidence = self.inference.evidence(self.learner.model(), self.held)
            losses = self._losses(evidence)
            if lowest == np.inf and least_gain(linear_losses - losses, self.task.weights) <= 0.0:
                return False
            if losses.sum() < (1.0 - MIN_DECREASE) * lowest:
                lowest = losses.sum()
                self.n_epochs = done
                self.held_out = evidence, self.task, self.sets
            more = min(_STRIDE, most - done)
            if not more or done - self.n_epochs >= 2 * _STRIDE or not self._run_epochs(more):
                return True
            done += more

    def _run_epochs(self, n_epochs):
        """Train for some epochs; return whether the loss is finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(n_epochs):
                self.n_done += 1
                report(self.estimator, "network for comparison, epoch", self.n_done, f"at most {self.learner.max_iter}")
                if not np.isfinite(self.learner.run_epoch()):
                    return False
        return True

    def _losses(self, evidence):
        """Return the log loss of each held-out sample, calibrated on the other half of them."""
        inference = self.inference
        gold = dense(self.task.gold)
        weights = self.task.label_weights
        losses = np.empty(len(evidence))
        halves = slice(0, None, 2), slice(1, None, 2)
        for half, other in (halves, halves[::-1]):
            unfitted = Calibration.unfitted(inference.loss, gold.shape[1], inference.calibration.single)
            calibration = unfitted.fit(evidence[other], gold[other], weights[other])
            losses[half] = calibration.losses(evidence[half], gold[half], weights[half])
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
    return (gains.sum() - _MIN_STANDARD_ERRORS * np.sqrt(deviations @ deviations)) / weights.sum()


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


class LBFGSCrossValidation:
    """Linear scores by L-BFGS over all samples, with a penalty that is chosen by cross-validation.

    The strength of the penalty, the calibration and the threshold are chosen by cross-validation, all with the same
    models of three to five folds. The fit starts from the mean of these models.

    Parameters
    ----------
    estimator : MultilabelLPSparseMAP
    inference : LabelInference
    X : RaggedArray
    task : LabelTask
    compares : bool, default=False
        Whether linear scores are compared with a network, if features are dense, and samples are enough.

    Attributes
    ----------
    X, task : RaggedArray, LabelTask
        The samples of positive weight, in the order of their folds.
    training_part : LabelTask
        The samples that are learned from.
    alpha : float
        Strength of the penalty, set by `cross_validate`.
    learner : Learner
        Learns from all samples, set by `cross_validate`.
    watch : dict
        Arguments of the monitor.
    description : None
        The description of the score model, for linear scores.
    """

    description = None

    def __init__(self, estimator, inference, X, task, compares=False):
        self.estimator, self.inference, self.watch, self.compares = estimator, inference, {}, compares
        self._data = (X, task)
        self.X, self.task, self.folds = in_folds(X, task)
        self.gold = self.task.gold
        self.task.gold = self.task.gold.astype(bool).toarray()
        self.training_part = self.task
        # The rows of samples with unknown labels are not their label sets.
        self._keeps_sets = task.varies and task.known is None
        self.tol = _LBFGS_TOL if estimator.tol is None else estimator.tol
        max_iter = _LBFGS_MAX_ITER if estimator.max_iter is None else estimator.max_iter
        self._new_learner = partial(LBFGSLearner, expand=_as_network, max_iter=max_iter, n_jobs=estimator.n_jobs)

    def cross_validate(self):
        """Choose the strength of the penalty, and calibrate the estimator; return the solver that trains.

        It is this one, unless a network is better.
        """
        X, task = self.X, self.task
        alpha = self.estimator.alpha
        usual = _STRENGTH * total_variance(X.values, task.weights) / np.sqrt(task.weights.sum())
        start = LinearModel.zeros(X.values.shape[1], task.n_outputs, 0)
        self.evidence = None
        self.alpha = usual if alpha == "auto" else alpha
        if self.folds:
            alphas = [usual * factor for factor in PATH] if alpha == "auto" else [alpha]
            parts = [(task.take(train), X[train], X[held]) for train, held in self.folds]
            models = [start] * len(parts)
            losses = []
            results = []
            for self.alpha in try_strengths(alphas, losses, results):
                loss, own = self._evaluate(parts, models, f"strength {len(losses) + 1} of at most {len(alphas)}")
                losses.append(loss)
                results.append(own)
            self.alpha, *_, (self.evidence, *arrays) = choose_strength(alphas, losses, results)
            start = LinearModel(*arrays)
            self.inference.calibrate(self.evidence, task)
        self.learner = self._new_learner(task, X, start, alpha=self.alpha, tol=self.tol)
        n_samples, n_features = X.values.shape
        n_compared = max(_MIN_COMPARED, _MIN_FOR_EACH * max(n_features, task.n_outputs))
        if self.compares and n_samples >= n_compared and not sparse.issparse(X.values):
            comparison = NetworkComparison(self)
            if comparison.is_better():
                return AdamTraining(self.estimator, self.inference, *self._data, AUTO_NETWORK, comparison)
        return self

    def _evaluate(self, parts, models, name):
        """Train the models of the folds with `alpha`, starting from those of the previous strength, which it replaces.

        Parameters
        ----------
        parts : list of (task, X, X of the held-out samples)
        models : list of LinearModel
        name : str
            Name of the strength in reports.

        Returns
        -------
        loss : float
            The log loss of the calibrated probabilities of the held-out samples.
        results : list of arrays
            The scores of the held-out samples, and the arrays of the mean of the models.
        """
        evidence = np.empty(self.task.gold.shape)
        for k, (part, features, held) in enumerate(parts):
            report(self.estimator, f"cross-validation, {name}, fold", k + 1, len(parts))
            tol = max(_CV_GRADIENT_TOL, self.tol)
            learner = self._new_learner(part, features, models[k], alpha=self.alpha, tol=tol)
            learner.run(partial(has_stalled, _CV_LOSS_TOL, learner.losses))
            models[k] = learner.model()
            evidence[self.folds[k][1]] = self.inference.evidence(models[k], held.values)
        mean = (np.mean([getattr(model, name) for model in models], axis=0) for name in _ARRAYS)
        return self.inference.calibrate(evidence, self.task), [evidence, *mean]

    def finish(self, model):
        """Choose the rule of decision="auto" and, if it is "auto", the threshold of the fitted model."""
        inference = self.inference
        if inference.tunes_threshold or (self.folds and self._keeps_sets):
            all_samples = [] if self.folds else [(inference.evidence(model, self.X.values), self.task, None)]
            inference.cut, inference.rule, _ = inference.choose_rule(all_samples or self.held_out_folds())

    def held_out_folds(self):
        """Yield the held-out samples of each fold, as `LabelInference.choose_rule` takes them."""
        task = self.task
        for train, held in self.folds:
            sets = ObservedLabelSets.of_samples(self.gold[train], task.weights[train]) if self._keeps_sets else None
            yield self.evidence[held], task.take(held), sets


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
    comparison : NetworkComparison, default=None
        Gives the number of epochs, and the held-out samples. By default, the parameters of the estimator do.
    held_out : (X, LabelTask), default=None
        The user's validation samples. By default, some samples are held out if the estimator asks for it.

    Attributes
    ----------
    training_part : LabelTask
        The samples that are learned from.
    alpha, learner, watch, description
        As in `LBFGSCrossValidation`.
    """

    def __init__(self, estimator, inference, X, task, description, comparison=None, held_out=None):
        rng = check_random_state(estimator.random_state)
        if estimator.shuffle:
            # The order of the samples has no effect.
            X, task, _ = in_folds(X, task)
        self.estimator, self.inference = estimator, inference
        self.description, self.comparison = description, comparison
        self.held_out, self.X, self.whole, self.training_part = held_out, X, task, task
        if comparison is None and held_out is None:
            self.X, self.training_part = self._hold_out(X, task, rng)
        self.task = _for_epochs(copy(self.training_part))
        self.watch = {"watch_loss": comparison is None}
        if self.held_out and (estimator.early_stopping or held_out is not None):
            features, held = self.held_out
            self.watch["validate"] = partial(inference.validate, X=features, task=held)
            self.watch["held_out_loss"] = partial(inference.held_out_loss, X=features, task=held)
        self.learner = epochs_of(estimator, self.X, self.task, description, rng, comparison and comparison.n_epochs)
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

        They are those of the comparison, the held-out ones, or a third of the samples, scored by a second model that
        learns from the others for as many epochs. The label sets are those of the samples that were learned from.
        Without such samples, return None.
        """
        estimator = self.estimator
        if self.comparison is not None:
            return self.comparison.held_out
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
            twin = epochs_of(estimator, X[train], _for_epochs(part), self.description, check_random_state(_TWIN_SEED))
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


def _for_epochs(task):
    """Scale the weights of a task to mean 1, and store its gold labels as a dense array if they are few; return it."""
    task.weights = relative(task.weights)
    if np.prod(task.gold.shape) <= _MAX_DENSE:
        task.gold = dense(task.gold) > 0.0
    return task


def _as_network(model):
    """Return a linear model as a network without hidden layers."""
    return NetworkModel([model.coef.copy()], [model.intercept.copy()], np.zeros(0))
