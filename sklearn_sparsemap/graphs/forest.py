"""A preconditioner for Newton's system on graphs with long paths: the system of a spanning forest, solved exactly.

Multipliers and free variables are the nodes of a graph whose edges are the coefficients. Those of a spanning forest
are kept, and the squares of the others go onto the diagonal D of the multipliers. The system ``(A A' + D) x = g`` of
what is kept is that of ::

    [D   A] [x]   [g]
    [A' -I] [w] = [0]

which elimination from the leaves to the roots solves without fill-in, nor loss of digits, for all it adds to a pivot
has the pivot's sign. Where the graph is a forest, as paths and trees of implications are, this is the system itself.
"""

from collections import namedtuple

import numpy as np

from .._core.jit import kernel
from ..numerics.components import representative

# Nodes are the multipliers, then the variables. `order` lists them from the roots on; the edge to the parent of a node
# has the coefficient `coefs`. A root is its own parent. `values` is scratch.
Forest = namedtuple("Forest", ["order", "parents", "coefs", "pivots", "values"])

# No pivot is smaller: what is divided by it is finite.
_LEAST_PIVOT = 1e-100


@kernel
def build_forest(dual, damping, wide, free):
    """Factorise the spanning forest of the free multipliers and variables; short inequalities come first."""
    n, m = dual.u.shape[0], free.shape[0]
    n_nodes = m + n
    roots, degrees, diagonal = np.empty(n_nodes, np.int64), np.zeros(n_nodes + 1, np.int64), np.zeros(n_nodes)
    for i in range(n_nodes):
        roots[i] = i
    # Short inequalities are better kept whole, so long ones come last.
    order, n_ordered = np.empty(m, np.int64), np.int64(0)
    for is_long in (False, True):
        for k in range(m):
            if (dual.row_ptr[k + 1] - dual.row_ptr[k] > 2) == is_long:
                order[n_ordered] = k
                n_ordered += 1
    ends, coefs = np.empty((dual.row_vars.shape[0], 2), np.int64), np.empty(dual.row_vars.shape[0])
    n_edges = 0
    for multiplier in order:
        if not free[multiplier]:
            continue
        norm_squared, rest = 0.0, 0.0
        for entry in range(dual.row_ptr[multiplier], dual.row_ptr[multiplier + 1]):
            i, c = dual.row_vars[entry], dual.row_coefs[entry]
            norm_squared += c * c
            if c == 0.0 or not -wide < dual.u[i] < 1.0 + wide:
                continue
            a, b = representative(roots, multiplier), representative(roots, m + i)
            if a == b:
                rest += c * c
                continue
            roots[a] = b
            ends[n_edges, 0], ends[n_edges, 1], coefs[n_edges] = multiplier, m + i, c
            degrees[multiplier] += 1
            degrees[m + i] += 1
            n_edges += 1
        diagonal[multiplier] = rest + damping * norm_squared
    for i in range(n):
        diagonal[m + i] = -1.0
    # Edges by node.
    first = np.zeros(n_nodes + 1, np.int64)
    for i in range(n_nodes):
        first[i + 1] = first[i] + degrees[i]
    edges, filled = np.empty(2 * n_edges, np.int64), first[:-1].copy()
    for e in range(n_edges):
        for side in range(2):
            edges[filled[ends[e, side]]] = e
            filled[ends[e, side]] += 1
    forest = Forest(
        np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64), np.zeros(n_nodes), diagonal, np.empty(n_nodes)
    )
    for i in range(n_nodes):
        forest.parents[i] = -1
    done, seen = 0, 0
    for root in range(n_nodes):
        if forest.parents[root] >= 0:
            continue
        forest.parents[root] = root
        forest.order[seen] = root
        seen += 1
        while done < seen:
            node = forest.order[done]
            done += 1
            for place in range(first[node], first[node + 1]):
                e = edges[place]
                other = ends[e, 0] if ends[e, 1] == node else ends[e, 1]
                if forest.parents[other] < 0:
                    forest.parents[other], forest.coefs[other] = node, coefs[e]
                    forest.order[seen] = other
                    seen += 1
    for place in range(n_nodes - 1, -1, -1):
        node = forest.order[place]
        if abs(forest.pivots[node]) < _LEAST_PIVOT:
            forest.pivots[node] = _LEAST_PIVOT
        if forest.parents[node] != node:
            c = forest.coefs[node]
            forest.pivots[forest.parents[node]] -= c * c / forest.pivots[node]
    return forest


@kernel
def solve_forest(forest, residual, out):
    """Solve the forest's system for the multipliers, into `out`; those that are not free must have no residual."""
    m, values = residual.shape[0], forest.values
    for i in range(values.shape[0]):
        values[i] = residual[i] if i < m else 0.0
    for place in range(values.shape[0] - 1, -1, -1):
        node = forest.order[place]
        values[node] /= forest.pivots[node]
        if forest.parents[node] != node:
            values[forest.parents[node]] -= forest.coefs[node] * values[node]
    for place in range(values.shape[0]):
        node = forest.order[place]
        if forest.parents[node] != node:
            values[node] -= forest.coefs[node] / forest.pivots[node] * values[forest.parents[node]]
    for i in range(m):
        out[i] = values[i]
