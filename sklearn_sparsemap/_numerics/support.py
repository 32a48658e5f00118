"""Support: the structures of a solution, their weights, and the factor of their Gram matrix.

Used by `_graphs`, `inference`, `losses`, `structures` and most files here.
"""

from collections import namedtuple

import numpy as np

from .._core.jit import copy_into, kernel, new_float_rows, new_floats, new_part_rows
from .cholesky import append_column, remove_column, solve_lower

# Row s of `slots` and `additional` holds structure s (see structures/_base.py). `theta` is its score minus the score of
# the first structure, so that large scores cost no digits. `factor` and `rhs` belong to K = M'M + 11', where the
# columns of M are the unary indicators, or counts if parts can repeat; see cholesky.py. Only the first k entries of
# each array are in use; the solver keeps k.
Support = namedtuple(
    "Support", ["slots", "additional", "theta", "weights", "factor", "rhs", "column", "target", "scratch", "repeats"]
)

# K has integer entries. A squared pivot below this fraction of its diagonal entry is rounding error.
DEPENDENT = 1e-9
# Largest violation of a constraint of the polytope. If marginals violate one by more, they are not certified, and
# another solver takes over. Rounding of ordinary scores is a hundred times smaller.
FEASIBLE = 1e-9
# Distance from 1.0 to the next float64.
EPS = 2.220446049250313e-16


@kernel
def parts_repeat(sizes):
    """Return whether a part can be in several slots, given the result of `Structure.layout`."""
    return sizes.shape[0] > 4


@kernel
def new_support(capacity, n_slots, n_additional, repeats):
    """Return an empty support, and its size.

    The size is an int64: with a literal 0 as an argument Numba would compile a second version of the callee.
    """
    support = Support(
        new_part_rows(capacity, n_slots),
        new_part_rows(capacity, n_additional),
        new_floats(capacity),
        new_floats(capacity),
        new_float_rows(capacity, capacity),
        new_float_rows(np.int64(2), capacity),
        new_floats(capacity),
        new_floats(capacity),
        new_floats(capacity),
        repeats,
    )
    return support, np.int64(0)


@kernel
def _copy_support(target, source, k):
    """Copy the first k structures; apart from `grow`, because this makes no array and thus counts no references."""
    for s in range(k):
        copy_into(target.slots[s], source.slots[s])
        copy_into(target.additional[s], source.additional[s])
        copy_into(target.factor[s], source.factor[s])
        target.rhs[0, s] = source.rhs[0, s]
        target.rhs[1, s] = source.rhs[1, s]
        target.theta[s] = source.theta[s]
        target.weights[s] = source.weights[s]
        target.column[s] = source.column[s]


@kernel
def grow(support, k):
    """Return the support, with doubled capacity if its k structures fill it."""
    if k < support.theta.shape[0]:
        return support
    larger, _ = new_support(2 * k, support.slots.shape[1], support.additional.shape[1], support.repeats)
    _copy_support(larger, support, k)
    return larger


@kernel
def add_exactly(total, lost, value):
    """Add a value to a sum without losing digits (Kahan); return the sum, and by how much it is too large."""
    own = value - lost
    new = total + own
    return new, (new - total) - own


@kernel
def gather(values, slots):
    """Return the sum of the values of a structure's parts."""
    total = 0.0
    for t in range(slots.shape[0]):
        if slots[t] >= 0:
            total += values[slots[t]]
    return total


@kernel
def add_parts(values, slots, amount):
    """Add `amount` to the values of a structure's parts."""
    for t in range(slots.shape[0]):
        if slots[t] >= 0:
            values[slots[t]] += amount


@kernel
def score(scores, additional, slots, additional_slots):
    """Return the total score of a structure."""
    return gather(scores, slots) + gather(additional, additional_slots)


@kernel
def _product_of_counts(a, b):
    """Return the inner product of the part counts of two structures, whose slots are sorted."""
    total = np.int64(0)
    t = np.int64(0)
    for part in a:
        while t < b.shape[0] and b[t] < part:
            t += 1
        end = t
        while end < b.shape[0] and b[end] == part:
            end += 1
        total += end - t
    return total


@kernel
def common_parts(a, b, repeats):
    """Return the number of unary parts that two structures have in common: the product of their columns of M."""
    if repeats:
        return _product_of_counts(a, b)
    count = np.int32(0)
    for t in range(a.shape[0]):
        count += np.int32((a[t] == b[t]) & (a[t] >= 0))
    return np.int64(count)


@kernel
def project_on_support(support, k, slots):
    """Write ``R'^{-1}`` times the new structure's column of K into `support.column`; return its squared pivot.

    A return value of 0 means that the structure is affinely dependent on the support.
    """
    column = support.column
    for s in range(k):
        column[s] = common_parts(support.slots[s], slots, support.repeats) + 1.0
    solve_lower(support.factor, k, column)
    diagonal = common_parts(slots, slots, support.repeats) + 1.0
    pivot_squared = diagonal
    for s in range(k):
        pivot_squared -= column[s] * column[s]
    return pivot_squared if pivot_squared > DEPENDENT * diagonal else 0.0


@kernel
def append(support, k, slots, additional_slots, theta, weight, pivot_squared):
    """Add the structure that was just projected, after a call of `grow`; return the new size.

    Parameters
    ----------
    support : Support
    k : int
        Number of its structures.
    slots, additional_slots : arrays
    theta : float
        The score of the structure, minus the reference.
    weight : float
    pivot_squared : float
        The result of `project_on_support`.
    """
    copy_into(support.slots[k], slots)
    copy_into(support.additional[k], additional_slots)
    support.theta[k] = theta
    support.weights[k] = weight
    append_column(support.factor, support.rhs, k, support.column, pivot_squared, theta)
    return k + 1


@kernel
def append_if_independent(support, k, slots, additional_slots, theta, weight):
    """Add a structure unless it is affinely dependent on the support, which has room for it; return the new size.

    Parameters
    ----------
    support, k, slots, additional_slots, theta, weight
        As in `append`.
    """
    pivot_squared = project_on_support(support, k, slots)
    if pivot_squared > 0.0:
        k = append(support, k, slots, additional_slots, theta, weight, pivot_squared)
    return k


@kernel
def remove(support, k, j):
    """Drop structure `j`, keeping the order of the others; return the new size."""
    remove_column(support.factor, support.rhs, k, j, support.scratch)
    for s in range(j, k - 1):
        copy_into(support.slots[s], support.slots[s + 1])
        copy_into(support.additional[s], support.additional[s + 1])
        support.theta[s] = support.theta[s + 1]
        support.weights[s] = support.weights[s + 1]
    return k - 1


@kernel
def refactor(support, k):
    """Recompute the factor from the structures, without dependent ones; return the size."""
    slots, additional, theta, weights = support.slots, support.additional, support.theta, support.weights
    kept = np.int64(0)
    for s in range(k):
        kept = append_if_independent(support, kept, slots[s], additional[s], theta[s], weights[s])
    return kept


@kernel
def independent_support(slots, additional):
    """Call `independent_support_of` for structures whose parts do not repeat."""
    return independent_support_of(slots, additional, slots.shape[0] < 0)


@kernel
def independent_support_of(slots, additional, repeats):
    """Return a support of the given structures, one a row, without dependent ones, scores and weights; and its size."""
    support, k = new_support(slots.shape[0] + 8, slots.shape[1], additional.shape[1], repeats)
    for s in range(slots.shape[0]):
        k = append_if_independent(support, k, slots[s], additional[s], 0.0, 0.0)
    return support, k


@kernel
def find(slots, additional, k, new_slots, new_additional):
    """Return the place of a structure among the first k rows, or -1."""
    for s in range(k):
        same = True
        for t in range(new_slots.shape[0]):
            same &= slots[s, t] == new_slots[t]
        for t in range(new_additional.shape[0]):
            same &= additional[s, t] == new_additional[t]
        if same:
            return s
    return -1


@kernel
def mix(slots, k, weights, marginals):
    """Write the sum of the first k structures' parts, unary or additional, times their weights, into `marginals`."""
    marginals[:] = 0.0
    for s in range(k):
        add_parts(marginals, slots[s], weights[s])


@kernel
def is_distribution(weights):
    """Return whether weights are probabilities. Only then is the mixture in the polytope, and a gap a certificate."""
    total = 0.0
    for w in weights:
        total += w
        if not w >= 0.0:
            return False
    return abs(total - 1.0) <= FEASIBLE


@kernel
def certified_gap(value, here):
    """Return the reduced score of the best structure minus that of the mixture.

    It is infinite if the oracle returned no structure or no finite value, because then there is no certificate.
    """
    return value - here if -np.inf < value < np.inf else np.inf


@kernel
def rounding_of_gap(scores, additional, slots, additional_slots):
    """Return the gap that rounding alone can cause, estimated from the scores of one good structure."""
    size = 1.0 + slots.shape[0]
    run = 0.0
    for t in range(slots.shape[0]):
        if slots[t] >= 0:
            size += abs(scores[slots[t]])
            # Repeated parts are adjacent. The marginal of a part that occurs k times can be as large as k.
            run = run + 1.0 if t > 0 and slots[t] == slots[t - 1] else 0.0
            size += 2.0 * run
    for t in range(additional_slots.shape[0]):
        if additional_slots[t] >= 0:
            size += abs(additional[additional_slots[t]])
    return 8.0 * EPS * size
