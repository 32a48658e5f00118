"""Labels of label sets that are new in a mini-batch of a stream.

`classifier.py` calls `add_labels` in `partial_fit`. Those of other structures are in
`estimators/_structured/new_labels.py`.

Used by `classifier.py`.
"""

from copy import copy
from itertools import pairwise

import numpy as np
from scipy import sparse

from ..._core.indicators import column_names
from .._structured.data import codes_of, label_array, sorted_labels
from .data import read_constraints
from .decisions import ObservedLabelSets


def add_labels(estimator, y, classes):
    """Add the new labels of a mini-batch to an estimator, with weights of zero.

    Parameters
    ----------
    estimator : MultilabelLPSparseMAP
    y : label sets, as `fit` takes them
    classes : sequence or None
        Further labels.

    Returns
    -------
    labels : ndarray or None
        All labels. None for an indicator matrix without names, if the estimator is not fitted and there are no
        `classes`.
    """
    is_fitted = estimator.__sklearn_is_fitted__()
    known = estimator.classes_.tolist() if is_fitted else []
    named = estimator._labels_in(y)
    found = (column_names(y) or []) if named is None else sorted_labels(named).tolist()
    labels = list(dict.fromkeys([*known, *([] if classes is None else classes), *found]))
    if not labels:
        return None
    if (is_fitted and estimator._single) or (not is_fitted and classes is None and named is not None):
        labels = sorted_labels(labels).tolist()
    if is_fitted and len(labels) > len(known):
        estimator._check_whole()
        _grow(estimator, labels)
    return label_array(labels)


def _grow(estimator, labels):
    """Give a fitted estimator further labels."""
    names = label_array(labels)
    n_labels = len(labels)
    positions = codes_of(estimator.classes_.tolist(), names)
    state = _with_more_labels(estimator.get_training_state(), positions, n_labels)
    graph, sets = estimator._graph, estimator._sets
    calibration = estimator._calibration.grown(estimator._loss, n_labels, positions)
    graph = graph.grown(n_labels, positions, read_constraints(estimator.constraints, names))
    if graph.constraints:
        graph.check_feasible()
    if sets is not None:
        entries = sets.sets.tocoo()
        grown = sparse.csr_array((entries.data, (entries.row, positions[entries.col])), (len(sets.lifts), n_labels))
        sets = ObservedLabelSets(grown, sets.lifts)
    changed = {"classes_": names, "_graph": graph, "_calibration": calibration, "_sets": sets}
    state.attributes = state.attributes | changed
    estimator.set_training_state(state)


def _with_more_labels(state, positions, n_labels):
    """Return the training state of a network with more labels, whose weights are zero.

    Parameters
    ----------
    state : TrainingState
    positions : int array of shape (n_labels_before,)
        New index of each old label.
    n_labels : int
        New number of labels.
    """
    grown = copy(state)
    n_layers = len(state.shape) // 2
    # The arrays are the weights of all layers, all intercepts and the scores of edges.
    widened = {n_layers - 1, 2 * n_layers - 1}
    shapes = [(*s[:-1], n_labels) if k in widened else tuple(s) for k, s in enumerate(state.shape)]
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in state.shape)])
    grown.shape, grown.dense = shapes, {}
    for slot, values in state.dense.items():
        parts = []
        for k, ((start, stop), shape) in enumerate(zip(pairwise(ends), state.shape)):
            part = values[start:stop].reshape(shape)
            if k in widened:
                wide = np.zeros(shapes[k], values.dtype)
                wide[..., positions] = part
                part = wide
            parts.append(part.ravel())
        grown.dense[slot] = np.concatenate(parts)
    return grown
