"""Certificates of messages and tables: tables that are consistent with the marginals, and the dual bound.

Used by `augmented.py`, `batch.py` and `primal_dual.py`.
"""

import numpy as np

from ..._core.jit import kernel
from ..arrays import FORBIDDEN


@kernel
def match_marginals(joint, table, u, v, short_u, short_v):
    """Round a table of joint marginals such that its rows sum to `u` and its columns to `v` [1]_.

    Cells of -inf remain empty; then the sums may differ.

    Parameters
    ----------
    joint, table : arrays of shape (n * n,)
        Joint marginals, changed in place, and scores, row by row.
    u, v : arrays of shape (n,)
        Marginals of the two nodes.
    short_u, short_v : arrays of shape (n,)
        Scratch.

    Returns
    -------
    value : float
        The score of the joint marginals.
    residual : float
        Largest difference of a sum.

    References
    ----------
    .. [1] Altschuler, Weed and Rigollet. Near-linear time approximation algorithms for optimal transport via Sinkhorn
       iteration. NeurIPS 2017, algorithm 2.
    """
    n = u.shape[0]
    for x in range(n):
        total = 0.0
        for y in range(n):
            total += joint[x * n + y]
        factor = min(1.0, u[x] / total) if total > 0.0 else 0.0
        for y in range(n):
            joint[x * n + y] *= factor
    short_v[:] = 0.0
    for x in range(n):
        for y in range(n):
            short_v[y] += joint[x * n + y]
    for y in range(n):
        total = short_v[y]
        factor = min(1.0, v[y] / total) if total > 0.0 else 0.0
        short_v[y] = v[y] - total * factor
        for x in range(n):
            joint[x * n + y] *= factor
    missing, value = 0.0, 0.0
    for x in range(n):
        short_u[x] = u[x]
        for y in range(n):
            short_u[x] -= joint[x * n + y]
        missing += max(short_u[x], 0.0)
    for x in range(n):
        for y in range(n):
            if missing > 0.0 and table[x * n + y] > -np.inf:
                joint[x * n + y] += max(short_u[x], 0.0) * max(short_v[y], 0.0) / missing
            if joint[x * n + y] > 0.0:
                value += joint[x * n + y] * table[x * n + y]
    residual = 0.0
    short_v[:] = 0.0
    for x in range(n):
        total = 0.0
        for y in range(n):
            total += joint[x * n + y]
            short_v[y] += joint[x * n + y]
        residual = max(residual, abs(total - u[x]))
    for y in range(n):
        residual = max(residual, abs(short_v[y] - v[y]))
    return value, residual


@kernel
def certify_tables(tables, scores, additional, state, value):
    """Certify a state; its joint marginals are made consistent with the marginals of the nodes.

    `value` is the nodes' part of the dual. The dual is an upper bound for any messages.

    Returns
    -------
    objective, gap, residual : float
        See `LPSparseMAPResult`.
    """
    u, messages = state.u, state.messages
    objective, bound, residual = 0.0, value, 0.0
    for i in range(u.shape[0]):
        if scores[i] > 0.5 * FORBIDDEN:
            objective += u[i] * (scores[i] - 0.5 * u[i])
    for e in range(tables.ends.shape[0]):
        start, begin, end = tables.messages[e], tables.cells[e], tables.cells[e + 1]
        n = (tables.messages[e + 1] - start) // 2
        first, second = tables.nodes[tables.ends[e, 0]], tables.nodes[tables.ends[e, 1]]
        highest = -np.inf
        for x in range(n):
            for y in range(n):
                over = additional[begin + x * n + y] - messages[start + x] - messages[start + n + y]
                highest = max(highest, over)
        subtotal, subresidual = match_marginals(
            state.joint[begin:end],
            additional[begin:end],
            u[first : first + n],
            u[second : second + n],
            state.gradient[start : start + n],
            state.gradient[start + n : start + 2 * n],
        )
        bound += highest
        objective += subtotal
        residual = max(residual, subresidual)
    # By rounding, the bound may be below the objective.
    return objective, max(bound - objective, 0.0), residual
