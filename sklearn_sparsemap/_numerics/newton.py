"""The multipliers of cuts between rows that are points of the simplex: a semismooth Newton method on the dual.

The problem is ``max <scores, u> - |u|^2 / 2`` over matrices u whose rows are points of the simplex, with cuts
``cut_k(u) <= bound_k`` (equations for the first `n_free`). Given multipliers, each row is a projection onto the
simplex. The dual is concave and piecewise quadratic, and a Newton step is exact once the supports do not change. This
is the semi-dual of optimal transport with a quadratic regulariser (Blondel, Seguy and Rolet 2018; Lorenz, Manns and
Meyer 2019), with general cuts in place of columns.

A row whose sum is at most 1 (``at_most``) may also be slack. Its threshold is then 0, its entries move freely, and the
`count` of its support is infinite.

Conventions: the first k of `cuts` are in use. A cut sums the entries u[r, i] of the rows r and the columns i in one set
of nodes. Row r belongs to node r + 1. ``member`` (capacity, n_columns) is 1 for the nodes in the set, and 0 for others;
``bits`` holds the same, 64 nodes a word. If there are no `bits`, cut k is column k of all rows. `structures/_tree`,
`structures/_matching` and `_graphs/matchings.py` read and write the fields of `Rows` and `Cuts`.

Used by `_graphs`, `structures`, `certificate.py` and `tight_face.py`.
"""

from collections import namedtuple

import numpy as np

from .._core.jit import copy_into, kernel
from .._core.lanes import WIDTH, load, padded, pick, store
from .cholesky import add_scaled, dot, solve_lower, solve_upper
from .facets import BINDING, TIE
from .products import take_off_products
from .sparsemax import sparsemax

Rows = namedtuple("Rows", ["scores", "shifted", "threshold", "count", "u", "at_most"])
Cuts = namedtuple("Cuts", ["member", "bits", "bound", "multiplier", "slope"])

# Largest remaining violation, for scores of magnitude 1.
_RESIDUAL = 1e-13
# A pivot this small, relative to the diagonal, means that the cut depends on earlier cuts.
_DEPENDENT = 1e-10


@kernel
def new_rows(n_rows, n_columns):
    """Allocate rows; the caller fills in their scores."""
    threshold = np.empty(n_rows)
    at_most = np.empty(n_rows, np.bool_)
    for r in range(n_rows):
        # A start above all scores, from which the projection recovers.
        threshold[r] = np.inf
        at_most[r] = False
    return Rows(
        np.empty((n_rows, n_columns)), np.empty((n_rows, n_columns)), threshold, np.empty(n_rows),
        np.empty((n_rows, n_columns)), at_most,
    )  # fmt: skip


@kernel
def new_cuts(capacity, n_columns, of_sets):
    """Allocate cuts: of sets of nodes, or of columns."""
    n_words = (n_columns + 63) >> 6
    kept = capacity if of_sets else 0
    bound = np.empty(capacity)
    multiplier = np.empty(capacity)
    for c in range(capacity):
        bound[c], multiplier[c] = 1.0, 0.0
    member = np.empty((kept, n_columns))
    bits = np.empty((kept, n_words), np.uint64)
    return Cuts(member, bits, bound, multiplier, np.empty(capacity))


@kernel
def popcount(x):
    """Count the bits that are set."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def _project_row(rows, r):
    """Project a row's shifted scores onto the simplex or, if `at_most`, onto points whose sum is at most 1."""
    shifted, u = rows.shifted[r], rows.u[r]
    if rows.at_most[r]:
        total = 0.0
        for i in range(u.shape[0]):
            u[i] = max(shifted[i], 0.0)
            total += u[i]
        if total <= 1.0:
            rows.threshold[r], rows.count[r] = 0.0, np.inf
            return
    rows.threshold[r], rows.count[r] = sparsemax(shifted, rows.threshold[r], u)


@kernel
def evaluate(rows, cuts, k, multiplier, slope):
    """Project all rows, given the multipliers; write the cuts' violations into `slope` and return the dual value."""
    n_rows = rows.u.shape[0]
    of_sets = cuts.bits.shape[0] > 0
    value = 0.0
    for c in range(k):
        slope[c] = -cuts.bound[c]
        value -= multiplier[c] * cuts.bound[c]
    for r in range(n_rows):
        shifted, u = rows.shifted[r], rows.u[r]
        copy_into(shifted, rows.scores[r])
        if of_sets:
            for c in range(k):
                if multiplier[c] != 0.0 and cuts.member[c, r + 1] != 0.0:
                    add_scaled(shifted, -multiplier[c], cuts.member[c])
        else:
            add_scaled(shifted, -1.0, multiplier)
        _project_row(rows, r)
        # On the support shifted = u + threshold, and u sums to 1 unless the threshold is 0.
        value -= 0.5 * dot(u, u) + rows.threshold[r]
        if of_sets:
            for c in range(k):
                if cuts.member[c, r + 1] != 0.0:
                    slope[c] += dot(cuts.member[c], u)
        else:
            add_scaled(slope, 1.0, u)
    return value


@kernel
def _support_bits(u, bits):
    """Write the support of a row as bits."""
    for w in range(bits.shape[0]):
        bits[w] = np.uint64(0)
    for i in range(u.shape[0]):
        if u[i] > 0.0:
            bits[i >> 6] |= np.uint64(1) << np.uint64(i & 63)


@kernel
def _curvature_of_sets(rows, cuts, chosen, n, curvature):
    """Add each row's curvature for pairs of sets to the upper triangle: |s & S & T| - |s & S| |s & T| / |s|."""
    n_words = cuts.bits.shape[1]
    bits = np.empty(n_words, np.uint64)
    place = np.empty(n, np.int64)
    inside = np.empty(n)
    for r in range(rows.u.shape[0]):
        if rows.count[r] < 2.0:
            continue
        _support_bits(rows.u[r], bits)
        found = 0
        for a in range(n):
            c = chosen[a]
            if cuts.member[c, r + 1] != 0.0:
                common = 0
                for w in range(n_words):
                    common += popcount(cuts.bits[c, w] & bits[w])
                # A set that contains the whole support, or none of it, has no curvature.
                if 0 < common < rows.count[r]:
                    place[found], inside[found] = a, common
                    found += 1
        for i in range(found):
            a, row = chosen[place[i]], curvature[place[i]]
            share = inside[i] / rows.count[r]
            for j in range(i, found):
                b = chosen[place[j]]
                common = 0
                for w in range(n_words):
                    common += popcount(cuts.bits[a, w] & cuts.bits[b, w] & bits[w])
                row[place[j]] += common - share * inside[j]


@kernel
def _curvature_of_columns(rows, chosen, n, curvature):
    """Add each row's curvature for pairs of columns to the upper triangle: diag(s) - s s' / |s|."""
    n_rows, width = rows.u.shape[0], curvature.shape[1]
    inside = np.zeros((n_rows, width))
    shares = np.zeros((n_rows, width))
    for r in range(n_rows):
        share = 1.0 / rows.count[r]
        for a in range(n):
            if rows.u[r, chosen[a]] > 0.0:
                inside[r, a], shares[r, a] = 1.0, share
                curvature[a, a] += 1.0
    take_off_products(shares, inside, 0, n_rows, width, n, curvature)


@kernel
def curvature_of(rows, cuts, chosen, n, curvature):
    """Write minus the Hessian of the dual, restricted to the chosen cuts, into the upper triangle."""
    curvature[:n] = 0.0
    if cuts.bits.shape[0] > 0:
        _curvature_of_sets(rows, cuts, chosen, n, curvature)
    else:
        _curvature_of_columns(rows, chosen, n, curvature)


@kernel
def factorize(matrix, kept, k, ridge, factor):
    """Write the upper Cholesky factor of ``matrix[kept, kept] + ridge I``.

    Rows of the factor are padded. If a row and column depend on earlier ones, and there is no ridge, the factor is that
    of the unit matrix there, and ``factor[j, j]`` is infinite, so that a solution is zero there.
    """
    width = factor.shape[1]
    used = padded(k)
    for i in range(k):
        a = kept[i]
        row = factor[i]
        for j in range(i + 1, k):
            row[j] = matrix[a, kept[j]]
        row[k:used] = 0.0
        row[i] = matrix[a, a] + ridge
    for i in range(k):
        row, pivot, first = factor[i], factor[i, i], i * width
        if pivot <= _DEPENDENT * (1.0 + matrix[kept[i], kept[i]]) and ridge == 0.0:
            row[i:k] = 0.0
            row[i] = np.inf
            continue
        scale = 1.0 / np.sqrt(max(pivot, 1e-300))
        for p in range(i // WIDTH * WIDTH, used, WIDTH):
            scaled = load(factor, first + p) * scale
            store(factor, first + p, scaled)
            for j in range(i + 1, min(k, p + WIDTH)):
                q = j * width + p
                store(factor, q, load(factor, q) - scaled * pick(factor, first + j))


@kernel
def _symmetric_product(matrix, n, d, a):
    """Return entry `a` of the product of a vector with a symmetric matrix, given its upper triangle."""
    total = dot(matrix[a, a:n], d[a:n])
    for b in range(a):
        total += matrix[b, a] * d[b]
    return total


@kernel
def _solve_model(curvature, ridge, slope, n, kept, fixed, d, factor, x):
    """Maximise the quadratic model over the free entries, into the beginning of `x`; return their number.

    Parameters
    ----------
    curvature : array of shape (n, width)
        The upper triangle of the curvature.
    ridge : float
        Added to its diagonal.
    slope : array of shape (n,)
    n : int
    kept : int array of shape (n,)
        Gets the places of the free entries.
    fixed : bool array of shape (n,)
        Mask of the entries with values in `d`.
    d : array of shape (n,)
    factor, x : arrays
        Scratch space for the factor, and the solution.
    """
    k = np.int64(0)
    for a in range(n):
        if not fixed[a]:
            kept[k] = a
            k += 1
    for i in range(k):
        x[i] = slope[kept[i]]
    for a in range(n):
        if fixed[a] and d[a] != 0.0:
            for i in range(k):
                b = kept[i]
                x[i] -= (curvature[a, b] if a < b else curvature[b, a]) * d[a]
    factorize(curvature, kept, k, ridge, factor)
    solve_lower(factor, k, x)
    solve_upper(factor, k, x)
    return k


@kernel
def _ascent(curvature, ridge, slope, lower, n, d, fixed):
    """Maximise ``slope'd - d'(curvature + ridge)d / 2`` over d >= lower into `d`, in all but rare cases exactly.

    The first attempt fixes all entries that fall below their bounds at once, which takes one or two solves, but can end
    in a direction that does not ascend. The second attempt starts again from zero and fixes one blocking entry at a
    time, which always ascends.

    Parameters
    ----------
    curvature, ridge, slope, n
        As in `_solve_model`.
    lower : array of shape (n,)
    d : array of shape (n,)
    fixed : bool array of shape (n,)
        Gets a mask of the entries at their bounds.
    """
    kept = np.empty(n, np.int64)
    x = np.empty(n)
    factor = np.empty((n, padded(n)))
    for careful in range(2):
        for a in range(n):
            fixed[a] = False
            d[a] = 0.0
        done = False
        while not done:
            k = _solve_model(curvature, ridge, slope, n, kept, fixed, d, factor, x)
            done = True
            step = 1.0
            first = np.int64(-1)
            for i in range(k):
                a = kept[i]
                if x[i] < lower[a]:
                    done = False
                    if careful:
                        ratio = (lower[a] - d[a]) / (x[i] - d[a])
                        if first < 0 or ratio < step:
                            step, first = ratio, a
                    else:
                        fixed[a] = True
                        d[a] = lower[a]
            if careful or done:
                for i in range(k):
                    d[kept[i]] += step * (x[i] - d[kept[i]])
            if first >= 0:
                fixed[first] = True
                d[first] = lower[first]
        model = 0.0
        for a in range(n):
            model += d[a] * (slope[a] - 0.5 * (_symmetric_product(curvature, n, d, a) + ridge * d[a]))
        if model > 0.0:
            break


@kernel
def largest_violation(multiplier, slope, k, n_free):
    """Return the largest violation of the optimality conditions."""
    largest = 0.0
    for c in range(k):
        if c < n_free or multiplier[c] > 0.0 or slope[c] > 0.0:
            largest = max(largest, abs(slope[c]))
    return largest


@kernel
def _free_cuts(cuts, k, n_free, chosen, ascent, lower):
    """List the cuts whose multipliers can move; return their number.

    Parameters
    ----------
    cuts : Cuts
    k, n_free : int
        As in `maximise_dual`.
    chosen : int array of shape (k,)
        Gets the cuts.
    ascent, lower : arrays of shape (k,)
        Get the slope of each of them, and the lower bound of its change.
    """
    n = np.int64(0)
    for c in range(k):
        if c < n_free or cuts.multiplier[c] > 0.0 or cuts.slope[c] > 0.0:
            chosen[n] = c
            ascent[n] = cuts.slope[c]
            lower[n] = -np.inf if c < n_free else -cuts.multiplier[c]
            n += 1
    return n


@kernel
def _move(multiplier, chosen, n, n_free, d, t, fixed, trial):
    """Write the multipliers after a step into `trial`.

    Parameters
    ----------
    multiplier : array of shape (k,)
    chosen : int array
        The `n` cuts that move.
    n, n_free : int
        The first `n_free` cuts are equations, whose multipliers may be negative.
    d : array of shape (n,)
        The direction.
    t : float
        The length of the step. At least 1 is a full step, after which `fixed` multipliers are exactly 0.
    fixed : bool array of shape (n,)
    trial : array of shape (k,)
    """
    copy_into(trial, multiplier[: trial.shape[0]])
    for a in range(n):
        c = chosen[a]
        moved = multiplier[c] + t * d[a]
        trial[c] = 0.0 if c >= n_free and (moved < 0.0 or (t >= 1.0 and fixed[a])) else moved


@kernel
def maximise_dual(rows, cuts, k, n_free, size, limit):
    """Compute the multipliers of the first `k` cuts, starting from those in `cuts`; return the number of Newton steps.

    Parameters
    ----------
    rows : Rows
    cuts : Cuts
    k : int
    n_free : int
        The first `n_free` cuts are equations.
    size : float
        Magnitude of the scores, for rounding.
    limit : int
        Maximum number of Newton steps. If it is reached, the remaining violation shows the failure.
    """
    multiplier, slope = cuts.multiplier, cuts.slope
    value = evaluate(rows, cuts, k, multiplier, slope)
    trial = np.empty(k)
    trial_slope = np.empty(k)
    d = np.empty(k)
    lower = np.empty(k)
    ascent = np.empty(k)
    fixed = np.empty(k, np.bool_)
    chosen = np.empty(k, np.int64)
    curvature = np.empty((k, padded(k)))
    goal = max(_RESIDUAL, 4e-16 * size)
    steps = 0
    while steps < limit:
        violation = largest_violation(multiplier, slope, k, n_free)
        if violation <= goal:
            break
        steps += 1
        n = _free_cuts(cuts, k, n_free, chosen, ascent, lower)
        largest = 0.0
        curvature_of(rows, cuts, chosen, n, curvature)
        for a in range(n):
            largest = max(largest, curvature[a, a])
        ridge = max(0.01 * min(violation, 1.0), 1e-12) * (0.1 + largest)
        _ascent(curvature, ridge, ascent, lower, n, d, fixed)
        rise = dot(ascent[:n], d[:n])
        slack = 1e-12 * (1.0 + abs(value))
        t = 1.0
        for attempt in range(40):
            _move(multiplier, chosen, n, n_free, d, t, fixed, trial)
            new = evaluate(rows, cuts, k, trial, trial_slope)
            left = largest_violation(trial, trial_slope, k, n_free)
            if left <= 0.5 * violation and new >= value - slack:
                break
            rise_there = 0.0
            for a in range(n):
                c = chosen[a]
                if c < n_free or trial[c] > 0.0 or d[a] > 0.0:
                    rise_there += trial_slope[c] * d[a]
            if rise_there >= 0.9 * rise and attempt < 8 and t >= 1.0 and rise > 1e-10:
                # There is no curvature along the step, so continue to the next breakpoint.
                t *= 4.0
                continue
            if new >= value + 1e-4 * t * rise or (left < violation and new >= value - slack):
                break
            # The slope changed sign, so the step was too long; take a secant step.
            secant = t * rise / (rise - rise_there) if rise_there < 0.0 else 0.5 * t
            t = min(max(secant, 0.1 * t), 0.7 * t)
        copy_into(multiplier, trial)
        copy_into(slope, trial_slope)
        value = new
    return steps


@kernel
def dependent_cuts(rows, cuts, chosen, n):
    """Return for each of the `n` chosen cuts whether it depends on earlier ones, restricted to the supports."""
    curvature = np.empty((n, padded(n)))
    factor = np.empty((n, padded(n)))
    places = np.empty(n, np.int64)
    dependent = np.empty(n, np.bool_)
    for a in range(n):
        places[a] = a
    curvature_of(rows, cuts, chosen, n, curvature)
    factorize(curvature, places, n, 0.0, factor)
    for a in range(n):
        dependent[a] = factor[a, a] == np.inf
    return dependent


@kernel
def has_flat_dual(rows, cuts, k, n_free):
    """Return whether a known cut without a multiplier may have one in another solution.

    The multipliers are unique if the tight cuts are independent. A cut that is not tight has none in any solution. A
    first cut that is tight without a multiplier is common, so it counts only if it depends on the others; any other
    such cut is rare, and counts. A cut that is constant on the supports does not count.
    """
    # As int64: with a literal as an argument Numba would compile a second version of the callee.
    tight = np.empty(k, np.int64)
    n = np.int64(0)
    idle = 0
    curvature = np.empty((1, padded(k)))
    for c in range(k):
        if c < n_free or cuts.multiplier[c] > BINDING or cuts.slope[c] >= -TIE:
            tight[n] = c
            if c >= n_free and cuts.multiplier[c] <= BINDING:
                curvature_of(rows, cuts, tight[n:], np.int64(1), curvature)
                if curvature[0, 0] <= _DEPENDENT:
                    continue
                idle += 1
                if cuts.bits.shape[0] > 0 and c > 0:
                    return True
            n += 1
    if idle == 0:
        return False
    return dependent_cuts(rows, cuts, tight, n).any()
