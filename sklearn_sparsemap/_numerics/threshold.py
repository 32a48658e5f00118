"""The root of a piecewise linear equation, used by the closed forms and the coordinate sweeps.

Used by `_graphs` and `structures`.
"""

import numpy as np

from .._core.jit import kernel

# Maximum number of iterations. Newton's method needs about three; every bracket collapses within far fewer than this.
_MAX_ITER = 300
# A term this close to 0 or 1 is at that bound.
_AT_BOUND = 1e-12


@kernel
def _next_breakpoint(z, c, mu, direction):
    """Return the nearest breakpoint of a term beyond `mu`; infinite if there is none."""
    nearest = direction * np.inf
    for i in range(z.shape[0]):
        if c[i] != 0.0:
            for bound in (0.0, 1.0):
                place = (z[i] - bound) / c[i]
                if (direction > 0.0 and mu < place < nearest) or (direction < 0.0 and nearest < place < mu):
                    nearest = place
    return nearest


@kernel
def _into_the_flat(z, c, mu, low, high):
    """Move a root at the end of an interval of roots into the interior of that interval.

    At the end, a variable would be exactly at its bound, and a Newton step would see only one side of the kink.
    """
    before, after = 0.0, 0.0
    for i in range(z.shape[0]):
        p = z[i] - c[i] * mu
        at_one = abs(p - 1.0) <= _AT_BOUND
        at_zero = abs(p) <= _AT_BOUND
        if -_AT_BOUND <= p <= 1.0 + _AT_BOUND:
            # As mu decreases, p grows if c is positive.
            if not (at_one if c[i] > 0.0 else at_zero):
                before += abs(c[i])
            if not (at_zero if c[i] > 0.0 else at_one):
                after += abs(c[i])
    inside = mu
    if before > 0.0 and after == 0.0:
        end = min(_next_breakpoint(z, c, mu + 2.0 * _AT_BOUND, 1.0), high)
        inside = mu + 0.5 * min(end - mu, 1.0)
    elif after > 0.0 and before == 0.0:
        end = max(_next_breakpoint(z, c, mu - 2.0 * _AT_BOUND, -1.0), low)
        inside = mu - 0.5 * min(mu - end, 1.0)
    # Stay at mu if the move changes the terms by more than rounding, because it crossed a breakpoint.
    moved = 0.0
    for i in range(z.shape[0]):
        moved += abs(min(max(z[i] - c[i] * inside, 0.0), 1.0) - min(max(z[i] - c[i] * mu, 0.0), 1.0))
    return inside if moved <= 4.0 * _AT_BOUND else mu


@kernel
def threshold(z, c, b, mu, low, high):
    """Solve ``sum_i c_i clip(z_i - c_i mu, 0, 1) = b`` for `mu` in [low, high].

    The left side never increases with `mu`. Newton's method inside a bracket is exact up to rounding, because it ends
    on one linear piece. If an interval solves the equation, a point inside is returned. If there is no root between the
    bounds, the bound nearest to one is returned (an infinite bound means that there is no solution).

    Parameters
    ----------
    z, c : arrays of shape (n,)
    b : float
    mu : float
        Initial guess.
    low, high : float
        Bounds, possibly infinite.
    """
    left, right = low, high
    left_known, right_known = False, False
    mu = min(max(mu, low), high)
    size = abs(b)
    for i in range(c.shape[0]):
        size += abs(c[i])
    for _ in range(_MAX_ITER):
        excess, before, after = -b, 0.0, 0.0
        for i in range(z.shape[0]):
            p = z[i] - c[i] * mu
            if p > 0.0:
                excess += c[i] * min(p, 1.0)
            if 0.0 <= p <= 1.0:
                # A term at a bound changes only on one side.
                can_grow = p < 1.0
                can_fall = p > 0.0
                square = c[i] * c[i]
                before += square if (can_grow if c[i] > 0.0 else can_fall) else 0.0
                after += square if (can_fall if c[i] > 0.0 else can_grow) else 0.0
        if abs(excess) <= 2e-16 * size:
            return _into_the_flat(z, c, mu, low, high)
        if excess > 0.0:
            if mu >= high:
                return high
            left, left_known, slope, direction = mu, True, after, 1.0
        else:
            if mu <= low:
                return low
            right, right_known, slope, direction = mu, True, before, -1.0
        new = mu + excess / slope if slope > 0.0 else _next_breakpoint(z, c, mu, direction)
        if new >= right:
            new = 0.5 * (left + right) if right_known and left_known else right
        elif new <= left:
            new = 0.5 * (left + right) if right_known and left_known else left
        if new == mu or (abs(new) == np.inf):
            return new
        mu = new
    return mu
