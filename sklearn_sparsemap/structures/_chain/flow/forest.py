"""Forests of arcs, and the only flow that uses no other arcs and solves the equations on them.

An optimal flow needs no cycles of arcs, so its arcs from one step to the next form trees. Two vertices stand for each
node: one for the flow into it, and one for the flow out of it. Layer s has the arcs from step s - 1 to step s, the
out-vertices of step s - 1 and the in-vertices of step s. In a tree, one potential determines all others. So the
unknowns are a shift of each tree's potentials, one equation for each demands that as much flow enters the tree as
leaves it, and the system is block tridiagonal with a block for each layer. Layer 0 has one tree: its in-vertices of the
first step. Its equation demands one unit of flow.
"""

from collections import namedtuple

import numpy as np

from ...._core.jit import kernel
from ...._core.lanes import WIDTH, load, padded, store

# For each vertex: ``parent`` is its parent, `ROOT` or `ABSENT`; ``flow`` is the flow of the arc to the parent;
# ``degree`` is the number of its arcs; ``tree`` numbers the trees of a layer. ``order`` lists the vertices of a layer,
# parents before children, from the layer's first place on. For each layer: the number of its vertices and trees, and
# whether its trees have changed since they were grown. For each node (T P): ``on`` tells whether it has arcs, and ``u``
# is the flow through it. ``states`` (T P) lists the ``n_on`` states of each step that are on when the trees are grown.
_NAMES = "parent flow degree tree order potential n_vertices n_trees stale on u states n_on"
Forest = namedtuple("Forest", _NAMES.split())
ROOT, ABSENT = -1, -2
# The equations. Layer s has the unknowns from rows[s] on. From blocks[s] on, ``block`` has its symmetric block, of
# which the upper triangle is used, and from couplings[s] on, ``coupling`` has the block to its right, with padded rows.
System = namedtuple("System", ["rows", "blocks", "couplings", "block", "coupling", "right"])
# The least pivot. Pivots count vertices.
_LEAST_PIVOT = 1e-9


@kernel
def new_forest(n_steps, width):
    """Return a forest without nodes."""
    n = 2 * width * (n_steps + 1)
    parent, flow, degree = np.full(n, np.int64(ABSENT)), np.zeros(n), np.zeros(n, np.int64)
    tree, order, potential = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n)
    counts, n_trees, stale = np.zeros(n_steps, np.int64), np.ones(n_steps, np.int64), np.ones(n_steps, np.bool_)
    on, u = np.zeros(n_steps * width, np.bool_), np.zeros(n_steps * width)
    states, n_on = np.zeros(n_steps * width, np.int64), np.zeros(n_steps, np.int64)
    return Forest(parent, flow, degree, tree, order, potential, counts, n_trees, stale, on, u, states, n_on)


@kernel
def into(width, t):
    """Return the first in-vertex of step t."""
    return width * (2 * t + 1)


@kernel
def out_of(width, t):
    """Return the first out-vertex of step t."""
    return width * (2 * t + 2)


@kernel
def ends_of(width, s, x, y):
    """Return the states at the ends of the arc between two vertices of layer s."""
    first = 2 * width * s
    return min(x, y) - first, max(x, y) - first - width


@kernel
def switch_on(chain, forest, t, i):
    """Add a node without arcs."""
    forest.on[t * chain.width + i] = True
    forest.parent[into(chain.width, t) + i] = forest.parent[out_of(chain.width, t) + i] = ROOT
    forest.stale[t] = True
    if t + 1 < chain.n_steps:
        forest.stale[t + 1] = True


@kernel
def cut(forest, x):
    """Remove the arc from a vertex to its parent."""
    forest.degree[x] -= 1
    forest.degree[forest.parent[x]] -= 1
    forest.parent[x] = ROOT


@kernel
def link(forest, x, y):
    """Add an arc between two vertices of different trees: x becomes the root of its tree, and a child of y."""
    forest.degree[x] += 1
    forest.degree[y] += 1
    above = y
    while x >= 0:
        following = forest.parent[x]
        forest.parent[x] = above
        above, x = x, following


@kernel
def _grow_layer(chain, forest, s, first_child, sibling):
    """List the vertices of a layer, number its trees, and compute potentials from those of the roots."""
    size = 2 * chain.width
    first, end, n_trees = s * size, s * size, 0
    for x in range(size):
        first_child[x] = -1
    for x in range(size):
        above = forest.parent[first + x] - first
        if above >= 0:
            sibling[x], first_child[above] = first_child[above], x
    table = (s - 1) * chain.stride
    for root in range(first, first + size):
        if forest.parent[root] == ROOT:
            done = end
            forest.order[end], forest.tree[root] = root, n_trees
            end += 1
            while done < end:
                x = forest.order[done]
                child = first_child[x - first]
                while child >= 0:
                    y = first + child
                    i, j = ends_of(chain.width, s, x, y)
                    forest.potential[y] = -chain.gains[table + i * chain.width + j] - forest.potential[x]
                    forest.order[end], forest.tree[y] = y, n_trees
                    end += 1
                    child = sibling[child]
                done += 1
            n_trees += 1
    forest.n_vertices[s], forest.n_trees[s] = end - first, n_trees


@kernel
def _list_states(chain, forest, t):
    first, n = t * chain.width, 0
    for i in range(chain.n_states):
        if forest.on[first + i]:
            forest.states[first + n] = i
            n += 1
    forest.n_on[t] = n


@kernel
def grow(chain, forest):
    """Update the trees that have changed."""
    first_child, sibling = np.empty(2 * chain.width, np.int64), np.empty(2 * chain.width, np.int64)
    for s in range(1, chain.n_steps):
        if forest.stale[s]:
            _grow_layer(chain, forest, s, first_child, sibling)
            forest.stale[s] = False
            _list_states(chain, forest, s - 1)
            _list_states(chain, forest, s)


@kernel
def _new_system(n_trees):
    """Return the system of all layers, filled with zeros."""
    n_layers = n_trees.shape[0]
    rows, blocks, couplings = np.zeros((3, n_layers + 1), np.int64)
    for s in range(n_layers):
        rows[s + 1], blocks[s + 1] = rows[s] + n_trees[s], blocks[s] + n_trees[s] * padded(n_trees[s])
        if s + 1 < n_layers:
            couplings[s + 1] = couplings[s] + n_trees[s] * padded(n_trees[s + 1])
    block, coupling = np.zeros(blocks[n_layers]), np.zeros(couplings[n_layers - 1])
    return System(rows, blocks, couplings, block, coupling, np.zeros(rows[n_layers]))


@kernel
def _subtract_row(matrix, target, source, start, width, ratio):
    """Subtract a multiple of a row from another one, from column `start` on, or a few columns before it.

    Parameters
    ----------
    matrix : flat array
    target, source : int
        Beginnings of the two rows in the matrix.
    start, width : int
        First column, and number of columns.
    ratio : float
        Factor of the source.
    """
    for p in range(start // WIDTH * WIDTH, width, WIDTH):
        store(matrix, target + p, load(matrix, target + p) - load(matrix, source + p) * ratio)


@kernel
def _eliminate(system, n, m, s):
    """Eliminate the n unknowns of layer s; the next has m unknowns. The diagonal gets the inverse pivots."""
    width, next_width, block, coupling, right = padded(n), padded(m), system.block, system.coupling, system.right
    for k in range(n):
        row, row_coupling = system.blocks[s] + k * width, system.couplings[s] + k * next_width
        pivot, known = block[row + k], right[system.rows[s] + k]
        inverse = 1.0 / pivot if pivot > _LEAST_PIVOT else 0.0
        for i in range(k + 1, n):
            ratio = block[row + i] * inverse
            if ratio != 0.0:
                _subtract_row(block, system.blocks[s] + i * width, row, i, width, ratio)
                _subtract_row(coupling, system.couplings[s] + i * next_width, row_coupling, 0, next_width, ratio)
                right[system.rows[s] + i] -= ratio * known
        for i in range(m):
            ratio, below = coupling[row_coupling + i] * inverse, system.blocks[s + 1] + i * next_width
            if ratio != 0.0:
                for p in range(i // WIDTH * WIDTH, next_width, WIDTH):
                    store(block, below + p, load(block, below + p) - load(coupling, row_coupling + p) * ratio)
                right[system.rows[s + 1] + i] -= ratio * known
        block[row + k] = inverse


@kernel
def _substitute(system, n, m, s):
    """Solve for the unknowns of a layer, given those of the next; see `_eliminate`."""
    width, next_width, here, following = padded(n), padded(m), system.rows[s], system.rows[s + 1]
    for k in range(n - 1, -1, -1):
        value, row, row_coupling = (
            system.right[here + k],
            system.blocks[s] + k * width,
            system.couplings[s] + k * next_width,
        )
        for j in range(k + 1, n):
            value -= system.block[row + j] * system.right[here + j]
        for j in range(m):
            value -= system.coupling[row_coupling + j] * system.right[following + j]
        system.right[here + k] = value * system.block[row + k]


@kernel
def settle(chain, forest, total):
    """Solve the equations: shift the potentials of all trees, and compute the flow through nodes and arcs.

    `total` is the flow through each step: 1, or 0 for a direction.
    """
    n_steps, width, n_trees = chain.n_steps, chain.width, forest.n_trees
    system = _new_system(n_trees)
    rows, blocks, right = system.rows, system.blocks, system.right
    right[0] = total
    for t in range(n_steps):
        has_next, n = t < n_steps - 1, n_trees[t]
        m = n_trees[t + 1] if has_next else 0
        for k in range(t * width, t * width + forest.n_on[t]):
            i = forest.states[k]
            x, y = into(width, t) + i, out_of(width, t) + i
            u, a = chain.scores[t * width + i] - forest.potential[x] - forest.potential[y], forest.tree[x]
            forest.u[t * width + i] = u
            system.block[blocks[t] + a * padded(n) + a] += 1.0
            right[rows[t] + a] -= u
            if has_next:
                b = forest.tree[y]
                system.block[blocks[t + 1] + b * padded(m) + b] += 1.0
                right[rows[t + 1] + b] += u
                system.coupling[system.couplings[t] + a * padded(m) + b] -= 1.0
        _eliminate(system, n, m, t)
    for s in range(n_steps - 1, -1, -1):
        _substitute(system, n_trees[s], n_trees[s + 1] if s < n_steps - 1 else 0, s)
    for i in range(width):
        # All in-vertices of the first step have one potential, also those of nodes that are not on.
        forest.potential[width + i] -= right[0]
    for t in range(n_steps):
        for k in range(t * width, t * width + forest.n_on[t]):
            i = forest.states[k]
            node, x, y = t * width + i, into(width, t) + i, out_of(width, t) + i
            shift = right[rows[t] + forest.tree[x]]
            forest.u[node] += shift
            if t > 0:
                forest.potential[x] -= shift
            if t < n_steps - 1:
                shift = right[rows[t + 1] + forest.tree[y]]
                forest.u[node] -= shift
                forest.potential[y] += shift
    _set_flows(chain, forest)


@kernel
def _set_flows(chain, forest):
    """Compute the flow of all arcs from the flow through the nodes, from the leaves of the trees on."""
    width = chain.width
    excess = np.empty(2 * width)
    for s in range(1, chain.n_steps):
        first = 2 * width * s
        for k in range(first, first + forest.n_vertices[s]):
            x = forest.order[k] - first
            excess[x] = forest.u[(s - 1) * width + x] if x < width else -forest.u[s * width + x - width]
        for k in range(first + forest.n_vertices[s] - 1, first - 1, -1):
            x = forest.order[k]
            if forest.parent[x] >= 0:
                forest.flow[x] = excess[x - first] if x - first < width else -excess[x - first]
                excess[forest.parent[x] - first] += excess[x - first]
