"""Newton's system in the messages, restricted to values and cells in use; there are few if the solution is sparse.

Let A_e be the 0/1 matrix of the positive cells of an edge, and S_i the set of values of a node with positive marginals.
Then the Hessian is ``sum_e sigma G_e + sum_i C_i' J_i C_i``, where ::

    G_e = [ diag(A 1)   A          ]
          [ A'          diag(A' 1) ]

C_i sums the messages to node i, and J_i projects onto the directions over S_i that sum to zero. The edges are
eliminated one by one: ``d = -M (g + C' w)`` with ``M_e = (sigma G_e + damping)^-1``. The remaining system is for the
change ``w = J C d`` of the marginals, and has ``|S_i| - 1`` unknowns for each node.

Used by `augmented.py` and `derivative.py`.
"""

from collections import namedtuple

import numpy as np

from ..._core.jit import kernel
from ..._numerics.cholesky import dot

# `counts[e]` are the numbers of values in use of the first and of the second node of edge e. `local` lists these values
# as the offsets of their messages within messages[e]:messages[e + 1], those of the first node first. Their block of M,
# row by row, begins at ``4 (cells[e] - cells[0])`` of `inverses`. ``values[nodes[i]:]`` lists the `sizes[i]` values in
# use of node i. The changes of all but the last are unknowns, which begin at ``unknowns[i]``. Row r of the system's
# Cholesky factor has the columns from ``left[r]`` to r and begins at ``rows[r]`` of `factor`.
System = namedtuple(
    "System",
    [
        *("counts", "local", "inverses", "sizes", "values", "unknowns", "left", "rows", "factor", "solution"),
    ],
)


@kernel
def _count_values(tables, u, sizes, values):
    """List the values of each node that are in use."""
    for i in range(sizes.shape[0]):
        start, count = tables.nodes[i], 0
        for x in range(tables.nodes[i + 1] - start):
            if u[start + x] > 0.0:
                values[start + count] = x
                count += 1
        sizes[i] = count


@kernel
def _number_unknowns(tables, sizes, unknowns, left):
    """Number the unknowns by the nodes' positions; return their number, and the number of entries of the factor."""
    n_unknowns, n_entries = 0, 0
    for position in range(sizes.shape[0]):
        i = tables.order[position]
        unknowns[i] = n_unknowns
        from_column = unknowns[tables.order[tables.reach[position]]]
        for _ in range(sizes[i] - 1):
            left[n_unknowns] = from_column
            n_unknowns += 1
            n_entries += n_unknowns - from_column
    return n_unknowns, n_entries


@kernel
def _find_local(joint, u, first, second, n, local, counts):
    """List the values of both nodes of an edge that have a positive marginal or cell.

    Parameters
    ----------
    joint : array of shape (n * n,)
        Joint marginals of the edge.
    u : array of shape (n_variables,)
    first, second : int
        The first variables of the two nodes.
    n : int
        Number of values.
    local : int array
        Gets the values, as in `System`.
    counts : int array of shape (2,)
        Gets their numbers.
    """
    n_first, n_second = 0, 0
    for x in range(n):
        used = u[first + x] > 0.0
        for y in range(n):
            used |= joint[x * n + y] > 0.0
        if used:
            local[n_first] = x
            n_first += 1
    for y in range(n):
        used = u[second + y] > 0.0
        for x in range(n):
            used |= joint[x * n + y] > 0.0
        if used:
            local[n_first + n_second] = n + y
            n_second += 1
    counts[0], counts[1] = n_first, n_second


@kernel
def _eliminate_first(joint, n, local, counts, sigma, damping, inverse, work):
    """Eliminate the first node's values from ``sigma G + damping``: D is their diagonal, W is D^-1 sigma A.

    Parameters
    ----------
    joint, n, local, counts, sigma, damping
        See `_invert`.
    inverse : array
        The diagonal of the first node's values gets that of D^-1.
    work : array of shape (2, n, n)
        Gets W, and the lower triangle of the Schur complement of the second node's values.
    """
    n_first, n_second = counts[0], counts[1]
    n_local, ratio, schur = n_first + n_second, work[0], work[1]
    for q in range(n_second):
        for p in range(q + 1):
            schur[q, p] = 0.0
        schur[q, q] = damping
    for p in range(n_first):
        total = damping
        for q in range(n_second):
            on = joint[local[p] * n + local[n_first + q] - n] > 0.0
            ratio[p, q] = sigma if on else 0.0
            total += ratio[p, q]
        inverse[p * n_local + p] = 1.0 / total
        for q in range(n_second):
            if ratio[p, q] > 0.0:
                schur[q, q] += sigma
                for c in range(q + 1):
                    if ratio[p, c] > 0.0:
                        schur[q, c] -= sigma * sigma / total
        for q in range(n_second):
            ratio[p, q] /= total


@kernel
def _invert_factor(schur, n, damping):
    """Overwrite the lower triangle of an n x n matrix with the inverse of its Cholesky factor."""
    for q in range(n):
        for c in range(q + 1):
            left = schur[q, c]
            for k in range(c):
                left -= schur[q, k] * schur[c, k]
            if c < q:
                schur[q, c] = left / schur[c, c]
            else:
                schur[q, q] = np.sqrt(max(left, 1e-3 * damping))
    for c in range(n):
        schur[c, c] = 1.0 / schur[c, c]
        for q in range(c + 1, n):
            left = 0.0
            for k in range(c, q):
                left -= schur[q, k] * schur[k, c]
            schur[q, c] = left / schur[q, q]


@kernel
def _invert(joint, n, local, counts, sigma, damping, inverse, work):
    """Set `inverse` to the inverse of ``sigma G + damping`` of an edge, on its values in use.

    Parameters
    ----------
    joint, n, local, counts
        See `_find_local`.
    sigma, damping : float
    inverse : array
        Overwritten, row by row.
    work : array of shape (2, n, n)
        Scratch.
    """
    n_first, n_second = counts[0], counts[1]
    n_local, ratio, schur = n_first + n_second, work[0], work[1]
    _eliminate_first(joint, n, local, counts, sigma, damping, inverse, work)
    _invert_factor(schur, n_second, damping)
    for q in range(n_second):
        for c in range(q + 1):
            total = 0.0
            for k in range(q, n_second):
                total += schur[k, q] * schur[k, c]
            inverse[(n_first + q) * n_local + n_first + c] = total
            inverse[(n_first + c) * n_local + n_first + q] = total
    for p in range(n_first):
        for q in range(n_second):
            total = 0.0
            for k in range(n_second):
                total -= ratio[p, k] * inverse[(n_first + k) * n_local + n_first + q]
            inverse[p * n_local + n_first + q] = total
            inverse[(n_first + q) * n_local + p] = total
    for p in range(n_first):
        for c in range(p + 1):
            total = inverse[p * n_local + p] if c == p else 0.0
            for k in range(n_second):
                total -= inverse[p * n_local + n_first + k] * ratio[c, k]
            inverse[p * n_local + c] = total
            inverse[c * n_local + p] = total


@kernel
def _positions(local, begin, shift, values, count, positions):
    """Find the values of a node among the local values of an edge.

    Parameters
    ----------
    local : int array
        See `System`.
    begin : int
        First local value of the node.
    shift : int
        Offset of the node's messages.
    values : int array
        Values of the node.
    count : int
        Number of values.
    positions : int array
        Gets their positions in `local`.
    """
    k = begin
    for p in range(count):
        while local[k] - shift != values[p]:
            k += 1
        positions[p] = k


@kernel
def _add_block(system, inverse, n_local, i, j, at_i, at_j):
    """Add an edge's part of the system to the block of nodes i (rows) and j (columns).

    Parameters
    ----------
    system : System
    inverse : array
        See `_invert`.
    n_local : int
        Number of local values.
    i, j : int
    at_i, at_j : int arrays
        Positions of the nodes' values; see `_positions`.
    """
    m_i, m_j = system.sizes[i] - 1, system.sizes[j] - 1
    last_i, last_j = at_i[m_i] * n_local, at_j[m_j]
    for p in range(m_i):
        row = system.unknowns[i] + p
        begin, at = system.rows[row] - system.left[row], at_i[p] * n_local
        base = inverse[last_i + last_j] - inverse[at + last_j]
        for q in range(m_j if i != j else p + 1):
            system.factor[begin + system.unknowns[j] + q] += inverse[at + at_j[q]] - inverse[last_i + at_j[q]] + base


@kernel
def _factorise(system, n_unknowns):
    """Replace the system by its Cholesky factor."""
    factor, rows, left = system.factor, system.rows, system.left
    for r in range(n_unknowns):
        begin = rows[r] - left[r]
        for c in range(left[r], r + 1):
            from_column = max(left[r], left[c])
            at = rows[c] - left[c]
            total = factor[begin + c] - dot(factor[begin + from_column : begin + c], factor[at + from_column : at + c])
            factor[begin + c] = total / factor[at + c] if c < r else np.sqrt(max(total, 1e-12))


@kernel
def _solve_factor(system, n_unknowns, x):
    """Overwrite `x` by the system's solution."""
    factor, rows, left = system.factor, system.rows, system.left
    for r in range(n_unknowns):
        begin = rows[r] - left[r]
        x[r] = (x[r] - dot(factor[begin + left[r] : begin + r], x[left[r] : r])) / factor[begin + r]
    for r in range(n_unknowns - 1, -1, -1):
        begin = rows[r] - left[r]
        x[r] /= factor[begin + r]
        for c in range(left[r], r):
            x[c] -= factor[begin + c] * x[r]


@kernel
def build_system(tables, joint, u, sigma, damping):
    """Factorise Newton's system on the positive entries of `joint` and `u`."""
    n_nodes, n_edges, n = tables.order.shape[0], tables.ends.shape[0], u.shape[0]
    sizes = np.empty(n_nodes, np.int64)
    values = np.empty(n, np.int64)
    unknowns = np.empty(n_nodes, np.int64)
    left = np.empty(n, np.int64)
    _count_values(tables, u, sizes, values)
    n_unknowns, n_entries = _number_unknowns(tables, sizes, unknowns, left)
    longest = 0
    for i in range(n_nodes):
        longest = max(longest, tables.nodes[i + 1] - tables.nodes[i])
    system = System(
        np.empty((n_edges, 2), np.int64),
        np.empty(tables.messages[-1], np.int64),
        np.empty(4 * (tables.cells[-1] - tables.cells[0])),
        sizes,
        values,
        unknowns,
        left[:n_unknowns],
        np.empty(n_unknowns, np.int64),
        np.zeros(n_entries),
        np.empty(n_unknowns),
    )
    begin = 0
    for r in range(n_unknowns):
        system.rows[r] = begin
        begin += r + 1 - left[r]
    for i in range(n_nodes):
        for p in range(sizes[i] - 1):
            row = unknowns[i] + p
            for q in range(p + 1):
                system.factor[system.rows[row] - left[row] + unknowns[i] + q] = 2.0 if p == q else 1.0
    tables_work = np.empty((2, longest, longest))
    at_i = np.empty(longest, np.int64)
    at_j = np.empty(longest, np.int64)
    for e in range(n_edges):
        start, n = tables.messages[e], (tables.messages[e + 1] - tables.messages[e]) // 2
        i, j, local, counts = tables.ends[e, 0], tables.ends[e, 1], system.local[start:], system.counts[e]
        table = joint[tables.cells[e] : tables.cells[e + 1]]
        _find_local(table, u, tables.nodes[i], tables.nodes[j], n, local, counts)
        inverse = system.inverses[4 * (tables.cells[e] - tables.cells[0]) :]
        _invert(table, n, local, counts, sigma, damping, inverse, tables_work)
        n_local = counts[0] + counts[1]
        _positions(local, 0, 0, values[tables.nodes[i] :], sizes[i], at_i)
        _positions(local, counts[0], n, values[tables.nodes[j] :], sizes[j], at_j)
        _add_block(system, inverse, n_local, i, i, at_i, at_i)
        _add_block(system, inverse, n_local, j, j, at_j, at_j)
        if tables.positions[i] > tables.positions[j]:
            _add_block(system, inverse, n_local, i, j, at_i, at_j)
        else:
            _add_block(system, inverse, n_local, j, i, at_j, at_i)
    _factorise(system, n_unknowns)
    return system


@kernel
def _multiply(system, tables, e, vector, product):
    """Multiply the local entries of an edge's messages with M, into the same entries of `product`."""
    start, local = tables.messages[e], system.local[tables.messages[e] :]
    n_local = system.counts[e, 0] + system.counts[e, 1]
    inverse = system.inverses[4 * (tables.cells[e] - tables.cells[0]) :]
    for p in range(n_local):
        total = 0.0
        for q in range(n_local):
            total += inverse[p * n_local + q] * vector[start + local[q]]
        product[start + local[p]] = total


@kernel
def _gather(tables, system, vector, messages, x):
    """Multiply the messages of all edges with M, and subtract the products, as changes of the unknowns, from `x`."""
    for e in range(tables.ends.shape[0]):
        _multiply(system, tables, e, vector, messages)
        start, n = tables.messages[e], (tables.messages[e + 1] - tables.messages[e]) // 2
        for side in range(2):
            i, shift = tables.ends[e, side], start + side * n
            first, last = tables.nodes[i], system.sizes[i] - 1
            for p in range(last):
                x[system.unknowns[i] + p] -= (
                    messages[shift + system.values[first + p]] - messages[shift + system.values[first + last]]
                )


@kernel
def _spread(tables, system, x, w):
    """Set `w` to the change of the marginals for the unknowns `x`."""
    w[:] = 0.0
    for i in range(system.sizes.shape[0]):
        first, last = tables.nodes[i], system.sizes[i] - 1
        for p in range(last):
            change = x[system.unknowns[i] + p]
            w[first + system.values[first + p]] = change
            w[first + system.values[first + last]] -= change


@kernel
def solve_system(tables, system, gradient, w, direction, scratch):
    """Solve ``H direction = -gradient``.

    Parameters
    ----------
    tables : TableArrays
    system : System
    gradient, direction : arrays of shape (n_messages,)
    w : array of shape (n_variables,)
        Gets the change of the marginals.
    scratch : array of shape (n_messages,)
    """
    n_unknowns, n_edges = system.solution.shape[0], tables.ends.shape[0]
    x = system.solution
    x[:] = 0.0
    _gather(tables, system, gradient, direction, x)
    _solve_factor(system, n_unknowns, x)
    _spread(tables, system, x, w)
    for k in range(direction.shape[0]):
        direction[k] = 0.0
        scratch[k] = -gradient[k] - w[tables.values[k]]
    for e in range(n_edges):
        _multiply(system, tables, e, scratch, direction)
