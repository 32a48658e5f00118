"""LP-SparseMAP through the multipliers of a graph's inequalities: exact coordinate sweeps and a semismooth Newton step.

The logic factors are a few explicit inequalities ("rows") inside the box [0, 1] (see _graphs/arrays.py). A pair of
literals p and q is one more row, with a multiplier between 0 and the absolute value of its score. If the score is
positive, the row is ``p <= q``, and the score is added to that of q. If it is negative, the row is ``p + q <= 1``. The
polytope of a structure factor enters through its SparseMAP. If no variable is in two structures, the dual

    phi(mu) = sum_i h(a_i) + sum_f Omega*_f(a|_f) + bounds.mu,    a = scores - A'mu,

is a smooth function of these multipliers alone. Its gradient is ``bounds - A u``, and u is clip(a), or the SparseMAP of
the structures. h(a) = max of a u - u^2/2 over u in [0, 1].

The second derivative is A J A' with the projector J onto the directions of the face of u. So a Newton step costs one
solve by conjugate gradients, and is exact once the faces do not change. The backward pass uses the same operator.

Used by `_graphs/tables`, `inference`, `admm.py`, `batch.py`, `block.py`, `newton.py`, `presolve.py` and `small.py`.
"""

from collections import namedtuple

import numpy as np

from .._core.jit import copy_into, kernel
from .._numerics.threshold import threshold
from .arrays import FORBIDDEN

# The status of a solution. Only inference sets TOO_LARGE: the scores are so large that rounding spoils the solution.
# It relies on the order: from INFEASIBLE on, there is no solution.
CONVERGED, NOT_CONVERGED, INFEASIBLE, TOO_LARGE = 0, 1, 2, 3

# The dual of the open graph of one sample (see `presolve.py`). Its rows are the `n_logic` rows of the graph (see
# `GraphArrays`), and then those of the open pairs. Its variables are the open ones, numbered from 0. `scores` are their
# scores, including positive scores of pairs; `a` are the scores minus A' `multipliers`; `u` are the marginals.
# `gradient` is that of phi with respect to the multipliers.
Dual = namedtuple(
    "Dual",
    [
        *("owners", "row_ptr", "row_vars", "row_coefs", "row_bounds", "row_low", "row_high"),
        *("scores", "a", "u", "multipliers", "gradient", "n_logic"),
    ],
)


@kernel
def new_space(graph):
    """Return a dual with all variables and pairs of a graph, without the values that depend on the sample."""
    n, n_logic, n_pairs = graph.degrees.shape[0], graph.row_bounds.shape[0], graph.pairs.shape[0]
    n_entries, m = graph.row_vars.shape[0], n_logic + n_pairs
    space = Dual(
        np.empty(n, np.int64),
        np.empty(m + 1, np.int64),
        np.empty(n_entries + 2 * n_pairs, np.int64),
        np.empty(n_entries + 2 * n_pairs),
        np.empty(m),
        np.zeros(m),
        np.empty(m),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(m),
        np.empty(m),
        n_logic,
    )
    copy_into(space.row_ptr, graph.row_ptr)
    copy_into(space.row_coefs, graph.row_coefs)
    copy_into(space.row_bounds, graph.row_bounds)
    copy_into(space.row_low, graph.row_low)
    copy_into(space.row_high, graph.row_high)
    for k in range(n_pairs):
        space.row_ptr[n_logic + k + 1] = n_entries + 2 * (k + 1)
    return space


@kernel
def new_dual(graph, presolve, additional, scale, warm):
    """Return the dual of the open graph of one sample.

    Parameters
    ----------
    graph : GraphArrays
    presolve : PresolveState
    additional : array of shape (n_additional,)
    scale : float
        Factor of the additional scores.
    warm : array of shape (n_rows + n_pairs,) or (0,)
        Multipliers of all rows and pairs to start from.
    """
    n, n_logic, n_pairs = presolve.counts[0], graph.row_bounds.shape[0], presolve.counts[1]
    m, n_entries, space = n_logic + n_pairs, graph.row_vars.shape[0], presolve.space
    dual = Dual(
        space.owners[:n],
        space.row_ptr[: m + 1],
        space.row_vars[: n_entries + 2 * n_pairs],
        space.row_coefs[: n_entries + 2 * n_pairs],
        space.row_bounds[:m],
        space.row_low[:m],
        space.row_high[:m],
        space.scores[:n],
        space.a[:n],
        space.u[:n],
        space.multipliers[:m],
        space.gradient[:m],
        n_logic,
    )
    is_warm = warm.shape[0] > 0
    for k in range(n):
        dual.owners[k] = graph.owners[presolve.variables[k]]
        dual.scores[k] = presolve.base[k]
        # If no structure of a factor is allowed, the solver ends before it sets all marginals.
        dual.u[k] = 0.0
    for entry in range(n_entries):
        dual.row_vars[entry] = presolve.positions[graph.row_vars[entry]]
    for r in range(n_logic):
        dual.multipliers[r] = min(max(warm[r], dual.row_low[r]), dual.row_high[r]) if is_warm else 0.0
    for k in range(n_pairs):
        e, row, entry = presolve.pairs[k], n_logic + k, n_entries + 2 * k
        score = scale * additional[graph.additional_ptr[graph.pairs[e]]]
        for side in range(2):
            dual.row_vars[entry + side] = presolve.positions[graph.pair_ends[e, side]]
            dual.row_coefs[entry + side] = graph.pair_signs[e, side]
        off_first, off_second = 0.5 * (1.0 - dual.row_coefs[entry]), 0.5 * (1.0 - dual.row_coefs[entry + 1])
        if score > 0.0:
            dual.scores[dual.row_vars[entry + 1]] += dual.row_coefs[entry + 1] * score
            dual.row_coefs[entry] *= -1.0
            dual.row_bounds[row] = off_first - off_second
        else:
            dual.row_bounds[row] = 1.0 - off_first - off_second
        dual.row_high[row] = abs(score)
        # At the start, each end gets half of the score.
        dual.multipliers[row] = min(max(warm[n_logic + e], 0.0), abs(score)) if is_warm else 0.5 * abs(score)
    return dual


@kernel
def take(dual, multipliers, out):
    """Subtract A' times multipliers from `out`."""
    for r in range(multipliers.shape[0]):
        if multipliers[r] != 0.0:
            for entry in range(dual.row_ptr[r], dual.row_ptr[r + 1]):
                out[dual.row_vars[entry]] -= dual.row_coefs[entry] * multipliers[r]


@kernel
def sweep_pairs(dual, tol, limits, most, patience):
    """Minimise over the multiplier of each pair in turn, in several sweeps.

    Parameters
    ----------
    dual : Dual
    tol : float
        The sweeps end when no multiplier changes by more than this.
    limits : int array of shape (2,)
    most : int
        Maximum number of sweeps.
    patience : int
        After this number of sweeps, they also end when a sweep changes nearly as much as the one before.

    Returns
    -------
    n_sweeps : int
    """
    a, multipliers, variables, coefs = dual.a, dual.multipliers, dual.row_vars, dual.row_coefs
    n_sweeps = np.int64(0)
    previous = np.inf
    largest = np.inf
    while n_sweeps < most and limits[0] > 0 and largest > tol and (n_sweeps < patience or largest < 0.7 * previous):
        previous, largest = largest, 0.0
        for row in range(dual.n_logic, multipliers.shape[0]):
            entry = dual.row_ptr[row]
            i, j, first, second = variables[entry], variables[entry + 1], coefs[entry], coefs[entry + 1]
            change = 0.5 * (first * a[i] + second * a[j] - dual.row_bounds[row])
            change = min(max(multipliers[row] + change, 0.0), dual.row_high[row]) - multipliers[row]
            multipliers[row] += change
            a[i] -= first * change
            a[j] -= second * change
            largest = max(largest, abs(change))
        n_sweeps += 1
    return n_sweeps


@kernel
def sweep_rows(dual):
    """Minimise over the multiplier of each row of a logic factor in turn; return the largest change.

    The change is infinite if a row is infeasible; then this row alone has a nonzero multiplier. The array of marginals
    is scratch.
    """
    a, mu, z = dual.a, dual.multipliers[: dual.n_logic], dual.u
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
def box_marginals(dual, wide):
    """Set the marginals of all variables that are in no structure; return their part of phi.

    Their box is [0, 1], extended by `wide` on both sides.
    """
    value = 0.0
    for i in range(dual.a.shape[0]):
        if dual.owners[i] < 0:
            width = 0.0 if dual.scores[i] < 0.5 * FORBIDDEN else wide
            u = min(max(dual.a[i], 0.0 - width), 1.0 + width)
            dual.u[i] = u
            value += u * (dual.a[i] - 0.5 * u)
    return value


@kernel
def compute_gradient(dual):
    """Set the gradient of phi; return its largest absolute entry among multipliers that can move against it."""
    multipliers, largest = dual.multipliers, 0.0
    for r in range(multipliers.shape[0]):
        g = dual.row_bounds[r]
        for entry in range(dual.row_ptr[r], dual.row_ptr[r + 1]):
            g -= dual.row_coefs[entry] * dual.u[dual.row_vars[entry]]
        dual.gradient[r] = g
        if not ((g > 0.0 and multipliers[r] <= dual.row_low[r]) or (g < 0.0 and multipliers[r] >= dual.row_high[r])):
            largest = max(largest, abs(g))
    return largest
