"""A warning of `GroupLassoPerceptron` if only the sizes of groups determined its selection.

Used by `perceptron.py`.
"""

import numpy as np

from .._failures import warn_user
from .groups import group_names

# Maximum number of groups named in a warning.
_SHOWN = 3


def norms_before_shrinking(estimator, task, X):
    """Return the norms of groups before the first shrinkage if the selection depends on group sizes, else None."""
    weights = estimator.group_weights
    limits_groups = estimator.budget is not None and estimator.budget_unit == "groups"
    if not isinstance(weights, str) or weights == "uniform" or not limits_groups:
        return None
    optimizer = estimator._new_optimizer(task.n_outputs, task.n_additional)
    estimator._configure(optimizer, len(X))
    order = np.random.RandomState(0).permutation(len(X))[: estimator._shrink_period - 1]
    if len(order):
        task.epochs(optimizer, X, remember=False)(order)
    return optimizer.group_norms()


def warn_of_sizes(estimator, norms, alive):
    """Warn of groups that the budget discards because of their size, although their norm is among the largest.

    Parameters
    ----------
    estimator : GroupLassoPerceptron
    norms : array of shape (n_groups,), or None
        Norms before the first shrinkage.
    alive : bool array of shape (n_groups,)
        Whether each group survived the last shrinkage.
    """
    groups, weights = estimator.groups_, estimator.group_weights
    if norms is None or not groups.is_partition or not alive.any():
        return
    # Groups that equal weights would have kept, and that these weights discarded.
    sizes = estimator.group_weights_
    ratios = np.divide(norms, sizes, out=np.where(norms > 0.0, np.inf, 0.0), where=sizes > 0.0)
    by_norm, by_ratio = (np.argsort(-values, kind="stable")[: estimator.budget] for values in (norms, ratios))
    lost = [g for g in by_norm.tolist() if norms[g] > 0.0 and not alive[g] and g not in by_ratio]
    if not lost:
        return
    names = group_names(estimator)
    shown = ", ".join(f"{names[g]!r} ({groups.sizes[g]} features)" for g in lost[:_SHOWN])
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    kept = np.flatnonzero(alive)
    least = int(kept[norms[kept].argmin()])
    warn_user(
        f"group_weights={weights!r} discards {shown}{more} for its size only: by its norm, {norms[lost[0]]:.3g}, it is "
        f"among the {estimator.budget} strongest groups, and {names[least]!r} ({groups.sizes[least]} features), of "
        f"norm {norms[least]:.3g}, is kept; use group_weights='uniform' to select by norm"
    )
