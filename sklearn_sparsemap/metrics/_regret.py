"""The regret of decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._core.annotations import Any, ArrayLike
from .._core.errors import naming
from .._core.indicators import same_order
from ..inference._decisions import check_decisions, check_values, decisions_of
from ._flatten import weights_of

if TYPE_CHECKING:
    from ..factors import FactorGraph
    from ..structures import Structure


def normalized_regret(
    V: ArrayLike,
    decisions: ArrayLike,
    structure: Structure | FactorGraph | list[Any],
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Compute the value that is lost by decisions, as a fraction of the optimal value.

    It is the sum over the samples of the optimal value minus the value of the decision, divided by the sum of the
    absolute optimal values [1]_.

    Parameters
    ----------
    V : array-like of shape (n_samples, n_parts)
        True values, which are maximised; -inf forbids a part. If the scores of the structure have several axes, these
        replace the axis of parts, in both arrays.
    decisions : array-like of shape (n_samples, n_parts)
        Decisions, 0 and 1. The columns of two tables are matched by their names. Constraints are not checked; a
        decision that violates them can have a negative regret.
    structure : Structure, FactorGraph, or list of these
        The set of possible decisions, of all samples or a list with that of each sample.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples in both sums.

    Returns
    -------
    regret : float
        0.0 for optimal decisions.

    Raises
    ------
    ValueError
        If the arrays do not match, a decision contains a forbidden part, or all optimal values are 0.

    References
    ----------
    .. [1] Tang and Khalil. PyEPO: A PyTorch-based End-to-End Predict-then-Optimize Library for Linear and Integer
       Programming. Mathematical Programming Computation, 2024.

    Examples
    --------
    >>> from sklearn_sparsemap.metrics import normalized_regret
    >>> from sklearn_sparsemap.structures import Subset
    >>> normalized_regret([[3.0, 2.0, 1.0], [1.0, 0.0, 2.0]], [[1, 1, 0], [1, 1, 0]], Subset(2, 2))
    0.25
    """
    own, decisions, _ = same_order(V, decisions, names=("V", "decisions"))
    values = check_values(structure, own, "V")
    chosen = check_decisions(decisions, values).reshape(len(values), -1)
    flat = values.reshape(chosen.shape)
    weights = weights_of(sample_weight, V, len(values))
    with naming(scores="V"):
        best = decisions_of(structure, values.shape[1:]).best(flat)
    finite = np.where(flat > -np.inf, flat, 0.0)
    optima = (best * finite).sum(axis=1) * weights
    total = float(np.abs(optima).sum())
    if total == 0.0:
        raise ValueError("the optimal values of all samples are 0, so the normalised regret is undefined")
    return float((optima - (chosen * finite).sum(axis=1) * weights).sum()) / total
