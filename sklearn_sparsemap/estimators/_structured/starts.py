"""Models from which training starts or continues."""

import numpy as np
from scipy import sparse

from ...losses import LOSSES
from ...training._data import LinearModel

# Maximum number of dense weights (512 MiB for each array). Beyond it, only updated weights are stored, if they are few.
# Dense weights are a third faster to update, and several times faster in prediction.
_MOST_DENSE_WEIGHTS = 2**24


def new_model(task, X, solver):
    """Return a zero model, with sparse `coef` if there are many weights and most of them will stay zero.

    Most stay zero if a step changes only the weights of the features of its sample, for few outputs.
    """
    n_features, n_outputs = X.shape[1], task.n_outputs
    is_large = n_outputs > 2 and n_features * n_outputs > _MOST_DENSE_WEIGHTS
    few_move = sparse.issparse(X) and LOSSES[task.loss].argmax != "gibbs"
    sparse_coef = is_large and few_move and task.sequential and solver != "lbfgs"
    return LinearModel.zeros(n_features, n_outputs, task.n_additional, sparse_coef=sparse_coef, dtype=X.dtype)


def warm_model(estimator, structure, task, X, classes):
    """Return a copy of the current model if the estimator has `warm_start` and was fitted before, else None.

    Parameters
    ----------
    estimator : LinearStructuredModel
    structure : Structure or function of graphs
    task : Task
    X : array or CSR of shape (n_rows, n_features)
        Features. Weights have the same type.
    classes : array or None

    Raises
    ------
    ValueError
        If the model has different features, labels or factors, or weights that are not finite.
    """
    if not (estimator.warm_start and hasattr(estimator, "_structure")):
        return None
    estimator._check_same_structure(structure)
    model = check_startable(estimator._current).astype(X.dtype).copy()
    now = X.shape[1], None if classes is None else classes.tolist(), task.additional_shapes
    known = estimator.classes_.tolist() if structure.labelled else None
    if now != (model.coef.shape[0], known, estimator._structure.learned_shapes(task.n_outputs)):
        raise ValueError(
            f"warm_start=True needs the features and labels of the last fit, and graphs its factors: it had "
            f"{model.coef.shape[0]} features and labels {known}; now there are {now[0]} and {now[1]}"
        )
    estimator._check_whole()
    estimator._check_task(task)
    return model


def check_startable(model):
    """Return a model from which training can continue; raise ValueError if its weights are not finite."""
    if np.isfinite(model.additional).all() and np.isfinite(model.intercept).all():
        return model
    raise ValueError(
        "the model's weights are not all finite, for example because transitions_ was edited to -inf; make them finite "
        "before training continues"
    )
