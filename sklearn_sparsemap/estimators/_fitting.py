"""The course of a fit: a learner takes its steps, and a monitor watches them and keeps the best model."""

from __future__ import annotations

import sys
import warnings
from copy import copy
from functools import partial, wraps
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from .._core.annotations import Any, Callable
from .._core.ragged import RaggedArray
from .._core.validation import pair_of
from ..losses import LOSSES
from ..structures import Structure
from ..training._columns import Merging, columns_of
from ..training._data import LinearModel
from ..training._lbfgs import minimize_lbfgs
from ..training._minibatch import LinearMinibatchOptimizer
from ..training._objective import BatchObjective
from ..training._online.optimizer import MiraOptimizer, OnlineOptimizer
from ..training._scores import linear_scores

if TYPE_CHECKING:
    from typing import TypeVar

    Method = TypeVar("Method")

# Smallest duality gap at which the inference of online training ends. Losses are inexact by this much.
_ONLINE_TOL = 1e-8
# The gap as a fraction of the mean loss of the samples before. Larger values save time for chains of many labels; up to
# 0.1, held-out scores of chunks, entities, letters and trees stay within those of two seeds.
_ROUGH = 0.03
# Ends of the second and third part of the first visit, as fractions of the samples. The first part, one mini-batch, has
# exact inference, which takes long for chains of many labels, because the scores are small.
_FIRST_PARTS = 0.01, 0.1
# AdaGrad's step size, if the estimator's `solver` does not give one.
_ADAGRAD_STEP = 0.1
# Epochs of AdaGrad before L-BFGS, and their step size.
_WARM_UP_EPOCHS, _WARM_UP_STEP = 3, 0.1
# Up to this number of weights of merged columns, an online optimiser stores all of them.
_MOST_DENSE = 2**22
# Maximum number of linearisations of the loss of samples with unknown labels.
_MOST_ROUNDS = 10
# Prefixes of the attributes in which scikit-learn stores the callbacks of a call.
_OF_CALLBACKS = ("_callback_", "_skl_callbacks")


class Monitor:
    """Watches the steps of training, stops it, and keeps the best model.

    If training is interrupted after the first step, the model so far is kept. A subclass may stop by a rule of its own:
    the attribute `monitor_class` of an estimator is the class of its monitors.

    Parameters
    ----------
    estimator : estimator
        The estimator that is fitted.
    progress : object
        Reports each step to the user.
    validate : callable, default=None
        Maps a model to its score on the held-out samples. The best model is then kept.
    held_out_loss : callable, default=None
        Maps a model to its mean loss on the held-out samples. As long as this improves, training continues, and among
        equally good models the last one is kept.
    watch_loss : bool, default=False
        Whether to stop when the loss hardly decreases (if there is no `validate`): by at most the estimator's `tol`
        times the mean loss so far, on average over the last `n_iter_no_change` steps.

    Attributes
    ----------
    learner : object
        The learner that takes steps, or took them last, with a method ``model()``.
    losses, scores : list of float
        The loss after each step; the validation score, if there are held-out samples.
    stopped : bool
        Whether a callback stopped the last learner.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.estimators import Monitor
    >>> class Target(Monitor):
    ...     def step(self, loss):
    ...         return super().step(loss) or loss < 0.2
    >>> model = StructuredSparseMAPClassifier()
    >>> model.monitor_class = Target
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> model.fit(X, X[:, 0] > 0).loss_curve_[-1] < 0.2
    True
    """

    def __init__(
        self,
        estimator: Any,
        progress: Any,
        validate: Callable[[Any], float] | None = None,
        held_out_loss: Callable[[Any], float] | None = None,
        watch_loss: bool = False,
    ) -> None:
        self.estimator, self.progress, self.validate, self.watch_loss = estimator, progress, validate, watch_loss
        self.held_out_loss, self._lowest = held_out_loss, np.inf
        self.losses, self.scores = [], []
        self.learner, self.message, self.stopped, self.diverged = None, "", False, False
        self._best_model = None
        self._best, self._without_improvement = -np.inf, 0

    @property
    def n_iter(self) -> int:
        """Number of steps, at least 1."""
        return max(1, len(self.losses))

    def follow(self, learner: Any) -> None:
        """Let a learner take its steps."""
        self.learner, self._best_model, self._without_improvement = learner, None, 0
        self.progress.follow(learner.step_name)
        keep_if(self.estimator, lambda: learner.begun and not self.diverged, partial(learner.keep, self))
        self.message = learner.run(self.step)

    def model(self) -> Any:
        """Return the model to keep if training ends now."""
        return self.learner.expand(self._best_model if self._best_model is not None else self.learner.model())

    def attributes(self, model: Any) -> dict[str, Any]:
        """Return all fitted attributes of an estimator with this model, for callbacks."""
        names = [name for name in self.estimator._set_by_fit if hasattr(self.estimator, name)]
        return {name: getattr(self.estimator, name) for name in names} | self.estimator._outcome(self, model)

    def take(self) -> None:
        """Store the model learned so far in the estimator."""
        vars(self.estimator).update(self.estimator._outcome(self, self.model()))

    def end(self) -> None:
        """Issue warnings at the end: why training did not converge, and the number of inexact samples."""
        if self.message:
            warn_of_convergence(self.message)
        warn_of_inference(self.learner.unconverged)
        self.progress.end(lambda: self.attributes(self.model()))

    def step(self, loss: float) -> bool:
        """Note the loss of a step; return whether to stop.

        Parameters
        ----------
        loss : float

        Returns
        -------
        stop : bool

        Raises
        ------
        ValueError
            If the loss is not finite. The estimator is then as before.
        """
        self.diverged = not np.isfinite(loss)
        check_finite_loss(loss, self.estimator._step_size)
        self.losses.append(float(loss))
        note, value, held_out_loss = "", -np.inf, np.inf
        if self.validate is not None:
            model = self.learner.model()
            value = self.validate(model)
            self.scores.append(value)
            note = f", validation score {value:.4f}"
            highest = max(self.scores[:-1], default=-np.inf)
            if value > highest or (value == highest and self.held_out_loss is not None):
                self._best_model = model.copy()
            if self.held_out_loss is not None:
                held_out_loss = self.held_out_loss(model)
        self.stopped = bool(self.progress.iteration(loss, self._latest_attributes, note))
        return self.stopped or self._is_done(value, held_out_loss)

    def _is_done(self, value, held_out_loss):
        """Tell whether further steps promise too little, given the score and the loss on held-out samples."""
        if self.validate is None:
            return self.watch_loss and self._hardly_falls()
        # With few samples, scores can be constant for epochs: at the start no label may be predicted.
        falls = self.held_out_loss is not None and held_out_loss < self._lowest - self._little()
        self._without_improvement = 0 if value > self._best or falls else self._without_improvement + 1
        self._best, self._lowest = max(self._best, value), min(self._lowest, held_out_loss)
        return self._without_improvement >= self.estimator.n_iter_no_change

    def _hardly_falls(self):
        n = self.estimator.n_iter_no_change
        return len(self.losses) > n and self.losses[-1 - n] - self.losses[-1] <= n * self._little()

    def _little(self):
        """Return the largest decrease of the loss that counts as none."""
        tol = self.estimator._epoch_tol if self.estimator.tol is None else self.estimator.tol
        return tol * abs(np.mean(self.losses))

    def _latest_attributes(self):
        return self.attributes(self.learner.expand(self.learner.model()).copy())


class Learner:
    """Learns a model in steps. A subclass has `run`, `model` and `begun`.

    Attributes
    ----------
    begun : bool
        Whether there is a model to keep if training ends now.
    unconverged : int
        Number of samples whose inference did not converge.
    columns : Columns or None
        The merged columns of its models, if any.
    step_name : str
        The name of a step in messages of progress.
    """

    columns, unconverged = None, 0
    step_name = "iteration"

    def run(self, watch):
        """Take all steps. After each, call `watch` with the loss, and stop if the result is true.

        Returns
        -------
        message : str
            The reason if training did not converge, else empty.
        """
        raise NotImplementedError

    def model(self):
        """Return the current model, in the learner's own form."""
        raise NotImplementedError

    def expand(self, model):
        """Convert a model from the learner's form to the user's columns and type."""
        return model

    def keep(self, monitor):
        """Store the progress in the estimator if training is interrupted."""
        monitor.take()


class Epochs(Learner):
    """Epochs of an online optimiser.

    Parameters
    ----------
    optimizer : optimizer
    visit : callable
        Visits all samples, and returns their mean loss.
    max_iter : int
    columns : Columns, default=None
        The merged columns of the optimiser's weights.
    sparse_coef : bool, default=False
        Whether the user's model has sparse `coef`, if columns are merged.
    """

    step_name = "epoch"

    def __init__(self, optimizer, visit, max_iter, columns=None, sparse_coef=False):
        self.optimizer, self.visit, self.max_iter = optimizer, visit, max_iter
        self.columns, self.sparse_coef = columns, sparse_coef

    @property
    def begun(self):
        return self.optimizer.n_steps > 0

    @property
    def unconverged(self):
        return self.optimizer.unconverged

    def run(self, watch):
        for _ in range(self.max_iter):
            if watch(self.visit() + self.optimizer.penalty()):
                return ""
        name = self.optimizer.name
        return f"{name} was still improving after max_iter={self.max_iter} epochs; raise max_iter or tol"

    def model(self):
        return self.optimizer.model()

    def expand(self, model):
        return model if self.columns is None else self.columns.expand(model, sparse_coef=self.sparse_coef)


class Batch(Learner):
    """L-BFGS on the objective over all samples.

    Parameters
    ----------
    task : Task
    X : RaggedArray
    model : LinearModel
        The start, in float64.
    expand : callable
        Converts a `LinearModel` to the user's form.
    alpha, tol : float
    max_iter : int
    n_jobs : int or None
    fit_intercept : bool, default=True
    """

    def __init__(self, task, X, model, expand, *, alpha, tol, max_iter, n_jobs, fit_intercept=True):
        self.task, self.X, self.expand = task, X, expand
        self.alpha, self.tol, self.max_iter, self.n_jobs = alpha, tol, max_iter, n_jobs
        self.fit_intercept = fit_intercept
        self._model, self._merging, self.losses = model, None, []

    @property
    def begun(self):
        return bool(self.losses)

    def model(self):
        return self._model if self._merging is None else self._merging.expand(self._model)

    def _warm_up(self):
        """Run a few epochs of AdaGrad, with parameters of their own.

        At zero all structures tie. This is the sharpest kink of the loss, where the negative gradient need not be a
        descent direction, and near it solutions have the most structures. A few epochs lead away from there at little
        cost.
        """
        optimizer = OnlineOptimizer(self._model.copy(), average=True)
        optimizer.configure(alpha=self.alpha, eta0=_WARM_UP_STEP, tol=_ONLINE_TOL, fit_intercept=self.fit_intercept)
        epoch = self.task.epochs(optimizer, self.X, remember=False)
        for _ in range(_WARM_UP_EPOCHS):
            epoch(np.arange(len(self.X)))
        self._model = optimizer.model()

    def run(self, watch, task=None, max_iter=None):
        """Minimise the loss of a task from the current model; by default the learner's task, after a warm-up."""
        if task is None:
            task, max_iter = self.task, self.max_iter
            if task.sequential and task.has_kinks and not self._model.additional.any():
                self._warm_up()
        merging = Merging(self.X.values, task.n_outputs, penalised=self.alpha > 0.0)
        start = merging.shrink(self.model())
        objective = BatchObjective(
            task, merging.X, start, alpha=self.alpha, fit_intercept=self.fit_intercept, n_jobs=self.n_jobs
        )

        def after_iteration(model, loss):
            self._model, self._merging = model, merging
            self.losses.append(loss)
            return watch(loss)

        model, loss, message = minimize_lbfgs(
            objective, start, max_iter=max_iter, tol=self.tol, after_iteration=after_iteration
        )
        self._model, self._merging, self.unconverged = model, merging, objective.unconverged
        if not self.losses or not np.isfinite(loss):
            # The start was optimal, or training diverged.
            after_iteration(model, loss)
        if message:
            message = f"L-BFGS did not converge ({message}); raise max_iter, raise alpha or scale the features"
        return message


class PartialBatch(Batch):
    """L-BFGS on samples with unknown labels, a `PartialTask`.

    Without kinks, once. Otherwise, this is followed by a sequence of convex upper bounds.
    """

    def run(self, watch):
        message = super().run(watch)
        if LOSSES[self.task.loss].argmax == "gibbs":
            return message
        for _ in range(_MOST_ROUNDS):
            left, best = self.max_iter - len(self.losses), self.losses[-1]
            if left < 1:
                break
            model = self.model()
            scores = linear_scores(self.X.values, model, self.n_jobs)
            message = super().run(watch, self.task.made_linear(scores, model.additional, self.n_jobs), left)
            if best - self.losses[-1] <= self.tol * max(1.0, abs(best)):
                break
        return message


class Validation:
    """The score of a model on held-out samples.

    Parameters
    ----------
    predict : callable
        Maps a task, features and a model to predictions, in the form of gold.
    task : Task
    X : RaggedArray
    gold : array or RaggedArray
    weights : array of shape (n_samples,)
    """

    def __init__(self, predict, task, X, gold, weights):
        self.predict, self.task, self.X, self.gold, self.weights = predict, task, X, gold, weights

    def __call__(self, model):
        return self.task.agreement(self.gold, self.predict(self.task, self.X, model), self.weights)

    def narrowed(self, columns):
        """Return the validation of models with merged columns, if there are any."""
        if columns is None:
            return self
        found = copy(self)
        found.X = RaggedArray(columns.narrow(self.X.values), self.X.indptr, shapes=self.X.shapes)
        return found


def held_out_fraction(estimator):
    """Return the fraction of the samples that early stopping holds out, 0.0 without it."""
    stops = estimator.early_stopping
    return estimator.validation_fraction * stops if isinstance(stops, bool | np.bool_) else float(stops)


def relative(weights):
    """Return sample weights with mean 1, as the objective, which is a mean, uses them."""
    weights = weights / weights.max()
    return weights / weights.mean()


def learn_online(estimator, task, X, model, max_iter, rng):
    """Return the learner of AdaGrad or MIRA over all samples, starting from `model`."""
    columns, is_sparse = columns_of(X.values, model.coef) if task.sequential else None, sparse.issparse(model.coef)
    if columns is not None:
        shape = len(columns.multiplicity), task.n_outputs
        large = is_sparse and np.prod(shape) > _MOST_DENSE
        narrow = LinearModel.zeros(*shape, 0, sparse_coef=large, dtype=model.dtype)
        model = LinearModel(narrow.coef, model.intercept, model.additional)
    optimizer = new_optimizer(estimator, model, columns, task.sequential)
    return Epochs(optimizer, visits(estimator, optimizer, task, X, rng), max_iter, columns, is_sparse)


def visits(estimator, optimizer, task, X, rng, remember=True):
    """Return a function that visits all samples once, and returns their mean loss.

    Inference ends at a gap relative to the mean loss of the samples before: those of the previous visit or, in the
    first visit, those of the previous part.
    """
    epoch, order, total_weight = task.epochs(optimizer, X, remember), np.arange(len(X)), task.weights.sum()
    is_rough = task.sequential and task.form.quadratic
    cuts = _first_cuts(len(X), optimizer) if is_rough else []

    def visit():
        if estimator.shuffle:
            rng.shuffle(order)
        total = 0.0
        for part in np.split(order, cuts):
            loss = epoch(part)
            total += loss
            if is_rough and (weight := task.weights[part].sum()) > 0.0:
                optimizer.accept_gap(max(_ROUGH * loss / weight / task.form.temperature, _ONLINE_TOL))
        cuts.clear()
        return total / total_weight

    return visit


def _first_cuts(n_samples, optimizer):
    """Return where the parts of the first visit end, at whole mini-batches."""
    size = optimizer.batch_size
    return sorted({size, *(size * round(fraction * n_samples / size) for fraction in _FIRST_PARTS)})


def learn_batch(estimator, optimizer, task, X, keep=False):
    """Visit the samples of a mini-batch once, in their order; return their mean loss.

    If that is interrupted, completed steps are kept. With `keep`, the estimator's present state is kept even before the
    first step. A warning counts the samples whose inference did not converge.
    """
    before, n_inexact = optimizer.n_steps, optimizer.unconverged
    keep_if(estimator, lambda: keep or optimizer.n_steps > before)
    loss = task.epochs(optimizer, X, remember=False)(np.arange(len(X)))
    check_finite_loss(loss, estimator._step_size)
    estimator.n_iter_ += 1
    warn_of_inference(optimizer.unconverged - n_inexact)
    return float(loss / max(task.weights.sum(), np.finfo(float).tiny))


def new_optimizer(estimator, model, columns=None, sequential=True):
    """Make the online optimiser for an estimator's parameters, and for tasks that are `sequential` or not."""
    kind = _kind(estimator, sequential)
    return _configured(estimator, kind(model, average=estimator.average, columns=columns))


def _kind(estimator, sequential=True):
    if not (sequential and isinstance(estimator._structure, Structure)):
        if estimator._solver == "mira":
            raise ValueError("solver='mira' is not for factor graphs; use 'adagrad'")
        return LinearMinibatchOptimizer
    return MiraOptimizer if estimator._solver == "mira" else OnlineOptimizer


def adjust_optimizer(estimator, optimizer):
    """Apply an estimator's parameters, which may have changed, to an existing optimiser; return it."""
    if optimizer.average != estimator.average:
        raise ValueError("average cannot change between calls of partial_fit; fit a clone")
    if type(optimizer) is not _kind(estimator):
        raise ValueError("solver cannot change to or from 'mira' between calls of partial_fit; fit a clone")
    return _configured(estimator, optimizer)


def _configured(estimator, optimizer):
    if isinstance(optimizer, MiraOptimizer):
        _, largest = pair_of(estimator.solver, np.inf)
        optimizer.configure(C=largest, fit_intercept=estimator.fit_intercept)
    else:
        _, step = pair_of(estimator.solver, _ADAGRAD_STEP)
        optimizer.configure(
            alpha=estimator.alpha, eta0=step, tol=_ONLINE_TOL, fit_intercept=estimator.fit_intercept,
            batch_size=estimator.batch_size, n_jobs=estimator.n_jobs,
        )  # fmt: skip
    return optimizer


def leaves_whole(method: Method) -> Method:
    """Decorate a training method so that its estimator remains consistent after any exception.

    The estimator is then restored or, if `keep_if` says so, keeps the result of the last training step.
    """

    @wraps(method)
    def guarded(estimator, *args, **kwargs):
        before = dict(estimator.__dict__)
        try:
            return method(estimator, *args, **kwargs)
        except BaseException:
            if not _keep(estimator):
                # Keep the attributes that scikit-learn needs to end the callbacks of this call.
                before |= {name: value for name, value in estimator.__dict__.items() if name.startswith(_OF_CALLBACKS)}
                estimator.__dict__.clear()
                estimator.__dict__.update(before)
            raise
        finally:
            estimator.__dict__.pop("_kept", None)

    return guarded


def keep_if(estimator, begun, take=lambda: None):
    """Keep the progress made from here on if an exception ends the training.

    Parameters
    ----------
    estimator : estimator
        Within a method decorated by `leaves_whole`.
    begun : callable
        Tells whether there is progress to keep.
    take : callable
        Stores it in the estimator.
    """
    estimator._kept = begun, take


def _keep(estimator):
    """Keep the progress, if any; return whether there was any."""
    begun, take = estimator.__dict__.get("_kept", (lambda: False, None))
    if not begun():
        return False
    try:
        take()
    except MemoryError:
        return False
    return True


def check_finite_loss(loss, step_size="eta0"):
    """Raise ValueError, which names the parameter for the step size, if the loss is not finite."""
    if not np.isfinite(loss):
        raise ValueError(
            "training diverged: the loss is not finite; scale the features (for example to unit variance), or lower "
            f"{step_size}"
        )


def warn_of_inference(unconverged):
    """Issue a ConvergenceWarning if the inference of training samples did not converge."""
    if unconverged:
        warn_of_convergence(
            f"inference did not converge for {unconverged} training samples, so their gradients are inexact; scale the "
            "features or lower alpha"
        )


def warn_of_convergence(message):
    """Issue a ConvergenceWarning that points at the user."""
    warn_user(message, ConvergenceWarning)


def warn_user(message, category=UserWarning):
    """Issue a warning that points at the first caller outside this package and scikit-learn."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("sklearn_sparsemap", "sklearn"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
