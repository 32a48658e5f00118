"""Closed forms of the logic factors: SparseMAP of one factor and the products with its Jacobian (Niculae and Martins
2020, table 2).

All functions work on literals: `z` contains the scores of a factor's literals, `p` its solution. The literal of a
negated variable is 1 - u, and its score is 1 - z, because the solution minimises the distance to the scores.

Used by `admm.py`, `block.py`, `certificate.py`, `projection.py` and `small.py`.
"""

import numpy as np

from .._core.jit import kernel
from .._numerics.threshold import threshold
from .arrays import COUNT, FORBIDDEN, OR_OUT, PAIR

_LARGE = 1e3  # larger thresholds are computed in two steps, because their rounding errors exceed those of marginals


@kernel
def clip01(x):
    """Return `x` clipped to [0, 1]."""
    return min(max(x, 0.0), 1.0)


@kernel
def _move_to(z, costs, bound, mu, p):
    """Set `p` to the scores `z` above the threshold `mu`, clipped; a second threshold corrects the rounding of `mu`."""
    for i in range(z.shape[0]):
        p[i] = z[i] - costs[i] * mu
    rest = threshold(p, costs, bound, 0.0, -np.inf, np.inf) if _LARGE < abs(mu) < np.inf else 0.0
    for i in range(z.shape[0]):
        p[i] = clip01(p[i] - costs[i] * rest)


@kernel
def project_count(z, costs, low, high, p):
    """Project onto ``low <= costs.p <= high, 0 <= p <= 1``; return whether the set is nonempty."""
    total = 0.0
    for i in range(z.shape[0]):
        p[i] = clip01(z[i])
        total += costs[i] * p[i]
    if low <= total <= high:
        return True
    bound = high if total > high else low
    mu = threshold(z, costs, bound, 0.0, 0.0 if total > high else -np.inf, np.inf if total > high else 0.0)
    _move_to(z, costs, bound, mu, p)
    # Forbidden literals have scores of FORBIDDEN. A threshold of this size means that the sum needs one of them.
    return abs(mu) < -1e-10 * FORBIDDEN


@kernel
def project_or_out(z, costs, p):
    """Project onto ``p_i <= out <= sum_i p_i, 0 <= p <= 1``; the last literal is the output, of cost -1 (others 1)."""
    n = z.shape[0] - 1
    # The inputs above the output are averaged with it. Those at or below the average are removed until there is none.
    out, count = z[n], -1
    while True:
        total, above = z[n], 0
        for i in range(n):
            if z[i] > out:
                total += z[i]
                above += 1
        if above >= count >= 0:
            # None was removed. There are more only if the average was rounded down.
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
    """Return the solution of a pair with scores `a` and `b`: both literals, and the probability that both are on."""
    negative = score < 0.0
    if negative:
        # score p q = score p - score p (1 - q) is a positive score for p and the negation of q.
        a, b, score = a + score, 1.0 - b, -score
    if abs(a - b) <= score:
        # The halves are added, because the sum of large scores would overflow or lose digits.
        p = clip01(0.5 * (a + b) + 0.5 * score)
        q = p
    elif a > b:
        p = clip01(a)
        q = clip01(b + score)
    else:
        p = clip01(a + score)
        q = clip01(b)
    if not negative:
        return p, q, min(p, q)
    return p, 1.0 - q, max(p - q, 0.0)


@kernel
def is_free(p, snap):
    """Return whether a marginal is farther than `snap` from both bounds.

    `snap` is about the error of marginals. It is proportional to the scores if these are small.
    """
    return snap < p < 1.0 - snap


@kernel
def _average_out(c, p, snap, direction):
    """Subtract the component along `c` from the free entries of `direction`; the others become zero."""
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
    """Overwrite `direction` with its product with the Jacobian of `project_count`.

    Parameters
    ----------
    costs, low, high
        As for `project_count`.
    p : array of shape (n_literals,)
        The solution.
    snap : float
        See `is_free`.
    direction : array of shape (n_literals,)
    """
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
    """Overwrite `direction` with its product with the Jacobian of `project_or_out` at the solution `p`."""
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
    """Return the derivatives of the joint probability of a pair with respect to p and q, within its face.

    At a tie of two equal values, each gets half of the derivative. Forward and backward derivatives both use this rule,
    so that they are products with the same matrix.
    """
    if score < 0.0:
        both = 1.0 if p + q > 1.0 else 0.0
        return both, both
    if abs(p - q) <= snap:
        return 0.5, 0.5
    return (1.0, 0.0) if p < q else (0.0, 1.0)


@kernel
def jacobian_pair(score, p, q, snap, dp, dq):
    """Return the product of the Jacobian of a pair with a direction, and the change of the joint probability.

    Parameters
    ----------
    score : float
        The score of the pair.
    p, q : float
        The solution.
    snap : float
        See `is_free`.
    dp, dq : float
        The direction of the scores.
    """
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
def project_logic(factor_type, costs, low, high, score, z, p):
    """Project the literals of one logic factor; return the joint probability of a pair, and feasibility.

    Parameters
    ----------
    factor_type : int
        COUNT, OR_OUT or PAIR.
    costs : array of shape (n_literals,)
    low, high : float
        The bounds of a COUNT.
    score : float
        The score of a PAIR.
    z, p : arrays of shape (n_literals,)
        Scores and solution.
    """
    if factor_type == COUNT:
        return 0.0, project_count(z, costs, low, high, p)
    if factor_type == OR_OUT:
        project_or_out(z, costs, p)
        return 0.0, True
    p[0], p[1], joint = project_pair(z[0], z[1], score)
    return joint, True


@kernel
def jacobian_logic(factor_type, costs, low, high, score, p, snap, direction):
    """Overwrite `direction` with its product with one factor's Jacobian; return the change of the joint probability.

    Parameters
    ----------
    factor_type, costs, low, high, score, p
        As for `project_logic`, at the solution `p`.
    snap : float
        See `is_free`.
    direction : array of shape (n_literals,)
    """
    if factor_type == COUNT:
        jacobian_count(costs, low, high, p, snap, direction)
    elif factor_type == OR_OUT:
        jacobian_or_out(costs, p, snap, direction)
    elif factor_type == PAIR:
        direction[0], direction[1], joint = jacobian_pair(score, p[0], p[1], snap, direction[0], direction[1])
        return joint
    return 0.0
