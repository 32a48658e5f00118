"""Penalties: their values and proximal operators."""

from __future__ import annotations

from typing import Literal

import numpy as np

from .._core.annotations import Any, ArrayLike, Mapping, NDArray
from .._core.validation import check_choice, check_numbers, check_positive
from ._group_weights import as_group_weights
from ._groups import as_groups, check_groups
from ._shrink import power_of_two, shrink_atoms, solve_overlapping

_LARGEST = 1e100  # largest weight; squares of larger ones may overflow


class Penalty:
    """Base class of penalties.

    Notes
    -----
    `weights` has shape (n_features,) or (n_features, n_outputs). A group contains all outputs of its features.
    ``prox(weights, step)`` minimises ``1/2 ||u - weights||^2 + step * value(u)`` over u.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap.penalties import L1, Penalty
    >>> isinstance(L1(), Penalty), L1().value(np.array([1.0, -2.0]))
    (True, 3.0)
    """

    def value(self, weights: ArrayLike) -> float:
        """Return the penalty.

        Parameters
        ----------
        weights : array-like of shape (n_features,) or (n_features, n_outputs)

        Returns
        -------
        value : float

        Raises
        ------
        ValueError
            If the weights are not finite, or do not fit the groups.
        """
        raise NotImplementedError

    def prox(self, weights: ArrayLike, step: float = 1.0) -> NDArray[np.float64]:
        """Return the proximal operator at `weights`.

        Parameters
        ----------
        weights : array-like of shape (n_features,) or (n_features, n_outputs)
        step : float, default=1.0
            Factor of the penalty, not negative.

        Returns
        -------
        solution : ndarray of the shape of `weights`

        Raises
        ------
        ValueError
            If the weights are not finite or do not fit the groups, or the step is negative.
        """
        raise NotImplementedError


def _check_weights(weights):
    array = check_numbers(weights, "weights")
    if array.ndim not in (1, 2):
        raise ValueError(f"weights must have 1 or 2 axes, features and outputs; got shape {array.shape}")
    if not np.isfinite(array).all():
        where = [int(i) for i in np.argwhere(~np.isfinite(array))[0]]
        raise ValueError(f"weights{where} is {array[tuple(where)]}; weights must be finite")
    if array.size and np.abs(array).max() > _LARGEST:
        raise ValueError(f"weights has values beyond {_LARGEST:g}, whose squares overflow; rescale them")
    return array


def _check_ratio(l1_ratio):
    check_positive("l1_ratio", l1_ratio, zero=True)
    if l1_ratio > 1:
        raise ValueError(f"l1_ratio must be from 0 to 1; got {l1_ratio!r}")


def _soft_threshold(weights, threshold):
    # Zeros in the result have no sign.
    return np.where(np.abs(weights) > threshold, weights - np.copysign(threshold, weights), 0.0)


class ElasticNet(Penalty):
    """L1 and squared norm: ``alpha * (l1_ratio * |w|_1 + (1 - l1_ratio) / 2 * |w|^2)``, as in scikit-learn.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty.
    l1_ratio : float, default=0.5
        Weight of the L1 norm, from 0 to 1.

    Examples
    --------
    >>> from sklearn_sparsemap.penalties import ElasticNet
    >>> ElasticNet(2.0, l1_ratio=0.5).prox([3.0, -0.5])
    array([1., 0.])
    """

    def __init__(self, alpha: float = 1.0, l1_ratio: float = 0.5) -> None:
        check_positive("alpha", alpha, zero=True)
        _check_ratio(l1_ratio)
        self.alpha = alpha
        self.l1_ratio = l1_ratio

    def value(self, weights: ArrayLike) -> float:
        weights = _check_weights(weights)
        l1 = float(np.abs(weights).sum())
        l2 = float((weights**2).sum())
        return self.alpha * (self.l1_ratio * l1 + 0.5 * (1.0 - self.l1_ratio) * l2)

    def prox(self, weights: ArrayLike, step: float = 1.0) -> NDArray[np.float64]:
        check_positive("step", step, zero=True)
        shrunk = _soft_threshold(_check_weights(weights), step * self.alpha * self.l1_ratio)
        return shrunk / (1.0 + step * self.alpha * (1.0 - self.l1_ratio))


class L1(ElasticNet):
    """Sum of absolute values: ``alpha * |w|_1``.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty.

    Examples
    --------
    >>> from sklearn_sparsemap.penalties import L1
    >>> L1(0.5).prox([3.0, -0.25, -1.0])
    array([ 2.5, 0. , -0.5])
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__(alpha, l1_ratio=1.0)


class GroupLasso(Penalty):
    """Sum of the norms of groups: ``alpha * sum_m d_m |w_m|``.

    The penalty sets whole groups to zero. Groups may be nested or overlap; the zero set is then a union of groups
    ([1]_, section 3).

    Parameters
    ----------
    groups : None, array-like, dict, list, GroupTree, GroupOrder or Groups, default=None
        The groups; see `as_groups`.
    alpha : float, default=1.0
        Strength of the penalty.
    group_weights : {"uniform", "log2", "sqrt"}, dict or array-like of shape (n_groups,), default="uniform"
        The weights d_m; see `as_group_weights`.
    method : {"exact", "families"}, default="exact"
        Method for groups that overlap without being nested. ``"families"`` shrinks one group after another ([1]_,
        equation 15), which is fast, but not the proximal operator of this penalty. ``"exact"`` iterates until the
        solution is accurate to `tol`. For other groups, one pass is exact, and the methods are the same.
    tol : float, default=1e-10
        Largest distance to the solution at the end, relative to the norm of the weights.
    max_iter : int, default=100000
        Maximum number of passes.

    References
    ----------
    .. [1] Martins, Smith, Aguiar and Figueiredo. Structured Sparsity in Structured Prediction. EMNLP 2011.

    Examples
    --------
    >>> from sklearn_sparsemap.penalties import GroupLasso
    >>> GroupLasso([0, 0, 1], alpha=1.0).prox([3.0, 4.0, 0.5])
    array([2.4, 3.2, 0. ])
    """

    l1_ratio: float = 0.0

    def __init__(
        self,
        groups: Any = None,
        alpha: float = 1.0,
        group_weights: Literal["uniform", "log2", "sqrt"] | Mapping[Any, float] | ArrayLike = "uniform",
        *,
        method: Literal["exact", "families"] = "exact",
        tol: float = 1e-10,
        max_iter: int = 100000,
    ) -> None:
        check_positive("alpha", alpha, zero=True)
        check_choice("method", method, ("exact", "families"))
        check_positive("tol", tol, zero=True)
        check_positive("max_iter", max_iter, integer=True)
        self.groups = groups
        self.alpha = alpha
        self.group_weights = group_weights
        self.method = method
        self.tol = tol
        self.max_iter = max_iter
        self._known = None

    def _resolve(self, n_features):
        # Training loops call this repeatedly with the same number of features.
        if self._known is None or self._known[0].n_features != n_features:
            groups = as_groups(self.groups, n_features)
            self._known = groups, as_group_weights(self.group_weights, groups.sizes, groups.names)
        return self._known

    def value(self, weights: ArrayLike) -> float:
        return self._value(_check_weights(weights))

    def _value(self, weights):
        """Return the value for checked weights. `GroupPenalty` (`_training/_group_lasso`) calls this and `_shrink`."""
        groups, group_weights = self._resolve(len(weights))
        l1 = float(np.abs(weights).sum())
        norms = float(group_weights @ groups.norms(weights))
        return self.l1_ratio * (self.alpha * l1) + (1.0 - self.l1_ratio) * (self.alpha * norms)

    def prox(self, weights: ArrayLike, step: float = 1.0) -> NDArray[np.float64]:
        return self.prox_with_gap(weights, step)[0]

    def prox_with_gap(self, weights: ArrayLike, step: float = 1.0) -> tuple[NDArray[np.float64], float]:
        """Return the proximal operator, and a duality gap.

        Parameters
        ----------
        weights : array-like of shape (n_features,) or (n_features, n_outputs)
        step : float, default=1.0
            Factor of the penalty, not negative.

        Returns
        -------
        solution : ndarray of the shape of `weights`
        gap : float
            Duality gap: the squared distance to the exact solution is at most twice the gap. 0 for a closed form; NaN
            for ``method="families"`` if this is not exact.

        Examples
        --------
        >>> from sklearn_sparsemap.penalties import GroupLasso
        >>> penalty = GroupLasso([[0, 1], [1, 2]], alpha=1.0)
        >>> solution, gap = penalty.prox_with_gap([2.0, 1.0, 2.0])
        >>> solution.round(3), gap < 1e-18
        (array([1.053, 0.357, 1.053]), True)
        """
        check_positive("step", step, zero=True)
        weights = _check_weights(weights)
        check_groups(self._resolve(len(weights))[0], len(weights))
        return self._shrink(weights, step)

    def _shrink(self, weights, step):
        """Return the proximal operator and its gap for weights and groups that have been checked."""
        strength = step * self.alpha
        groups, group_weights = self._resolve(len(weights))
        if self.l1_ratio > 0:
            weights = _soft_threshold(weights, strength * self.l1_ratio)
            strength *= 1.0 - self.l1_ratio
        # Weights are scaled by a power of two, so that squares do not underflow, and scaling back is exact.
        unit = power_of_two(np.abs(weights).max(initial=0.0))
        norms = groups.atom_norms(weights / unit)
        structure = group_weights, groups.order, groups.group_indptr, groups.group_atoms
        if groups.is_nested or self.method == "families":
            factors = np.empty(groups.n_atoms)
            shrink_atoms(norms**2, strength / unit, *structure, factors)
            gap = 0.0 if groups.is_nested else np.nan
        else:
            solution = np.empty(groups.n_atoms)
            gap, _ = solve_overlapping(norms, strength / unit, *structure, self.tol, self.max_iter, solution)
            factors = np.divide(solution, norms, out=np.zeros_like(norms), where=norms > 0)
        factors = factors[groups.atom_of]
        return weights * (factors if weights.ndim == 1 else factors[:, None]), gap * unit**2


class SparseGroupLasso(GroupLasso):
    """L1 and group lasso: ``alpha * (l1_ratio * |w|_1 + (1 - l1_ratio) * sum_m d_m |w_m|)``.

    The proximal operator is that of L1, followed by that of the group lasso. This is exact for any groups, even
    overlapping ones, because the operator of the group lasso does not change signs.

    Parameters
    ----------
    groups, alpha, group_weights, method, tol, max_iter
        See `GroupLasso`.
    l1_ratio : float, default=0.5
        Weight of the L1 norm, from 0 to 1.

    Examples
    --------
    >>> from sklearn_sparsemap.penalties import SparseGroupLasso
    >>> SparseGroupLasso([0, 0, 0, 1], alpha=2.0, l1_ratio=0.5).prox([4.0, 5.0, 0.5, 1.5])
    array([2.4, 3.2, 0. , 0. ])
    """

    def __init__(
        self,
        groups: Any = None,
        alpha: float = 1.0,
        l1_ratio: float = 0.5,
        group_weights: Literal["uniform", "log2", "sqrt"] | Mapping[Any, float] | ArrayLike = "uniform",
        *,
        method: Literal["exact", "families"] = "exact",
        tol: float = 1e-10,
        max_iter: int = 100000,
    ) -> None:
        super().__init__(groups, alpha, group_weights, method=method, tol=tol, max_iter=max_iter)
        _check_ratio(l1_ratio)
        self.l1_ratio = l1_ratio
