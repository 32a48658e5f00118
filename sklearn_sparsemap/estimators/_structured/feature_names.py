"""Feature names of samples that are data frames."""

import numpy as np
from sklearn.utils.validation import _check_feature_names


def check_names_of_features(estimator, X, *, reset):
    """Store the names of the features of structured samples, or check them as scikit-learn does for flat data.

    Samples have names if they are data frames with equal columns.

    Parameters
    ----------
    estimator : estimator
        With `reset`, it gets `feature_names_in_` if the samples have names.
    X : sequence of samples
        In the user's form.
    reset : bool
        Whether to store the names, in a fit, or to check them.

    Raises
    ------
    ValueError
        If columns differ between samples, or from those of the fit.
    """
    first = X[0] if isinstance(X, list | tuple) and len(X) else None
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1 and len(X):
        first = X[0]
    if not hasattr(first, "columns"):
        if reset and hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return
    names = list(first.columns)
    for i, sample in enumerate(X):
        if list(getattr(sample, "columns", ())) != names:
            raise ValueError(f"X[{i}] has other columns than X[0]; give all samples the same, in the same order")
    _check_feature_names(estimator, first, reset=reset)
