"""SparseMAP over monotone alignments in batched operations of PyTorch, by antidiagonals of the tables of `map.py`."""

import numpy as np

from ..._numerics.tensors import active_set
from .._hypergraph.tensors import NEVER, NO_SCORE, SOURCE, Hypergraph, derivations_of


def _antidiagonals(n, m):
    """Yield the rows and the columns of the cells of each antidiagonal of a grid."""
    for d in range(n + m - 1):
        rows = np.arange(max(0, d - m + 1), min(n, d + 1))
        yield rows, d - rows


def warping_program(shape, given):
    """Return the `Hypergraph` of warping paths, with a final node for each cell; see `derivations_of`."""
    graph = Hypergraph(shape, given)
    n, m = shape
    graph.slot_of = np.arange(n)[:, None] + np.arange(m)
    # A row and a column before the first ones.
    nodes = np.full((n + 1, m + 1), NEVER)
    nodes[0, 0] = SOURCE
    for i, j in _antidiagonals(n, m):
        tails = np.column_stack([nodes[i, j], nodes[i, j + 1], nodes[i + 1, j]])
        nodes[i + 1, j + 1] = graph.add(tails, None, graph.parts[i, j])
    graph.sinks = nodes[1:, 1:]
    return graph


def gapped_program(shape, given, is_local):
    """Return the `Hypergraph` of alignments with gaps, with a final node for each number of rows and of columns.

    Local alignments have a single final node. See `derivations_of`.
    """
    graph = Hypergraph(shape, given)
    n, m = shape
    in_row, in_column = ([NO_SCORE, gap] for gap in graph.extra.get("gaps", [NO_SCORE] * 2))
    # The tables of `map.py`, after a row and a column of nodes that are never reached.
    matched, paused, every = (np.full((n + 2, m + 2), NEVER) for _ in range(3))
    if not is_local:
        matched[1, 1] = SOURCE
    for i, j in _antidiagonals(n + 1, m + 1):
        inner = (i > 0) & (j > 0)
        if inner.any():
            rows, columns = i[inner], j[inner]
            tails = every[rows, columns][:, None]
            if is_local:
                # An alignment may begin here.
                tails = np.pad(tails, ((0, 0), (0, 1)), constant_values=SOURCE)
            matched[rows + 1, columns + 1] = graph.add(tails, None, graph.parts[rows - 1, columns - 1])
        paused[i + 1, j + 1] = graph.add(np.column_stack([matched[i + 1, j + 1], paused[i, j + 1]]), in_row)
        every[i + 1, j + 1] = graph.add(np.column_stack([paused[i + 1, j + 1], every[i + 1, j]]), in_column)
    # A local alignment ends with a match, or is empty.
    graph.sinks = graph.add(np.append(SOURCE, matched)[None])[0] if is_local else every[2:, 2:]
    return graph


def solve(structure, batch):
    """Solve a padded batch of an `Alignment`; see `Structure.tensor_solver`."""
    if structure.mode == "warping":
        program = derivations_of(warping_program, batch)
    else:
        program = derivations_of(gapped_program, batch, structure.mode == "local")
    return active_set(program.best, batch)
