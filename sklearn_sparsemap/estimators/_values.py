"""Functions of `DecisionFocusedRegressor`: structures of samples, optimal decisions, and ridge regression of values.

Used by `_decisions.py`.
"""

import numpy as np
from scipy import sparse
from sklearn.linear_model import Ridge

from .._core.errors import SampleError
from .._core.validation import check_numbers, check_same_length
from .._training.score_models import LinearModel
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
    for i in range(X.shape[0]):
        own = structure(X[[i]].toarray()[0] if sparse.issparse(X) else X[i])
        if not has_decisions(own):
            raise SampleError(
                "X", i, f": the function `structure` must return a Structure or a FactorGraph; got {own!r}"
            )
        found.append(own)
    return found


def check_training(structure, X, y):
    """Return the structures of checked features, and the true values; raise ValueError if they do not fit."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None; pass the true values")
    y = check_numbers(y, "y", named=True)
    # A sparse matrix has no length.
    check_same_length(range(X.shape[0]), np.atleast_1d(y))
    structures = structures_for(structure, X)
    values = check_values(structures, y, "y")
    if X.ndim > 2 and X.shape[:-1] != values.shape:
        raise ValueError(
            f"X has shape {X.shape}, but y has {values.shape}; X needs the axes of y and one of features, or one row "
            "for each sample"
        )
    return structures, values


def mean_size(values, weights=None):
    """Return the mean absolute value of allowed parts; 1.0 if it is zero, or all are forbidden."""
    return float(_mean_of_allowed(np.abs(values), weights)) or 1.0


def _mean_of_allowed(values, weights):
    """Return the mean of the finite values, 0.0 without any; `weights` are those of the samples, or None."""
    finite = np.isfinite(values)
    if not finite.any():
        return 0.0
    if weights is None:
        return values[finite].mean()
    of_parts = np.broadcast_to(weights.reshape(-1, *[1] * (values.ndim - 1)), values.shape)
    return np.average(values[finite], weights=of_parts[finite])


def decide(structures, predicted, allowed, n_jobs):
    """Return the optimal decisions for predicted values, as ints."""
    scores = np.where(allowed, predicted, -np.inf)
    problems = decisions_of(structures, scores.shape[1:])
    best = problems.best(scores.reshape(len(scores), -1), n_jobs)
    return np.rint(best).astype(np.int64).reshape(scores.shape)


def ridge(features, values, alpha, fit_intercept, weights=None):
    """Return a ridge regression of the values, in which forbidden ones are replaced by the mean of the others.

    Parameters
    ----------
    features : array or CSR with one or several rows for each sample
    values : array of shape (n_samples, n_parts)
    alpha : float
    fit_intercept : bool
    weights : array of shape (n_samples,), default=None
        Weights of the samples, with a mean of 1.
    """
    n_rows = features.shape[0]
    targets = np.where(values > -np.inf, values, _mean_of_allowed(values, weights)).reshape(n_rows, -1)
    # The objective of Ridge is a sum over samples, without factors of 1/2. Without a penalty it may be singular. The
    # tolerance is for sparse features, for which it is iterative.
    model = Ridge(max(alpha * len(values), 1e-10), fit_intercept=fit_intercept, tol=1e-10)
    model.fit(features, targets, None if weights is None else np.repeat(weights, n_rows // len(values)))
    n_outputs = targets.shape[1]
    coef = np.asarray(model.coef_).reshape(n_outputs, -1).T
    return LinearModel(np.ascontiguousarray(coef), np.zeros(n_outputs) + model.intercept_, np.zeros(0))
