"""Failures and interruptions of training: estimators remain consistent; warnings and errors point at the user.

Used by `conformal`, `distributed`, `estimators/_learners`, `estimators/_multilabel`, `estimators/_selection`,
`estimators/_structured`, `_decisions.py`, `_monitor.py`, `_partitions.py` and `_rounds.py`.
"""

from __future__ import annotations

import sys
import warnings
from contextlib import nullcontext
from functools import partial, wraps
from typing import TYPE_CHECKING

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._core.moments import turn_to_train

if TYPE_CHECKING:
    from typing import TypeVar

    Method = TypeVar("Method")

# Largest duality gap, relative to 1 + the objective, that does not cause a warning in prediction.
_INEXACT = 1e-8
# Prefixes of the attributes in which scikit-learn stores the callbacks of a call.
_OF_CALLBACKS = ("_callback_", "_skl_callbacks")
# Name of an attribute of the copy that is trained. It does not exist after the training.
_TO_COMMIT = "_to_commit"


def restore_on_error(method: Method, in_place: bool = False) -> Method:
    """Decorate a training method so that its estimator is consistent at any time, and after any exception.

    The method trains a copy, and the estimator gets all its attributes at the end. After an exception, the estimator is
    unchanged or, if `commit_if` says so, keeps the result of the last training step.

    Parameters
    ----------
    method : callable
    in_place : bool, default=False
        Whether the method changes the optimiser of a stream, or edits the model. It then waits for its turn.
    """

    @wraps(method)
    def guarded(estimator, *args, **kwargs):
        with turn_to_train(estimator) if in_place else nullcontext():
            working = object.__new__(type(estimator))
            before = vars(estimator).copy()
            is_kept = True
            working.__dict__ = before.copy()
            try:
                result = method(working, *args, **kwargs)
            except BaseException:
                is_kept = _commit(working)
                raise
            finally:
                after = vars(working)
                after.pop(_TO_COMMIT, None)
                if not is_kept:
                    # scikit-learn needs these attributes to end the callbacks of this call.
                    after = before | {name: after[name] for name in after if name.startswith(_OF_CALLBACKS)}
                now = {name: value for name, value in vars(estimator).items() if name in after or name not in before}
                now |= {name: after[name] for name in after if name not in before or before[name] is not after[name]}
                # Assigning all attributes together is one step for other threads.
                estimator.__dict__ = now
            return estimator if result is working else result

    return guarded


in_turn = partial(restore_on_error, in_place=True)


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
    vars(estimator)[_TO_COMMIT] = has_progress, take


def _commit(estimator):
    """Keep the progress, if any; return whether there was any."""
    has_progress, take = vars(estimator).pop(_TO_COMMIT, (lambda: False, None))
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
    level = 1
    frame = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("sklearn_sparsemap", "sklearn"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
