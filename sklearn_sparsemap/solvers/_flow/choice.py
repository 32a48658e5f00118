"""Which chains had better be solved by their flow, and which by single paths."""

import numpy as np
from numba import types

from ..._jit import FLOATS_OUT, entry, kernel
from .._facets.sparsemax import highest, sparsemax
from .._polytope.batch import PROBLEMS
from .chains import node_scores, part_of


@kernel
def _spread_of_paths(scores, additional, dims):
    """Return how many states, over all steps, have mass if each step projects what its best paths are worth.

    A solution of single paths takes about one path for each of them, and many more where transitions are small.
    """
    n_steps, n_states = dims[0], dims[1]
    nodes = node_scores(scores, additional, dims)
    before, after, here = np.empty((n_steps, n_states)), np.zeros((n_steps, n_states)), np.empty(n_states)
    for i in range(n_states):
        before[0, i] = nodes[0, i]
    for t in range(1, n_steps):
        for j in range(n_states):
            best = -np.inf
            for i in range(n_states):
                best = max(best, before[t - 1, i] + additional[part_of(dims, t - 1, i, j)])
            before[t, j] = best + nodes[t, j]
    if highest(before[n_steps - 1]) == -np.inf:
        return 0.0
    for t in range(n_steps - 2, -1, -1):
        for i in range(n_states):
            best = -np.inf
            for j in range(n_states):
                best = max(best, additional[part_of(dims, t, i, j)] + nodes[t + 1, j] + after[t + 1, j])
            after[t, i] = best
    total = 0.0
    for t in range(n_steps):
        for i in range(n_states):
            before[t, i] += after[t, i]
        _, count = sparsemax(before[t], np.inf, here)
        total += count
    return total


@entry(types.void(PROBLEMS, types.int64, types.int64, FLOATS_OUT))
def spread_of_paths_range(problems, start, stop, spread):
    """Judge chains start..stop, which have transitions; infeasible ones get 0."""
    for i in range(start, stop):
        spread[i] = _spread_of_paths(
            problems.scores[problems.score_ptr[i] : problems.score_ptr[i + 1]],
            problems.additional[problems.additional_start[i] : problems.additional_stop[i]],
            problems.dims[i],
        )
