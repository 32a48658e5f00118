"""Gradient steps over groups of features that are shrunk: the rule, and a shrinkage (Martins et al. 2011, section 3).

Every `shrink_every` samples all groups are shrunk: with a fixed strength, or with the strength that leaves as many
groups as the budget allows.
"""

from collections import namedtuple

import numpy as np
from numba import types

from ..._core.jit import FLOATS_OUT, INTS, INTS_2D_OUT, INTS_OUT, entry, kernel
from ...penalties._budget import budget_rule, count_survivors
from ...penalties._shrink import shrink
from .dense import HELD, N_RECORDS, N_SHRINKAGES, SINCE, STEP
from .pairs import PAIRS, measure_cancelled, scale_atoms

# Relative difference between the weights of groups that is introduced to break ties.
_TIE_BREAK = 1e-9

# The step size is eta0 / sqrt(ceil(step / period)). The budget and the frozen strength are -1 if not given. `weights`,
# `order`, `indptr` and `atoms` are those of the groups, see penalties/_shrink.py. `curve` and `sigma` are outputs:
# steps with the number of weights, and the last strength.
Gradient = namedtuple(
    "Gradient",
    [
        "tol", "fit_intercept", "every", "curve", "eta0", "period", "budget", "alpha", "frozen", "weights", "order",
        "indptr", "atoms", "sigma",
    ],
)  # fmt: skip
GRADIENT = types.NamedTuple(
    [types.float64, types.boolean, types.int64, INTS_2D_OUT, types.float64, types.float64, types.int64]
    + [types.float64] * 2
    + [FLOATS_OUT, INTS, INTS, INTS, FLOATS_OUT],
    Gradient,
)


@kernel
def step_size(rule, step):
    """Return the step size of a step, counted from 1."""
    return rule.eta0 / np.sqrt(np.ceil(step / rule.period))


@kernel
def record(rule, counters):
    """Record the number of weights."""
    n = counters[N_RECORDS]
    if n < rule.curve.shape[0]:
        rule.curve[n, 0] = counters[STEP]
        rule.curve[n, 1] = counters[HELD]
        counters[N_RECORDS] += 1


@kernel
def begin_shrinkage(rule, store, counters):
    """Return the step of the proximal operator: the step size times the number of samples since the last shrinkage."""
    rate = step_size(rule, counters[STEP]) * counters[SINCE]
    counters[SINCE] = 0
    record(rule, counters)
    measure_cancelled(store)
    return rate


@kernel
def end_shrinkage(store, counters):
    """Count a shrinkage, and record the atoms that it has kept."""
    counters[N_SHRINKAGES] += 1
    for atom in range(store.kept.shape[0]):
        store.kept[atom] = store.first_active[atom] >= 0 and store.rho[atom] > 0.0


@kernel
def shrink_groups(rule, store, counters):
    """Shrink all groups for the samples since the last shrinkage; write the strength, if there is any, to the rule.

    The strength is in the unit of the objective. Groups are shrunk by the strength times the result of
    `begin_shrinkage`.
    """
    rate = begin_shrinkage(rule, store, counters)
    weights, order, indptr, atoms = rule.weights, rule.order, rule.indptr, rule.atoms
    factors = np.empty(store.rho.shape[0])
    if rule.budget >= 0 and rule.frozen < 0.0:
        ratios, left, none = np.empty(weights.shape[0]), np.empty(store.rho.shape[0]), np.empty(0, np.int64)
        strength = budget_rule(store.rho, weights, order, indptr, atoms, rule.budget, ratios, factors, left)
        survivors = count_survivors(store.rho, strength, weights, order, indptr, atoms, none, factors, left)
        if strength > 0.0 and survivors < rule.budget:
            # Groups that tie at the threshold would all be discarded. Break ties in favour of the first ones.
            weights = weights * (1.0 + _TIE_BREAK * np.arange(weights.shape[0]) / weights.shape[0])
            strength = budget_rule(store.rho, weights, order, indptr, atoms, rule.budget, ratios, factors, left)
    else:
        strength = rate * (rule.frozen if rule.budget >= 0 else rule.alpha)
    if strength > 0.0:
        rule.sigma[0] = strength / rate
        shrink(store.rho, strength, weights, order, indptr, atoms, factors)
        scale_atoms(store, counters, factors)
        record(rule, counters)
    end_shrinkage(store, counters)


@kernel
def end_gradient_sample(rule, store, counters):
    """Shrink, if the rule does; record the number of weights."""
    if rule.budget >= 0 or rule.alpha > 0.0:
        shrink_groups(rule, store, counters)
    else:
        counters[SINCE] = 0
        record(rule, counters)


@entry(types.void(GRADIENT, PAIRS["float64"], INTS_OUT))
def shrink_now(rule, store, counters):
    """Call `shrink_groups` from Python."""
    if counters[SINCE] > 0:
        shrink_groups(rule, store, counters)
