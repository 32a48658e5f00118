"""Addition of labels to a training state."""

from copy import copy

import numpy as np

from ..._core.shapes import size_of, split_flat
from .optimizers import BLANK


def with_more_outputs(state, places, n_outputs, shapes_of):
    """Return the training state of a model with more outputs. The weights of the new outputs are zero.

    Parameters
    ----------
    state : TrainingState
        State of a linear model.
    places : int array of shape (n_outputs_before,), ascending
        New index of each old output.
    n_outputs : int
        New number of outputs.
    shapes_of : callable
        Maps a number of outputs to the shapes of the additional scores.

    Returns
    -------
    state : TrainingState
        All weights are copied.
    """
    n_features, n_before = state.shape
    before, after = shapes_of(n_before), shapes_of(n_outputs)
    found = copy(state)
    found.shape = n_features, n_outputs
    found.places = state.places // n_before * n_outputs + places[state.places % n_before]
    found.dense = {}
    for slot, values in state.dense.items():
        grown = np.full(n_outputs + size_of(after), BLANK.get(slot, 0.0), values.dtype)
        grown[:n_outputs][places] = values[:n_before]
        old, new = split_flat(values[n_before:], before), split_flat(grown[n_outputs:], after)
        for name, own in old.items():
            axes = [places if n != m else np.arange(n) for n, m in zip(own.shape, new[name].shape)]
            new[name][np.ix_(*axes)] = own
        found.dense[slot] = grown
    return found
