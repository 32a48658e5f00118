"""The penalty of group lasso on some of the features, with its dual ball.

`StructuredGroupLasso` makes it, the other files of this folder call it, and a search for a strength calls
`smallest_alpha`.

Used by `estimators` and `problem.py`.
"""

import numpy as np

from ...penalties import Groups, SparseGroupLasso
from ...penalties._groups import group_of_entry

# The factor into the dual ball is sought at these distances from 1: first the smallest one, then wider ones, then
# between two of them. The bound depends on the distance, so that its relative error counts.
_CLOSEST, _WIDER, _BISECTIONS = 1e-15, 32.0, 8
# Bisections for the largest useful strength.
_BISECTIONS_OF_ALPHA = 30
# Strength r of the ridge r/2 |W|^2 of features that no norm penalises. Larger values give close lower bounds after
# fewer iterations, but change the minimum. That of intercepts has the same reason and the same value.
FREE_RIDGE = 1e-8


class GroupPenalty(SparseGroupLasso):
    """``alpha * ((1 - l1_ratio) * sum_g w_g |W_g| + l1_ratio * |W|_1)`` for groups that are disjoint or nested.

    Parameters
    ----------
    groups : Groups
    group_weights : array of shape (n_groups,)
    alpha : float
    l1_ratio : float

    Attributes
    ----------
    root_of : int array of shape (n_features,)
        The largest group that contains each feature. The penalty is a sum over these groups.
    is_free : bool array of shape (n_features,)
        Whether all groups of a feature have weight 0, without an l1 part. It has a tiny ridge instead of a norm.
    has_free : bool
        Whether there is such a feature.
    """

    def __init__(self, groups, group_weights, alpha, l1_ratio):
        super().__init__(groups, alpha, l1_ratio, group_weights)
        self._group_of_entry = group_of_entry(groups)
        n_atoms = np.diff(groups.group_indptr)
        # From small groups to large ones, so that the largest is written last.
        order = np.argsort(n_atoms[self._group_of_entry], kind="stable")
        root_of_atom = np.empty(groups.n_atoms, np.int64)
        root_of_atom[groups.group_atoms[order]] = self._group_of_entry[order]
        self.root_of = root_of_atom[groups.atom_of]
        is_positive = np.asarray(group_weights)[self._group_of_entry] > 0.0
        is_free = np.bincount(groups.group_atoms, is_positive, minlength=groups.n_atoms) == 0
        self.is_free = is_free[groups.atom_of] & (l1_ratio == 0.0)
        self.has_free = bool(self.is_free.any())

    # The methods of the base class check their arguments, which takes half of the time for few features.
    def value(self, weights):
        found = self.value_of_norms(weights)
        return found + 0.5 * FREE_RIDGE * float((weights[self.is_free] ** 2).sum()) if self.has_free else found

    def value_of_norms(self, weights):
        """Return the penalty without the ridge of free features."""
        return self._value(weights)

    def prox(self, weights, step):
        found = self._shrink(weights, step)[0]
        if self.has_free:
            found[self.is_free] /= 1.0 + step * FREE_RIDGE
        return found

    def restrict(self, columns):
        """Return the penalty of some features; the weights of the others are zero."""
        if not self.groups.is_partition:
            groups = self.groups.with_features(self.groups.atom_of[columns])
            return GroupPenalty(groups, self.group_weights, self.alpha, self.l1_ratio)
        # Groups without any of these features would take time.
        kept, group_of = np.unique(self.root_of[columns], return_inverse=True)
        groups = Groups.partition(group_of, names=kept)
        return GroupPenalty(groups, self.group_weights[kept], self.alpha, self.l1_ratio)

    def with_alpha(self, alpha):
        """Return the penalty with another strength."""
        return GroupPenalty(self.groups, self.group_weights, alpha, self.l1_ratio)

    def smooth_entries(self, coef):
        """Return a mask of the weights in which the norms of groups are smooth.

        These are all weights in nonzero groups. Without an l1 part they must be nonzero themselves, too: then zeros
        occur by chance only.
        """
        if self.l1_ratio == 0.0:
            return (coef != 0.0) | self.is_free[:, None]
        if self.l1_ratio == 1.0:
            return np.ones(coef.shape, bool)
        groups = self.groups
        is_zero = groups.norms(coef) == 0.0
        n_zero = np.bincount(groups.group_atoms, is_zero[self._group_of_entry], minlength=groups.n_atoms)
        return np.broadcast_to((n_zero == 0)[groups.atom_of][:, None], coef.shape)

    def slope(self, coef):
        """Return the gradient of the norms of groups at nonzero groups, and of the ridge, and zeros elsewhere."""
        groups = self.groups
        norms = groups.norms(coef)
        ratios = np.divide(self.group_weights, norms, out=np.zeros_like(norms), where=norms > 0.0)
        of_atoms = np.bincount(groups.group_atoms, ratios[self._group_of_entry], minlength=groups.n_atoms)
        factors = (1.0 - self.l1_ratio) * self.alpha * of_atoms[groups.atom_of]
        if self.has_free:
            factors[self.is_free] = FREE_RIDGE
        return coef * factors[:, None]

    def scale_into_ball(self, gradient):
        """Return the largest factor, at most 1, by which a gradient is in the dual ball: where the prox is zero.

        For disjoint groups the dual ball is ``|gradient_g| <= alpha w_g``, if there is no l1 part. Features that no
        norm penalises are left out.
        """
        gradient = self._of_penalised(gradient)
        if self.l1_ratio == 0.0 and self.groups.is_partition:
            norms = self.groups.norms(gradient)
            radii = self.alpha * self.group_weights
            largest = np.maximum(norms, radii)
            return float(np.min(np.divide(radii, largest, out=np.ones_like(radii), where=largest > 0.0), initial=1.0))
        outside = np.unique(self.root_of[self.prox(gradient, 1.0).any(axis=1)])
        if not len(outside):
            return 1.0
        columns = np.flatnonzero(np.isin(self.root_of, outside))
        penalty = self.restrict(columns)
        gradient = gradient[columns]
        away = _CLOSEST
        while away < 1.0 and penalty.prox((1.0 - away) * gradient, 1.0).any():
            away *= _WIDER
        low = away / _WIDER
        high = min(away, 1.0)
        return 1.0 - _bisect(low, high, _BISECTIONS, lambda away: penalty.prox((1.0 - away) * gradient, 1.0).any())

    def smallest_alpha(self, gradient):
        """Return the smallest strength at which a gradient is in the dual ball, about."""
        gradient = self._of_penalised(gradient)
        if self.l1_ratio == 0.0 and self.groups.is_partition:
            norms = self.groups.norms(gradient)
            weights = self.group_weights
            return float(np.divide(norms, weights, out=np.zeros_like(norms), where=weights > 0.0).max(initial=0.0))

        def is_too_weak(alpha):
            return self.with_alpha(alpha).prox(gradient, 1.0).any()

        low = 0.0
        high = float(np.abs(gradient).max(initial=0.0))
        while is_too_weak(high):
            low, high = high, 2.0 * high
        return _bisect(low, high, _BISECTIONS_OF_ALPHA, is_too_weak)

    def _of_penalised(self, gradient):
        """Return a gradient with zeros for the features that no norm penalises."""
        return np.where(self.is_free[:, None], 0.0, gradient) if self.has_free else gradient


def _bisect(low, high, n, is_too_low):
    """Halve an interval `n` times; return its upper end, which is not too low if `high` is not."""
    for _ in range(n):
        middle = 0.5 * (low + high)
        if is_too_low(middle):
            low = middle
        else:
            high = middle
    return high
