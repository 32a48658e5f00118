"""The ways to each cell of a grid, from which the k best alignments are found; see `_numerics/derivations.py`.

Node ``place + 1`` is an entry of the tables of `map.py`, which the oracle keeps in `work` one after the other.

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import kernel
from ..._numerics.derivations import NONE, SINK, entering_arcs, put_arc
from .map import LOCAL, WARPING, gap_scores


@kernel
def _ways_of_warping(m, best, cell, arcs, totals):
    """List the cells before a cell, those that the oracle prefers at ties first."""
    i = cell // m
    j = cell % m
    n_arcs = np.int64(0)
    if cell == 0:
        put_arc(arcs, n_arcs, NONE, NONE, i + j, cell)
        totals[0] = 0.0
        return n_arcs + 1
    for step in range(3):
        up = step < 2
        left = step != 1
        if (i > 0 or not up) and (j > 0 or not left):
            before = cell - up * m - left
            put_arc(arcs, n_arcs, before + 1, NONE, i + j, cell)
            totals[n_arcs] = best[before]
            n_arcs += 1
    return n_arcs


@kernel
def _ends_of_local(matched, arcs, totals):
    """List the empty alignment, and the matches that can be the last one."""
    put_arc(arcs, np.int64(0), NONE, NONE, NONE, NONE)
    totals[0] = 0.0
    for here in range(matched.shape[0]):
        put_arc(arcs, here + 1, here + 1, NONE, NONE, NONE)
        totals[here + 1] = matched[here]
    return matched.shape[0] + 1


@kernel
def _ways_of_gapped(n_columns, is_local, gaps, tables, node, arcs, totals):
    """List the ways to an entry of the three tables: a match, with or without gaps in rows, with or without any gap."""
    width = n_columns + 1
    size = tables.shape[0] // 3
    n_arcs = np.int64(0)
    table, here = (node - 1) // size, (node - 1) % size
    i, j = here // width, here % width
    if table == 0:
        # A local alignment may begin with this match. A global one begins before the first row and column.
        slot, part = (i - 1, (i - 1) * n_columns + j - 1) if i > 0 and j > 0 else (np.int64(NONE), np.int64(NONE))
        if i > 0 and j > 0:
            before = 2 * size + here - width - 1
            put_arc(arcs, n_arcs, before + 1, NONE, slot, part)
            totals[n_arcs] = tables[before]
            n_arcs += 1
        if is_local or here == 0:
            put_arc(arcs, n_arcs, NONE, NONE, slot, part)
            totals[n_arcs] = 0.0
            n_arcs += 1
        return n_arcs
    put_arc(arcs, n_arcs, node - size, NONE, NONE, NONE)
    totals[0] = tables[node - size - 1]
    step = width if table == 1 else np.int64(1)
    if (i > 0 and table == 1) or (j > 0 and table == 2):
        put_arc(arcs, n_arcs + 1, node - step, NONE, NONE, NONE)
        totals[1] = tables[node - step - 1] + gaps[table - 1]
        n_arcs += 1
    return n_arcs + 1


@entering_arcs
def ways_of_alignment(scores, additional, dims, work, node, arcs, totals):
    """List the ways to a node."""
    n, m, kind = dims[0], dims[1], dims[2]
    size = n * m if kind == WARPING else (n + 1) * (m + 1)
    n_nodes = size if kind == WARPING else 3 * size
    if node != SINK:
        if kind == WARPING:
            return _ways_of_warping(m, work, node - 1, arcs, totals)
        return _ways_of_gapped(m, kind == LOCAL, gap_scores(additional), work[:n_nodes], node, arcs, totals)
    if kind == LOCAL:
        return _ends_of_local(work[:size], arcs, totals)
    put_arc(arcs, np.int64(0), n_nodes, NONE, NONE, NONE)
    totals[0] = work[n_nodes - 1]
    return np.int64(1)
