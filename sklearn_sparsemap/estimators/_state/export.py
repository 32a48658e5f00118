"""The learned part of an estimator among its arrays.

Used by `estimators`, `estimators/_multilabel` and `estimators/_structured`.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from ..._core.export import ArraysMixin
from . import plain  # noqa: F401, adds the forms of parts of models
from .fitted import FittedState
from .optimizers import optimizer_of, read_optimizer
from .state import TrainingState


class LearnedArraysMixin(ArraysMixin):
    """Conversion of a fitted estimator to a dict of arrays, and back."""

    _special = "_learned"

    def _described(self):
        """Return the parts of a `FittedState` that have a plain form."""
        learned = vars(self).get("_learned")
        if learned is None:
            return None
        optimizer = learned.optimizer
        state = None if optimizer is None else TrainingState(**read_optimizer(optimizer))
        parts = {"model": learned.model, "state": state, "final": learned.final}
        rng = getattr(optimizer, "rng", None)
        return parts if rng is None else {**parts, "randomness": _describe_generator(rng)}

    def _restore(self, fitted, learned):
        super()._restore(fitted, learned)
        if learned is None:
            return
        model, state, optimizer = learned["model"], learned["state"], None
        if state is not None:
            state._check()
            given = learned.get("randomness")
            rng = check_random_state(self.random_state) if given is None else _restore_generator(given)
            optimizer = optimizer_of(state, getattr(self, "_new_optimizer", None), rng)
        for array in model.arrays:
            _check_weights(array)
        self._learned = FittedState(model, optimizer, learned["final"])
        self._check_whole()


def _describe_generator(rng):
    """Return the state of a RandomState, from which dropout continues, in a plain form."""
    _, keys, position, has_normal, normal = rng.get_state()
    return {"keys": keys, "position": int(position), "has_normal": int(has_normal), "normal": float(normal)}


def _restore_generator(given):
    keys, position = given["keys"], given["position"]
    if keys.shape != (624,) or keys.dtype != np.uint32 or not 0 <= position <= len(keys):
        raise ValueError("the state of the generator of random numbers is damaged")
    rng = np.random.RandomState()
    rng.set_state(("MT19937", keys, position, given["has_normal"], given["normal"]))
    return rng


def _check_weights(array):
    values = array.data if sparse.issparse(array) else array
    if not isinstance(values, np.ndarray) or values.dtype not in (np.float64, np.float32):
        raise ValueError("weights must be arrays of float64 or float32")
