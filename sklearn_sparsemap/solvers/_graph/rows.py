"""LP-SparseMAP through the multipliers of a graph's inequalities: exact coordinate sweeps and a semismooth Newton step.

The logic factors are a few explicit inequalities ("rows") inside the box [0, 1], a pair has one more multiplier that
its score bounds (L 3; see factors/_arrays.py), and a structure factor is known by its SparseMAP. Where no variable is
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
from .._polytope.support import gather

# How a solver ends; inference may add that rounding makes the solution worthless.
CONVERGED, NOT_CONVERGED, INFEASIBLE, TOO_LARGE = 0, 1, 2, 3

# A factor that gives a forbidden variable more than this cannot do without it.
OFF = 1e-6

# The dual of one sample: first what of the graph it is made of (see `GraphArrays`). `scores` are those of the variables
# with what pairs of positive score add to them; `pair` the scores of the pairs; `a` the scores less what the
# multipliers take; `u` the marginals. Of the multipliers those of the rows are `mu`, and those of the pairs, `t`, come
# after them.
Dual = namedtuple(
    "Dual",
    [
        *("owners", "row_ptr", "row_vars", "row_coefs", "row_bounds", "row_low", "row_high", "pair_ends", "pair_signs"),
        *("scores", "pair", "a", "u", "multipliers", "mu", "t", "gradient"),
    ],
)

# A graph with structures: their MAP oracles and the solver of SparseMAP; then lists with one entry each. The last
# solution's support (see `Support`) is what the next one starts from; `faces`, `factors` and `ones` are what
# `project_on_face` takes. A graph of nothing but logic has None in their place, for which Numba leaves out what is
# behind ``if structures is not None``.
Structures = namedtuple(
    "Structures", ["graph", "oracles", "solver", "slots", "additional", "weights", "faces", "factors", "ones"]
)


@kernel
def new_dual(graph, scores, additional, warm):
    """Lay out the dual of one sample; `warm` holds multipliers of rows and pairs, or nothing."""
    n, n_rows, n_pairs = scores.shape[0], graph.row_bounds.shape[0], graph.pairs.shape[0]
    multipliers = np.empty(n_rows + n_pairs)
    dual = Dual(
        graph.owners,
        graph.row_ptr,
        graph.row_vars,
        graph.row_coefs,
        graph.row_bounds,
        graph.row_low,
        graph.row_high,
        graph.pair_ends,
        graph.pair_signs,
        scores.copy(),
        np.empty(n_pairs),
        np.empty(n),
        np.empty(n),
        multipliers,
        multipliers[:n_rows],
        multipliers[n_rows:],
        np.empty(n_rows + n_pairs),
    )
    for e in range(n_pairs):
        score = additional[graph.additional_ptr[graph.pairs[e]]]
        dual.pair[e] = score
        if score > 0.0:
            j = graph.pair_ends[e, 1]
            dual.scores[j] += graph.pair_signs[e, 1] * score
    start(dual, warm)
    return dual


@kernel
def start(dual, warm):
    """Set the multipliers to those to start from."""
    n_rows, n_pairs = dual.mu.shape[0], dual.t.shape[0]
    if warm.shape[0] > 0:
        for r in range(n_rows):
            dual.mu[r] = min(max(warm[r], dual.row_low[r]), dual.row_high[r])
        for e in range(n_pairs):
            dual.t[e] = min(max(warm[n_rows + e], 0.0), abs(dual.pair[e]))
    else:
        dual.mu[:] = 0.0
        for e in range(n_pairs):
            # What a positive score gives is shared in equal parts, and half of a negative one is felt by each.
            dual.t[e] = 0.5 * abs(dual.pair[e])


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
def sweep_pairs(dual):
    """Minimise over the multiplier of each pair in turn; return the largest change."""
    a, t = dual.a, dual.t
    largest = 0.0
    for e in range(t.shape[0]):
        score = dual.pair[e]
        i, j = dual.pair_ends[e, 0], dual.pair_ends[e, 1]
        first, second = dual.pair_signs[e, 0], dual.pair_signs[e, 1]
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
def sweep_rows(dual, z):
    """Minimise over the multiplier of each row in turn; return the largest change.

    It is infinite if a row cannot be satisfied; the row is then the only one with a multiplier.
    """
    a, mu = dual.a, dual.mu
    largest = 0.0
    for r in range(mu.shape[0]):
        start, stop = dual.row_ptr[r], dual.row_ptr[r + 1]
        coefs = dual.row_coefs[start:stop]
        for entry in range(start, stop):
            z[entry - start] = a[dual.row_vars[entry]] + dual.row_coefs[entry] * mu[r]
        new = threshold(
            z[: stop - start], coefs, dual.row_bounds[r], mu[r], dual.row_low[r], dual.row_high[r]
        )
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


@kernel
def new_structures(graph, oracles, solver):
    """Return the `Structures` of a graph, with no supports yet to start from.

    List comprehensions must not stand in kernels that write into arrays of a namedtuple: Numba then takes such writes
    for dead code.
    """
    n = graph.structures.shape[0]
    return Structures(
        graph,
        oracles,
        solver,
        [np.empty((0, 0), np.int32) for _ in range(n)],
        [np.empty((0, 0), np.int32) for _ in range(n)],
        [np.empty(0) for _ in range(n)],
        [np.empty((0, 0), np.int32) for _ in range(n)],
        [np.empty((0, 0)) for _ in range(n)],
        [np.empty(0) for _ in range(n)],
    )


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
def solve_structure(structures, additional, place, z, p, tol, limits):
    """SparseMAP of the structure at a place, from its last support, into `p`; return the objective.

    NaN says that no structure is allowed.
    """
    graph = structures.graph
    f = graph.structures[place]
    slots, additional_slots, weights, k, objective, _, _ = structures.solver(
        structures.oracles[graph.oracles[f]],
        z,
        additional[graph.additional_ptr[f] : graph.additional_ptr[f + 1]],
        graph.dims[graph.dims_ptr[f] : graph.dims_ptr[f + 1]],
        graph.sizes[f],
        AIM * tol,
        tol,
        limits[1:],
        structures.slots[place],
        structures.additional[place],
        structures.weights[place],
        p,
    )
    if k < 0:
        return np.nan
    structures.slots[place] = slots[:k].copy()
    structures.additional[place] = additional_slots[:k].copy()
    structures.weights[place] = weights[:k].copy()
    return objective


@kernel
def solve_structures(structures, additional, dual, limits):
    """Solve SparseMAP for each structure factor under `a`, each from its last support; return their part of phi.

    NaN says that a structure factor has no structure that is allowed, or none with all parts that it must have.
    """
    graph, value = structures.graph, 0.0
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
        forced, count = force_parts(
            z, additional[graph.additional_ptr[f] : graph.additional_ptr[f + 1]], graph.sizes[f]
        )
        constant -= count * (forced - 0.5)
        objective = solve_structure(structures, additional, place, z, p, STRUCTURE_TOL, limits)
        if objective != objective:
            return objective
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
def project_on_face(factor, slots, ones, direction, products):
    """Overwrite `direction` with its component along the face that structures span.

    `factor` is that of the support (see _polytope/support.py), `ones` its solution ``R'^{-1} 1``. `products` gets how
    the weights of the structures change, unless there is one only.
    """
    k, shift = ones.shape[0], 0.0
    if k == 1:
        direction[:] = 0.0
        return
    for s in range(k):
        products[s] = gather(direction, slots[s])
    solve_lower(factor, k, products)
    for s in range(k):
        shift += ones[s] * products[s]
    shift /= dot(ones, ones)
    for s in range(k):
        products[s] -= shift * ones[s]
    solve_upper(factor, k, products)
    direction[:] = 0.0
    for s in range(k):
        for part in slots[s]:
            if part >= 0:
                direction[part] += products[s]
