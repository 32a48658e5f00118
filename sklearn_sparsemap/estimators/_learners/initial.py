"""Initial weights: zeros, or those of the last fit.

Used by `estimators/_structured` and `epochs.py`.
"""

import numpy as np
from scipy import sparse

from ..._training.score_models import LinearModel
from ...losses._recipes import TRAINED

# Maximum number of dense weights (128 MiB for each array). Beyond it, only updated weights are stored, if they are few.
# Dense weights are a third faster to update, and several times faster in prediction.
_MAX_DENSE_WEIGHTS = 2**24
# Number of outputs from which on stored pairs are as fast as dense weights, because few outputs of a feature ever get a
# weight (4 % of 145 labels in a tagger of morphology), and the maximum number of dense weights then.
_MANY_OUTPUTS, _MAX_DENSE_OF_MANY = 100, 2**20


def zero_weights(task, X, solver):
    """Return a zero model, with sparse `coef` if there are many weights and most of them will stay zero.

    Most stay zero if a step changes only the weights of the features of its sample, for few outputs.
    """
    n_features, n_outputs = X.shape[1], task.n_outputs
    few_move = sparse.issparse(X) and TRAINED[task.loss].argmax != "gibbs" and task.sequential and solver != "lbfgs"
    sparse_coef = few_move and n_features * n_outputs > max_dense(n_outputs, _MAX_DENSE_WEIGHTS)
    return LinearModel.zeros(n_features, n_outputs, task.n_additional, sparse_coef=sparse_coef, dtype=X.dtype)


def max_dense(n_outputs, usual):
    """Return the maximum number of weights in a dense array, given the maximum for few outputs."""
    return min(usual, _MAX_DENSE_OF_MANY) if n_outputs >= _MANY_OUTPUTS else usual


def weights_of_last_fit(estimator, structure, task, X, classes):
    """Return a copy of the model of the last fit, for `warm_start`.

    Parameters
    ----------
    estimator : LinearStructuredModel
        A fitted estimator.
    structure : Structure or GraphBuilder
    task : Task
    X : array or CSR of shape (n_rows, n_features)
        Features. Weights have the same type.
    classes : array or None

    Raises
    ------
    ValueError
        If the model has different features, labels or factors, or weights that are not finite.
    """
    estimator._check_same_structure(structure)
    model = check_finite_weights(estimator._current).astype(X.dtype).copy()
    now = X.shape[1], None if classes is None else classes.tolist(), task.additional_shapes
    known = estimator.classes_.tolist() if structure.labelled else None
    n_features = model.sizes[0]
    if now != (n_features, known, estimator._structure.learned_shapes(task.n_outputs)):
        raise ValueError(
            f"warm_start=True needs the features and labels of the last fit, and graphs its factors: it had "
            f"{n_features} features and labels {known}; now there are {now[0]} and {now[1]}"
        )
    estimator._check_whole()
    estimator._check_task(task)
    return model


def check_finite_weights(model):
    """Return a model from which training can continue; raise ValueError if its weights are not finite."""
    # Users edit these in place, and not the large arrays of weights of features.
    if all(np.isfinite(array).all() for array in model.arrays if array.ndim == 1):
        return model
    raise ValueError(
        "the model's weights are not all finite, for example because transitions_ was edited to -inf; make them finite "
        "before training continues"
    )
