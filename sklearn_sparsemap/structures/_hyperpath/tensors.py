"""SparseMAP over derivations in batched operations of PyTorch: the best derivation, by the height of the nodes."""

import numpy as np

from ..._numerics.tensors import active_set
from .._hypergraph.tensors import NEVER, NO_SCORE, SOURCE, Hypergraph, derivations_of
from .map import N_HEAD, OTHER, PART, SLOT, TAIL


def hyperpath_program(shape, given, dims):
    """Return the `Hypergraph` of derivations, with `dims` of `map.py`; see `derivations_of`."""
    graph = Hypergraph(shape, given)
    n_nodes = dims[1]
    begins = np.array(dims[N_HEAD : N_HEAD + n_nodes + 1])
    arcs = np.array(dims[N_HEAD + n_nodes + 1 :]).reshape(-1, 4)
    graph.slot_of = np.zeros(shape, np.int64)
    graph.slot_of[arcs[:, PART]] = arcs[:, SLOT]
    # The last entry is that of tails that are given.
    height = np.zeros(n_nodes + 1, np.int64)
    for node in range(n_nodes - 1, -1, -1):
        height[node] = 1 + height[arcs[begins[node] : begins[node + 1], TAIL:SLOT]].max()
    number = np.full(n_nodes + 1, SOURCE)
    for level in range(1, height[0] + 1):
        nodes = np.flatnonzero(height == level)
        entering = [arcs[begins[node] : begins[node + 1]] for node in nodes]
        shape_of_level = len(nodes), max(map(len, entering))
        tails = np.full(shape_of_level, NEVER)
        others = np.full(shape_of_level, SOURCE)
        parts = np.full(shape_of_level, NO_SCORE)
        for k, own in enumerate(entering):
            tails[k, : len(own)] = number[own[:, TAIL]]
            others[k, : len(own)] = number[own[:, OTHER]]
            parts[k, : len(own)] = own[:, PART]
        is_binary = any((own[:, OTHER] < n_nodes).any() for own in entering)
        number[nodes] = graph.add(tails, parts, others=others if is_binary else None)
    graph.sinks = number[0]
    return graph


def solve(structure, batch):
    """Solve a batch of a `Hyperpath`; see `Structure.tensor_solver`."""
    # Programs are cached by their arguments.
    dims = tuple(structure.dims(batch.scores.shape[1:], {}).tolist())
    program = derivations_of(hyperpath_program, batch, dims)
    return active_set(program.best, batch)
