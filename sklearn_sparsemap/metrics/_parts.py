"""A metric of structures that differ in their number of parts."""

from __future__ import annotations

from collections.abc import Sized

import numpy as np
from scipy import sparse

from .._core.annotations import Any, ArrayLike
from .._core.indicators import same_order
from .._core.validation import check_not_masked
from ._flatten import weights_of
from ._multilabel import _check_indicator


def parts_f1_score(y_true: Any, y_pred: Any, *, sample_weight: ArrayLike | None = None) -> float:
    """Compute the F1 of the parts of structures, over all samples together.

    It is for structures that contain few of all possible parts: subsets, intervals, assignments of a factor graph. The
    accuracy of the parts would be high for empty predictions, but their F1 is 0.

    Parameters
    ----------
    y_true, y_pred : sequence
        The true and the predicted structure of each sample, in one of these forms:

        - a bool array of any shape, True for the parts of the structure; one of `y_true` and `y_pred` may consist of 0
          and 1 instead;
        - a dict of such arrays;
        - a sequence or set of distinct parts: indices, or hashable objects such as tuples (first, last).

        A table or a sparse matrix has a row for each sample and a column for each part; the columns of two tables are
        matched by their names.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples, which apply to each of their parts.

    Returns
    -------
    score : float
        1.0 if there are neither true nor predicted parts.

    Raises
    ------
    ValueError
        If the samples or their forms differ, there is no sample, or the weights are invalid.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import parts_f1_score
    >>> parts_f1_score([[True, False, True], [False, False, False]], [[True, True, False], [False, False, False]])
    0.5
    >>> parts_f1_score([[(0, 2), (3, 3)], [(1, 1)]], [[(0, 2)], [(1, 1), (4, 6)]])
    0.66...
    """
    weighted = y_true
    y_true, y_pred, _ = same_order(y_true, y_pred)
    # Python iterates tables by columns.
    y_true, y_pred = (y.to_numpy() if hasattr(y, "columns") else y for y in (y_true, y_pred))
    y_true, y_pred = (
        _check_indicator(y, name).astype(bool).toarray() if sparse.issparse(y) else y
        for name, y in (("y_true", y_true), ("y_pred", y_pred))
    )
    for name, y in (("y_true", y_true), ("y_pred", y_pred)):
        if isinstance(y, str | dict) or not isinstance(y, Sized):
            raise ValueError(f"{name} must be a sequence with one structure for each sample; got {type(y).__name__}")
    if len(y_true) != len(y_pred):
        raise ValueError(f"y_true has {len(y_true)} samples, but y_pred has {len(y_pred)}")
    if not len(y_true):
        raise ValueError("y_true has no samples; the F1 of nothing is undefined")
    weights = weights_of(sample_weight, weighted, len(y_true))
    counts = []
    for i, (true, pred) in enumerate(zip(y_true, y_pred)):
        try:
            counts.append(_count(true, pred))
        except ValueError as error:
            raise ValueError(f"sample {i}: {error}") from error
    n_correct, n_both = weights @ np.array(counts, dtype=np.float64)
    return float(2.0 * n_correct / n_both) if n_both else 1.0


def _count(true, pred):
    """Return the number of correct parts, and the number of parts of both structures together."""
    if isinstance(true, dict) or isinstance(pred, dict):
        if not (isinstance(true, dict) and isinstance(pred, dict) and set(true) == set(pred)):
            raise ValueError("y_true and y_pred must both be dicts, with the same keys")
        return np.sum([_count(true[name], pred[name]) for name in true], axis=0) if true else (0, 0)
    check_not_masked(true, "y_true")
    check_not_masked(pred, "y_pred")
    arrays = _as_array(true), _as_array(pred)
    if not any(array.dtype == bool for array in arrays):
        true = _as_set(true, "y_true")
        pred = _as_set(pred, "y_pred")
        return len(true & pred), len(true) + len(pred)
    for name, array in zip(("y_true", "y_pred"), arrays):
        if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
            raise ValueError(f"one of y_true and y_pred is an array of bool, so {name} must hold zeros and ones")
    true, pred = (array.astype(bool) for array in arrays)
    if true.shape != pred.shape:
        raise ValueError(f"y_true has shape {true.shape}, but y_pred has {pred.shape}")
    return (true & pred).sum(), true.sum() + pred.sum()


def _as_array(structure):
    """Return a structure as an array of numbers or bools; an empty array of objects if this is impossible."""
    if isinstance(structure, list | tuple | np.ndarray) or hasattr(structure, "to_numpy"):
        try:
            array = np.asarray(structure)
            # An array of objects may contain only bools.
            return np.asarray(array.tolist()) if array.dtype == object else array
        except ValueError:
            # The parts have different lengths.
            pass
    return np.empty(0, dtype=object)


def _as_set(parts, name):
    if isinstance(parts, str) or not isinstance(parts, Sized):
        raise ValueError(f"{name} must be an array of bool, or a sequence of parts; got {parts!r:.80}")
    parts = parts.tolist() if isinstance(parts, np.ndarray) else list(parts)
    try:
        found = set(parts)
    except TypeError as error:
        raise ValueError(
            f"{name} is not an array of bool, and its parts are not hashable; pass parts as ints or tuples"
        ) from error
    if len(found) < len(parts):
        raise ValueError(f"{name} has a part more than once; pass distinct parts, or an array of bool")
    return found
