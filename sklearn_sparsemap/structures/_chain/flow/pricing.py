"""Max-marginals of the states of a chain: the score of the best path through each, under ``nodes - u``.

The scores `nodes` and `u` are arrays (T, P), see the package's docstring; all others are (T, M). The score of the best
path through a node is the sum of three: `before`, of the steps before it; its own; and `after`, of the steps after it.
"""

import numpy as np

from ...._core.jit import kernel
from ....numerics.sparsemax import sparsemax
from .scores import part_of


@kernel(no_nans=True)
def _add_best(values, gains, out):
    """Raise ``out[j]`` to the largest ``values[i] + gains[i, j]``; `gains` is flat."""
    n = values.shape[0]
    for i in range(n):
        value = values[i]
        if value > -np.inf:
            for j in range(n):
                reached = value + gains[i * n + j]
                out[j] = reached if reached > out[j] else out[j]


@kernel(no_nans=True)
def _best_of_row(gains, first, values):
    """Return the largest ``gains[first + j] + values[j]``."""
    best = -np.inf
    for j in range(values.shape[0]):
        reached = gains[first + j] + values[j]
        best = reached if reached > best else best
    return best


@kernel
def _respond(nodes, others, t, share, u):
    """Move `u` of a step towards the projection of its max-marginals, if all other steps stay as they are."""
    n_states = others.shape[0]
    wanted = np.empty(n_states)
    for i in range(n_states):
        others[i] += nodes[t, i]
    sparsemax(others, np.inf, wanted)
    for i in range(n_states):
        u[t, i] += share * (wanted[i] - u[t, i])


@kernel
def pass_forward(nodes, u, additional, dims, share, before, after):
    """Compute `before` under ``nodes - u``, step by step.

    Parameters
    ----------
    nodes, u : arrays (T, P)
    additional, dims
        As in a MAP oracle.
    share : float
        If it is not 0, each step responds to the others with this share when its turn comes, see `_respond`.
    before : array (T, M)
        Gets the result.
    after : array (T, M)
        Needed if steps respond.
    """
    n_steps, n_states = dims[0], dims[1]
    here = np.empty(n_states)
    for t in range(n_steps):
        for j in range(n_states):
            before[t, j] = -np.inf if t > 0 else 0.0
        if t > 0:
            first = part_of(dims, t - 1, 0, 0)
            _add_best(here, additional[first : first + n_states * n_states], before[t])
        if share > 0.0:
            for j in range(n_states):
                here[j] = before[t, j] + after[t, j]
            _respond(nodes, here, t, share, u)
        for j in range(n_states):
            here[j] = before[t, j] + nodes[t, j] - u[t, j]


@kernel
def pass_backward(nodes, u, additional, dims, share, before, after):
    """Compute `after` from the last step to the first; see `pass_forward`, with `before` and `after` exchanged."""
    n_steps, n_states = dims[0], dims[1]
    here = np.empty(n_states)
    for t in range(n_steps - 1, -1, -1):
        for i in range(n_states):
            after[t, i] = _best_of_row(additional, part_of(dims, t, i, 0), here) if t < n_steps - 1 else 0.0
        if share > 0.0:
            for i in range(n_states):
                here[i] = before[t, i] + after[t, i]
            _respond(nodes, here, t, share, u)
        for i in range(n_states):
            here[i] = after[t, i] + nodes[t, i] - u[t, i]


@kernel
def max_marginals(nodes, u, additional, dims, before, after):
    """Write the max-marginals to `before`; return the best, which is -inf if no path is allowed.

    For the parameters see `pass_forward`.
    """
    pass_forward(nodes, u, additional, dims, 0.0, before, after)
    pass_backward(nodes, u, additional, dims, 0.0, before, after)
    best = -np.inf
    for t in range(dims[0]):
        for i in range(dims[1]):
            before[t, i] += after[t, i] + nodes[t, i] - u[t, i]
    for i in range(dims[1]):
        best = max(best, before[0, i])
    return best
