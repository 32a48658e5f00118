"""Functions of `DecisionFocusedRegressor`: structures of samples, optimal decisions, and ridge regression of values."""

import numpy as np
from sklearn.linear_model import Ridge

from .._core.validation import check_numbers, check_same_length
from .._training._data import LinearModel
from ..inference._decisions import check_values, decisions_of, has_decisions


def rows_of(X):
    """Return features with one row for each sample or, if X has more axes, for each part."""
    return X if X.ndim == 2 else X.reshape(-1, X.shape[-1])


def structures_for(structure, X):
    """Return the structure of all samples; if `structure` is a function, a list with the structure of each sample."""
    if has_decisions(structure):
        return structure
    if not callable(structure) or isinstance(structure, type):
        raise ValueError(
            "structure must be a Structure, such as Subset(1, 3), a FactorGraph, or a function from the features of a "
            f"sample to one of these; got {structure!r}"
        )
    found = []
    for i, x in enumerate(X):
        own = structure(x)
        if not has_decisions(own):
            raise ValueError(f"X[{i}]: the function `structure` must return a Structure or a FactorGraph; got {own!r}")
        found.append(own)
    return found


def check_training(structure, X, y):
    """Return the structures of checked features, and the true values; raise ValueError if they do not fit."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None; pass the true values")
    y = check_numbers(y, "y")
    check_same_length(X, np.atleast_1d(y))
    structures = structures_for(structure, X)
    values = check_values(structures, y, "y")
    if X.ndim > 2 and X.shape[:-1] != values.shape:
        raise ValueError(
            f"X has shape {X.shape}, but y has {values.shape}; X needs the axes of y and one of features, or one row "
            "for each sample"
        )
    return structures, values


def mean_size(values):
    """Return the mean absolute value of allowed parts; 1.0 if it is zero, or all are forbidden."""
    finite = values > -np.inf
    return (float(np.abs(values[finite]).mean()) if finite.any() else 0.0) or 1.0


def decide(structures, predicted, allowed, n_jobs):
    """Return the optimal decisions for predicted values, as ints."""
    scores = np.where(allowed, predicted, -np.inf)
    problems = decisions_of(structures, scores.shape[1:])
    best = problems.best(scores.reshape(len(scores), -1), n_jobs)
    return np.rint(best).astype(np.int64).reshape(scores.shape)


def ridge(features, values, alpha, fit_intercept):
    """Return a ridge regression of the values, in which forbidden ones are replaced by the mean of the others."""
    finite = values > -np.inf
    mean = values[finite].mean() if finite.any() else 0.0
    targets = np.where(finite, values, mean).reshape(len(features), -1)
    # The objective of Ridge is a sum over samples, without factors of 1/2. Without a penalty it may be singular.
    model = Ridge(max(alpha * len(values), 1e-10), fit_intercept=fit_intercept).fit(features, targets)
    n_outputs = targets.shape[1]
    coef = np.asarray(model.coef_).reshape(n_outputs, -1).T
    return LinearModel(np.ascontiguousarray(coef), np.zeros(n_outputs) + model.intercept_, np.zeros(0))
