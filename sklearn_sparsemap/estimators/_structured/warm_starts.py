"""Models from which training starts or continues."""

import numpy as np


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
