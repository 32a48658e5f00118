"""Jacobian products of LP-SparseMAP: the projection onto directions that stay in the faces of all factors (L Alg. 2).

Each factor f knows the projector J_f onto the directions of its own face. The Jacobian of the marginals is the
projector P onto the directions that all factors allow. P d is what is left of d after a combination of the factors'
complements (I - J_f) is taken away; the combination comes from conjugate gradients. The paper's iteration, which
averages the factors' projections until nothing changes, is kept beside it; all variables are averaged over as many
factors, of which those that do not touch a variable leave it alone, for else the projection would not be orthogonal.
"""

import numpy as np
from numba import types

from .._jit import FLOATS, FLOATS_OUT, INTS, entry, kernel
from ..factors._arrays import GRAPH_ARRAYS, STRUCTURE
from ..factors._closed_forms import is_free, jacobian_logic
from ._linalg import add_scaled, dot


@kernel
def _project_links(graph, additional, literals, bases, base_ptr, ranks, d, change):
    """Overwrite `d`, one entry a link, with the product of each factor's Jacobian.

    `literals` are the marginals of all literals, `bases` the orthonormal directions of the structures' faces, one
    after the other. `change` gets, for each factor, how the joint probability of a pair changes.
    """
    place = 0
    for f in range(graph.kinds.shape[0]):
        start, stop = graph.link_ptr[f], graph.link_ptr[f + 1]
        for link in range(start, stop):
            d[link] *= graph.signs[link]
        if graph.kinds[f] == STRUCTURE:
            n, first = stop - start, base_ptr[place]
            projected = np.zeros(n)
            for b in range(ranks[place]):
                basis = bases[first + b * n : first + (b + 1) * n]
                add_scaled(projected, dot(basis, d[start:stop]), basis)
            for link in range(n):
                d[start + link] = projected[link]
            place += 1
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
                d[start:stop],
            )
        for link in range(start, stop):
            d[link] *= graph.signs[link]


@kernel
def _complement(graph, additional, literals, bases, base_ptr, ranks, d, scratch, change):
    """Overwrite `d` with what the factors' Jacobians take from it."""
    scratch[:] = d
    _project_links(graph, additional, literals, bases, base_ptr, ranks, scratch, change)
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
        GRAPH_ARRAYS, FLOATS, FLOATS, FLOATS, INTS, INTS, FLOATS, types.boolean, types.float64, types.int64,
        FLOATS_OUT, FLOATS_OUT
    )
)  # fmt: skip
def project_on_faces(
    graph, additional, marginals, bases, base_ptr, ranks, direction, average, tol, max_iter, w, change
):
    """Project a direction, one entry a variable, onto the directions that all factors allow, into `w`.

    Parameters
    ----------
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
        w[i] = direction[i] if graph.degrees[i] > 0 or is_free(marginals[i]) else 0.0
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
            _project_links(graph, additional, literals, bases, base_ptr, ranks, links, change)
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
        _complement(graph, additional, literals, bases, base_ptr, ranks, residual, scratch, change)
        step_links[:] = residual
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
            _complement(graph, additional, literals, bases, base_ptr, ranks, links, scratch, change)
            add_scaled(residual, -step, links)
            previous, rho = rho, dot(residual, residual)
            for link in range(n_links):
                step_links[link] = residual[link] + rho / previous * step_links[link]
    _gather(graph, w, links)
    _project_links(graph, additional, literals, bases, base_ptr, ranks, links, change)
    return n_iter
