"""Failures and interruptions of training: estimators remain consistent; warnings and errors point at the user.

Used by `conformal`, `distributed`, `estimators/_multilabel`, `estimators/_selection` and `estimators/_structured`.
"""

from __future__ import annotations

import sys
import warnings
from functools import wraps
from typing import TYPE_CHECKING

import numpy as np
from sklearn.exceptions import ConvergenceWarning

if TYPE_CHECKING:
    from typing import TypeVar

    Method = TypeVar("Method")

# Largest duality gap, relative to 1 + the objective, that does not cause a warning in prediction.
_INEXACT = 1e-8
# Prefixes of the attributes in which scikit-learn stores the callbacks of a call.
_OF_CALLBACKS = ("_callback_", "_skl_callbacks")


def restore_on_error(method: Method) -> Method:
    """Decorate a training method so that its estimator remains consistent after any exception.

    The estimator is then restored or, if `commit_if` says so, keeps the result of the last training step.
    """

    @wraps(method)
    def guarded(estimator, *args, **kwargs):
        before = dict(estimator.__dict__)
        try:
            return method(estimator, *args, **kwargs)
        except BaseException:
            if not _commit(estimator):
                # Keep the attributes that scikit-learn needs to end the callbacks of this call.
                before |= {name: value for name, value in estimator.__dict__.items() if name.startswith(_OF_CALLBACKS)}
                estimator.__dict__.clear()
                estimator.__dict__.update(before)
            raise
        finally:
            estimator.__dict__.pop("_to_commit", None)

    return guarded


def commit_if(estimator, has_progress, take=lambda: None):
    """Keep the progress made from here on if an exception ends the training.

    Parameters
    ----------
    estimator : estimator
        Within a method decorated by `restore_on_error`.
    has_progress : callable
        Returns whether there is progress to keep.
    take : callable
        Stores the progress in the estimator.
    """
    estimator._to_commit = has_progress, take


def _commit(estimator):
    """Keep the progress, if any; return whether there was any."""
    has_progress, take = estimator.__dict__.get("_to_commit", (lambda: False, None))
    if not has_progress():
        return False
    try:
        take()
    except MemoryError:
        return False
    return True


def check_finite_loss(loss, step_size="eta0"):
    """Raise ValueError if the loss is not finite; the message names the parameter `step_size`."""
    if not np.isfinite(loss):
        raise ValueError(
            "training diverged: the loss is not finite; scale the features (for example to unit variance), or lower "
            f"{step_size}"
        )


def warn_of_inference(unconverged):
    """Issue a ConvergenceWarning if inference did not converge for a number of training samples."""
    if unconverged:
        warn_user(
            f"inference did not converge for {unconverged} training samples, so their gradients are inexact; scale the "
            "features or lower alpha",
            ConvergenceWarning,
        )


def warn_of_gaps(gaps, objectives):
    """Warn of samples whose probabilities are inexact."""
    inexact = gaps > _INEXACT * (1.0 + np.abs(objectives))
    if inexact.any():
        warn_user(
            f"SparseMAP did not converge for {inexact.sum()} samples (largest duality gap {gaps.max():.1e}), so their "
            "probabilities are inexact; this happens if almost all scores tie",
            ConvergenceWarning,
        )


def warn_user(message, category=UserWarning):
    """Issue a warning whose location is the first caller outside this package and scikit-learn."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("sklearn_sparsemap", "sklearn"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
