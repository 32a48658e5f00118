"""LP-SparseMAP through the multipliers of a graph's inequalities: exact coordinate sweeps and a semismooth Newton step.

The logic factors are a few explicit inequalities ("rows") inside the box [0, 1], a pair has one more multiplier that
its score bounds (see factors/_arrays.py), and a structure factor is known by its SparseMAP. Where no variable is
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

from ..._jit import kernel
from ...graphs._arrays import FORBIDDEN
from ...graphs._closed_forms import clip01
from ...graphs._threshold import threshold
from .._polytope.cholesky import dot, solve_lower, solve_upper
from .._polytope.protocol import AIM, STRUCTURE_TOL
from .._polytope.support import gather, independent_support

# How a solver ends; inference may add that rounding makes the solution worthless.
CONVERGED, NOT_CONVERGED, INFEASIBLE, TOO_LARGE = 0, 1, 2, 3

# A factor that gives a forbidden variable more than this cannot do without it.
OFF = 1e-6

# The dual of one sample. `scores` are those of the variables with what pairs of positive score add to them; `pair`
# the scores of the pairs; `a` the scores less what the multipliers take; `u` the marginals.
Dual = namedtuple("Dual", ["scores", "pair", "mu", "t", "a", "u", "gradient", "pair_gradient"])


@kernel
def new_dual(graph, scores, additional, warm):
    """Lay out the dual of one sample; `warm` holds multipliers of rows and pairs, or nothing."""
    n, n_rows, n_pairs = scores.shape[0], graph.row_bounds.shape[0], graph.pairs.shape[0]
    dual = Dual(
        scores.copy(),
        np.empty(n_pairs),
        np.zeros(n_rows),
        np.zeros(n_pairs),
        np.empty(n),
        np.empty(n),
        np.empty(n_rows),
        np.empty(n_pairs),
    )
    for e in range(n_pairs):
        score = additional[graph.additional_ptr[graph.pairs[e]]]
        dual.pair[e] = score
        if score > 0.0:
            j = graph.pair_ends[e, 1]
            dual.scores[j] += graph.pair_signs[e, 1] * score
    start(graph, dual, warm)
    return dual


@kernel
def start(graph, dual, warm):
    """Set the multipliers to those to start from."""
    n_rows, n_pairs = dual.mu.shape[0], dual.t.shape[0]
    if warm.shape[0] > 0:
        for r in range(n_rows):
            dual.mu[r] = min(max(warm[r], graph.row_low[r]), graph.row_high[r])
        for e in range(n_pairs):
            dual.t[e] = min(max(warm[n_rows + e], 0.0), abs(dual.pair[e]))
    else:
        dual.mu[:] = 0.0
        for e in range(n_pairs):
            # What a positive score gives is shared in equal parts, and half of a negative one is felt by each.
            dual.t[e] = 0.5 * abs(dual.pair[e])


@kernel
def take(graph, dual, mu, t, out):
    """Subtract A' times multipliers from `out`."""
    for r in range(mu.shape[0]):
        if mu[r] != 0.0:
            for entry in range(graph.row_ptr[r], graph.row_ptr[r + 1]):
                out[graph.row_vars[entry]] -= graph.row_coefs[entry] * mu[r]
    for e in range(t.shape[0]):
        if t[e] != 0.0:
            first = graph.pair_signs[e, 0] * t[e]
            out[graph.pair_ends[e, 0]] += first if dual.pair[e] > 0.0 else -first
            out[graph.pair_ends[e, 1]] -= graph.pair_signs[e, 1] * t[e]


@kernel
def sweep_pairs(graph, dual):
    """Minimise over the multiplier of each pair in turn; return the largest change."""
    a, t = dual.a, dual.t
    largest = 0.0
    for e in range(t.shape[0]):
        score = dual.pair[e]
        i, j = graph.pair_ends[e, 0], graph.pair_ends[e, 1]
        first, second = graph.pair_signs[e, 0], graph.pair_signs[e, 1]
        # Scores of the literals, 1 - a where negated.
        p, q = 0.5 * (1.0 - first) + first * a[i], 0.5 * (1.0 - second) + second * a[j]
        change = (q - p if score > 0.0 else p + q - 1.0) * 0.5
        change = min(max(t[e] + change, 0.0), abs(score)) - t[e]
        t[e] += change
        a[i] += first * (change if score > 0.0 else -change)
        a[j] -= second * change
        largest = max(largest, abs(change))
    return largest


@kernel
def sweep_rows(graph, dual, z):
    """Minimise over the multiplier of each row in turn; return the largest change.

    It is infinite if a row cannot be satisfied; the row is then the only one with a multiplier.
    """
    a, mu = dual.a, dual.mu
    largest = 0.0
    for r in range(mu.shape[0]):
        start, stop = graph.row_ptr[r], graph.row_ptr[r + 1]
        coefs = graph.row_coefs[start:stop]
        for entry in range(start, stop):
            z[entry - start] = a[graph.row_vars[entry]] + graph.row_coefs[entry] * mu[r]
        new = threshold(
            z[: stop - start], coefs, graph.row_bounds[r], mu[r], graph.row_low[r], graph.row_high[r]
        )
        if not abs(new) < -1e-10 * FORBIDDEN:
            mu[:] = 0.0
            mu[r] = 1.0
            return np.inf
        change = new - mu[r]
        if change != 0.0:
            mu[r] = new
            for entry in range(start, stop):
                a[graph.row_vars[entry]] -= graph.row_coefs[entry] * change
        largest = max(largest, abs(change))
    return largest


@kernel
def clip_wide(x, wide):
    """Return `x` clipped to a box that is wider than [0, 1]."""
    return min(max(x, -wide), 1.0 + wide)


@kernel
def box_marginals(graph, dual, wide):
    """Set the marginals of all variables that are in no structure; return their part of phi.

    Their box is [0, 1], or wider by `wide` on both sides.
    """
    value = 0.0
    for i in range(dual.a.shape[0]):
        if graph.owners[i] < 0:
            u = clip01(dual.a[i]) if wide == 0.0 or dual.scores[i] < 0.5 * FORBIDDEN else clip_wide(dual.a[i], wide)
            dual.u[i] = u
            value += u * (dual.a[i] - 0.5 * u)
    return value


@kernel
def multiplier_terms(graph, dual):
    """Return the part of phi that is linear in the multipliers."""
    value = dot(graph.row_bounds, dual.mu)
    for e in range(dual.t.shape[0]):
        off_first = 0.5 * (1.0 - graph.pair_signs[e, 0])
        off_second = 0.5 * (1.0 - graph.pair_signs[e, 1])
        if dual.pair[e] > 0.0:
            value += dual.pair[e] * off_second + dual.t[e] * (off_first - off_second)
        else:
            value += dual.t[e] * (1.0 - off_first - off_second)
    return value


@kernel
def compute_gradient(graph, dual):
    """Set the gradient of phi; return the largest entry that a multiplier could follow."""
    u, largest = dual.u, 0.0
    for r in range(dual.mu.shape[0]):
        g = graph.row_bounds[r]
        for entry in range(graph.row_ptr[r], graph.row_ptr[r + 1]):
            g -= graph.row_coefs[entry] * u[graph.row_vars[entry]]
        dual.gradient[r] = g
        if not ((g > 0.0 and dual.mu[r] <= graph.row_low[r]) or (g < 0.0 and dual.mu[r] >= graph.row_high[r])):
            largest = max(largest, abs(g))
    for e in range(dual.t.shape[0]):
        first, second = graph.pair_signs[e, 0], graph.pair_signs[e, 1]
        p = 0.5 * (1.0 - first) + first * u[graph.pair_ends[e, 0]]
        q = 0.5 * (1.0 - second) + second * u[graph.pair_ends[e, 1]]
        g = p - q if dual.pair[e] > 0.0 else 1.0 - p - q
        dual.pair_gradient[e] = g
        if not ((g > 0.0 and dual.t[e] <= 0.0) or (g < 0.0 and dual.t[e] >= abs(dual.pair[e]))):
            largest = max(largest, abs(g))
    return largest


@kernel
def no_supports(n):
    """Return three lists of nothing for `n` structures: slots, additional slots and weights.

    List comprehensions must not stand in kernels that write into arrays of a namedtuple: Numba then takes such writes
    for dead code.
    """
    slots = [np.empty((0, 0), np.int32) for _ in range(n)]
    additional_slots = [np.empty((0, 0), np.int32) for _ in range(n)]
    return slots, additional_slots, [np.empty(0) for _ in range(n)]


@kernel
def force_parts(z, additional, sizes):
    """Replace scores of +inf, of parts that a structure must have, by one that is worth more than all other parts.

    Whatever solves SparseMAP under such scores has all of these parts, or as many as any structure has.

    Returns
    -------
    forced : float
        The score.
    count : int
        How often it was needed.
    """
    largest, additional_largest, count = 1.0, 0.0, 0
    for i in range(z.shape[0]):
        if z[i] == np.inf:
            count += 1
        elif z[i] > -np.inf:
            largest = max(largest, 1.0 + abs(z[i]))
    if count == 0:
        return 0.0, count
    for i in range(additional.shape[0]):
        if additional[i] > -np.inf:
            additional_largest = max(additional_largest, abs(additional[i]))
    forced = 2.0 * (sizes[0] * largest + sizes[1] * additional_largest) + 2.0
    for i in range(z.shape[0]):
        if z[i] == np.inf:
            z[i] = forced
    return forced, count


@kernel
def solve_structures(graph, oracles, solver, additional, dual, supports, extra, weights, limits):
    """Solve SparseMAP for each structure factor under `a`, each from its last support; return their part of phi.

    NaN says that a structure factor has no structure that is allowed, or none with all parts that it must have.
    """
    value = 0.0
    for place in range(graph.structures.shape[0]):
        f = graph.structures[place]
        start, stop = graph.link_ptr[f], graph.link_ptr[f + 1]
        n = stop - start
        z, p = np.empty(n), np.empty(n)
        constant = 0.0
        for link in range(n):
            a = dual.a[graph.links[start + link]]
            if a < 0.5 * FORBIDDEN:
                z[link] = -np.inf if graph.signs[start + link] > 0.0 else np.inf
            elif graph.signs[start + link] < 0.0:
                # h of 1 - a and of a differ by what does not depend on u.
                z[link] = 1.0 - a
                constant += a - 0.5
            else:
                z[link] = a
        own = additional[graph.additional_ptr[f] : graph.additional_ptr[f + 1]]
        forced, count = force_parts(z, own, graph.sizes[f])
        constant -= count * (forced - 0.5)
        slots, additional_slots, w, k, objective, _, _ = solver(
            oracles[graph.oracles[f]],
            z,
            own,
            graph.dims[graph.dims_ptr[f] : graph.dims_ptr[f + 1]],
            graph.sizes[f],
            AIM * STRUCTURE_TOL,
            STRUCTURE_TOL,
            limits[1:],
            supports[place],
            extra[place],
            weights[place],
            p,
        )
        if k < 0:
            return np.nan
        supports[place] = slots[:k].copy()
        extra[place] = additional_slots[:k].copy()
        weights[place] = w[:k].copy()
        for link in range(n):
            i = graph.links[start + link]
            dual.u[i] = p[link] if graph.signs[start + link] > 0.0 else 1.0 - p[link]
            if dual.scores[i] < 0.5 * FORBIDDEN:
                if dual.u[i] > OFF:
                    return np.nan
                dual.u[i] = 0.0
        value += objective + constant
    return value


@kernel
def factor_of_support(slots):
    """Return the factorised support that given structures make; structures that depend on others are left out."""
    return independent_support(slots, np.empty((slots.shape[0], 0), np.int32))


@kernel
def project_on_face(factor, slots, k, ones, ones_norm, direction, products):
    """Overwrite `direction` with its component along the face that `k` structures span.

    `factor` is that of the support (see _support.py), `ones` its solution ``R'^{-1} 1``.
    """
    if k == 1:
        direction[:] = 0.0
        return
    for s in range(k):
        products[s] = gather(direction, slots[s])
    solve_lower(factor, k, products)
    shift = 0.0
    for s in range(k):
        shift += ones[s] * products[s]
    shift /= ones_norm
    for s in range(k):
        products[s] -= shift * ones[s]
    solve_upper(factor, k, products)
    direction[:] = 0.0
    for s in range(k):
        for part in slots[s]:
            if part >= 0:
                direction[part] += products[s]
