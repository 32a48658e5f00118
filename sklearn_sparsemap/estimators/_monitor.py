"""The monitor of a fit, which stops a learner and keeps the best model, and its reports to users and callbacks.

Used by `distributed`, `estimators/_learners`, `estimators/_multilabel`, `estimators/_selection`,
`estimators/_structured`, `_decisions.py` and `_partitions.py`.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from functools import partial
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._core.annotations import Any, Callable, Self
from ._failures import check_finite_loss, commit_if, warn_of_inference, warn_user

if TYPE_CHECKING:
    from ._learners.learner import Learner

Method = TypeVar("Method")


class CallbackSupportMixin:
    """Placeholder for versions of scikit-learn without callbacks."""

    if TYPE_CHECKING:

        def set_callbacks(self, *callbacks: Any) -> Self: ...


def with_callbacks(method: Method) -> Method:
    """Return the method: the placeholder of a decorator, too."""
    return method


# scikit-learn has no type annotations, so its decorator would hide those of the methods from type checkers.
if not TYPE_CHECKING:
    with suppress(ImportError):
        from sklearn.callback import CallbackSupportMixin, with_callbacks  # noqa: F401


logger = logging.getLogger("sklearn_sparsemap")


def report(estimator, name, number, n_steps=None, note=""):
    """Tell the user which step of a phase is reached, if the estimator is verbose.

    With ``verbose=1`` these are the first ten steps, every tenth and the last one. Messages go to the logger
    ``"sklearn_sparsemap"`` if it handles level INFO, else to standard output.

    Parameters
    ----------
    estimator : estimator
    name : str
        Name of a step, such as "fold".
    number : int
        Number of the step, counted from 1.
    n_steps : int or str, default=None
        Number of steps, if it is known.
    note : str
        Text that is appended to the message.
    """
    verbose = estimator.verbose
    if not verbose or (verbose == 1 and number > 10 and number % 10 and number != n_steps):
        return
    share = "" if n_steps is None else f" of {n_steps}"
    message = f"[{type(estimator).__name__}] {name} {number}{share}{note}"
    if logger.hasHandlers() and logger.isEnabledFor(logging.INFO):
        logger.info(message)
    else:
        sys.stdout.write(message + "\n")
        sys.stdout.flush()


def reporter(estimator, name, n_steps):
    """Return a function that reports the loss of each step of a phase that no monitor watches."""
    numbers = count(1)

    def on_iteration(loss):
        report(estimator, name, next(numbers), n_steps, f", loss {loss:.6g}")
        return False

    return on_iteration


class Monitored(Protocol):
    """The members of an estimator that a `Monitor` uses.

    Attributes
    ----------
    _set_by_fit : iterable of str
        Names of the attributes that `fit` sets.
    _step_size : str
        The parameter that is too large if the loss diverges, for messages.
    _epoch_tol : float
        The default of `tol` in epochs.
    tol : float or None
    n_iter_no_change : int
        Both are used with held-out samples or `watch_loss` only.
    """

    _set_by_fit: Any
    _step_size: str
    _epoch_tol: float
    tol: float | None
    n_iter_no_change: int

    def _outcome(self, monitor: Monitor, model: Any) -> dict[str, Any]:
        """Return the fitted attributes of a training that ends with a model."""


class Monitor:
    """Watches the steps of training, stops it, and keeps the best model.

    If training is interrupted after the first step, the current model is kept. A subclass may have its own stopping
    rule: the attribute `monitor_class` of an estimator is the class of its monitors.

    Parameters
    ----------
    estimator : estimator
        The estimator that is being fitted.
    progress : object
        Reports each step to the user.
    validate : callable, default=None
        Maps a model to its score on the held-out samples. With it, the model with the best score is kept.
    held_out_loss : callable, default=None
        Maps a model to its mean loss on the held-out samples. Training continues while this loss decreases, and of
        models with equal scores the last one is kept.
    watch_loss : bool, default=False
        Without `validate`: whether to stop if the loss hardly decreases, by at most the estimator's `tol` times the
        mean loss so far, on average over the last `n_iter_no_change` steps.

    Attributes
    ----------
    learner : Learner
        The current learner, or the last one; see `_learners/learner.py`.
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
    ...     def on_iteration(self, loss):
    ...         return super().on_iteration(loss) or loss < 0.2
    >>> model = StructuredSparseMAPClassifier()
    >>> model.monitor_class = Target
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> model.fit(X, X[:, 0] > 0).loss_curve_[-1] < 0.2
    True
    """

    learner: Learner

    def __init__(
        self,
        estimator: Monitored,
        progress: Any,
        validate: Callable[[Any], float] | None = None,
        held_out_loss: Callable[[Any], float] | None = None,
        watch_loss: bool = False,
    ) -> None:
        self.estimator, self.progress, self.validate, self.watch_loss = estimator, progress, validate, watch_loss
        self.held_out_loss, self._lowest = held_out_loss, np.inf
        self.losses, self.scores = [], []
        self.message, self.stopped, self.diverged = "", False, False
        self._best_model = None
        self._best, self._n_before, self._without_improvement = -np.inf, 0, 0

    @property
    def n_iter(self) -> int:
        """Number of steps; at least 1, also if the first model was optimal."""
        return max(1, len(self.losses))

    def run(self, learner: Learner) -> None:
        """Run a learner; all scores so far count in the comparison, but only its models are kept."""
        self.learner, self._best_model, self._without_improvement = learner, None, 0
        self._n_before = len(self.losses)
        learner.is_validated = self.validate is not None
        commit_if(self.estimator, lambda: learner.has_started and not self.diverged, partial(learner.keep, self))
        self.message = learner.run(self.on_iteration)

    def model(self) -> Any:
        """Return the model to keep if training ends now."""
        return self.learner.expand(self._best_model if self._best_model is not None else self.learner.model())

    def attributes(self, model: Any) -> dict[str, Any]:
        """Return all fitted attributes of an estimator with this model, for callbacks."""
        names = [name for name in self.estimator._set_by_fit if hasattr(self.estimator, name)]
        return {name: getattr(self.estimator, name) for name in names} | self.estimator._outcome(self, model)

    def store(self) -> None:
        """Store the model learned so far in the estimator."""
        vars(self.estimator).update(self.estimator._outcome(self, self.model()))

    def end(self) -> None:
        """Report the end of training, with warnings if training or the inference of samples did not converge."""
        if self.message:
            warn_user(self.message, ConvergenceWarning)
        if self.learner.unconverged:
            warn_of_inference(self.learner.unconverged)
        self.progress.end(lambda: self.attributes(self.model()))

    def on_iteration(self, loss: float) -> bool:
        """Record the loss of a step; return whether to stop.

        Parameters
        ----------
        loss : float

        Returns
        -------
        stop : bool

        Raises
        ------
        ValueError
            If the loss is not finite. The estimator is then unchanged.
        """
        if not np.isfinite(loss):
            self.diverged = True
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
        number = len(self.losses) - self._n_before
        n_steps = self.learner.max_iter
        self.stopped = bool(
            self.progress.iteration(self.learner.step_name, number, loss, self._latest_attributes, note, n_steps)
        )
        if self.stopped or self.validate is None:
            return self.stopped or (self.watch_loss and self._has_stalled())
        # With few samples, scores can be constant for epochs: at the start no label may be predicted.
        falls = self.held_out_loss is not None and held_out_loss < self._lowest - self._min_decrease()
        self._without_improvement = 0 if value > self._best or falls else self._without_improvement + 1
        self._best = max(self._best, value)
        self._lowest = min(self._lowest, held_out_loss)
        return self._without_improvement >= self.estimator.n_iter_no_change

    def _has_stalled(self):
        """Tell whether the loss has hardly decreased over the last steps."""
        n = self.estimator.n_iter_no_change
        window = round(n * self.learner.patience)
        return len(self.losses) > window and self.losses[-1 - window] - self.losses[-1] <= n * self._min_decrease()

    def _min_decrease(self):
        """Return the decrease of the loss above which it counts as an improvement."""
        tol = self.estimator._epoch_tol if self.estimator.tol is None else self.estimator.tol
        return tol * abs(np.mean(self.losses))

    def _latest_attributes(self):
        return self.attributes(self.learner.expand(self.learner.model()).copy())


class Progress:
    """Reports the iterations of a fit to users, as `report` does, and to callbacks.

    Parameters
    ----------
    estimator : estimator
    X, y : object
        The training data in the user's form.
    max_iter : int
    """

    def __init__(self, estimator, X, y, max_iter):
        self.estimator, self.data = estimator, {"X": X, "y": y}
        self.started = perf_counter()
        self.n_iter = 0
        self.context = self.subcontext = None
        if hasattr(estimator, "_init_callback_context"):
            self.context = estimator._init_callback_context(max_subtasks=max_iter)
            self.context.call_on_fit_task_begin(estimator=estimator, **self.data)
            self._begin_iteration()

    def iteration(self, name, number, loss, attributes, note="", n_steps=None):
        """Report an iteration; return whether a callback requests to stop.

        Parameters
        ----------
        name : str
            Name of a step of the learner.
        number : int
            Number of the learner's step, counted from 1.
        loss : float
        attributes : callable
            Returns the fitted attributes of an estimator as if training stopped now.
        note : str
            Text that is appended to the message.
        n_steps : int, default=None
            Maximum number of steps.
        """
        self.n_iter += 1
        if self.estimator.verbose:
            elapsed = perf_counter() - self.started
            most = "" if n_steps is None else f"; {number} of at most {n_steps}"
            report(self.estimator, name, number, note=f": loss {loss:.6g}{note}, {elapsed:.2f} s{most}")
        if self.context is None:
            return False
        stop = self.subcontext.call_on_fit_task_end(
            estimator=self.estimator, **self.data, reconstruction_attributes=attributes
        )
        self.subcontext = None
        if not stop and self.n_iter < self.context.max_subtasks:
            self._begin_iteration()
        return stop

    def end(self, attributes):
        """Report the end of the fit."""
        if self.context is not None:
            self.context.call_on_fit_task_end(
                estimator=self.estimator, **self.data, reconstruction_attributes=attributes
            )

    def _begin_iteration(self):
        self.subcontext = self.context.subcontext(task_name="iteration")
        self.subcontext.call_on_fit_task_begin(estimator=self.estimator, **self.data)
