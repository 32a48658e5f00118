"""Gradient steps over groups of features that are shrunk: the rule, and a shrinkage (Martins et al. 2011, section 3).

Every `shrink_every` samples all groups are shrunk: with a fixed strength, or with the strength that leaves as many
groups as the budget allows. There are two kinds of shrinkage:

- The paper's: the weights themselves are shrunk, and discarded groups restart from zero.
- Deferred: only the scores are computed with shrunk weights. The weights of all groups, selected or not, accumulate
  gradients: regularised dual averaging (Xiao 2010; for groups: Yang, Xu, King and Lyu 2010). So no group is lost by an
  early shrinkage, and groups that are not selected learn the residual of the selected groups.
"""

from collections import namedtuple

import numpy as np
from numba import types

from ..._core.jit import FLOATS_OUT, INTS, INTS_2D_OUT, INTS_OUT, entry, kernel
from ...penalties._budget import budget_rule, count_survivors
from ...penalties._shrink import shrink
from ...penalties._weight_budget import weight_budget_rule
from .dense import HELD, N_RECORDS, N_SHRINKAGES, SINCE, STEP
from .pairs import PAIRS, count_held, measure_cancelled, scale_atoms, scale_scores

# Largest relative change of the weights of groups that breaks ties.
_TIE_BREAK = 1e-9

# The rule of gradient steps with shrinkage. The step size is eta0 / sqrt(ceil(step / period)). The budget is -1 if not
# given. `weights`, `order`, `indptr` and `atoms` describe the groups, see penalties/_shrink.py. `defers` tells whether
# shrinkages are deferred, which needs a budget. `curve` and `sigma` are outputs: the numbers of weights with their
# steps, and two strengths, the last nonzero one and the mean of all. `held` is empty for a budget of groups. For a
# budget of weights it is an output: the maximum number of weights that each atom has had at a shrinkage, which is its
# size in the budget even after it was discarded.
Gradient = namedtuple(
    "Gradient",
    [
        "tol", "fit_intercept", "every", "curve", "eta0", "period", "budget", "alpha", "defers", "weights",
        "order", "indptr", "atoms", "sigma", "held",
    ],
)  # fmt: skip
GRADIENT = types.NamedTuple(
    [types.float64, types.boolean, types.int64, INTS_2D_OUT, types.float64, types.float64, types.int64]
    + [types.float64, types.boolean]
    + [FLOATS_OUT, INTS, INTS, INTS, FLOATS_OUT, INTS_OUT],
    Gradient,
)


@kernel
def step_size(rule, step):
    """Return the step size of a step, counted from 1."""
    return rule.eta0 / np.sqrt(np.ceil(step / rule.period))


@kernel
def record(rule, counters):
    """Append the current number of weights to the curve of the rule."""
    n = counters[N_RECORDS]
    if n < rule.curve.shape[0]:
        rule.curve[n, 0] = counters[STEP]
        rule.curve[n, 1] = counters[HELD]
        counters[N_RECORDS] += 1


@kernel
def _group_budget_factors(rule, rho, factors):
    """Do the work of `budget_factors` for a budget of groups."""
    weights, order, indptr, atoms = rule.weights, rule.order, rule.indptr, rule.atoms
    ratios, left, none = np.empty(weights.shape[0]), np.empty(rho.shape[0]), np.empty(0, np.int64)
    strength = budget_rule(rho, weights, order, indptr, atoms, rule.budget, ratios, factors, left)
    survivors = count_survivors(rho, strength, weights, order, indptr, atoms, none, factors, left)
    if strength > 0.0 and survivors < rule.budget:
        # Groups that tie at the threshold would all be discarded, so ties are broken in favour of the first groups.
        weights = weights * (1.0 + _TIE_BREAK * np.arange(weights.shape[0]) / weights.shape[0])
        strength = budget_rule(rho, weights, order, indptr, atoms, rule.budget, ratios, factors, left)
    shrink(rho, strength, weights, order, indptr, atoms, factors)
    return strength


@kernel
def _weight_budget_factors(rule, store, rho, factors):
    """Do the work of `budget_factors` for a budget of weights."""
    order, indptr, atoms, doomed = rule.order, rule.indptr, rule.atoms, np.zeros(rho.shape[0], np.bool_)
    count_held(store, rule.held)
    strength = weight_budget_rule(rho, rule.weights, order, indptr, atoms, rule.held, rule.budget, doomed)
    shrink(rho, strength, rule.weights, order, indptr, atoms, factors)
    for atom in range(rho.shape[0]):
        if doomed[atom]:
            rho[atom] = factors[atom] = 0.0
    return strength


@kernel
def budget_factors(rule, store, rho, factors):
    """Write the factors of the shrinkage that enforces the budget, and return its strength.

    `rho` holds the squared norms of the atoms, and is updated.
    """
    if rule.held.shape[0]:
        return _weight_budget_factors(rule, store, rho, factors)
    return _group_budget_factors(rule, rho, factors)


@kernel
def defer_shrinkage(rule, store, counters, before):
    """Shrink only the scales of scores, effective after step `before`; the weights remain unchanged."""
    measure_cancelled(store)
    factors = np.empty(store.rho.shape[0])
    strength = budget_factors(rule, store, store.rho.copy(), factors)
    # The weights are sums of the gradients of all samples so far, so one strength applies to all steps.
    step = max(1, counters[STEP])
    rule.sigma[1] = strength / (step_size(rule, step) * step)
    if strength > 0.0:
        rule.sigma[0] = rule.sigma[1]
    for atom in range(factors.shape[0]):
        scale_scores(store, atom, store.scale[atom] * factors[atom], before)


@kernel
def shrink_groups(rule, store, counters):
    """Shrink all groups for the samples since the last shrinkage; write a nonzero strength to the rule.

    The strength is in units of the objective. Groups are shrunk by the strength times the step size, times the number
    of samples since the last shrinkage.
    """
    rate = step_size(rule, counters[STEP]) * counters[SINCE]
    counters[SINCE] = 0
    record(rule, counters)
    measure_cancelled(store)
    factors = np.empty(store.rho.shape[0])
    if rule.budget < 0:
        strength = rate * rule.alpha
        shrink(store.rho, strength, rule.weights, rule.order, rule.indptr, rule.atoms, factors)
    else:
        strength = budget_factors(rule, store, store.rho, factors)
    if strength > 0.0 or (factors == 0.0).any():
        rule.sigma[0] = strength / rate
        scale_atoms(store, counters, factors)
        record(rule, counters)
    counters[N_SHRINKAGES] += 1
    rule.sigma[1] += (strength / rate - rule.sigma[1]) / counters[N_SHRINKAGES]
    for atom in range(store.kept.shape[0]):
        store.kept[atom] = store.first_active[atom] >= 0 and store.rho[atom] > 0.0


@kernel
def end_gradient_sample(rule, store, counters, first, stop):
    """Shrink if there is a budget or a strength; record the number of weights."""
    if rule.defers:
        counters[SINCE] = 0
        defer_shrinkage(rule, store, counters, counters[STEP] - 1)
    elif rule.budget >= 0 or rule.alpha > 0.0:
        shrink_groups(rule, store, counters)
    else:
        counters[SINCE] = 0
        record(rule, counters)


@entry(types.void(GRADIENT, PAIRS["float64"], INTS_OUT))
def shrink_now(rule, store, counters):
    """Shrink for the samples since the last shrinkage, if any. A deferred shrinkage is effective from the next step."""
    if rule.defers:
        defer_shrinkage(rule, store, counters, counters[STEP])
    elif counters[SINCE] > 0:
        shrink_groups(rule, store, counters)


@entry(types.float64(GRADIENT, PAIRS["float64"], FLOATS_OUT, FLOATS_OUT))
def budget_factors_now(rule, store, rho, factors):
    """Call `budget_factors` from Python."""
    return budget_factors(rule, store, rho, factors)


@entry(types.void(PAIRS["float64"], INTS_OUT, FLOATS_OUT))
def multiply_atoms(store, counters, factors):
    """Call `scale_atoms` from Python."""
    scale_atoms(store, counters, factors)
