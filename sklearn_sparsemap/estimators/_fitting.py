"""The course of a fit: run an optimiser, monitor the loss or a validation score, keep the best model."""

from __future__ import annotations

import sys
import warnings
from copy import copy
from functools import partial, wraps
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .._core.ragged import RaggedArray
from ..training._columns import columns_of
from ..training._data import LinearModel
from ..training._lbfgs import minimize_lbfgs
from ..training._merging import Merging
from ..training._minibatch import LinearMinibatchOptimizer
from ..training._objective import BatchObjective
from ..training._online.optimizer import MiraOptimizer, OnlineOptimizer
from ._progress import Progress

if TYPE_CHECKING:
    from typing import TypeVar

    Method = TypeVar("Method")

# Duality gap of the inference in online training. Losses are inexact by this much, which is small compared with the
# noise of the gradients.
_ONLINE_TOL = 1e-8
# Epochs of AdaGrad before L-BFGS, and their step size, the default of `eta0`.
_WARM_UP_EPOCHS, _WARM_UP_STEP = 3, 0.1
# Up to this number of weights of merged columns, an online optimiser stores all of them.
_MOST_DENSE = 2**22
# Least improvement of an epoch, if the estimator's `tol` is None.
_TOL = 1e-3
# Prefixes of the attributes in which scikit-learn stores the callbacks of a call.
_OF_CALLBACKS = ("_callback_", "_skl_callbacks")


class Monitor:
    """Monitor the iterations of a fit.

    Parameters
    ----------
    estimator : estimator
        It has the parameters `tol` and `n_iter_no_change`.
    model : LinearModel
        The model before the first iteration.
    validate : callable or None
        Maps a model to its score on the held-out samples. The best model is then kept.
    progress : Progress or None
    watch_loss : bool
        Whether to stop when the loss no longer improves (if there is no `validate`).
    held_out_loss : callable, default=None
        Maps a model to its mean loss on the held-out samples. As long as this improves, training continues, and among
        equally good models the last one is kept.
    """

    def __init__(self, estimator, model, validate, progress, watch_loss, held_out_loss=None):
        self.estimator, self.validate, self.progress, self.watch_loss = estimator, validate, progress, watch_loss
        self.held_out_loss, self._lowest = held_out_loss, np.inf
        self.losses, self.scores = [], []
        # `latest` returns the current model; optimisers replace it. `expand` converts a model to the user's columns,
        # because an online optimiser may have merged them.
        self.latest, self.expand = lambda: model, lambda model: model
        # Tells whether there is a model to keep if training ends now; online optimisers replace it.
        self.begun = lambda: bool(self.losses)
        self.diverged = False
        self._best_model = None
        self._best, self._without_improvement = -np.inf, 0

    def model(self):
        """Return the model to keep if training ends now."""
        return self.expand(self._best_model if self._best_model is not None else self.latest())

    def attributes(self, model):
        """Return the fitted attributes of an estimator with this model."""
        estimator = self.estimator
        return {
            **{name: getattr(estimator, name) for name in estimator._set_by_fit if hasattr(estimator, name)},
            "n_iter_": max(1, len(self.losses)),
            "_model": model.copy(),
            "_optimizer": None,
        }

    def take(self):
        """Store the model learned so far in the estimator."""
        estimator = self.estimator
        estimator._model, estimator._optimizer = self.model(), None
        estimator.loss_curve_, estimator.validation_scores_ = self.losses, self.scores
        estimator.n_iter_ = max(1, len(self.losses))

    def end(self, message, n_inexact):
        """Issue warnings at the end: why training did not converge, and the number of inexact samples."""
        if message:
            warn_of_convergence(message)
        warn_of_inference(n_inexact)
        self.progress.end(lambda: self.attributes(self.estimator._model))

    def check(self, loss):
        """Raise ValueError if the loss is not finite; then nothing is kept."""
        self.diverged = not np.isfinite(loss)
        check_finite_loss(loss, self.estimator._step_size)

    def iteration(self, loss):
        """Report an iteration; return whether to stop."""
        self.check(loss)
        self.losses.append(float(loss))
        note, value, held_out_loss = "", -loss, np.inf
        if self.validate is not None:
            model = self.latest()
            value = self.validate(model)
            self.scores.append(value)
            note = f", validation score {value:.4f}"
            highest = max(self.scores[:-1], default=-np.inf)
            if value > highest or (value == highest and self.held_out_loss is not None):
                self._best_model = model.copy()
            if self.held_out_loss is not None:
                held_out_loss = self.held_out_loss(model)
        stop = False
        if self.progress is not None:
            stop = self.progress.iteration(loss, lambda: self.attributes(self.expand(self.latest())), note)
        if self.validate is not None or self.watch_loss:
            tol = _TOL if self.estimator.tol is None else self.estimator.tol
            # With few samples, scores can be constant for epochs: at the start no label may be predicted.
            improved = value > self._best + tol or held_out_loss < self._lowest - tol
            self._without_improvement = 0 if improved else self._without_improvement + 1
            self._best, self._lowest = max(self._best, value), min(self._lowest, held_out_loss)
            stop = stop or self._without_improvement >= self.estimator.n_iter_no_change
        return stop


class Validation:
    """The score of a model on held-out samples.

    Parameters
    ----------
    score : callable
        Maps a task, features, gold, a model and weights to the score.
    task : Task
    X : RaggedArray
    gold : array or RaggedArray
    weights : array of shape (n_samples,)
    """

    def __init__(self, score, task, X, gold, weights):
        self.score, self.task, self.X, self.gold, self.weights = score, task, X, gold, weights

    def __call__(self, model):
        return self.score(self.task, self.X, self.gold, model, self.weights)

    def narrowed(self, columns):
        """Return the validation of models with merged columns."""
        found = copy(self)
        found.X = RaggedArray(columns.narrow(self.X.values), self.X.indptr, shapes=self.X.shapes)
        return found


def start_fit(estimator, data, model, validate, max_iter, watch_loss=True, held_out_loss=None):
    """Return the monitor of a fit on the user's data; if training is interrupted, the model so far is kept.

    The other parameters are those of `Monitor` and `Progress`.
    """
    monitor = Monitor(estimator, model, validate, Progress(estimator, *data, max_iter), watch_loss, held_out_loss)
    keep_if(estimator, lambda: monitor.begun() and not monitor.diverged, monitor.take)
    return monitor


def relative(weights):
    """Return sample weights with mean 1, as the objective, which is a mean, uses them."""
    weights = weights / weights.max()
    return weights / weights.mean()


def fit_lbfgs(estimator, task, X, model, max_iter, monitor):
    """Minimise the objective over all samples, starting at `model`.

    Returns
    -------
    message : str
        The reason if it did not converge, else empty.
    n_inexact : int
        Number of samples whose inference did not converge.
    """
    if task.sequential and task.has_kinks and not model.additional.any():
        # At zero all structures tie. This is the sharpest kink of the loss, where the negative gradient need not be a
        # descent direction, and near it solutions have the most structures. A few epochs of AdaGrad lead away from
        # there at little cost. AdaGrad's parameters of the estimator are not used here: they are documented for that
        # solver only.
        optimizer = OnlineOptimizer(model.copy(), average=True)
        optimizer.configure(
            alpha=estimator.alpha, eta0=_WARM_UP_STEP, tol=_ONLINE_TOL, fit_intercept=estimator.fit_intercept
        )
        epoch = task.epochs(optimizer, X, remember=False)
        for _ in range(_WARM_UP_EPOCHS):
            epoch(np.arange(len(X)))
        model = optimizer.model()
    merging = Merging(X.values, task.n_outputs, penalised=estimator.alpha > 0.0)
    model = merging.shrink(model)
    objective = BatchObjective(
        task, merging.X, model, alpha=estimator.alpha, fit_intercept=estimator.fit_intercept, n_jobs=estimator.n_jobs
    )

    def after_iteration(current, loss):
        monitor.latest = lambda: merging.expand(current)
        return monitor.iteration(loss)

    found, loss, message = minimize_lbfgs(
        objective, model, max_iter=max_iter, tol=estimator.tol, after_iteration=after_iteration
    )
    monitor.check(loss)
    found = merging.expand(found)
    monitor.latest = lambda: found
    if not monitor.losses:
        # The initial point was optimal.
        monitor.losses.append(loss)
    if message:
        message = f"L-BFGS did not converge ({message}); raise max_iter, raise alpha or scale the features"
    return message, objective.unconverged


def fit_online(estimator, task, X, model, max_iter, monitor):
    """Run epochs of AdaGrad or MIRA, starting from `model`; returns the same as `fit_lbfgs`."""
    columns = columns_of(X.values, model.coef) if task.sequential else None
    if columns is not None:
        is_sparse, shape = sparse.issparse(model.coef), (len(columns.multiplicity), task.n_outputs)
        large = is_sparse and np.prod(shape) > _MOST_DENSE
        narrow = LinearModel.zeros(*shape, 0, sparse_coef=large, dtype=model.dtype)
        model = LinearModel(narrow.coef, model.intercept, model.additional)
        monitor.expand = partial(columns.expand, sparse_coef=is_sparse)
        if monitor.validate is not None:
            monitor.validate = monitor.validate.narrowed(columns)
    optimizer = new_optimizer(estimator, task, model, columns)
    name = "MIRA" if estimator.solver == "mira" else "AdaGrad"
    rng = check_random_state(estimator.random_state)
    return run_epochs(estimator, optimizer, name, task, X, max_iter, monitor, rng)


def run_epochs(estimator, optimizer, name, task, X, max_iter, monitor, rng):
    """Visit all samples repeatedly; returns the same as `fit_lbfgs`."""
    return follow_epochs(optimizer, name, visits(estimator, optimizer, task, X, rng), max_iter, monitor)


def visits(estimator, optimizer, task, X, rng, remember=True):
    """Return a function that visits all samples once, and returns their mean loss."""
    epoch, order, total_weight = task.epochs(optimizer, X, remember), np.arange(len(X)), task.weights.sum()

    def visit():
        if estimator.shuffle:
            rng.shuffle(order)
        return epoch(order) / total_weight

    return visit


def follow_epochs(optimizer, name, visit, max_iter, monitor):
    """Call `visit`, which visits all samples and returns their mean loss, in epochs; returns as `fit_lbfgs`."""
    monitor.latest, monitor.begun = optimizer.model, lambda: optimizer.n_steps > 0
    message = f"{name} was still improving after max_iter={max_iter} epochs; raise max_iter or tol"
    for _ in range(max_iter):
        if monitor.iteration(visit() + optimizer.penalty()):
            message = ""
            break
    return message, optimizer.unconverged


def learn_batch(estimator, optimizer, task, X, keep=False):
    """Visit the samples of a mini-batch once, in their order; return their mean loss.

    If that is interrupted, completed steps are kept. With `keep`, the estimator's present state is kept even before the
    first step.
    """
    before = optimizer.n_steps
    keep_if(estimator, lambda: keep or optimizer.n_steps > before)
    loss = task.epochs(optimizer, X, remember=False)(np.arange(len(X)))
    check_finite_loss(loss, estimator._step_size)
    estimator.n_iter_ += 1
    return float(loss / max(task.weights.sum(), np.finfo(float).tiny))


def new_optimizer(estimator, task, model, columns=None):
    """Make the online optimiser for an estimator's parameters."""
    options = {} if columns is None else {"columns": columns}
    return adjust_optimizer(estimator, task, _kind(estimator, task)(model, average=estimator.average, **options))


def _kind(estimator, task):
    if not task.sequential:
        if estimator.solver == "mira":
            raise ValueError("solver='mira' is not for factor graphs; use 'adagrad'")
        return LinearMinibatchOptimizer
    return MiraOptimizer if estimator.solver == "mira" else OnlineOptimizer


def adjust_optimizer(estimator, task, optimizer):
    """Apply an estimator's parameters, which may have changed, to an existing optimiser; return it."""
    if optimizer.average != estimator.average:
        raise ValueError("average cannot change between calls of partial_fit; fit a clone")
    if type(optimizer) is not _kind(estimator, task):
        raise ValueError("solver cannot change to or from 'mira' between calls of partial_fit; fit a clone")
    parameters = {"fit_intercept": estimator.fit_intercept}
    if isinstance(optimizer, MiraOptimizer):
        optimizer.configure(C=estimator.C, **parameters)
    else:
        own = {"tol": _ONLINE_TOL} if task.sequential else {}
        if estimator.batch_size is not None:
            own["batch_size"] = int(estimator.batch_size)
        optimizer.configure(alpha=estimator.alpha, eta0=estimator.eta0, n_jobs=estimator.n_jobs, **own, **parameters)
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
