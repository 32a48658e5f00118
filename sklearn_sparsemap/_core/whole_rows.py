"""Linear constraints on 0-1 variables in whole numbers, in which sums are exact.

The coefficients of a constraint are read as follows.

- Whole numbers up to 2**53 are exact, whatever their ratio.
- Decimal fractions with up to 9 digits after the point count as written: .1 + .2 is at most .3, and a budget of money
  is exact to the cent. Multiplied by a power of 10, they are whole numbers. So is a bound that differs from one by no
  more than the rounding errors of a sum, such as .1 + .2.
- Other numbers, such as results of a computation, are rounded to multiples of 2**-60 of their sum. The constraint then
  has a tolerance of 1e-12, relative to the sum of the absolute coefficients.

Used by `_numerics`, `factors` and `structures`.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse

# The bound of a row that has none on this side. Sums of coefficients are below it.
NO_BOUND = 2**62
MAX_WHOLE, _MAX_SUM = 2.0**53, 2.0**61
# Largest decimal fraction after multiplication; a computed number below it is seldom close to a whole number.
_MAX_DECIMAL, _MAX_DIGITS = 2.0**40, 9
_EPS = np.finfo(np.float64).eps
_TOL = 1e-12  # violation of a constraint due to rounding, relative to the sum of the absolute coefficients
_MAX_OFF = 0.01  # largest distance at which a bound counts as a whole number


class WholeRows(NamedTuple):
    """Constraints ``low <= coefs @ u <= high`` in whole numbers.

    Attributes
    ----------
    ptr, variables, coefs : int arrays
        Row r has the variables and coefficients ``ptr[r]:ptr[r + 1]``.
    low, high : int arrays of shape (n_rows,)
        -NO_BOUND and NO_BOUND if there is none.
    """

    ptr: np.ndarray
    variables: np.ndarray
    coefs: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def violated(self, u):
        """Return a mask of the rows that an assignment violates; u is an array of 0 and 1.

        With one assignment in each column of u, the mask has a column for each.
        """
        terms = (self.coefs if u.ndim == 1 else self.coefs[:, None]) * u.astype(np.int64)[self.variables]
        # Differences of running sums are exact, even if these overflow.
        sums = np.concatenate([np.zeros_like(terms[:1], shape=(1, *u.shape[1:])), np.cumsum(terms, axis=0)])
        sums = sums[self.ptr[1:]] - sums[self.ptr[:-1]]
        low, high = (self.low, self.high) if u.ndim == 1 else (self.low[:, None], self.high[:, None])
        return (sums < low) | (sums > high)


def as_whole(coefs, low, high):
    """Return the coefficients and the bounds of one constraint as whole numbers, by the rules at the head of this file.

    Parameters
    ----------
    coefs : float array of shape (n,)
    low, high : float
        Bounds of the sum; infinite if there are none.

    Returns
    -------
    coefs : int64 array of shape (n,)
    low, high : int
        -NO_BOUND and NO_BOUND if there is none.
    tol : float
        Tolerance of the bounds, relative to the sum of the absolute coefficients; 0 if the numbers are exact.
    """
    factor, tol = _factor_of(coefs)
    whole = np.rint(coefs * factor).astype(np.int64)
    total = float(np.abs(whole).sum())
    bounds = []
    for bound, none, nearest in ((low, -NO_BOUND, math.ceil), (high, NO_BOUND, math.floor)):
        if np.isfinite(bound):
            # Beyond all sums, the size of a bound does not matter.
            limit = 2.0 + 1.001 * total
            scaled = min(max(bound * factor, -limit), limit)
            size = total + abs(scaled)
            slack = tol * size if tol else min(_EPS * (len(coefs) + 4) * size, _MAX_OFF)
            bounds.append(nearest(scaled + (slack if none > 0 else -slack)))
        else:
            bounds.append(none)
    divisor = int(np.gcd.reduce(whole)) if tol == 0.0 else 1
    if divisor > 1:
        whole = whole // divisor
        bounds = [
            bounds[0] if bounds[0] == -NO_BOUND else -(-bounds[0] // divisor),
            bounds[1] if bounds[1] == NO_BOUND else bounds[1] // divisor,
        ]
    return whole, *bounds, tol


def whole_rows(matrix, low, high):
    """Return the constraints ``low <= matrix @ u <= high`` of a dense matrix as `WholeRows`."""
    rows = sparse.csr_array(matrix)
    ptr = np.concatenate([[0], np.cumsum((matrix != 0.0).sum(axis=1))])
    coefs = np.empty(len(rows.data), np.int64)
    lows = np.empty(len(low), np.int64)
    highs = np.empty(len(low), np.int64)
    for r, (start, stop) in enumerate(pairwise(ptr.tolist())):
        coefs[start:stop], lows[r], highs[r], _ = as_whole(rows.data[start:stop], low[r], high[r])
    return WholeRows(ptr, rows.indices.astype(np.int64), coefs, lows, highs)


def _factor_of(coefs):
    """Return the factor that makes coefficients whole numbers, and the relative tolerance: 0 if they are exact."""
    sizes = np.abs(coefs)
    largest = sizes.max(initial=0.0)
    total = sizes.sum()
    if largest <= MAX_WHOLE and total <= _MAX_SUM and (coefs == np.rint(coefs)).all():
        return 1.0, 0.0
    for digits in range(1, _MAX_DIGITS + 1):
        factor = 10.0**digits
        if factor * largest > _MAX_DECIMAL:
            break
        scaled = factor * coefs
        if (np.abs(scaled - np.rint(scaled)) <= 2.0 * _EPS * np.abs(scaled)).all():
            return factor, 0.0
    # A power of 2, so that the product is exact.
    return math.ldexp(1.0, 59 - math.frexp(total)[1]), _TOL
