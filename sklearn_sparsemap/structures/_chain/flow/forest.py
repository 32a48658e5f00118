"""Forests of arcs, and the only flow that uses no other arcs and solves the equations on them.

An optimal flow needs no cycles of arcs, so its arcs from one step to the next form trees. Two vertices stand for each
node: one for the flow into it, and one for the flow out of it. Layer s has the arcs from step s - 1 to step s, the
out-vertices of step s - 1 and the in-vertices of step s. In a tree, one potential determines all others. So the
unknowns are a shift of each tree's potentials, one equation for each demands that as much flow enters the tree as
leaves it, and the system is block tridiagonal with a block for each layer. Layer 0 has one tree: its in-vertices of the
first step. Its equation demands one unit of flow.

Used by `pivots.py`, `pricing.py`, `solver.py` and `start.py`.
"""

from collections import namedtuple

import numpy as np

from ...._core.jit import kernel
from ...._core.lanes import WIDTH, load, padded, spread, store
from ...._core.lanes import total as total_of

# For each vertex: ``parent`` is its parent, `ROOT` or `ABSENT`; ``flow`` is the flow of the arc to the parent;
# ``degree`` is the number of its arcs; ``tree`` numbers the trees of a layer. ``order`` lists the vertices of a layer,
# parents before children, from the layer's first place on. For each layer: the number of its vertices and trees, and
# whether its trees have changed since they were grown. For each node (T P): ``on`` tells whether it has arcs, and ``u``
# is the flow through it. ``states`` (T P) lists the ``n_on`` states of each step that are on when the trees are grown.
_NAMES = "parent flow degree tree order potential n_vertices n_trees stale on u states n_on"
Forest = namedtuple("Forest", _NAMES.split())
ROOT, ABSENT = -1, -2
# The equations. Layer s has n unknowns, the shifts of its trees, and the next layer m. From blocks[s] on, ``block`` has
# n rows: the block on the diagonal, padded to P(n) numbers, and the negative block to its right and the right side,
# padded to P(m + 1) numbers. From rows[s] on, ``shift`` has the n shifts, and a 1. The last layer is empty.
System = namedtuple("System", ["rows", "blocks", "block", "shift"])
# The least pivot. Pivots count vertices.
_LEAST_PIVOT = 1e-9


@kernel
def new_forest(n_steps, width):
    """Return a forest without nodes."""
    n = 2 * width * (n_steps + 1)
    parent = np.full(n, np.int64(ABSENT))
    flow = np.zeros(n)
    degree = np.zeros(n, np.int64)
    tree = np.zeros(n, np.int64)
    order = np.zeros(n, np.int64)
    potential = np.zeros(n)
    counts = np.zeros(n_steps, np.int64)
    n_trees = np.ones(n_steps, np.int64)
    stale = np.ones(n_steps, np.bool_)
    on = np.zeros(n_steps * width, np.bool_)
    u = np.zeros(n_steps * width)
    states = np.zeros(n_steps * width, np.int64)
    n_on = np.zeros(n_steps, np.int64)
    return Forest(parent, flow, degree, tree, order, potential, counts, n_trees, stale, on, u, states, n_on)


@kernel
def clear(forest):
    """Remove all nodes."""
    for x in range(forest.parent.shape[0]):
        forest.parent[x], forest.degree[x] = ABSENT, 0
        forest.flow[x] = forest.potential[x] = 0.0
    for node in range(forest.on.shape[0]):
        forest.on[node], forest.u[node] = False, 0.0
    for t in range(forest.n_on.shape[0]):
        forest.n_vertices[t] = forest.n_on[t] = 0
        forest.n_trees[t], forest.stale[t] = 1, True


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
def _add_children(forest, t, vertices, first, first_child, sibling):
    """Add the vertices of a step's nodes to the lists of their parents' children; see `_grow_layer`.

    Parameters
    ----------
    forest : Forest
    t : int
        The step.
    vertices : int
        The first vertex of the step in the layer.
    first : int
        The first vertex of the layer.
    first_child, sibling : int arrays of the size of a layer
        The first child of each vertex, and the next child of the same parent; -1 if there is none.
    """
    width = first_child.shape[0] // 2
    for k in range(t * width, t * width + forest.n_on[t]):
        x = vertices + forest.states[k]
        above = forest.parent[x] - first
        if above >= 0:
            sibling[x - first], first_child[above] = first_child[above], x - first


@kernel
def _number_trees(chain, forest, s, t, vertices, first_child, sibling):
    """List the trees of a layer whose roots are among the vertices of a step; see `_add_children`."""
    first, table = 2 * chain.width * s, (s - 1) * chain.stride
    end, n_trees = first + forest.n_vertices[s], forest.n_trees[s]
    for k in range(t * chain.width, t * chain.width + forest.n_on[t]):
        root = vertices + forest.states[k]
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
def _grow_layer(chain, forest, s, first_child, sibling):
    """List the vertices of a layer, number its trees, and compute potentials from those of the roots."""
    width, first = chain.width, 2 * chain.width * s
    for x in range(2 * width):
        first_child[x] = -1
    _add_children(forest, s - 1, out_of(width, s - 1), first, first_child, sibling)
    _add_children(forest, s, into(width, s), first, first_child, sibling)
    forest.n_vertices[s] = forest.n_trees[s] = 0
    _number_trees(chain, forest, s, s - 1, out_of(width, s - 1), first_child, sibling)
    _number_trees(chain, forest, s, s, into(width, s), first_child, sibling)


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
    first_child = np.empty(2 * chain.width, np.int64)
    sibling = np.empty(2 * chain.width, np.int64)
    for s in range(1, chain.n_steps):
        if forest.stale[s]:
            _list_states(chain, forest, s - 1)
            _list_states(chain, forest, s)
            _grow_layer(chain, forest, s, first_child, sibling)
            forest.stale[s] = False


@kernel
def _new_system(n_trees):
    """Return the system of all layers, filled with zeros."""
    n_layers = n_trees.shape[0]
    rows = np.zeros(n_layers + 2, np.int64)
    blocks = np.zeros(n_layers + 1, np.int64)
    for s in range(n_layers):
        m = n_trees[s + 1] if s + 1 < n_layers else 0
        rows[s + 1] = rows[s] + padded(n_trees[s] + 1)
        blocks[s + 1] = blocks[s] + n_trees[s] * (padded(n_trees[s]) + padded(m + 1))
    rows[n_layers + 1] = rows[n_layers] + padded(1)
    return System(rows, blocks, np.zeros(blocks[n_layers]), np.zeros(rows[n_layers + 1]))


@kernel
def _reduce(block, first, n, width, column):
    """Multiply `n` rows of a flat matrix with the inverse of their first `n` columns, positive definite (Gauss-Jordan).

    Rows of too small pivots become zero.

    Parameters
    ----------
    block : flat array
        The rows begin at `first` and have `width` numbers.
    first, n, width : int
    column : array of n numbers
        Scratch.
    """
    for k in range(n):
        for i in range(n):
            column[i] = block[first + i * width + k]
        inverse = 1.0 / column[k] if column[k] > _LEAST_PIVOT else 0.0
        column[k] = 0.0
        for p in range((k + 1) // WIDTH * WIDTH, width, WIDTH):
            scaled = load(block, first + k * width + p) * inverse
            for i in range(n):
                place = first + i * width + p
                store(block, place, load(block, place) - scaled * column[i])
            store(block, first + k * width + p, scaled)


@kernel
def _substitute(system, t, n, m):
    """Compute the n shifts of layer t from the m of the next."""
    outer = padded(m + 1)
    row = system.blocks[t] + padded(n)
    for i in range(n):
        value = spread(0.0)
        for p in range(0, outer, WIDTH):
            value = value + load(system.block, row + p) * load(system.shift, system.rows[t + 1] + p)
        system.shift[system.rows[t] + i] = total_of(value)
        row += padded(n) + outer
    system.shift[system.rows[t] + n] = 1.0


@kernel
def _solve_equations(chain, forest, total):
    """Write the reduced scores of the nodes into `u`, and return the system with the shifts; see `solve_forest`."""
    n_steps, width, n_trees = chain.n_steps, chain.width, forest.n_trees
    system = _new_system(n_trees)
    most = np.int64(0)
    blocks, block = system.blocks, system.block
    for t in range(n_steps):
        most = max(most, n_trees[t])
    column = np.empty(most)
    n = n_trees[0]
    m = n_trees[1] if n_steps > 1 else 0
    block[padded(n) + m] = total
    for t in range(n_steps):
        n = n_trees[t]
        has_next = t + 1 < n_steps
        m = n_trees[t + 1] if has_next else 0
        following = n_trees[t + 2] if t + 2 < n_steps else 0
        inner = padded(n)
        stride = padded(n) + padded(m + 1)
        next_stride = padded(m) + padded(following + 1)
        for k in range(t * width, t * width + forest.n_on[t]):
            i = forest.states[k]
            x = into(width, t) + i
            y = out_of(width, t) + i
            u, a = chain.scores[t * width + i] - forest.potential[x] - forest.potential[y], forest.tree[x]
            forest.u[t * width + i] = u
            row = blocks[t] + a * stride
            block[row + a] += 1.0
            block[row + inner + m] -= u
            if has_next:
                b = forest.tree[y]
                block[row + inner + b] += 1.0
                row = blocks[t + 1] + b * next_stride
                block[row + b] += 1.0
                block[row + padded(m) + following] += u
        _reduce(block, blocks[t], n, stride, column)
        if has_next:
            for k in range(t * width, t * width + forest.n_on[t]):
                i = forest.states[k]
                a = forest.tree[into(width, t) + i]
                b = forest.tree[out_of(width, t) + i]
                source, row = blocks[t] + a * stride + inner, blocks[t + 1] + b * next_stride
                for p in range(0, padded(m), WIDTH):
                    store(block, row + p, load(block, row + p) - load(block, source + p))
                block[row + padded(m) + following] += block[source + m]
    system.shift[system.rows[n_steps]] = 1.0
    for t in range(n_steps - 1, -1, -1):
        _substitute(system, t, n_trees[t], n_trees[t + 1] if t + 1 < n_steps else 0)
    return system


@kernel
def solve_forest(chain, forest, total):
    """Solve the equations: shift the potentials of all trees, and compute the flow through nodes and arcs.

    `total` is the flow through each step: 1, or 0 for a direction.
    """
    n_steps = chain.n_steps
    width = chain.width
    system = _solve_equations(chain, forest, total)
    rows, shift = system.rows, system.shift
    for i in range(width):
        # All in-vertices of the first step have one potential, also those of nodes that are not on.
        forest.potential[width + i] -= shift[0]
    for t in range(n_steps):
        for k in range(t * width, t * width + forest.n_on[t]):
            i = forest.states[k]
            node = t * width + i
            x = into(width, t) + i
            y = out_of(width, t) + i
            forest.u[node] += shift[rows[t] + forest.tree[x]]
            if t > 0:
                forest.potential[x] -= shift[rows[t] + forest.tree[x]]
            if t < n_steps - 1:
                forest.u[node] -= shift[rows[t + 1] + forest.tree[y]]
                forest.potential[y] += shift[rows[t + 1] + forest.tree[y]]
    _set_flows(chain, forest)


@kernel
def _set_flows(chain, forest):
    """Compute the flow of all arcs from the flow through the nodes, from the leaves of the trees on."""
    width = chain.width
    # The last number collects the flow at roots.
    excess = np.empty(2 * width + 1)
    for s in range(1, chain.n_steps):
        first, before, here = 2 * width * s, (s - 1) * width, s * width
        for k in range(before, before + forest.n_on[s - 1]):
            excess[forest.states[k]] = forest.u[before + forest.states[k]]
        for k in range(here, here + forest.n_on[s]):
            excess[width + forest.states[k]] = -forest.u[here + forest.states[k]]
        for k in range(first + forest.n_vertices[s] - 1, first - 1, -1):
            x = forest.order[k]
            own, above = excess[x - first], forest.parent[x] - first
            forest.flow[x] = own if x - first < width else -own
            excess[above if above >= 0 else 2 * width] += own
