"""What structures add to the solvers of a graph: SparseMAP of each, its face, and where its scores grow for ever."""

from collections import namedtuple

import numpy as np

from ..._jit import kernel
from ...graphs._arrays import FORBIDDEN
from .._polytope.cholesky import dot, solve_lower, solve_upper
from .._polytope.protocol import AIM, STRUCTURE_TOL
from .._polytope.support import gather, independent_support

# A factor that gives a forbidden variable more than this cannot do without it.
OFF = 1e-6

# A graph with structures: their MAP oracles and the solver of SparseMAP; then lists with one entry each. The last
# solution's support (see `Support`) is what the next one starts from; `faces`, `factors` and `ones` are what
# `project_on_face` takes. A graph of nothing but logic has None in their place, for which Numba leaves out what is
# behind ``if structures is not None``.
Structures = namedtuple(
    "Structures", ["graph", "oracles", "solver", "slots", "additional", "weights", "faces", "factors", "ones"]
)


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


@kernel
def find_faces(structures):
    """Factorise the supports of the structures, for `apply_faces`."""
    for place in range(len(structures.slots)):
        slots = structures.slots[place]
        support, k = independent_support(slots, np.empty((slots.shape[0], 0), np.int32))
        ones = np.ones(k)
        solve_lower(support.factor, k, ones)
        structures.faces[place], structures.factors[place] = support.slots, support.factor
        structures.ones[place] = ones


@kernel
def apply_faces(structures, d):
    """Project the entries of `d`, one a variable, that belong to structures onto the directions of their faces."""
    graph = structures.graph
    for place in range(graph.structures.shape[0]):
        f = graph.structures[place]
        start, stop = graph.link_ptr[f], graph.link_ptr[f + 1]
        ones, own = structures.ones[place], np.empty(stop - start)
        for link in range(start, stop):
            own[link - start] = graph.signs[link] * d[graph.links[link]]
        project_on_face(structures.factors[place], structures.faces[place], ones, own, np.empty(ones.shape[0]))
        for link in range(start, stop):
            d[graph.links[link]] = graph.signs[link] * own[link - start]


@kernel
def recession_of_structures(structures, additional, dual, d):
    """Return what structures add to the slope of phi along the change `d` of the variables' scores."""
    graph, slope = structures.graph, 0.0
    for place in range(graph.structures.shape[0]):
        f = graph.structures[place]
        start, stop = graph.link_ptr[f], graph.link_ptr[f + 1]
        first, last = graph.additional_ptr[f], graph.additional_ptr[f + 1]
        z, none = np.empty(stop - start), np.zeros(last - first)
        for link in range(start, stop):
            i = graph.links[link]
            z[link - start] = graph.signs[link] * d[i]
            if dual.scores[i] < 0.5 * FORBIDDEN:
                z[link - start] = -np.inf if graph.signs[link] > 0.0 else np.inf
            elif graph.signs[link] < 0.0:
                slope += d[i]
        for link in range(first, last):
            none[link - first] = -np.inf if additional[link] == -np.inf else 0.0
        forced, count = force_parts(z, none, graph.sizes[f])
        slope -= count * forced
        slope += structures.oracles[graph.oracles[f]](
            z,
            none,
            graph.dims[graph.dims_ptr[f] : graph.dims_ptr[f + 1]],
            np.zeros(graph.sizes[f, 2]),
            np.empty(graph.sizes[f, 0], np.int32),
            np.empty(graph.sizes[f, 1], np.int32),
        )
    return slope
