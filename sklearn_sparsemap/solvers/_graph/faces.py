"""Jacobian products of LP-SparseMAP: the projection onto directions that stay in the faces of all factors (L Alg. 2).

Each factor f knows the projector J_f onto the directions of its own face. The Jacobian of the marginals is the
projector P onto the directions that all factors allow. P d is what is left of d after a combination of the factors'
complements (I - J_f) is taken away; the combination comes from conjugate gradients. The paper's iteration, which
averages the factors' projections until nothing changes, is kept beside it; all variables are averaged over as many
factors, of which those that do not touch a variable leave it alone, for else the projection would not be orthogonal.
"""

from collections import namedtuple

import numpy as np
from numba import types

from ..._jit import FLOATS, FLOATS_OUT, INTS, PARTS, copy_into, entry, kernel
from ...graphs._arrays import GRAPH_ARRAYS, STRUCTURE
from ...graphs._closed_forms import is_free, jacobian_logic, pair_slopes
from .._polytope.cholesky import add_scaled, dot
from .rows import project_on_face

# The faces of the structures of a graph, one after the other: of each, affinely independent structures that span it
# (`slots`), the Cholesky factor R of their Gram matrix (see _support.py), and ``R'^{-1} 1``. `sizes` counts structures.
Faces = namedtuple("Faces", ["slots", "factors", "ones", "sizes"])
FACES = types.NamedTuple([PARTS, FLOATS, FLOATS, INTS], Faces)


@kernel
def _project_links(graph, additional, literals, faces, snap, d, change):
    """Overwrite `d`, one entry a link, with the product of each factor's Jacobian.

    `literals` are the marginals of all literals. `change` gets, for each factor, how the joint probability of a pair
    changes.
    """
    place, first_slot, first_entry, first_one = 0, 0, 0, 0
    for f in range(graph.kinds.shape[0]):
        start, stop = graph.link_ptr[f], graph.link_ptr[f + 1]
        for link in range(start, stop):
            d[link] *= graph.signs[link]
        if graph.kinds[f] == STRUCTURE:
            k, n = faces.sizes[place], graph.sizes[f, 0]
            slots = faces.slots[first_slot : first_slot + k * n].reshape((k, n))
            factor = faces.factors[first_entry : first_entry + k * k].reshape((k, k))
            ones = faces.ones[first_one : first_one + k]
            # Once more on what the first projection leaves of the face by rounding.
            rest = d[start:stop].copy()
            project_on_face(factor, slots, ones, d[start:stop])
            add_scaled(rest, -1.0, d[start:stop])
            project_on_face(factor, slots, ones, rest)
            add_scaled(d[start:stop], 1.0, rest)
            place += 1
            first_slot, first_entry, first_one = first_slot + k * n, first_entry + k * k, first_one + k
        else:
            first = graph.additional_ptr[f]
            score = additional[first] if graph.additional_ptr[f + 1] > first else 0.0
            change[f] = jacobian_logic(
                graph.kinds[f],
                graph.costs[start:stop],
                graph.low[f],
                graph.high[f],
                score,
                literals[start:stop],
                snap,
                d[start:stop],
            )
        for link in range(start, stop):
            d[link] *= graph.signs[link]


@kernel
def _complement(graph, additional, literals, faces, snap, d, scratch, change):
    """Overwrite `d` with what the factors' Jacobians take from it."""
    copy_into(scratch, d)
    _project_links(graph, additional, literals, faces, snap, scratch, change)
    for link in range(d.shape[0]):
        d[link] -= scratch[link]


@kernel
def _scatter(graph, links, out):
    """Sum the entries of each variable's links into `out`."""
    out[:] = 0.0
    for link in range(links.shape[0]):
        out[graph.links[link]] += links[link]


@kernel
def _gather(graph, values, out):
    """Set each link's entry to that of its variable."""
    for link in range(out.shape[0]):
        out[link] = values[graph.links[link]]


@entry(
    types.int64(
        GRAPH_ARRAYS, FLOATS, FLOATS, FACES, types.float64, FLOATS, types.boolean, types.float64, types.int64,
        FLOATS_OUT, FLOATS_OUT
    )
)  # fmt: skip
def project_on_faces(graph, additional, marginals, faces, snap, direction, average, tol, max_iter, w, change):
    """Project a direction, one entry a variable, onto the directions that all factors allow, into `w`.

    Parameters
    ----------
    faces : Faces
        Of the structures.
    snap : float
        Marginals as close to a bound as this lie on it.
    average : bool
        Whether to use the paper's iteration instead of conjugate gradients.
    tol : float
        Relative to the direction.
    w : array of shape (n_variables,)
    change : array of shape (n_factors,)
        How the joint probability of each pair changes along `w`.

    Returns
    -------
    n_iter : int
    """
    n_links, n = graph.links.shape[0], marginals.shape[0]
    literals = np.empty(n_links)
    for link in range(n_links):
        u = marginals[graph.links[link]]
        literals[link] = u if graph.signs[link] > 0.0 else 1.0 - u
    for i in range(n):
        # The box bounds those that are in no factor.
        w[i] = direction[i] if graph.degrees[i] > 0 or is_free(marginals[i], snap) else 0.0
    goal = tol * np.sqrt(dot(w, w))
    links, scratch, total = np.empty(n_links), np.empty(n_links), np.empty(n)
    n_iter = 0
    if average:
        most = 1
        for i in range(n):
            most = max(most, graph.degrees[i])
        while n_iter < max_iter:
            n_iter += 1
            _gather(graph, w, links)
            _project_links(graph, additional, literals, faces, snap, links, change)
            _scatter(graph, links, total)
            moved = 0.0
            for i in range(n):
                change_of_w = (total[i] - graph.degrees[i] * w[i]) / most
                moved += change_of_w * change_of_w
                w[i] += change_of_w
            if np.sqrt(moved) <= goal:
                break
    else:
        residual, step_links = np.empty(n_links), np.empty(n_links)
        _gather(graph, w, residual)
        _complement(graph, additional, literals, faces, snap, residual, scratch, change)
        copy_into(step_links, residual)
        rho = dot(residual, residual)
        while n_iter < max_iter and np.sqrt(rho) > goal:
            n_iter += 1
            # step_links lies in the range of the complements already.
            _scatter(graph, step_links, total)
            curvature = dot(total, total)
            if not curvature > 0.0:
                break
            step = rho / curvature
            add_scaled(w, -step, total)
            _gather(graph, total, links)
            _complement(graph, additional, literals, faces, snap, links, scratch, change)
            add_scaled(residual, -step, links)
            previous, rho = rho, dot(residual, residual)
            for link in range(n_links):
                step_links[link] = residual[link] + rho / previous * step_links[link]
    _gather(graph, w, links)
    _project_links(graph, additional, literals, faces, snap, links, change)
    return n_iter


@entry(types.void(GRAPH_ARRAYS, FLOATS, FLOATS, types.float64, FLOATS, FLOATS_OUT))
def pull_back_pairs(graph, additional, marginals, snap, changes, direction):
    """Add to `direction` the scores that move the marginals as changes of the pairs' scores do."""
    for e in range(graph.pairs.shape[0]):
        place = graph.additional_ptr[graph.pairs[e]]
        i, j = graph.pair_ends[e, 0], graph.pair_ends[e, 1]
        first, second = graph.pair_signs[e, 0], graph.pair_signs[e, 1]
        p = marginals[i] if first > 0.0 else 1.0 - marginals[i]
        q = marginals[j] if second > 0.0 else 1.0 - marginals[j]
        with_p, with_q = pair_slopes(additional[place], p, q, snap)
        direction[i] += first * with_p * changes[place]
        direction[j] += second * with_q * changes[place]
