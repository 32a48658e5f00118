"""A preconditioner for Newton's system on graphs with long paths: the exact solution for a spanning forest.

Multipliers and free variables are the nodes of a graph whose edges are the coefficients. The edges of a spanning forest
are kept, and the squares of the other coefficients are added to the diagonal D of the multipliers. The resulting system
``(A A' + D) x = g`` is equivalent to ::

    [D   A] [x]   [g]
    [A' -I] [w] = [0]

which elimination from the leaves to the roots solves without fill-in. It loses no digits, because all terms of a pivot
have the same sign. If the graph is a forest, such as a path or a tree of implications, the preconditioner is exact.

Used by `newton.py`.
"""

from collections import namedtuple

import numpy as np

from .._core.jit import kernel
from .._numerics.components import representative

# Nodes are the multipliers, then the variables. `order` lists each node before its parent. `coefs` are the coefficients
# of the edges to the parents. A root is its own parent. `values` is scratch.
Forest = namedtuple("Forest", ["order", "parents", "coefs", "pivots", "values"])

_MIN_PIVOT = 1e-100  # smaller pivots are replaced by it, so that quotients are finite


@kernel
def _spanning_edges(dual, damping, wide, free, diagonal):
    """Select the edges of the spanning forest, those of inequalities with at most two variables first.

    Overwrites `diagonal`. For the other parameters see `build_forest`.

    Returns
    -------
    ends : int array of shape (n_edges, 2)
        The nodes of each edge.
    coefs : array of shape (n_edges,)
    """
    m, n_nodes = free.shape[0], diagonal.shape[0]
    roots = np.empty(n_nodes, np.int64)
    for i in range(n_nodes):
        roots[i] = i
    ends = np.empty((dual.row_vars.shape[0], 2), np.int64)
    coefs = np.empty(dual.row_vars.shape[0])
    n_edges = 0
    for is_long in (False, True):
        for k in range(m):
            if not free[k] or (dual.row_ptr[k + 1] - dual.row_ptr[k] > 2) != is_long:
                continue
            norm_squared, rest = 0.0, 0.0
            for entry in range(dual.row_ptr[k], dual.row_ptr[k + 1]):
                i, c = dual.row_vars[entry], dual.row_coefs[entry]
                norm_squared += c * c
                if c == 0.0 or not -wide < dual.u[i] < 1.0 + wide:
                    continue
                a = representative(roots, k)
                b = representative(roots, m + i)
                if a == b:
                    rest += c * c
                    continue
                roots[a] = b
                ends[n_edges, 0], ends[n_edges, 1], coefs[n_edges] = k, m + i, c
                n_edges += 1
            diagonal[k] = rest + damping * norm_squared
    for i in range(m, n_nodes):
        diagonal[i] = -1.0
    return ends[:n_edges], coefs[:n_edges]


@kernel
def _eliminate(ends, coefs, forest):
    """Remove the leaves one by one: set order, parents and coefficients, and eliminate each node from its parent."""
    n_nodes, n_listed = forest.order.shape[0], 0
    # The number of remaining edges of each node, and the exclusive or of their numbers: the number of a last one.
    degrees = np.zeros(n_nodes, np.int64)
    edges = np.zeros(n_nodes, np.int64)
    for e in range(ends.shape[0]):
        for side in range(2):
            degrees[ends[e, side]] += 1
            edges[ends[e, side]] ^= e
    for node in range(n_nodes):
        if degrees[node] <= 1:
            forest.order[n_listed] = node
            n_listed += 1
    for position in range(n_nodes):
        node = forest.order[position]
        if abs(forest.pivots[node]) < _MIN_PIVOT:
            forest.pivots[node] = _MIN_PIVOT
        parent, e = node, edges[node]
        if degrees[node] > 0:
            parent = ends[e, 0] if ends[e, 1] == node else ends[e, 1]
            forest.coefs[node] = coefs[e]
            forest.pivots[parent] -= coefs[e] * coefs[e] / forest.pivots[node]
            degrees[parent] -= 1
            edges[parent] ^= e
            if degrees[parent] == 1:
                forest.order[n_listed] = parent
                n_listed += 1
        forest.parents[node] = parent


@kernel
def build_forest(dual, damping, wide, free):
    """Factorise the system of a spanning forest of the free multipliers and variables.

    Parameters
    ----------
    dual : Dual
    damping : float
        Fraction of the diagonal of A A' that is added to it.
    wide : float
        Width by which the box of the variables exceeds the unit box on both sides.
    free : bool array of shape (n_multipliers,)

    Returns
    -------
    forest : Forest
    """
    n_nodes = free.shape[0] + dual.u.shape[0]
    diagonal = np.zeros(n_nodes)
    ends, coefs = _spanning_edges(dual, damping, wide, free, diagonal)
    forest = Forest(
        np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64), np.zeros(n_nodes), diagonal, np.empty(n_nodes)
    )
    _eliminate(ends, coefs, forest)
    return forest


@kernel
def solve_forest(forest, residual, out):
    """Solve the system for the multipliers, into `out`; the residual of multipliers that are not free must be 0."""
    m, values = residual.shape[0], forest.values
    for i in range(values.shape[0]):
        values[i] = residual[i] if i < m else 0.0
    for position in range(values.shape[0]):
        node = forest.order[position]
        values[node] /= forest.pivots[node]
        if forest.parents[node] != node:
            values[forest.parents[node]] -= forest.coefs[node] * values[node]
    for position in range(values.shape[0] - 1, -1, -1):
        node = forest.order[position]
        if forest.parents[node] != node:
            values[node] -= forest.coefs[node] / forest.pivots[node] * values[forest.parents[node]]
    for i in range(m):
        out[i] = values[i]
