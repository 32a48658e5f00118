"""Messages to start from: a few sweeps of the linear programme's coordinate ascent, edge by edge [1]_.

.. [1] Globerson and Jaakkola. Fixing Max-Product: Convergent Message Passing Algorithms for MAP LP-Relaxations.
   NeurIPS 2007.
"""

import numpy as np

from ..._core.jit import kernel


@kernel
def sweep_messages(tables, scores, additional, state, n_sweeps):
    """Set the messages of the state; those of edges whose table is -inf in a whole line stay finite."""
    messages, z = state.messages, state.z
    n_edges = tables.ends.shape[0]
    for i in range(z.shape[0]):
        z[i] = scores[i]
    messages[:] = 0.0
    for sweep in range(n_sweeps):
        for step in range(n_edges):
            e = step if sweep % 2 == 0 else n_edges - 1 - step
            start = tables.messages[e]
            n = (tables.messages[e + 1] - start) // 2
            first, second = tables.nodes[tables.ends[e, 0]], tables.nodes[tables.ends[e, 1]]
            to_first, to_second = messages[start : start + n], messages[start + n : start + 2 * n]
            for x in range(n):
                z[first + x] -= to_first[x]
                z[second + x] -= to_second[x]
                to_second[x] = -np.inf
            for x in range(n):
                best = -np.inf
                row = tables.cells[e] + n * x
                for y in range(n):
                    best = max(best, additional[row + y] + z[second + y])
                    to_second[y] = max(to_second[y], additional[row + y] + z[first + x])
                to_first[x] = 0.5 * (best - z[first + x])
            for x in range(n):
                to_second[x] = 0.5 * (to_second[x] - z[second + x])
                if not abs(to_first[x]) < 1e100:
                    to_first[x] = 0.0
                if not abs(to_second[x]) < 1e100:
                    to_second[x] = 0.0
            for x in range(n):
                z[first + x] += to_first[x]
                z[second + x] += to_second[x]


@kernel
def independent_tables(tables, u, joint):
    """Set the joint marginals to those of nodes that are independent."""
    for e in range(tables.ends.shape[0]):
        cell, n = tables.cells[e], (tables.messages[e + 1] - tables.messages[e]) // 2
        first, second = tables.nodes[tables.ends[e, 0]], tables.nodes[tables.ends[e, 1]]
        for x in range(n):
            for y in range(n):
                joint[cell + x * n + y] = u[first + x] * u[second + y]
