"""Safe screening: groups of features that are proven to have no weights at any minimum.

A loss whose gradient has the Lipschitz constant L has an (1/L)-strongly convex conjugate. So the duality gap bounds the
distance of a dual point from the solution of the dual problem, and with it the gradient of the loss at all minima. A
group whose gradient remains in the interior of its dual ball has no weights there.

Reference: Ndiaye, Fercoq, Gramfort and Salmon. Gap safe screening rules for sparsity enforcing penalties. JMLR 18,
2017.

Used by `solver.py`.
"""

import numpy as np
from scipy import sparse


def excluded_groups(penalty, slopes, squares, gap):
    """Return a mask of the groups that have no weights at any minimum.

    Parameters
    ----------
    penalty : GroupPenalty
    slopes : array of shape (n_features, n_outputs)
        Gradient of the loss, scaled into the dual ball.
    squares : array of shape (n_features,)
        Squared norms of the features, with each row multiplied by the Lipschitz constant of its part of the loss.
    gap : float
        The duality gap with these slopes.

    Returns
    -------
    excluded : bool array of shape (n_groups,)
    """
    groups, of_entries = penalty.groups, penalty.alpha * penalty.l1_ratio
    radii = np.sqrt(2.0 * gap * squares)[:, None]
    beyond = np.maximum(np.abs(slopes) - of_entries, 0.0)
    of_groups = penalty.alpha * (1.0 - penalty.l1_ratio) * penalty.group_weights
    by_norm = groups.norms(beyond) + groups.norms(radii) < of_groups
    # A feature alone has no weights if all its entries remain below the strength of the l1 part.
    by_entries = groups.norms(np.abs(slopes) + radii >= of_entries) == 0.0
    return by_norm | by_entries


def squared_norms(X, row_weights):
    """Return the sum over rows of each feature's squares times the weight of the row."""
    squares = X.multiply(X).T if sparse.issparse(X) else (X * X).T
    return squares @ row_weights
