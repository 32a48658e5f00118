"""The root of a piecewise linear equation, on which the closed forms and the coordinate sweeps stand."""

import numpy as np

from .._jit import kernel

# More than enough for every bracket to collapse; Newton's method needs about three.
_MAX_ITER = 300


@kernel
def _next_breakpoint(z, c, mu, direction):
    """Return the nearest place beyond `mu` where a term begins or ends to change; infinite if there is none."""
    nearest = direction * np.inf
    for i in range(z.shape[0]):
        if c[i] != 0.0:
            for bound in (0.0, 1.0):
                place = (z[i] - bound) / c[i]
                if direction > 0.0 and mu < place < nearest or direction < 0.0 and nearest < place < mu:
                    nearest = place
    return nearest


@kernel
def threshold(z, c, b, mu, low, high):
    """Solve ``sum_i c_i clip(z_i - c_i mu, 0, 1) = b`` for `mu` in [low, high].

    The left side never increases with `mu`. Newton's method inside a bracket; exact up to rounding, because it ends on
    one linear piece. Where the equation has no root in the interval, the end that is nearest to one is returned (an
    infinite end says that no `mu` will do).

    Parameters
    ----------
    z, c : arrays of shape (n,)
    b : float
    mu : float
        Where to start.
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
            if p >= 1.0:
                excess += c[i]
                # At a bound a term moves on one side only.
                if p == 1.0:
                    if c[i] > 0.0:
                        after += c[i] * c[i]
                    else:
                        before += c[i] * c[i]
            elif p > 0.0:
                excess += c[i] * p
                before += c[i] * c[i]
                after += c[i] * c[i]
            elif p == 0.0:
                if c[i] > 0.0:
                    before += c[i] * c[i]
                else:
                    after += c[i] * c[i]
        if abs(excess) <= 2e-16 * size:
            return mu
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
