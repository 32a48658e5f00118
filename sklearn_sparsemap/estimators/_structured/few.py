"""Predictions for a few samples: the same result as for many, with a few calls of Python and NumPy.

For one sentence, checks and the layout of arrays take far longer than the scores and the best structure.

Used by `base.py`.
"""

from itertools import accumulate, pairwise

import numpy as np
from numba import types
from scipy import sparse

from ..._core.jit import FLOATS, FLOATS_2D, FLOATS_2D_OUT, INTS, PARTS, entry, kernel, readonly
from ..._core.ragged import RaggedArray
from ..._core.validation import LARGEST_SCORE
from ..._training._structure_task import object_array
from ...inference._batch import decode_problems, map_problems
from ...inference._problems import problems_of_few

_MAX_SAMPLES, _MAX_ROWS = 16, 256  # samples, and rows of all of them, up to which they are a few


@kernel
def _is_within(number, most):
    """Tell whether a number is within [-most, most], which NaN is not."""
    return -most <= number <= most


@entry(types.boolean(FLOATS, types.float64, types.boolean))
def _are_within(numbers, most, or_forbidden):
    """Tell whether all numbers are within [-most, most], or -inf if that is allowed."""
    n_within = 0
    for number in numbers:
        n_within += _is_within(number, most) or (or_forbidden and number == -np.inf)
    return n_within == len(numbers)


@entry(types.boolean(FLOATS, PARTS, INTS, FLOATS_2D, FLOATS, FLOATS_2D_OUT))
def _score_rows(data, indices, indptr, coef, intercept, scores):
    """Compute the scores of CSR rows under a linear model; return whether rows and scores are valid.

    Parameters
    ----------
    data, indices, indptr : float64, int32 and int64 arrays
        Features, not checked before. Their numbers of entries must match, and entries be in ascending rows.
    coef, intercept : arrays of shapes (n_features, n_outputs) and (n_outputs,)
    scores : array of shape (n_rows, n_outputs)
        Output.
    """
    n_rows, n_outputs = scores.shape
    n_entries = len(data)
    most = LARGEST_SCORE / max(n_rows * n_outputs, 1)
    if len(indptr) != n_rows + 1 or indptr[0] != 0 or indptr[n_rows] != n_entries or len(indices) != n_entries:
        return False
    for r in range(n_rows):
        first, last = indptr[r], indptr[r + 1]
        if not first <= last <= n_entries:
            return False
        for j in range(n_outputs):
            scores[r, j] = 0.0
        for at in range(first, last):
            value, column = data[at], indices[at]
            if not _is_within(value, LARGEST_SCORE) or not 0 <= column < coef.shape[0]:
                return False
            for j in range(n_outputs):
                scores[r, j] += value * coef[column, j]
        for j in range(n_outputs):
            scores[r, j] += intercept[j]
            if not _is_within(scores[r, j], most):
                return False
    return True


def predict_few(model, X, map_time_limit):
    """Predict a few samples of a structure with a fixed number of parts.

    Parameters
    ----------
    model : LinearStructuredModel
    X : as in `predict`
    map_time_limit : float or None
        Only checked, because it limits the inference of factor graphs.

    Returns
    -------
    codes : 1-D object array, or None
        The structures, with the numbers of labels. None if the samples are many, or of another form, or if any check
        fails. `predict` then goes the way of all samples, which raises the errors.
    """
    structure = vars(model).get("_structure")
    n_jobs = model.n_jobs
    if structure is None or structure.uses_graphs or structure.is_flat or not structure.fixed_size:
        return None
    if n_jobs is not None and (type(n_jobs) is not int or n_jobs == 0):
        return None
    if map_time_limit is not None and (type(map_time_limit) not in (int, float) or not 0 < map_time_limit < np.inf):
        return None
    rows, row_ptr = _rows_of_few(X)
    weights = model._learned.model
    if rows is None or model._learned_columns is not None or not _are_plain(weights):
        return None
    model._check_whole()
    n_features, n_outputs, n_additional = weights.sizes
    if rows.shape[1] != n_features:
        return None
    if not structure.labelled and n_outputs != (structure.in_estimators.row_outputs or 1):
        return None
    scores = _scores(rows, weights)
    additional = weights.additional + model._mask
    if scores is None or not _are_within(additional, LARGEST_SCORE / max(n_additional, 1), True):
        return None
    try:
        problems = problems_of_few(structure, scores, row_ptr, additional)
        slots, slot_ptr, values = map_problems(structure, problems, check=False)
    except ValueError:
        return None
    if not (values > -np.inf).all():
        return None
    found = decode_problems(structure, problems, slots, slot_ptr)
    return np.array(found) if structure.in_estimators.predicts_arrays else object_array(found)


def _rows_of_few(X):
    """Return the rows of a few samples, and the beginning of each sample as a list; None for other samples."""
    if type(X) is list and 0 < len(X) <= _MAX_SAMPLES:
        if not all(type(x) is np.ndarray and x.dtype == np.float64 and x.ndim == 2 for x in X):
            return None, None
        if len({x.shape[1] for x in X}) > 1:
            return None, None
        rows = X[0] if len(X) == 1 else np.concatenate(X)
        row_ptr = [0, *accumulate(map(len, X))]
    elif type(X) is RaggedArray and X.shapes is None and X.extras is None:
        rows, indptr, groups = X.values, X.indptr, X.groups
        if type(indptr) is not np.ndarray or indptr.dtype != np.int64 or not 1 < indptr.size <= _MAX_SAMPLES + 1:
            return None, None
        if rows.ndim != 2 or (groups is not None and np.shape(groups) != (rows.shape[1],)):
            return None, None
        row_ptr = indptr.ravel().tolist()
    else:
        return None, None
    is_few = rows.ndim == 2 and rows.dtype == np.float64 and rows.shape[0] <= _MAX_ROWS
    if not is_few or row_ptr[0] != 0 or row_ptr[-1] != rows.shape[0]:
        return None, None
    return (None, None) if any(first >= last for first, last in pairwise(row_ptr)) else (rows, row_ptr)


def _are_plain(weights):
    """Tell whether a model is linear, with dense arrays of float64."""
    if "explain" not in weights.supports:
        return False
    coef = weights.coef
    is_dense = type(coef) is np.ndarray and coef.dtype == np.float64 and coef.flags.c_contiguous
    return is_dense and weights.intercept.dtype == weights.additional.dtype == np.float64


def _scores(rows, weights):
    """Return the scores of rows, or None if rows or scores are invalid."""
    if not sparse.issparse(rows):
        if type(rows) is not np.ndarray or not _are_within(np.ascontiguousarray(rows).ravel(), LARGEST_SCORE, False):
            return None
        scores = weights.scores(np.ascontiguousarray(rows))
        return scores if _are_within(scores.ravel(), LARGEST_SCORE / scores.size, False) else None
    if rows.format != "csr" or rows.indices.dtype != np.int32:
        return None
    if any(array.ndim != 1 for array in (rows.data, rows.indices, rows.indptr)):
        return None
    arrays = readonly(rows.data), readonly(rows.indices, np.int32), readonly(rows.indptr, np.int64)
    scores = np.empty((rows.shape[0], len(weights.intercept)))
    return scores if _score_rows(*arrays, weights.coef, weights.intercept, scores) else None
