"""Chains whose transitions all have the same score, as in an untrained network.

The steps are then independent, and each is a projection onto the simplex. Thousands of paths tie, and only the sums of
the additional marginals are determined. Among the optimal mixtures, this takes the one in which neighbours are
independent, ``v[t, i, j] = u[t, i] u[t + 1, j]``: no transition is preferred, so all of them get gradients.
`structures/_chain/tensors.py` has the same rule.

Used by `structures.py`.
"""

from functools import cached_property

import numpy as np


def has_constant_transitions(operator, additional):
    """Tell whether all transitions of all samples, between any two steps, have the same score."""
    if not operator.extra or operator.extra[0][0] != "transitions":
        return False
    shape = operator.extra[0][1]
    transitions = additional[:, : np.prod(shape, dtype=int)].reshape(len(additional), -1, *shape[-2:])
    return transitions.size > 0 and np.isfinite(transitions).all() and (transitions == transitions[..., :1, :1]).all()


class IndependentSteps:
    """Solutions of a padded batch; see `SolvedStructures`.

    Parameters
    ----------
    inner : SolvedStructures
        Solutions of the same chains without transitions.
    shape : tuple of int
        The padded shape of a sample's transitions.
    additional : array of shape (n_samples, n_additional), or (1, n_additional)
    solve : callable
        Solves the chains as usual; called only if their structures are needed.
    """

    def __init__(self, inner, shape, additional, solve):
        self._inner, self._shape, self._solve = inner, shape, solve
        self._n_transitions = int(np.prod(shape))
        self.marginals = inner.marginals
        transitions = self._pairs(self.marginals, self.marginals)
        self.additional = np.column_stack([transitions, inner.additional])
        self.values = inner.values + (transitions * additional[:, : self._n_transitions]).sum(axis=1)

    def _pairs(self, before, after):
        """Return products of neighbours, flat; summed over the steps if these share their transitions."""
        pairs = before[:, :-1, :, None] * after[:, 1:, None, :]
        return (pairs.sum(axis=1) if len(self._shape) == 2 else pairs).reshape(len(pairs), -1)

    def products(self, unary, extra):
        """Multiply padded directions of scores and additional scores with the Jacobian."""
        u, m = self.marginals, self._shape[-1]
        changes = extra[:, : self._n_transitions].reshape(len(extra), -1, m, m)
        unary = unary.copy()
        unary[:, :-1] += (changes * u[:, 1:, None, :]).sum(axis=-1)
        unary[:, 1:] += (changes * u[:, :-1, :, None]).sum(axis=-2)
        w, joint = self._inner.products(unary, extra[:, self._n_transitions :])
        return w, np.column_stack([self._pairs(w, u) + self._pairs(u, w), joint])

    @cached_property
    def _full(self):
        return self._solve()

    @property
    def batch(self):
        """The solutions as mixtures of structures."""
        return self._full.batch

    def weight_products(self, flat):
        """Multiply an array over the selected structures with the Jacobians of their weights; padded arrays."""
        return self._full.weight_products(flat)
