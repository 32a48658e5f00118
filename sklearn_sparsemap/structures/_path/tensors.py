"""SparseMAP over paths in batched operations of PyTorch: the best path, by the depth of the nodes."""

import numpy as np

from ..._numerics.tensors import active_set
from .._hypergraph.tensors import NEVER, NO_SCORE, SOURCE, Hypergraph, derivations_of
from .map import DEPTH, EDGE, HEAD, N_HEAD, TAIL


def path_program(shape, given, dims):
    """Return the `Hypergraph` of paths, with `dims` of `map.py`; see `derivations_of`."""
    graph = Hypergraph(shape, given)
    arcs = np.array(dims[N_HEAD:]).reshape(-1, 4)
    graph.slot_of = np.zeros(shape, np.int64)
    graph.slot_of[arcs[:, EDGE]] = arcs[:, DEPTH]
    number = np.full(arcs[:, HEAD].max() + 1, SOURCE)
    depth = np.zeros_like(number)
    np.maximum.at(depth, arcs[:, HEAD], arcs[:, DEPTH] + 1)
    for level in range(1, depth.max() + 1):
        heads = np.flatnonzero(depth == level)
        entering = [arcs[arcs[:, HEAD] == head] for head in heads]
        most = max(map(len, entering))
        tails = np.full((len(heads), most), NEVER)
        edges = np.full((len(heads), most), NO_SCORE)
        for k, own in enumerate(entering):
            tails[k, : len(own)], edges[k, : len(own)] = number[own[:, TAIL]], own[:, EDGE]
        number[heads] = graph.add(tails, edges)
    graph.sinks = number[-1]
    return graph


def solve(structure, batch):
    """Solve a batch of a `Path`; see `Structure.tensor_solver`."""
    program = derivations_of(path_program, batch, structure.dims(batch.scores.shape[1:], {}))
    return active_set(program.best, batch)
