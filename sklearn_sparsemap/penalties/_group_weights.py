"""The relative weights of groups in a penalty."""

from __future__ import annotations

from typing import Literal

import numpy as np

from .._core.annotations import ArrayLike, NDArray
from .._core.validation import check_choice, check_not_negative, check_numbers


def as_group_weights(
    group_weights: Literal["uniform", "log2", "sqrt"] | ArrayLike, sizes: ArrayLike
) -> NDArray[np.float64]:
    """Return the weight d_m of each group in a penalty.

    Parameters
    ----------
    group_weights : {"uniform", "log2", "sqrt"} or array-like of shape (n_groups,)
        The weights themselves, or a rule. ``"uniform"`` is 1 for each group. ``"log2"`` is the base-2 logarithm of the
        size, as in [1]_, section 5: large groups are penalised more, and groups of one feature are never shrunk.
        ``"sqrt"`` is the square root of the size, which is common in statistics: groups of noise are then treated
        equally, whatever their size.
    sizes : array-like of shape (n_groups,)
        Number of features of each group. An empty group is treated like a group of one feature.

    Returns
    -------
    weights : ndarray of shape (n_groups,)

    Raises
    ------
    ValueError
        If the name is unknown, or an array has the wrong length or negative, infinite or NaN entries.

    References
    ----------
    .. [1] Martins, Smith, Aguiar and Figueiredo. Structured Sparsity in Structured Prediction. EMNLP 2011.

    Examples
    --------
    >>> from sklearn_sparsemap.penalties import as_group_weights
    >>> as_group_weights("log2", [1, 2, 8])
    array([0., 1., 3.])
    """
    sizes = np.asarray(sizes)
    if isinstance(group_weights, str):
        check_choice("group_weights", group_weights, ("uniform", "log2", "sqrt"))
        if group_weights == "uniform":
            return np.ones(len(sizes))
        # Empty groups may get features later.
        sizes = np.maximum(sizes, 1).astype(np.float64)
        return np.log2(sizes) if group_weights == "log2" else np.sqrt(sizes)
    weights = check_numbers(group_weights, "group_weights").copy()
    if weights.shape != (len(sizes),):
        raise ValueError(
            f"group_weights has shape {weights.shape} for {len(sizes)} groups; give one weight for each group"
        )
    check_not_negative(weights, "group_weights", "weights")
    return weights
