"""Labels that are new in a mini-batch of a stream.

`classifier.py` calls `add_labels` in `partial_fit`. Those of label sets are in `estimators/_multilabel/new_labels.py`.

Used by `classifier.py`.
"""

from copy import copy

import numpy as np

from ..._core.offsets import size_of, split_flat
from .._partitions import flat_labels
from .._state.optimizers import BLANK
from .data import codes_of, sorted_labels


def add_labels(estimator, structure, y, classes):
    """Add the new labels of a mini-batch to an estimator, with weights of zero.

    Parameters
    ----------
    estimator : StructuredSparseMAPClassifier
    structure : Structure
    y : sequence of labels, or of label sequences
    classes : sequence or None
        Further labels.

    Returns
    -------
    labels : ndarray
        All labels.
    """
    if not structure.labelled:
        raise ValueError(f"on_new_labels='add' is for structures made of labels; got {structure!r}")
    known = estimator.classes_.tolist() if estimator.__sklearn_is_fitted__() else []
    given = [] if classes is None else list(classes)
    labels = sorted_labels([*known, *given, *(label for label in flat_labels(y) if label is not None)])
    if known and len(labels) > len(known):
        if "explain" not in estimator._learned.model.supports:
            raise ValueError("on_new_labels='add' is for score_model='linear'; give all labels by classes at first")
        estimator._check_whole()
        positions = codes_of(known, labels)
        shapes_of = estimator._structure.learned_shapes
        state = _with_more_outputs(estimator.get_training_state(), positions, len(labels), shapes_of)
        mask = 0.0 if estimator.constraints is None else estimator._transition_mask(structure, labels).mask()
        state.attributes = state.attributes | {"classes_": labels, "_mask": mask}
        estimator.set_training_state(state)
    return labels


def _with_more_outputs(state, positions, n_outputs, shapes_of):
    """Return the training state of a model with more outputs. The weights of the new outputs are zero.

    Parameters
    ----------
    state : TrainingState
        State of a linear model.
    positions : int array of shape (n_outputs_before,), ascending
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
    before = shapes_of(n_before)
    after = shapes_of(n_outputs)
    grown_state = copy(state)
    grown_state.shape = n_features, n_outputs
    grown_state.indices = state.indices // n_before * n_outputs + positions[state.indices % n_before]
    grown_state.dense = {}
    for slot, values in state.dense.items():
        grown = np.full(n_outputs + size_of(after), BLANK.get(slot, 0.0), values.dtype)
        grown[:n_outputs][positions] = values[:n_before]
        old = split_flat(values[n_before:], before)
        new = split_flat(grown[n_outputs:], after)
        for name, scores in old.items():
            axes = [positions if n != m else np.arange(n) for n, m in zip(scores.shape, new[name].shape)]
            new[name][np.ix_(*axes)] = scores
        grown_state.dense[slot] = grown
    return grown_state
