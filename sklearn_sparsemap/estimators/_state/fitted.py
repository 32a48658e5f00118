"""FittedState: the weights of an estimator, with the optimiser that continues their training.

Used by `distributed`, `estimators`, `estimators/_multilabel`, `estimators/_structured` and `export.py`.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..._core.annotations import Self
from ..._core.moments import at_rest, in_one_step
from ..._training._curve import BoundedCurve, mean_of
from .optimizers import optimizer_of, read_optimizer
from .state import TrainingState

# Attributes of the estimators that record the progress of training.
_PROGRESS = ("n_iter_", "loss_curve_", "validation_scores_", "_losses")


class FittedState:
    """The weights of an estimator, with the optimiser that continues their training.

    Pickles store this object, and warm starts and `partial_fit` continue from it. It is replaced as a whole, except
    that training modifies its optimiser in place.

    Parameters
    ----------
    model : ScoreModel, default=None
        By default, the current model of the optimiser.
    optimizer : optimizer, default=None
        Continues the training. None after `fit`, which keeps only the model.
    final : dict, default=None
        Result of the phases of `GroupLassoPerceptron` after `fit` and `finalize`; see `final_state`.
    """

    def __init__(self, model=None, optimizer=None, final=None):
        self.optimizer, self.final = optimizer, final
        if model is not None or optimizer is None:
            self.model = model

    def __getattr__(self, name):
        """Compute the current model of the optimiser, once. No other thread may train the optimiser meanwhile."""
        if name != "model":
            raise AttributeError(name)
        self.model = self.optimizer.model()
        return self.model

    def after_training(self):
        """Return the state after its optimiser has been trained."""
        return FittedState(optimizer=self.optimizer, final=self.final)

    def apart(self):
        """Return a state with the same model whose optimiser can be trained without changing this one."""
        return FittedState(self.model, deepcopy(self.optimizer), self.final)


def _copied(value):
    return value.copy() if isinstance(value, np.ndarray) else value


class TrainingStateMixin:
    """Holds the weights of an estimator in one object, and reads and writes its training state.

    A subclass has `_set_by_fit`, and a method `_make_optimizer`: it returns an optimiser that starts from the model.
    """

    _learned = FittedState()
    # The optimisers whose training states the estimator can read.
    _readable_states: tuple[str, ...] = ()
    # The type of weights in training.
    _dtype = np.dtype(np.float64)

    def get_training_state(self) -> TrainingState:
        """Return the state from which `partial_fit` continues: weights, their sums, optimiser state, counters, curves.

        Returns
        -------
        state : TrainingState
            Its arrays are copies. After `fit`, which stores only the model, this is the initial state of a stream that
            starts from the model.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        """
        check_is_fitted(self)
        with at_rest(self) as view:
            optimizer = view._make_optimizer() if view._learned.optimizer is None else view._learned.optimizer
            known = vars(view)
            return TrainingState(
                **read_optimizer(optimizer),
                progress={name: deepcopy(known[name]) for name in _PROGRESS if name in known},
                attributes={name: _copied(known[name]) for name in self._set_by_fit if name in known},
            )

    @in_one_step
    def set_training_state(self, state: TrainingState) -> Self:
        """Load a training state, so that `partial_fit` continues from there.

        Parameters
        ----------
        state : TrainingState
            State of such an estimator. Its arrays are copied. If it has no `attributes`, this estimator must
            have been fitted before.

        Returns
        -------
        self : object
            The estimator with the model of the state, ready for `predict`.

        Raises
        ------
        ValueError
            If the state is of another optimiser, or does not fit the estimator.
        """
        if not isinstance(state, TrainingState) or state.optimizer not in self._readable_states:
            raise ValueError(f"{state!r} is no training state of a {type(self).__name__}")
        state._check()
        if self._dtype not in (None, state.dtype):
            raise ValueError(f"the state has weights of {state.dtype}, but this estimator has {self._dtype}")
        if not state.attributes and not self.__sklearn_is_fitted__():
            raise ValueError(
                "the state has no attributes, such as classes, and this estimator has seen no data yet; take a state "
                "with attributes, or call partial_fit first"
            )
        for name in _PROGRESS:
            vars(self).pop(name, None)
        for name, value in state.progress.items():
            setattr(self, name, deepcopy(value))
        for name, value in state.attributes.items():
            setattr(self, name, _copied(value))
        rng = check_random_state(self.random_state)
        optimizer = optimizer_of(state, getattr(self, "_new_optimizer", None), rng)
        self._learned = FittedState(optimizer=optimizer)
        return self

    def _record_loss(self, loss):
        """Append the loss of a mini-batch to `loss_curve_`, which has a bounded number of entries.

        `_losses` has the numbers of losses that the entries represent. It is made again if the curve is another one,
        such as that of `fit`.
        """
        losses = vars(self).get("_losses")
        if losses is None or losses.entries != self.loss_curve_:
            losses = BoundedCurve.of(mean_of, self.loss_curve_)
        losses.append(loss)
        self._losses, self.loss_curve_ = losses, losses.entries

    def _outcome(self, monitor, model):
        """Return the attributes that a fit sets at its end, for its final model. `Monitor` calls it."""
        return {
            "_learned": FittedState(model),
            "n_iter_": monitor.n_iter,
            "loss_curve_": list(monitor.losses),
            "validation_scores_": list(monitor.scores),
        }

    def _take_rounds(self, optimizers, monitor):
        """Set the attributes as after `fit`, from the optimisers of one or two phases of parameter mixing."""
        vars(self).update(self._outcome(monitor, optimizers[-1].model()))
