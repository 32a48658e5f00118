"""LP-SparseMAP through the multipliers of a graph's inequalities: exact coordinate sweeps and a semismooth Newton step.

The logic factors are a few explicit inequalities ("rows") inside the box [0, 1], a pair has one more multiplier that
its score bounds (see graphs/arrays.py), and a structure factor is known by its SparseMAP. Where no variable is
in two structures, the dual

    phi(mu) = sum_i h(a_i) + sum_f Omega*_f(a|_f) + bounds.mu,    a = scores - A'mu,

is a smooth function of these multipliers alone, with gradient ``bounds - A u`` where u = clip(a) or the structures'
SparseMAP. h(a) = max of a u - u^2/2 over u in [0, 1].

Its second derivative is A J A' with the projector J onto the directions in which u is free to move, so a Newton step
costs one solve by conjugate gradients, and ends exactly once the faces have settled. The same operator answers for the
backward pass.
"""

from collections import namedtuple

import numpy as np

from .._core.jit import kernel
from ..numerics.cholesky import dot
from ..numerics.threshold import threshold
from .arrays import FORBIDDEN
from .closed_forms import clip01

# How a solver ends; inference may add that rounding makes the solution worthless.
CONVERGED, NOT_CONVERGED, INFEASIBLE, TOO_LARGE = 0, 1, 2, 3

# The dual of what is open of one sample (see `presolve.py`): first what of the graph it is made of (see `GraphArrays`),
# with the open variables and pairs counted anew. `scores` are those of the variables with what pairs of positive score
# add to them; `pair` the scores of the pairs; `a` the scores less what the multipliers take; `u` the marginals. Of the
# multipliers those of the rows are `mu`, and those of the pairs, `t`, come after them.
Dual = namedtuple(
    "Dual",
    [
        *("owners", "row_ptr", "row_vars", "row_coefs", "row_bounds", "row_low", "row_high", "pair_ends", "pair_signs"),
        *("scores", "pair", "a", "u", "multipliers", "mu", "t", "gradient"),
    ],
)


@kernel
def new_dual(graph, settled, additional, scale, warm):
    """Lay out the dual of what is open of one sample; `warm` holds multipliers of all rows and pairs, or nothing."""
    n, n_rows, n_pairs = settled.counts[0], graph.row_bounds.shape[0], settled.counts[1]
    n_entries, m = graph.row_vars.shape[0], n_rows + n_pairs
    numbers, indices = settled.numbers, settled.indices
    multipliers = numbers[3 * n : 3 * n + m]
    pairs = numbers[3 * n + 2 * m : 3 * n + 2 * m + 3 * n_pairs]
    dual = Dual(
        indices[:n],
        graph.row_ptr,
        indices[n : n + n_entries],
        graph.row_coefs,
        graph.row_bounds,
        graph.row_low,
        graph.row_high,
        indices[n + n_entries : n + n_entries + 2 * n_pairs].reshape((n_pairs, 2)),
        pairs[n_pairs:].reshape((n_pairs, 2)),
        numbers[:n],
        pairs[:n_pairs],
        numbers[n : 2 * n],
        numbers[2 * n : 3 * n],
        multipliers,
        multipliers[:n_rows],
        multipliers[n_rows:],
        numbers[3 * n + m : 3 * n + 2 * m],
    )
    is_warm = warm.shape[0] > 0
    for k in range(n):
        dual.owners[k] = graph.owners[settled.variables[k]]
        dual.scores[k] = settled.base[k]
    for entry in range(graph.row_vars.shape[0]):
        dual.row_vars[entry] = settled.places[graph.row_vars[entry]]
    for r in range(n_rows):
        dual.mu[r] = min(max(warm[r], dual.row_low[r]), dual.row_high[r]) if is_warm else 0.0
    for k in range(n_pairs):
        e = settled.pairs[k]
        score = scale * additional[graph.additional_ptr[graph.pairs[e]]]
        dual.pair[k] = score
        for side in range(2):
            dual.pair_ends[k, side] = settled.places[graph.pair_ends[e, side]]
            dual.pair_signs[k, side] = graph.pair_signs[e, side]
        if score > 0.0:
            dual.scores[dual.pair_ends[k, 1]] += dual.pair_signs[k, 1] * score
        # Start: a positive score is divided equally between both ends, and both ends get half of a negative one.
        dual.t[k] = min(max(warm[n_rows + e], 0.0), abs(score)) if is_warm else 0.5 * abs(score)
    return dual


@kernel
def take(dual, multipliers, out):
    """Subtract A' times multipliers from `out`."""
    n_rows = dual.mu.shape[0]
    for r in range(n_rows):
        if multipliers[r] != 0.0:
            for entry in range(dual.row_ptr[r], dual.row_ptr[r + 1]):
                out[dual.row_vars[entry]] -= dual.row_coefs[entry] * multipliers[r]
    for e in range(dual.t.shape[0]):
        t = multipliers[n_rows + e]
        if t != 0.0:
            first = dual.pair_signs[e, 0] * t
            out[dual.pair_ends[e, 0]] += first if dual.pair[e] > 0.0 else -first
            out[dual.pair_ends[e, 1]] -= dual.pair_signs[e, 1] * t


@kernel
def sweep_pairs(dual, tol, limits, most, patience):
    """Minimise over the multiplier of each pair in turn, again and again.

    Parameters
    ----------
    tol : float
        It ends when no multiplier changes by more in a sweep,
    most : int
        after so many sweeps,
    patience : int
        or when, after so many sweeps, one changes nearly as much as the one before.

    Returns
    -------
    n_sweeps : int
    """
    a, t, pair, ends, signs = dual.a, dual.t, dual.pair, dual.pair_ends, dual.pair_signs
    n_sweeps, previous, largest = np.int64(0), np.inf, np.inf
    while n_sweeps < most and limits[0] > 0 and largest > tol and (n_sweeps < patience or largest < 0.7 * previous):
        previous, largest = largest, 0.0
        for e in range(t.shape[0]):
            score = pair[e]
            i, j = ends[e, 0], ends[e, 1]
            first, second = signs[e, 0], signs[e, 1]
            # Scores of the literals, 1 - a where negated.
            p, q = 0.5 * (1.0 - first) + first * a[i], 0.5 * (1.0 - second) + second * a[j]
            change = (q - p if score > 0.0 else p + q - 1.0) * 0.5
            change = min(max(t[e] + change, 0.0), abs(score)) - t[e]
            t[e] += change
            a[i] += first * (change if score > 0.0 else -change)
            a[j] -= second * change
            largest = max(largest, abs(change))
        n_sweeps += 1
    return n_sweeps


@kernel
def sweep_rows(dual):
    """Minimise over the multiplier of each row in turn; return the largest change.

    It is infinite if a row cannot be satisfied; the row is then the only one with a multiplier. The marginals are
    scratch: no row has more variables than the graph.
    """
    a, mu, z = dual.a, dual.mu, dual.u
    largest = 0.0
    for r in range(mu.shape[0]):
        start, stop = dual.row_ptr[r], dual.row_ptr[r + 1]
        coefs = dual.row_coefs[start:stop]
        for entry in range(start, stop):
            z[entry - start] = a[dual.row_vars[entry]] + dual.row_coefs[entry] * mu[r]
        new = threshold(z[: stop - start], coefs, dual.row_bounds[r], mu[r], dual.row_low[r], dual.row_high[r])
        if not abs(new) < -1e-10 * FORBIDDEN:
            mu[:] = 0.0
            mu[r] = 1.0
            return np.inf
        change = new - mu[r]
        if change != 0.0:
            mu[r] = new
            for entry in range(start, stop):
                a[dual.row_vars[entry]] -= dual.row_coefs[entry] * change
        largest = max(largest, abs(change))
    return largest


@kernel
def clip_wide(x, wide):
    """Return `x` clipped to a box that is wider than [0, 1]."""
    return min(max(x, -wide), 1.0 + wide)


@kernel
def box_marginals(dual, wide):
    """Set the marginals of all variables that are in no structure; return their part of phi.

    Their box is [0, 1], or wider by `wide` on both sides.
    """
    value = 0.0
    for i in range(dual.a.shape[0]):
        if dual.owners[i] < 0:
            u = clip01(dual.a[i]) if wide == 0.0 or dual.scores[i] < 0.5 * FORBIDDEN else clip_wide(dual.a[i], wide)
            dual.u[i] = u
            value += u * (dual.a[i] - 0.5 * u)
    return value


@kernel
def multiplier_terms(dual):
    """Return the part of phi that is linear in the multipliers."""
    value = dot(dual.row_bounds, dual.mu)
    for e in range(dual.t.shape[0]):
        off_first = 0.5 * (1.0 - dual.pair_signs[e, 0])
        off_second = 0.5 * (1.0 - dual.pair_signs[e, 1])
        if dual.pair[e] > 0.0:
            value += dual.pair[e] * off_second + dual.t[e] * (off_first - off_second)
        else:
            value += dual.t[e] * (1.0 - off_first - off_second)
    return value


@kernel
def compute_gradient(dual):
    """Set the gradient of phi; return the largest entry that a multiplier could follow."""
    u, n_rows, largest = dual.u, dual.mu.shape[0], 0.0
    for r in range(n_rows):
        g = dual.row_bounds[r]
        for entry in range(dual.row_ptr[r], dual.row_ptr[r + 1]):
            g -= dual.row_coefs[entry] * u[dual.row_vars[entry]]
        dual.gradient[r] = g
        if not ((g > 0.0 and dual.mu[r] <= dual.row_low[r]) or (g < 0.0 and dual.mu[r] >= dual.row_high[r])):
            largest = max(largest, abs(g))
    for e in range(dual.t.shape[0]):
        first, second = dual.pair_signs[e, 0], dual.pair_signs[e, 1]
        p = 0.5 * (1.0 - first) + first * u[dual.pair_ends[e, 0]]
        q = 0.5 * (1.0 - second) + second * u[dual.pair_ends[e, 1]]
        g = p - q if dual.pair[e] > 0.0 else 1.0 - p - q
        dual.gradient[n_rows + e] = g
        if not ((g > 0.0 and dual.t[e] <= 0.0) or (g < 0.0 and dual.t[e] >= abs(dual.pair[e]))):
            largest = max(largest, abs(g))
    return largest
