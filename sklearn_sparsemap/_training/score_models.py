"""Score models: from features to the scores of parts. The contract, and the linear model.

Each other model has a file of its own, such as `_network.py`.

Used by `_training/_group_lasso`, `_training/_online`, `estimators` and most files here.
"""

from copy import copy

import numpy as np
from scipy import sparse

from .._core.jit import readonly
from .._core.offsets import offsets, ragged_indices
from .._core.threads import count_threads, over_ranges
from .._core.validation import check_matrix
from ._data import Rows, all_ones
from ._scores import ADD_PRODUCTS, Weights

# Number of features up to which data have an entry for each possible feature, 24 bytes in all. With more, they have one
# for each feature that was seen, which takes more time: a binary search for each entry of the samples.
MANY_FEATURES = 2**23
# Minimum number of features for each weight, if there are many features, for a form without pointers of all features.
_FEATURES_PER_WEIGHT = 4
# Number of multiplications in a call on a single thread.
_COST_PER_CALL = 2**22


class ScoreModel:
    """From features to the scores of parts: the weights of a fitted estimator.

    A model is a value: prediction, pickles and files hold it, and other threads read it. It does not train itself.
    Optimisers and learners have the state of training, and their `model()` returns a model. Those that take one step
    for each mini-batch extend `_minibatch.GradientSteps`.

    Attributes
    ----------
    additional : array of shape (n_additional,)
        Additional scores, which are the same for all samples: flat and joined as in structures/_base.py.
    sizes : (int, int, int)
        Numbers of features, of outputs and of additional scores. Users may assign arrays, so it checks that their
        shapes match, and raises a ValueError otherwise.
    dtype : dtype
        The type of the weights.
    arrays : list of arrays
        All weights, float64 or float32. Files may be damaged, so readers check them.
    supports : frozenset of str
        ``"explain"`` if scores are sums of terms of single features, ``"partial_fit"`` if training can continue from
        the model, which then has `astype`. Whoever needs one of them raises an error that names another way.
    public : object
        The attribute `score_model_` of an estimator. By default, the model itself.

    Files hold a model by the names of its attributes; see `estimators/_state/plain.py`.
    """

    supports = frozenset()

    @property
    def sizes(self):
        raise NotImplementedError

    @property
    def dtype(self):
        return self.additional.dtype

    @property
    def arrays(self):
        return [self.additional]

    @property
    def public(self):
        return self

    def __repr__(self):
        n_features, n_outputs, n_additional = self.sizes
        return f"{type(self).__name__}(sizes=({n_features}, {n_outputs}, {n_additional}))"

    def with_additional(self, additional):
        """Return the model with other additional scores."""
        found = copy(self)
        found.additional = additional
        return found

    def sums(self):
        """Return the sums of the arrays of weights, and of their squares: they differ after another fit."""
        found = []
        for arrays in vars(self).values():
            for array in arrays if isinstance(arrays, list) else [arrays]:
                values = array.data if sparse.issparse(array) else array
                if isinstance(values, np.ndarray):
                    values = values.astype(np.float64, copy=False)
                    found += [float(values.sum()), float((values * values).sum())]
        return found

    def scores(self, X, n_jobs=None):
        """Compute the scores of rows, as float64.

        Parameters
        ----------
        X : array or CSR of shape (n_rows, n_features)
        n_jobs : int or None
            Number of threads. The scores do not depend on it.

        Returns
        -------
        scores : array of shape (n_rows, n_outputs)
            A row of features belongs to one row of scores; the task knows which parts these are.
        """
        raise NotImplementedError

    def copy(self):
        """Return a model with arrays of its own."""
        raise NotImplementedError


class LinearModel(ScoreModel):
    """The weights of a linear model of scores.

    The scores of a sample with features X_i are ``X_i @ coef + intercept``; the additional scores are the same for
    all samples. Files hold a model by the names of its attributes; see `estimators/_state/plain.py`. `conformal` and
    `inspection` read these, too.

    Attributes
    ----------
    coef : array or sparse array of shape (n_features, n_outputs)
        See `sparse_weights`.
    intercept : array of shape (n_outputs,)
    additional : array of shape (n_additional,)
        Additional scores, flat and joined as in structures/_base.py.
    """

    supports = frozenset({"explain", "partial_fit"})

    def __init__(self, coef, intercept, additional):
        self.coef, self.intercept, self.additional = coef, intercept, additional

    @classmethod
    def zeros(cls, n_features, n_outputs, n_additional, *, sparse_coef=False, dtype=np.float64):
        """Return a start of training, whose dense `coef` is read-only and takes no memory."""
        shape = n_features, n_outputs
        form = sparse.coo_array if n_features > MANY_FEATURES else sparse.csr_array
        coef = form(shape, dtype=dtype) if sparse_coef else np.broadcast_to(np.zeros((), dtype), shape)
        return cls(coef, np.zeros(n_outputs, dtype), np.zeros(n_additional, dtype))

    @property
    def sizes(self):
        """Numbers of features, of outputs and of additional scores.

        Raises
        ------
        ValueError
            If the shapes of the arrays do not match.
        """
        n_outputs = len(self.intercept)
        axes = self.coef.ndim, self.intercept.ndim, self.additional.ndim
        if axes != (2, 1, 1) or self.coef.shape[1] != n_outputs:
            raise ValueError(f"coef_ has shape {self.coef.shape[::-1]}, but intercept_ {self.intercept.shape}")
        return self.coef.shape[0], n_outputs, len(self.additional)

    def __setstate__(self, state):
        self.__dict__.update(state)
        # The state may come from a damaged file.
        check_matrix(self.coef, "coef_")
        self.sizes  # noqa: B018

    @property
    def dtype(self):
        """The type of all weights."""
        return self.coef.dtype

    @property
    def arrays(self):
        """All weights: coef, intercept, additional scores."""
        return [self.coef, self.intercept, self.additional]

    def astype(self, dtype):
        """Return the model with weights of a type; the model itself if it already has this type."""
        arrays = self.coef, self.intercept, self.additional
        return self if self.coef.dtype == dtype else LinearModel(*(array.astype(dtype) for array in arrays))

    def dense(self):
        """Return the model with dense `coef`."""
        if not sparse.issparse(self.coef):
            return self
        return LinearModel(self.coef.toarray(), self.intercept, self.additional)

    def copy(self):
        return LinearModel(self.coef.copy(), self.intercept.copy(), self.additional.copy())

    def of_features(self, features):
        """Return the rows of `coef` of some features, as an array or a CSR matrix."""
        if not sparse.issparse(self.coef) or self.coef.format == "csr":
            return self.coef[features]
        rows = self.coef.row
        features = np.asarray(features, rows.dtype)
        first = np.searchsorted(rows, features)
        lengths = np.searchsorted(rows, features, side="right") - first
        at = ragged_indices(first, lengths)
        shape = len(features), self.coef.shape[1]
        return sparse.csr_array((self.coef.data[at], self.coef.col[at], offsets(lengths)), shape=shape)

    # Callers check the scores. Overflow is possible in edited models.
    @np.errstate(over="ignore", invalid="ignore")
    def scores(self, X, n_jobs=None):
        """Compute the scores of rows; see `ScoreModel`. Products of dense weights of float32 are summed in float32."""
        coef = self.coef
        intercept = self.intercept.astype(np.float64, copy=False)
        is_narrow = coef.dtype == np.float32
        if is_narrow:
            X = X.astype(np.float32, copy=False)
        if not sparse.issparse(coef) and not sparse.issparse(X):
            return X @ coef + intercept
        if not sparse.issparse(X):
            X = sparse.csr_array(X)
        if not sparse.issparse(coef) and not is_narrow and X.dtype == coef.dtype and count_threads(n_jobs) == 1:
            scores = X @ coef
            scores += intercept
            return scores
        scores = np.empty((X.shape[0], len(intercept)))
        scores[:] = intercept if sparse.issparse(coef) else 0.0
        if sparse.issparse(coef):
            if coef.format != "csr":
                used, X = used_columns(X)
                coef = self.of_features(used)
            data = readonly(coef.data, coef.dtype)
            weights = Weights(data, readonly(coef.indices, np.int32), readonly(coef.indptr, np.int32))
            ones = all_ones(X.data)

            def fill(start, stop):
                data, indices, indptr = _rows_of(X, start, stop)
                data = readonly(data[:0] if ones else data)
                rows = Rows(data, readonly(indices, np.int32), readonly(indptr, np.int64))
                ADD_PRODUCTS[self.dtype.name](rows, weights, scores[start:stop])
        else:

            def fill(start, stop):
                own = sparse.csr_array(_rows_of(X, start, stop), shape=(stop - start, X.shape[1]))
                np.add(own @ coef, intercept, out=scores[start:stop])

        # Ranges of rows are converted to other types one by one, to save memory.
        over_ranges(fill, 1 + scores.shape[1] * np.diff(X.indptr), n_jobs, _COST_PER_CALL)
        return scores

    def penalty(self, alpha):
        """Return ``alpha/2 |w|^2`` over all weights except the intercept."""
        return 0.5 * alpha * (squared_norm(self.coef) + squared_norm(self.additional))


def sparse_weights(features, outputs, weights, shape):
    """Return a matrix of weights that are sorted by feature.

    Parameters
    ----------
    features, outputs : int arrays of shape (n_weights,)
    weights : array of shape (n_weights,)
    shape : (int, int)
        Numbers of features and of outputs.

    Returns
    -------
    coef : CSR or COO of that shape
        The pointers of a CSR matrix take memory for each possible feature, and the indices of a COO matrix for each
        weight. So it is COO if there are many features, and far fewer weights.
    """
    if shape[0] > MANY_FEATURES and _FEATURES_PER_WEIGHT * len(weights) < shape[0]:
        return sparse.coo_array((weights, (features, outputs)), shape=shape)
    indptr = offsets(np.bincount(features, minlength=shape[0]))
    return sparse.csr_array((weights, outputs, indptr), shape=shape)


def used_columns(X):
    """Return the columns of a CSR matrix that have entries, ascending, and the matrix of these columns."""
    used, indices = np.unique(X.indices, return_inverse=True)
    return used, sparse.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], len(used)))


def squared_norm(array):
    """Return the sum of squares, as float64."""
    if array.dtype == np.float64:
        return float(np.vdot(array, array))
    return float(np.einsum("i,i->", *[array.ravel()] * 2, dtype=np.float64))


def _rows_of(X, start, stop):
    """Return the arrays of some rows of a CSR matrix, as views except for `indptr`."""
    first, last = X.indptr[start], X.indptr[stop]
    return X.data[first:last], X.indices[first:last], X.indptr[start : stop + 1] - first
