"""Access to an estimator's training state."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .optimizers import read_optimizer, write_optimizer
from .state import TrainingState

if TYPE_CHECKING:
    from typing_extensions import Self

# Progress of the training, under the attribute names of the estimators.
_PROGRESS = ("n_iter_", "loss_curve_", "validation_scores_", "_losses")


class TrainingStateMixin:
    """Reads and writes the training state of an estimator.

    A subclass has `_optimizer`, which is None after the end of training; a method `_new_begin`, which then returns an
    optimiser that continues from `_model`; and `_set_by_fit`.
    """

    # The kinds of training state that the estimator can read.
    _state_kinds: tuple[str, ...] = ()
    # The type of weights in training.
    _dtype = np.dtype(np.float64)

    def get_training_state(self) -> TrainingState:
        """Return the state from which `partial_fit` continues: weights, their sums, optimiser state, counters, curves.

        Returns
        -------
        state : TrainingState
            Its arrays are copies. After `fit`, which keeps only the model, it is the initial state of a stream from
            that model.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If there is no model yet.
        """
        check_is_fitted(self)
        optimizer = self._optimizer if self._optimizer is not None else self._new_begin()
        known = vars(self)
        return TrainingState(
            **read_optimizer(optimizer),
            progress={name: deepcopy(known[name]) for name in _PROGRESS if name in known},
            attributes={name: known[name] for name in self._set_by_fit if name in known},
        )

    def set_training_state(self, state: TrainingState) -> Self:
        """Load a training state, so that `partial_fit` continues from there.

        Parameters
        ----------
        state : TrainingState
            State of an estimator of this kind. Its arrays are copied. If it has no `attributes`, this estimator must
            have seen data before.

        Returns
        -------
        self : object
            The estimator with the model of that state, ready for `predict`.

        Raises
        ------
        ValueError
            If the state is of another kind, or does not fit the estimator.
        """
        if not isinstance(state, TrainingState) or state.kind not in self._state_kinds:
            raise ValueError(f"{state!r} is no training state of a {type(self).__name__}")
        state._check()
        if state.dtype != self._dtype:
            raise ValueError(f"the state has weights of {state.dtype}, but this estimator has dtype={self._dtype}")
        if not state.attributes and not self.__sklearn_is_fitted__():
            raise ValueError(
                "the state has no attributes, such as classes, and this estimator has seen no data yet; take a state "
                "with attributes, or call partial_fit first"
            )
        for name, value in (state.attributes | state.progress).items():
            setattr(self, name, deepcopy(value) if name in state.progress else value)
        rng = check_random_state(self.random_state)
        optimizer = write_optimizer(state, getattr(self, "_new_optimizer", None), rng)
        self._optimizer, self._model = optimizer, None
        self._took_state()
        return self

    def _took_state(self):
        """Update attributes that depend on the optimiser."""

    def _outcome(self, monitor, model):
        """Return the attributes that a fit sets at its end, with the model that it has learned."""
        return {
            "_model": model,
            "_optimizer": None,
            "n_iter_": monitor.n_iter,
            "loss_curve_": list(monitor.losses),
            "validation_scores_": list(monitor.scores),
        }

    def _take_rounds(self, optimizers, monitor):
        """Load the result of rounds of parameter mixing, in one phase or two; the estimator is then as after `fit`."""
        vars(self).update(self._outcome(monitor, optimizers[-1].model()))
