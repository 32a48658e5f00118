"""The structure factors in the solvers of a graph: their SparseMAP, their faces, and their directions of recession.

Used by most files here.
"""

from collections import namedtuple

import numpy as np
from numba import types

from .._core.jit import INTS, FunctionTable, by_type, kernel
from .._numerics.cholesky import dot, solve_lower, solve_upper
from .._numerics.competence import COMPETENCE
from .._numerics.solver import AIM, BY_STRUCTURES, GAVE_UP, INFEASIBLE, SOLVER, STRUCTURE_TOL
from .._numerics.support import gather, independent_support
from .._numerics.tight_face import EQUATIONS, project_on_tight_face, tight_face
from .arrays import FORBIDDEN, oracle_at

OFF = 1e-6  # a factor needs a forbidden variable if its marginal is larger

# The solvers of the structures of a graph, by the numbers of their oracles. `solver_ids` is BY_FACETS for structures
# with a solver by facets. These are solved by facets if they prefer it for their scores. All others are solved by
# structures. `choice.py` makes this tuple and `PlainSolvers` by the order of their fields.
COMPETENCES = FunctionTable(COMPETENCE)
SOLVERS = FunctionTable(SOLVER)
FACE_EQUATIONS = FunctionTable(EQUATIONS)
_competence_at, _solver_at, _equations_at = COMPETENCES.at, SOLVERS.at, FACE_EQUATIONS.at
StructureSolvers = namedtuple("StructureSolvers", ["before", "by_facets", "equations", "solver_ids", "by_structures"])
STRUCTURE_SOLVERS = types.NamedTuple(
    [COMPETENCES.type, SOLVERS.type, FACE_EQUATIONS.type, INTS, SOLVER], StructureSolvers
)

# A graph with its structure factors: MAP oracles and solvers, then lists with one entry for each factor. `solver_ids`
# is BY_STRUCTURES or BY_FACETS, or _UNDECIDED before the first solve. `slots`, `additional` and `weights` are the
# support of the last solution (see `Support`), or its facets; the next solve starts from them. `faces`, `factors` and
# `ones` are arguments of `project_on_face` or `project_on_tight_face`. Graphs of logic have None in place of a
# `Structures`, and Numba compiles no code after ``if structures is not None``.
Structures = namedtuple(
    "Structures",
    [
        *("graph", "oracles", "solvers", "solver_ids", "slots", "additional", "weights", "marginals"),
        *("faces", "factors", "ones"),
    ],
)
_UNDECIDED = -1

# The same for structures that are all solved by structures, without code of facets. `graph` is a
# `StructureArrays`, and `solvers` a `PlainSolvers`: the competences of facets, and the solver of all structures.
PlainSolvers = namedtuple("PlainSolvers", ["before", "by_structures"])
PLAIN_SOLVERS = types.NamedTuple([COMPETENCES.type, SOLVER], PlainSolvers)
PlainStructures = namedtuple(
    "PlainStructures",
    ["graph", "oracles", "solvers", "slots", "additional", "weights", "faces", "factors", "ones"],
)


@kernel
def _undecided(n):
    """Return the solver ids of structures, before a solver is chosen."""
    solver_ids = np.empty(n, np.int64)
    for index in range(n):
        solver_ids[index] = _UNDECIDED
    return solver_ids


@kernel
def new_structures(graph, oracles, solvers):
    """Return the `Structures` of a graph, without supports.

    `solver_ids` is filled by another kernel, because this one has list comprehensions: in kernels with both, Numba
    removes writes into arrays of a namedtuple as dead code.
    """
    n = graph.structures.shape[0]
    return Structures(
        graph,
        oracles,
        solvers,
        _undecided(n),
        [np.empty((0, 0), np.int32) for _ in range(n)],
        [np.empty((0, 0), np.int32) for _ in range(n)],
        [np.empty(0) for _ in range(n)],
        [np.empty(0) for _ in range(n)],
        [np.empty((0, 0), np.int32) for _ in range(n)],
        [np.empty((0, 0)) for _ in range(n)],
        [np.empty(0) for _ in range(n)],
    )


@kernel
def new_plain_structures(arrays, oracles, solvers):
    """Return the `PlainStructures` with these `StructureArrays`, without supports."""
    n = arrays.structures.shape[0]
    return PlainStructures(
        arrays,
        oracles,
        solvers,
        [np.empty((0, 0), np.int32) for _ in range(n)],
        [np.empty((0, 0), np.int32) for _ in range(n)],
        [np.empty(0) for _ in range(n)],
        [np.empty((0, 0), np.int32) for _ in range(n)],
        [np.empty((0, 0)) for _ in range(n)],
        [np.empty(0) for _ in range(n)],
    )


@kernel
def _new_structures_of(structures):
    """Return new `Structures`."""
    return new_structures(structures.graph, structures.oracles, structures.solvers)


@kernel
def _new_plain_structures_of(structures):
    """Return new `PlainStructures`."""
    return new_plain_structures(structures.graph, structures.oracles, structures.solvers)


@kernel
def _no_structures(structures):
    """Return None."""
    return None


# Returns the structures of the same graph without supports; None if there are none.
without_supports = by_type(
    {Structures: _new_structures_of, PlainStructures: _new_plain_structures_of, type(None): _no_structures}
)


@kernel
def force_parts(z, additional, sizes):
    """Replace scores of +inf, of parts that a structure must have, by a score larger than the sum of all others.

    The SparseMAP under such scores has all of these parts, or as many as any structure has.

    Returns
    -------
    forced : float
        The score in place of +inf.
    count : int
        Number of such parts.
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
def _prefers_facets(graph, before, f, z):
    """Return whether a structure factor whose parts have the scores `z` is to be solved by facets.

    Structures whose facets serve factor graphs have no additional scores.
    """
    competence = _competence_at(before, graph.oracles[f])
    dims = graph.dims[graph.dims_ptr[f] : graph.dims_ptr[f + 1]]
    return competence(z, z[:0], dims, z, np.inf, np.int64(0)) == 0


@kernel
def use_active_set(structures, index):
    """Solve the structure factor with this index by the active set from now on, starting without a support."""
    structures.solver_ids[index] = BY_STRUCTURES
    structures.slots[index] = np.empty((0, 0), np.int32)
    structures.additional[index] = np.empty((0, 0), np.int32)
    structures.weights[index] = np.empty(0)


@kernel
def _solve_by(solver, structures, additional, index, z, p, tol, limits):
    """Call a solver from the last solution, and store its solution; return the objective and the status.

    Parameters
    ----------
    solver : function
        As in `_numerics/solver.py`.
    structures, additional, index, z, p, limits
        See `_graphs/__init__.py`.
    tol : float
        Tolerance of the solver.
    """
    graph = structures.graph
    f = graph.structures[index]
    slots, additional_slots, weights, status, objective, _, _ = solver(
        oracle_at(structures.oracles, graph.oracles[f]),
        z,
        additional[graph.additional_ptr[f] : graph.additional_ptr[f + 1]],
        graph.dims[graph.dims_ptr[f] : graph.dims_ptr[f + 1]],
        graph.sizes[f],
        AIM * tol,
        tol,
        limits[1:],
        structures.slots[index],
        structures.additional[index],
        structures.weights[index],
        p,
    )
    if status == BY_STRUCTURES:
        # The solver's arrays have unused rows.
        slots = slots.copy()
        additional_slots = additional_slots.copy()
        weights = weights.copy()
    structures.slots[index], structures.additional[index], structures.weights[index] = slots, additional_slots, weights
    return objective, status


@kernel
def _solve_any(structures, additional, index, z, p, tol, limits):
    """Implement `solve_structure` for `Structures`."""
    graph, solvers = structures.graph, structures.solvers
    f = graph.structures[index]
    if structures.solver_ids[index] == _UNDECIDED:
        preferred = _prefers_facets(graph, solvers.before, f, z)
        structures.solver_ids[index] = solvers.solver_ids[graph.oracles[f]] if preferred else np.int64(BY_STRUCTURES)
    objective = 0.0
    status = np.int64(GAVE_UP)
    if structures.solver_ids[index] != BY_STRUCTURES:
        solver = _solver_at(solvers.by_facets, graph.oracles[f])
        objective, status = _solve_by(solver, structures, additional, index, z, p, tol, limits)
        structures.marginals[index] = p.copy()
        if status == GAVE_UP:
            use_active_set(structures, index)
    if status == GAVE_UP:
        objective, status = _solve_by(solvers.by_structures, structures, additional, index, z, p, tol, limits)
    return np.nan if status == INFEASIBLE else objective


@kernel
def _solve_plain(structures, additional, index, z, p, tol, limits):
    """Implement `solve_structure` for `PlainStructures`."""
    graph = structures.graph
    f = graph.structures[index]
    if structures.weights[index].shape[0] == 0 and _prefers_facets(graph, structures.solvers.before, f, z):
        return np.nan
    objective, status = _solve_by(structures.solvers.by_structures, structures, additional, index, z, p, tol, limits)
    return np.nan if status == INFEASIBLE else objective


# Computes SparseMAP of the structure factor with an index, from its last solution, into `p`, and returns the objective.
# It is NaN if all structures are forbidden; with `PlainStructures` also if the structure is to be solved by facets. For
# the parameters see `_solve_by`.
solve_structure = by_type({Structures: _solve_any, PlainStructures: _solve_plain})


@kernel
def equations_of(structures, index, z, p):
    """Return the equations of the face of a structure that was solved by facets; see `_numerics.tight_face`."""
    graph = structures.graph
    f = graph.structures[index]
    dims = graph.dims[graph.dims_ptr[f] : graph.dims_ptr[f + 1]]
    equations = _equations_at(structures.solvers.equations, graph.oracles[f])
    return equations(dims, z, p, structures.slots[index].reshape(-1), structures.weights[index])


@kernel
def solve_structures(structures, additional, dual, limits):
    """Solve SparseMAP for each structure factor under `a`, from its last support; return their part of phi.

    The result is NaN if a structure factor has no allowed structure, or none with all parts that it must have.
    """
    graph, value = structures.graph, 0.0
    for index in range(graph.structures.shape[0]):
        f = graph.structures[index]
        start, stop = graph.link_ptr[f], graph.link_ptr[f + 1]
        n = stop - start
        z = np.empty(n)
        p = np.empty(n)
        constant = 0.0
        for link in range(n):
            a = dual.a[graph.links[start + link]]
            if a < 0.5 * FORBIDDEN:
                z[link] = -np.inf if graph.signs[start + link] > 0.0 else np.inf
            elif graph.signs[start + link] < 0.0:
                # h(1 - a) and h(a) differ by a constant.
                z[link] = 1.0 - a
                constant += a - 0.5
            else:
                z[link] = a
        forced, count = force_parts(
            z, additional[graph.additional_ptr[f] : graph.additional_ptr[f + 1]], graph.sizes[f]
        )
        constant -= count * (forced - 0.5)
        objective = solve_structure(structures, additional, index, z, p, STRUCTURE_TOL, limits)
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

    `factor` is the Cholesky factor R of the support (see _numerics/support.py), and `ones` is ``R'^{-1} 1``. `products`
    gets the changes of the weights of the structures, unless there is only one.
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
def _find_plain_face(structures, index):
    """Factorise the support of a structure."""
    slots = structures.slots[index]
    support, k = independent_support(slots, np.empty((slots.shape[0], 0), np.int32))
    ones = np.empty(k)
    for s in range(k):
        ones[s] = 1.0
    solve_lower(support.factor, k, ones)
    structures.faces[index], structures.factors[index] = support.slots, support.factor
    structures.ones[index] = ones


@kernel
def _find_any_face(structures, index):
    """Factorise the support of a structure, or its facets."""
    if structures.solver_ids[index] == BY_STRUCTURES:
        _find_plain_face(structures, index)
        return
    # Which of the tied faces is used does not matter here.
    p = structures.marginals[index]
    block, n_blocks, ends, parts, _ = equations_of(structures, index, p, p)
    structures.faces[index], structures.factors[index], structures.ones[index] = tight_face(
        block, n_blocks, ends, parts
    )


@kernel
def _project_plainly(structures, index, direction):
    """Project a direction onto the face that the support of a structure spans."""
    factor, ones = structures.factors[index], structures.ones[index]
    project_on_face(factor, structures.faces[index], ones, direction, np.empty(ones.shape[0]))


@kernel
def _project_any(structures, index, direction):
    """Project a direction onto the face of a structure."""
    if structures.solver_ids[index] == BY_STRUCTURES:
        _project_plainly(structures, index, direction)
    else:
        factor, ones = structures.factors[index], structures.ones[index]
        project_on_tight_face(structures.faces[index], factor, ones, direction, np.int64(1))


_find_face = by_type({Structures: _find_any_face, PlainStructures: _find_plain_face})
_project = by_type({Structures: _project_any, PlainStructures: _project_plainly})


@kernel
def find_faces(structures):
    """Factorise the supports of the structures, or their facets, for `apply_faces`."""
    for index in range(structures.graph.structures.shape[0]):
        _find_face(structures, index)


@kernel
def apply_faces(structures, d):
    """Project the entries of `d`, one a variable, that belong to structures onto the directions of their faces."""
    graph = structures.graph
    for index in range(graph.structures.shape[0]):
        f = graph.structures[index]
        start, stop = graph.link_ptr[f], graph.link_ptr[f + 1]
        direction = np.empty(stop - start)
        for link in range(start, stop):
            direction[link - start] = graph.signs[link] * d[graph.links[link]]
        _project(structures, index, direction)
        for link in range(start, stop):
            d[graph.links[link]] = graph.signs[link] * direction[link - start]


@kernel
def recession_of_structures(structures, additional, dual, d):
    """Return the part of structures in the slope of phi along the change `d` of the variables' scores."""
    graph, slope = structures.graph, 0.0
    for index in range(graph.structures.shape[0]):
        f = graph.structures[index]
        start, stop = graph.link_ptr[f], graph.link_ptr[f + 1]
        first, last = graph.additional_ptr[f], graph.additional_ptr[f + 1]
        z = np.empty(stop - start)
        none = np.zeros(last - first)
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
        slope += oracle_at(structures.oracles, graph.oracles[f])(
            z,
            none,
            graph.dims[graph.dims_ptr[f] : graph.dims_ptr[f + 1]],
            np.zeros(graph.sizes[f, 2]),
            np.empty(graph.sizes[f, 0], np.int32),
            np.empty(graph.sizes[f, 1], np.int32),
        )
    return slope
