"""The gradient rule with a budget of weights, in separate kernels that are compiled only if used."""

from collections import namedtuple

import numpy as np
from numba import types

from ..._core.jit import INTS_OUT, entry, kernel
from ...penalties._shrink import shrink
from ...penalties._weight_budget import weight_budget_rule
from .dense import SINCE
from .pairs import PAIRS, count_held, scale_atoms
from .shrinkage import GRADIENT, Gradient, begin_shrinkage, end_shrinkage, record, shrink_now

# Here `budget` limits the number of weights. `held` is an output: the maximum number of weights that each atom has had
# at a shrinkage. A discarded group that returns still counts with this number.
Counting = namedtuple("Counting", [*Gradient._fields, "held"])
COUNTING = types.NamedTuple([*GRADIENT.types, INTS_OUT], Counting)


@kernel
def shrink_by_weights(rule, store, counters):
    """Like `shrink_groups`, with the strength that leaves as many weights as the budget allows."""
    rate = begin_shrinkage(rule, store, counters)
    order, indptr, atoms, n_atoms = rule.order, rule.indptr, rule.atoms, store.rho.shape[0]
    factors, doomed, strength = np.empty(n_atoms), np.zeros(n_atoms, np.bool_), rate * rule.frozen
    if rule.frozen < 0.0:
        count_held(store, rule.held)
        strength = weight_budget_rule(store.rho, rule.weights, order, indptr, atoms, rule.held, rule.budget, doomed)
    if strength > 0.0 or doomed.any():
        rule.sigma[0] = strength / rate
        shrink(store.rho, strength, rule.weights, order, indptr, atoms, factors)
        for atom in range(n_atoms):
            if doomed[atom]:
                store.rho[atom] = factors[atom] = 0.0
        scale_atoms(store, counters, factors)
        record(rule, counters)
    end_shrinkage(store, counters)


@entry(types.void(COUNTING, PAIRS["float64"], INTS_OUT))
def _shrink_by_weights_now(rule, store, counters):
    if counters[SINCE] > 0:
        shrink_by_weights(rule, store, counters)


# For Python.
SHRINKAGES = {Gradient: shrink_now, Counting: _shrink_by_weights_now}
