"""Jacobian products of LP-SparseMAP: the projection onto directions that stay in the faces of all factors (Niculae and
Martins 2020, algorithm 2).

J_f is the projector onto the directions of the face of factor f. The Jacobian of the marginals is the projector P onto
the directions that are in the faces of all factors. P d is d minus a combination of the complements (I - J_f), which
conjugate gradients compute. The alternative is the iteration of the paper, which averages the projections of all
factors until nothing changes. Each variable is averaged over the same number of factors, and factors without the
variable do not change it. Otherwise, the projection would not be orthogonal.

Used by `_graphs/tables` and `jacobian.py`.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from .._core.jit import FLOATS_2D, FLOATS_2D_OUT, INTS, INTS_OUT, copy_into, entry, kernel
from .._numerics.cholesky import add_scaled, dot
from .._numerics.face import respond
from .._numerics.support import mix
from .._numerics.tight_face import project_on_tight_face
from .arrays import FORBIDDEN, GRAPH_ARRAYS, SMALL_ARRAYS, STRUCTURE
from .closed_forms import is_free, jacobian_logic, pair_slopes
from .faces import FACES, OPTIMA, face_of
from .samples import row_of
from .structures import project_on_face


class Products(NamedTuple):
    """Jacobian products, one row a sample. `jacobian.py` makes them by the order of the fields."""

    marginals: np.ndarray  # directions first, then their products
    joint: np.ndarray
    n_iter: np.ndarray


PRODUCTS = types.NamedTuple([FLOATS_2D_OUT, FLOATS_2D_OUT, INTS_OUT], Products)


@kernel
def _project_links(graph, optima, i, literals, faces, d, change):
    """Overwrite `d` with its products with the Jacobians of all factors.

    Parameters
    ----------
    graph, i
        See `_graphs/__init__.py`.
    optima : Optima
    literals : array of shape (n_links,)
        Marginals of the literals.
    faces : Faces, or None
        None if there are no structures.
    d : array of shape (n_links,)
    change : array of shape (n_factors,)
        Gets the change of the joint probability of each pair.
    """
    index = np.int64(0)
    additional = row_of(optima.additional, i)
    for f in range(graph.factor_types.shape[0]):
        start, stop = graph.link_ptr[f], graph.link_ptr[f + 1]
        for link in range(start, stop):
            d[link] *= graph.signs[link]
        if graph.factor_types[f] != STRUCTURE:
            first = graph.additional_ptr[f]
            score = additional[first] if graph.additional_ptr[f + 1] > first else 0.0
            change[f] = jacobian_logic(
                graph.factor_types[f],
                graph.costs[start:stop],
                graph.low[f],
                graph.high[f],
                score,
                literals[start:stop],
                optima.snaps[i],
                d[start:stop],
            )
        elif faces is not None:
            face, k = face_of(graph, faces, i, index)
            # The second projection removes the rounding error of the first.
            if faces.by_facets[i, index]:
                project_on_tight_face(face.slots, face.factor, face.ones, d[start:stop], np.int64(2))
            else:
                rest = d[start:stop].copy()
                products = np.empty(k)
                project_on_face(face.factor, face.slots, face.ones, d[start:stop], products)
                add_scaled(rest, -1.0, d[start:stop])
                project_on_face(face.factor, face.slots, face.ones, rest, products)
                add_scaled(d[start:stop], 1.0, rest)
            index += 1
        for link in range(start, stop):
            d[link] *= graph.signs[link]


@kernel
def _complement(graph, optima, i, literals, faces, d, scratch, change):
    """Overwrite `d` with ``d - J d`` for the Jacobians J of the factors; for the parameters see `_project_links`.

    `scratch` has shape (n_links,).
    """
    copy_into(scratch, d)
    _project_links(graph, optima, i, literals, faces, scratch, change)
    for link in range(d.shape[0]):
        d[link] -= scratch[link]


@kernel
def _scatter(graph, links, out):
    """Sum the entries of each variable's links into `out`."""
    for v in range(out.shape[0]):
        out[v] = 0.0
    for link in range(links.shape[0]):
        out[graph.links[link]] += links[link]


@kernel
def _gather(graph, values, out):
    """Set each link's entry to that of its variable."""
    for link in range(out.shape[0]):
        out[link] = values[graph.links[link]]


@kernel
def _average(graph, optima, i, literals, faces, goal, limits, w, change):
    """Project `w` by the paper's iteration; return the number of iterations.

    Parameters
    ----------
    graph, optima, i, faces, limits, w, change
        See `_project`.
    literals : array of shape (n_links,)
        Marginals of the literals.
    goal : float
        The iteration ends when `w` moves by at most this much.
    """
    links = np.empty(literals.shape[0])
    total = np.empty(w.shape[0])
    most, n_iter = 1, 0
    for v in range(w.shape[0]):
        most = max(most, graph.degrees[v])
    while n_iter < limits[0]:
        n_iter += 1
        _gather(graph, w, links)
        _project_links(graph, optima, i, literals, faces, links, change)
        _scatter(graph, links, total)
        moved = 0.0
        for v in range(w.shape[0]):
            change_of_w = (total[v] - graph.degrees[v] * w[v]) / most
            moved += change_of_w * change_of_w
            w[v] += change_of_w
        if np.sqrt(moved) <= goal:
            break
    _gather(graph, w, links)
    _project_links(graph, optima, i, literals, faces, links, change)
    return n_iter


@kernel
def _project(graph, optima, i, faces, average, tol, limits, w, change):
    """Project `w` onto the directions that are in the faces of all factors of sample `i`.

    Parameters
    ----------
    graph, optima, i, faces
        See `_project_links`.
    average : bool or None
        Whether to use the paper's iteration instead of conjugate gradients. If None, its code is not compiled.
    tol : float
        Tolerance, relative to the norm of the direction.
    limits : int array of shape (1,)
        Maximum number of iterations.
    w : array of shape (n_variables,)
    change : array of shape (n_factors,)
        Gets the change of the joint probability of each pair along `w`.

    Returns
    -------
    n_iter : int
    """
    marginals, snap = optima.marginals[i], optima.snaps[i]
    n_links, n = graph.links.shape[0], marginals.shape[0]
    literals = np.empty(n_links)
    for link in range(n_links):
        u = marginals[graph.links[link]]
        literals[link] = u if graph.signs[link] > 0.0 else 1.0 - u
    for v in range(n):
        # Variables without factors are bounded by the box only.
        if not (graph.degrees[v] > 0 or is_free(marginals[v], snap)):
            w[v] = 0.0
    goal = tol * np.sqrt(dot(w, w))
    links = np.empty(n_links)
    scratch = np.empty(n_links)
    total = np.empty(n)
    n_iter = 0
    if average is not None and average:
        return _average(graph, optima, i, literals, faces, goal, limits, w, change)
    residual = np.empty(n_links)
    step_links = np.empty(n_links)
    _gather(graph, w, residual)
    _complement(graph, optima, i, literals, faces, residual, scratch, change)
    copy_into(step_links, residual)
    rho = dot(residual, residual)
    while n_iter < limits[0] and np.sqrt(rho) > goal:
        n_iter += 1
        # The complements leave step_links unchanged, because it is in their range.
        _scatter(graph, step_links, total)
        curvature = dot(total, total)
        if not curvature > 0.0:
            break
        step = rho / curvature
        add_scaled(w, -step, total)
        _gather(graph, total, links)
        _complement(graph, optima, i, literals, faces, links, scratch, change)
        add_scaled(residual, -step, links)
        previous = rho
        rho = dot(residual, residual)
        for link in range(n_links):
            step_links[link] = residual[link] + rho / previous * step_links[link]
    _gather(graph, w, links)
    _project_links(graph, optima, i, literals, faces, links, change)
    return n_iter


@entry(types.void(GRAPH_ARRAYS, OPTIMA, FACES, types.boolean, types.float64, INTS, types.int64, types.int64, PRODUCTS))
def project_range(graph, optima, faces, average, tol, limits, start, stop, out):
    """Multiply directions with the Jacobians of samples start..stop.

    Parameters
    ----------
    graph, optima, faces, average, tol, limits
        See `_project`.
    start, stop : int
    out : Products
        Its marginals are the directions, which are overwritten with their products. Its joint marginals get the changes
        of the marginals of the additional scores.
    """
    change = np.zeros(graph.factor_types.shape[0])
    for i in range(start, stop):
        w, joint = out.marginals[i], out.joint[i]
        out.n_iter[i] = _project(graph, optima, i, faces, average, tol, limits, w, change)
        for v in range(w.shape[0]):
            if optima.scores[i, v] < 0.5 * FORBIDDEN:
                w[v] = 0.0
        for e in range(graph.pairs.shape[0]):
            joint[graph.additional_ptr[graph.pairs[e]]] = change[graph.pairs[e]]
        for index in range(graph.structures.shape[0]):
            f = graph.structures[index]
            if graph.additional_ptr[f + 1] == graph.additional_ptr[f]:
                continue
            face, k = face_of(graph, faces, i, index)
            start_link = graph.link_ptr[f]
            unary = np.empty(graph.link_ptr[f + 1] - start_link)
            products = np.zeros(k)
            for link in range(unary.shape[0]):
                unary[link] = graph.signs[start_link + link] * w[graph.links[start_link + link]]
            # Sets `products` to the changes of the weights of the structures.
            project_on_face(face.factor, face.slots, face.ones, unary, products)
            mix(face.additional, k, products, joint[graph.additional_ptr[f] : graph.additional_ptr[f + 1]])


@entry(types.void(SMALL_ARRAYS, OPTIMA, types.float64, INTS, types.int64, types.int64, PRODUCTS))
def small_project_range(graph, optima, tol, limits, start, stop, out):
    """Do the same for a graph without pairs and structures, by conjugate gradients."""
    change = np.empty(graph.factor_types.shape[0])
    for i in range(start, stop):
        w = out.marginals[i]
        out.n_iter[i] = _project(graph, optima, i, None, None, tol, limits, w, change)
        for v in range(w.shape[0]):
            if optima.scores[i, v] < 0.5 * FORBIDDEN:
                w[v] = 0.0


@entry(types.void(GRAPH_ARRAYS, OPTIMA, FACES, FLOATS_2D, types.int64, types.int64, FLOATS_2D_OUT))
def pull_back_range(graph, optima, faces, changes, start, stop, directions):
    """Add to `directions` the changes of the scores that are equivalent to changes of the additional scores.

    Parameters
    ----------
    graph, start, stop
        See `_graphs/__init__.py`.
    optima : Optima
    faces : Faces
    changes : array of shape (n_samples, n_additional)
    directions : array of shape (n_samples, n_variables)
    """
    for i in range(start, stop):
        additional = row_of(optima.additional, i)
        marginals = optima.marginals[i]
        direction = directions[i]
        for e in range(graph.pairs.shape[0]):
            joint_index = graph.additional_ptr[graph.pairs[e]]
            first, second = graph.pair_ends[e, 0], graph.pair_ends[e, 1]
            sign_p, sign_q = graph.pair_signs[e, 0], graph.pair_signs[e, 1]
            p = marginals[first] if sign_p > 0.0 else 1.0 - marginals[first]
            q = marginals[second] if sign_q > 0.0 else 1.0 - marginals[second]
            with_p, with_q = pair_slopes(additional[joint_index], p, q, optima.snaps[i])
            direction[first] += sign_p * with_p * changes[i, joint_index]
            direction[second] += sign_q * with_q * changes[i, joint_index]
        for index in range(graph.structures.shape[0]):
            f = graph.structures[index]
            if graph.additional_ptr[f + 1] == graph.additional_ptr[f]:
                continue
            face, k = face_of(graph, faces, i, index)
            start_link, first = graph.link_ptr[f], graph.additional_ptr[f]
            products = np.zeros(k)
            for s in range(k):
                for part in face.additional[s]:
                    if part >= 0:
                        products[s] += changes[i, first + part]
            respond(face, k, products)
            unary = np.empty(graph.link_ptr[f + 1] - start_link)
            mix(face.slots, k, products, unary)
            for link in range(unary.shape[0]):
                direction[graph.links[start_link + link]] += graph.signs[start_link + link] * unary[link]
