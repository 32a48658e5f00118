"""Gradient steps over groups of features that are shrunk: the rule, and a shrinkage (Martins et al. 2011, section 3).

Every `shrink_every` samples all groups are shrunk: with a fixed strength, or with the strength that leaves as many
groups as the budget allows. There are two kinds of shrinkage:

- The paper's: the weights themselves are shrunk, and discarded groups restart from zero.
- Deferred: only the scores are computed with shrunk weights. The weights of all groups, selected or not, accumulate
  gradients: regularised dual averaging (Xiao 2010; for groups: Yang, Xu, King and Lyu 2010). So no group is lost by an
  early shrinkage, and groups that are not selected learn the residual of the selected groups.

Used by `groups.py` and `rules.py`.
"""

import numpy as np
from numba import types

from ..._core.jit import INTS_OUT, Entry, copy_into, entry, kernel
from ...penalties._shrink import shrink
from .dense import HELD, N_RECORDS, N_SHRINKAGES, SINCE, SKIPPED, STEP, clock_after
from .pairs import PAIRS, count_held, discard_atom, fade_weights, measure_cancelled, scale_atoms, scale_scores
from .rule import end_signature


@kernel
def step_size(rule, pace, step):
    """Return the step size of a step, counted from 1."""
    return rule.eta0 / np.sqrt(np.ceil((step - pace[SKIPPED]) / rule.period))


@kernel
def record(rule, counters):
    """Append the current number of weights to the curve of the rule."""
    n = counters[N_RECORDS]
    if n < rule.curve.shape[0]:
        rule.curve[n, 0] = counters[STEP]
        rule.curve[n, 1] = counters[HELD]
        counters[N_RECORDS] += 1


@kernel
def _enforce_budget(rule, store, rho, factors):
    """Write the factors of the shrinkage that enforces the budget, and return its strength.

    `rho` holds the squared norms of the atoms, and is updated.
    """
    count_held(store, rule.held)
    return rule.budget_factors(rule.weights, rule.order, rule.indptr, rule.atoms, rule.held, rule.budget, rho, factors)


@kernel
def _defer_shrinkage(rule, store, counters, before):
    """Shrink only the scales of scores, effective after step `before`; the weights remain unchanged."""
    measure_cancelled(store)
    factors = np.empty(store.rho.shape[0])
    rho = np.empty(store.rho.shape[0])
    copy_into(rho, store.rho)
    strength = _enforce_budget(rule, store, rho, factors)
    # The weights are sums of the gradients of all samples so far, so one strength applies to all steps.
    step = max(1, counters[STEP])
    rule.sigma[1] = strength / (step_size(rule, store.pace, step) * step)
    if strength > 0.0:
        rule.sigma[0] = rule.sigma[1]
    clock = clock_after(store.pace, before)
    for atom in range(factors.shape[0]):
        scale_scores(store, atom, store.scale[atom] * factors[atom], clock)


@kernel
def _shrink_groups(rule, store, counters):
    """Shrink all groups for the samples since the last shrinkage; write a nonzero strength to the rule.

    The strength is in units of the objective. Groups are shrunk by the strength times the step size, times the number
    of samples since the last shrinkage.
    """
    rate = step_size(rule, store.pace, counters[STEP]) * counters[SINCE]
    counters[SINCE] = 0
    record(rule, counters)
    measure_cancelled(store)
    factors = np.empty(store.rho.shape[0])
    if rule.budget < 0:
        strength = rate * rule.alpha
        shrink(store.rho, strength, rule.weights, rule.order, rule.indptr, rule.atoms, factors)
    else:
        strength = _enforce_budget(rule, store, store.rho, factors)
    discards = False
    for atom in range(factors.shape[0]):
        discards |= factors[atom] == 0.0
    if strength > 0.0 or discards:
        rule.sigma[0] = strength / rate
        scale_atoms(store, counters, factors)
        record(rule, counters)
    counters[N_SHRINKAGES] += 1
    rule.sigma[1] += (strength / rate - rule.sigma[1]) / counters[N_SHRINKAGES]
    for atom in range(store.kept.shape[0]):
        store.kept[atom] = store.first_active[atom] >= 0 and store.rho[atom] > 0.0


def _shrink_deferred(rule, store, counters, first, stop):
    """Defer a shrinkage. If `first` is negative, no sample ends, and it is effective from the next step."""
    is_now = first < 0
    if not is_now:
        counters[SINCE] = 0
    _defer_shrinkage(rule, store, counters, counters[STEP] - (not is_now))


def _shrink_weights(rule, store, counters, first, stop):
    """Shrink if there is a budget or a strength; record the number of weights.

    If `first` is negative, no sample ends, and this is a shrinkage for the samples since the last one, if any.
    """
    is_now = first < 0
    if counters[SINCE] > 0 if is_now else rule.budget >= 0 or rule.alpha > 0.0:
        _shrink_groups(rule, store, counters)
    elif not is_now:
        counters[SINCE] = 0
        record(rule, counters)


# Ends of samples, see `Steps`, by whether shrinkages are deferred.
SHRINKAGES = {
    defers: Entry(function, end_signature(PAIRS["float64"]))
    for defers, function in ((True, _shrink_deferred), (False, _shrink_weights))
}


@entry(types.void(PAIRS["float64"], INTS_OUT, types.boolean[::1]))
def discard_atoms(store, counters, kept):
    """Discard all atoms except those that are kept."""
    for atom in range(kept.shape[0]):
        if not kept[atom]:
            discard_atom(store, counters, atom)


@entry(types.void(PAIRS["float64"], INTS_OUT, types.float64))
def fade_all(store, counters, factor):
    """Multiply all weights by a positive factor, effective after the current step."""
    fade_weights(store, counters, factor)
