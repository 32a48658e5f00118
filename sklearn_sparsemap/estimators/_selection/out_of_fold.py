"""cross_val_marginals: out-of-fold marginals."""

from __future__ import annotations

from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import cross_val_predict

from ..._core.annotations import Any, NDArray


def cross_val_marginals(
    estimator: Any, X: Any, y: Any, *, cv: Any = None, n_jobs: int | None = None, params: Any = None
) -> NDArray[Any]:
    """Compute out-of-fold marginals: those of each sample under a model that was trained without it.

    scikit-learn's ``cross_val_predict`` has no method "predict_marginals", and its "predict_proba" sorts `y`, which is
    impossible for sequences.

    Parameters
    ----------
    estimator : estimator with `predict_marginals`
        For example `StructuredSparseMAPClassifier`, or a `StructuredPipeline` that ends with it.
    X, y : sequences of samples
        As in its `fit`.
    cv : int, splitter or iterable of pairs (train, test), default=None
        As in scikit-learn; an int is the number of folds of an unshuffled ``KFold``. Default: 5 folds.
    n_jobs : int, default=None
        Number of folds that are fitted at the same time.
    params : dict, default=None
        Arguments of `fit`, such as ``{"sample_weight": weights}``.

    Returns
    -------
    marginals : ndarray of shape (n_samples, n_classes), or 1-D object array of arrays
        As from `predict_marginals`. If a training part lacks a label, the arrays of its fold have fewer columns.

    Raises
    ------
    ValueError
        If the estimator has no `predict_marginals`, or the data are not as described.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.estimators import cross_val_marginals
    >>> X = [np.array([[1.0], [0.0]]), np.array([[0.1], [1.1], [0.9]])] * 5
    >>> y = [["b", "a"], ["a", "b", "b"]] * 5
    >>> marginals = cross_val_marginals(StructuredSparseMAPClassifier("chain"), X, y)
    >>> marginals[1].shape, marginals[1].argmax(axis=1).tolist()
    ((3, 2), [0, 1, 1])
    """
    if not hasattr(estimator, "predict_marginals"):
        raise ValueError(f"{type(estimator).__name__} has no predict_marginals; in a pipeline use StructuredPipeline")
    verbose = int(getattr(estimator, "verbose", 0))
    return cross_val_predict(_PredictsMarginals(estimator), X, y, cv=cv, n_jobs=n_jobs, params=params, verbose=verbose)


class _PredictsMarginals(BaseEstimator):
    """An estimator whose `predict` returns marginals."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y, **params):
        self.estimator_ = clone(self.estimator).fit(X, y, **params)
        return self

    def predict(self, X):
        return self.estimator_.predict_marginals(X)
