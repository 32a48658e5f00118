"""Closed forms of the logic factors: SparseMAP of one factor and the products with its Jacobian (Niculae and Martins
2020, table 2).

All work on literals: `z` are the scores of a factor's literals, `p` its solution. A literal of a negated variable is
1 - u, and its score 1 - z, because the distance to the scores is what the solution minimises.
"""

import numpy as np

from .._core.jit import kernel
from ..numerics.threshold import threshold
from .arrays import COUNT, FORBIDDEN, OR_OUT, PAIR

# Thresholds above this are solved for twice: rounding leaves their sums fewer digits than the marginals should have.
_LARGE = 1e3


@kernel
def clip01(x):
    """Return `x` clipped to [0, 1]."""
    return min(max(x, 0.0), 1.0)


@kernel
def _move_to(z, costs, bound, mu, p):
    """Set `p` to what is left of the scores `z` at the threshold `mu`, which is made good for its own rounding."""
    for i in range(z.shape[0]):
        p[i] = z[i] - costs[i] * mu
    rest = threshold(p, costs, bound, 0.0, -np.inf, np.inf) if _LARGE < abs(mu) < np.inf else 0.0
    for i in range(z.shape[0]):
        p[i] = clip01(p[i] - costs[i] * rest)


@kernel
def project_count(z, costs, low, high, p):
    """Project onto ``low <= costs.p <= high, 0 <= p <= 1``; tell whether there is such a p."""
    total = 0.0
    for i in range(z.shape[0]):
        p[i] = clip01(z[i])
        total += costs[i] * p[i]
    if low <= total <= high:
        return True
    bound = high if total > high else low
    mu = threshold(z, costs, bound, 0.0, 0.0 if total > high else -np.inf, np.inf if total > high else 0.0)
    _move_to(z, costs, bound, mu, p)
    # Forbidden literals have scores of FORBIDDEN: a threshold beyond those of the others would have to use them.
    return abs(mu) < -1e-10 * FORBIDDEN


@kernel
def project_or_out(z, costs, p):
    """Project onto ``p_i <= out <= sum_i p_i, 0 <= p <= 1``; the last literal is the output, of cost -1 (others 1)."""
    n = z.shape[0] - 1
    # The inputs above the output are averaged with it: leave out those at or below the average until none is.
    out, count = z[n], -1
    while True:
        total, above = z[n], 0
        for i in range(n):
            if z[i] > out:
                total += z[i]
                above += 1
        if above >= count >= 0:
            # No fewer than before; more only by rounding.
            break
        out, count = total / (1.0 + above), above
    p[n] = clip01(out)
    total = 0.0
    for i in range(n):
        p[i] = min(clip01(z[i]), p[n])
        total += p[i]
    if total >= p[n]:
        return
    _move_to(z, costs, 0.0, threshold(z, costs, 0.0, 0.0, -np.inf, 0.0), p)


@kernel
def project_pair(a, b, score):
    """Return the solution of a pair: both literals, and the probability that both are on."""
    negative = score < 0.0
    if negative:
        # score p q = score p - score p (1 - q): a positive score for p and the opposite of q.
        a, b, score = a + score, 1.0 - b, -score
    if abs(a - b) <= score:
        # Halves first, so that the sum of large scores loses nothing.
        p = clip01(0.5 * (a + b) + 0.5 * score)
        q = p
    elif a > b:
        p, q = clip01(a), clip01(b + score)
    else:
        p, q = clip01(a + score), clip01(b)
    if not negative:
        return p, q, min(p, q)
    return p, 1.0 - q, max(p - q, 0.0)


@kernel
def is_free(p, snap):
    """Tell whether a marginal is off its bounds, to which it belongs within `snap`.

    Marginals are right to about that; where scores are small it is small, too, for so are marginals.
    """
    return snap < p < 1.0 - snap


@kernel
def _average_out(c, p, snap, direction):
    """Take from the free entries of `direction` the component along `c`; fixed entries become zero."""
    product, norm_squared = 0.0, 0.0
    for i in range(p.shape[0]):
        if is_free(p[i], snap):
            product += c[i] * direction[i]
            norm_squared += c[i] * c[i]
        else:
            direction[i] = 0.0
    if norm_squared > 0.0:
        for i in range(p.shape[0]):
            if is_free(p[i], snap):
                direction[i] -= c[i] * product / norm_squared


@kernel
def jacobian_count(costs, low, high, p, snap, direction):
    """Overwrite `direction` with its product with the Jacobian at the solution `p`."""
    total, size = 0.0, 1.0
    for i in range(p.shape[0]):
        total += costs[i] * p[i]
        size += abs(costs[i])
    if abs(total - low) <= snap * size or abs(total - high) <= snap * size:
        _average_out(costs, p, snap, direction)
    else:
        for i in range(p.shape[0]):
            if not is_free(p[i], snap):
                direction[i] = 0.0


@kernel
def jacobian_or_out(costs, p, snap, direction):
    """Overwrite `direction` with its product with the Jacobian at the solution `p`."""
    n = p.shape[0] - 1
    total = 0.0
    for i in range(n):
        total += p[i]
    if total <= p[n] + snap * (n + 1):
        _average_out(costs, p, snap, direction)
        return
    mean, count = 0.0, 0
    for i in range(n + 1):
        if not is_free(p[i], snap):
            direction[i] = 0.0
        elif p[i] >= p[n] - snap:
            mean += direction[i]
            count += 1
    for i in range(n + 1):
        if is_free(p[i], snap) and p[i] >= p[n] - snap:
            direction[i] = mean / count


@kernel
def pair_slopes(score, p, q, snap):
    """Return how the joint probability of a pair at (p, q) changes with each of the two, inside its face.

    Where it is the smaller of two that are equal they share it. Derivatives in both directions use this one rule: at a
    tie they are then those of one matrix, too.
    """
    if score < 0.0:
        both = 1.0 if p + q > 1.0 else 0.0
        return both, both
    if abs(p - q) <= snap:
        return 0.5, 0.5
    return (1.0, 0.0) if p < q else (0.0, 1.0)


@kernel
def jacobian_pair(score, p, q, snap, dp, dq):
    """Return the product of the Jacobian at (p, q) with a direction, and how it changes the joint probability."""
    dp = dp if is_free(p, snap) else 0.0
    dq = dq if is_free(q, snap) else 0.0
    if score > 0.0:
        if abs(p - q) <= snap and is_free(p, snap):
            dp = dq = 0.5 * (dp + dq)
    elif score < 0.0 and abs(p + q - 1.0) <= snap and is_free(p, snap):
        dp = 0.5 * (dp - dq)
        dq = -dp
    with_p, with_q = pair_slopes(score, p, q, snap)
    return dp, dq, with_p * dp + with_q * dq


@kernel
def project_logic(kind, costs, low, high, score, z, p):
    """Project the literals of one logic factor; return the joint probability of a pair, and feasibility."""
    if kind == COUNT:
        return 0.0, project_count(z, costs, low, high, p)
    if kind == OR_OUT:
        project_or_out(z, costs, p)
        return 0.0, True
    p[0], p[1], joint = project_pair(z[0], z[1], score)
    return joint, True


@kernel
def jacobian_logic(kind, costs, low, high, score, p, snap, direction):
    """Overwrite `direction` with its product with one factor's Jacobian; return the change of the joint probability."""
    if kind == COUNT:
        jacobian_count(costs, low, high, p, snap, direction)
    elif kind == OR_OUT:
        jacobian_or_out(costs, p, snap, direction)
    elif kind == PAIR:
        direction[0], direction[1], joint = jacobian_pair(score, p[0], p[1], snap, direction[0], direction[1])
        return joint
    return 0.0
