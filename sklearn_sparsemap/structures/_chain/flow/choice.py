"""The flow solver of chains, and the rule when it is faster than the active set, which works with single paths."""

from functools import lru_cache

import numpy as np
from numba import types

from ...._core.jit import FLOATS_OUT, entry, kernel
from ....numerics.loops import PROBLEMS
from ....numerics.polytope_solver import CallBudget, PolytopeSolver, never
from ....numerics.sparsemax import sparsemax
from .paths import flow_paths
from .pricing import max_marginals
from .scores import node_scores
from .solver import chain_interior_point, chain_products


@kernel
def _spread_of_paths(scores, additional, dims):
    """Return the total support size over all steps if each step is projected by the max-marginals of its states.

    The active set needs about as many paths, and many more if transitions are small.
    """
    n_steps, n_states = dims[0], dims[1]
    nodes, here = node_scores(scores, additional, dims), np.empty(n_states)
    priced, after = np.empty((n_steps, n_states)), np.empty((n_steps, n_states))
    if max_marginals(nodes, np.zeros(nodes.shape), additional, dims, priced, after) == -np.inf:
        return 0.0
    total = 0.0
    for t in range(n_steps):
        _, count = sparsemax(priced[t], np.inf, here)
        total += count
    return total


@entry(types.void(PROBLEMS, types.int64, types.int64, FLOATS_OUT))
def spread_of_paths_range(problems, start, stop, spread):
    """Estimate the number of paths of chains start..stop, which have transitions; infeasible chains get 0."""
    for i in range(start, stop):
        spread[i] = _spread_of_paths(
            problems.scores[problems.score_ptr[i] : problems.score_ptr[i + 1]],
            problems.additional[problems.additional_start[i] : problems.additional_stop[i]],
            problems.dims[i],
        )


# If few paths are expected, the fraction of the time of the flow solver that is first spent on the active set.
_SPENT_ON_PATHS = 0.5


@lru_cache(maxsize=4096)
def _most_paths(n_steps, n_states):
    """Return the numbers of paths that the active set finds in a fraction of the flow solver's time, and in all of it.

    A path costs a call of the oracle, and a comparison and a product with each earlier path. The constants are
    nanoseconds on one machine; only their ratios matter.
    """
    k = np.arange(1, 4097)
    paths = np.cumsum(0.55 * n_steps * n_states**2 + 1.5 * n_steps * k + 0.5 * k**2)
    flow = n_steps * (6.0 * n_states**3 + 2500.0 * n_states)
    return tuple(max(16, int(np.searchsorted(paths, fraction * flow))) for fraction in (_SPENT_ON_PATHS, 1.0))


def _limits(dims):
    """Return the limits of `CallBudget`; None for chains without transitions, whose flow is a closed form."""
    if not dims[:, 2].any():
        return None
    return np.array([_most_paths(*shape) for shape in dims[:, :2].tolist()]).T


# Losses solve chains by the active set, which can start from the paths of the previous epoch.
FLOW = PolytopeSolver(
    "interior_point",
    chain_interior_point,
    chain_products,
    prefers=never,
    budget=CallBudget(_limits, spread_of_paths_range),
    paths=flow_paths,
)
