"""Progress of a fit: verbose messages, and scikit-learn's callbacks if available (scikit-learn 1.9)."""

import logging
import sys
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    # scikit-learn has no type annotations, so its decorator would hide those of the methods.
    Method = TypeVar("Method")

    class CallbackSupportMixin:
        pass

    def with_callbacks(method: Method) -> Method:
        return method

else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:

        class CallbackSupportMixin:
            """Placeholder for versions of scikit-learn without callbacks."""

        def with_callbacks(method):
            return method


logger = logging.getLogger("sklearn_sparsemap")


class Progress:
    """Reports the iterations of a fit.

    Messages go to the logger ``"sklearn_sparsemap"`` if it handles level INFO, else to standard output.

    Parameters
    ----------
    estimator : estimator
    X, y : object
        The training data in the user's form.
    max_iter : int
    """

    def __init__(self, estimator, X, y, max_iter):
        self.estimator, self.data = estimator, {"X": X, "y": y}
        self.verbose = estimator.verbose
        self.started = perf_counter()
        self.n_iter = self.n_before = 0
        self.step_name = "iteration"
        self.context = self.subcontext = None
        if hasattr(estimator, "_init_callback_context"):
            self.context = estimator._init_callback_context(max_subtasks=max_iter)
            self.context.call_on_fit_task_begin(estimator=estimator, **self.data)
            self._begin_iteration()

    def follow(self, step_name):
        """Begin a phase: its steps are called `step_name` and counted from 1."""
        self.step_name, self.n_before = step_name, self.n_iter

    def iteration(self, loss, attributes, note=""):
        """Report an iteration; return whether a callback requests to stop.

        Parameters
        ----------
        loss : float
        attributes : callable
            Returns the fitted attributes of an estimator as if training stopped now.
        note : str
            Text that is appended to the message.
        """
        self.n_iter += 1
        number = self.n_iter - self.n_before
        if self.verbose and (self.verbose > 1 or number % 10 == 0 or number <= 10):
            elapsed = perf_counter() - self.started
            self._say(f"{self.step_name} {number}: loss {loss:.6g}{note}, {elapsed:.2f} s")
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

    def _say(self, message):
        message = f"[{type(self.estimator).__name__}] {message}"
        if logger.hasHandlers() and logger.isEnabledFor(logging.INFO):
            logger.info(message)
        else:
            sys.stdout.write(message + "\n")
            sys.stdout.flush()
