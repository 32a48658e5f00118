"""A warning of estimators that select features by their weights, if the scales of the features decide the selection."""

import numpy as np
from scipy import sparse

from ._failures import warn_user

# Largest ratio of the scales of two columns without a warning. In the selection of 2 of 10 columns from 300 samples,
# nothing is lost if the two informative ones have a tenth of the scale of the others. With a thirtieth one of them is
# lost, with a hundredth both.
_LARGEST_RATIO = 20.0
# Largest ratio of the mean of a column to its deviation without a warning. If all columns have a mean of 2 deviations,
# nothing is lost; with 9, accuracy falls from 0.85 to 0.64.
_LARGEST_OFFSET = 7.5
# Minimum number of values of a column, and number of samples that are examined.
_FEWEST_VALUES, _MOST_SAMPLES = 10, 10_000


def warn_of_scales(X):
    """Warn if the scales of columns differ much, or their means are much larger than their deviations.

    Parameters
    ----------
    X : array or CSR of shape (n_rows, n_features)
        The first rows that an estimator learns from.
    """
    columns, scales, offsets = column_scales(X[:: max(1, -(-X.shape[0] // _MOST_SAMPLES))])
    if not len(columns):
        return
    low, high, offset = scales.argmin(), scales.argmax(), offsets.argmax()
    if scales[high] > _LARGEST_RATIO * scales[low]:
        found = f"column {columns[high]} has {scales[high] / scales[low]:.3g} times the scale of column {columns[low]}"
    elif offsets[offset] > _LARGEST_OFFSET:
        found = f"the mean of column {columns[offset]} is {offsets[offset]:.3g} times its standard deviation"
    else:
        return
    warn_user(
        f"{found}, so the scales of the features decide which of them are selected; standardise X, for example by "
        "sklearn.preprocessing.StandardScaler in a pipeline"
    )


def column_scales(X):
    """Return the scale of columns, and the ratio of their means to their standard deviations.

    The scale is the standard deviation or, for columns with zeros, such as counts and indicators, the root mean square
    of the other values. The ratio is zero for columns with zeros.

    Parameters
    ----------
    X : array or CSR of shape (n_rows, n_features)

    Returns
    -------
    columns : int array of shape (n_columns,)
        The columns with ten nonzero values or more, except constant ones.
    scales, offsets : arrays of shape (n_columns,)
    """
    if sparse.issparse(X):
        # There can be more columns than fit into memory.
        columns, which = np.unique(X.indices, return_inverse=True)
        counts, squares = np.bincount(which, X.data != 0.0), np.bincount(which, X.data * X.data)
    else:
        columns = np.arange(X.shape[1])
        counts, squares = np.count_nonzero(X, axis=0), np.einsum("ij,ij->j", X, X)
    full, scales, offsets = counts == X.shape[0], np.sqrt(squares / np.maximum(counts, 1.0)), np.zeros(len(columns))
    if full.any() and X.shape[0]:
        if sparse.issparse(X):
            # Indexing would allocate an array over all columns.
            rows, is_full = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), full[which]
            values, places = np.zeros((X.shape[0], np.count_nonzero(full))), np.cumsum(full) - 1
            np.add.at(values, (rows[is_full], places[which[is_full]]), X.data[is_full])
        else:
            values = X[:, full]
        means, deviations = np.abs(values.mean(axis=0)), values.std(axis=0)
        # Rounding gives a constant column a tiny deviation.
        deviations[deviations <= 1e-12 * means] = 0.0
        scales[full] = deviations
        offsets[full] = np.divide(means, deviations, out=np.zeros(len(means)), where=deviations > 0.0)
    kept = (counts >= _FEWEST_VALUES) & (scales > 0.0)
    return columns[kept], scales[kept], offsets[kept]
