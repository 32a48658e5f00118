"""The relative weights of groups in a penalty.

Used by `_prox.py`.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from .._core.annotations import Any, ArrayLike, Mapping, NDArray, Sequence
from .._core.tables import aligned, as_mapping, is_named, row_names
from .._core.validation import check_choice, check_not_negative, check_numbers, quoted


def as_group_weights(
    group_weights: Literal["uniform", "log2", "sqrt"] | Mapping[Any, float] | ArrayLike,
    sizes: ArrayLike,
    names: Sequence[Any] | None = None,
    others: Literal["uniform", "log2", "sqrt"] = "uniform",
) -> NDArray[np.float64]:
    """Return the weight d_m of each group in a penalty.

    Parameters
    ----------
    group_weights : {"uniform", "log2", "sqrt"}, dict or array-like of shape (n_groups,)
        The weights themselves, for a dict or a Series with an index by the names of groups, or a rule.
        ``"uniform"`` is 1 for each group. ``"log2"`` is the base-2 logarithm of the size, as in [1]_, section 5: large
        groups are penalised more, and groups of one feature are never shrunk. ``"sqrt"`` is the square root of the
        size, which is common in statistics: groups of noise are then treated equally, whatever their size.
    sizes : array-like of shape (n_groups,)
        Number of features of each group. An empty group is treated like a group of one feature.
    names : sequence of length n_groups, default=None
        The names of the groups, for a dict or a Series. Default: the index of `sizes`, else their indices.
    others : {"uniform", "log2", "sqrt"}, default="uniform"
        The rule for groups that a dict or a Series does not name.

    Returns
    -------
    weights : ndarray of shape (n_groups,)

    Raises
    ------
    ValueError
        If the rule or the name of a group is unknown, an array has the wrong length, or there are negative, infinite or
        NaN weights.

    References
    ----------
    .. [1] Martins, Smith, Aguiar and Figueiredo. Structured Sparsity in Structured Prediction. EMNLP 2011.

    Examples
    --------
    >>> from sklearn_sparsemap.penalties import as_group_weights
    >>> as_group_weights("log2", [1, 2, 8])
    array([0., 1., 3.])
    >>> as_group_weights({"age": 0.0}, [1, 2], names=["age", "words"])
    array([0., 1.])
    """
    if hasattr(group_weights, "iloc"):
        group_weights = as_mapping(group_weights, "group_weights")
    if hasattr(sizes, "iloc") and is_named(sizes):
        names = row_names(sizes) if names is None else names
        sizes = aligned(sizes, list(names), name="sizes", whose="the names of the groups")
    sizes = np.asarray(sizes)
    if isinstance(group_weights, Mapping):
        return _weights_by_name(group_weights, as_group_weights(others, sizes), names)
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


def _weights_by_name(given, weights, names):
    """Return weights with those of a dict in the places of the groups that it names."""
    names = list(range(len(weights)) if names is None else names)
    place_of = {name: place for place, name in enumerate(names)}
    for name, weight in given.items():
        if name not in place_of:
            shown = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
            raise ValueError(f"group_weights names the group {quoted(name)}, which does not exist; groups are {shown}")
        own = check_numbers(weight, f"group_weights[{name!r}]")
        if own.ndim or not 0.0 <= own < np.inf:
            raise ValueError(f"group_weights[{name!r}] is {weight!r}; weights must be finite and not negative")
        weights[place_of[name]] = own
    return weights
