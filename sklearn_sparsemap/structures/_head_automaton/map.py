"""The best modifiers of a head: a path from the start through the modifiers to the end, for each grandparent.

Used by `entering.py` and `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, kernel
from .._sums import larger

# The entries of dims: numbers of modifiers and of candidates for the grandparent (0 if there is none in a structure),
# and 1 if there are scores of siblings, and of grandparents.
N_MODIFIERS, N_CANDIDATES, SIBLINGS, GRANDPARENTS = range(4)


@kernel
def _siblings_of(additional, dims):
    """Return the scores of siblings, a flat matrix with a row for the start and each modifier; zeros if not given."""
    size = (dims[N_MODIFIERS] + 1) ** 2
    return additional[:size] if dims[SIBLINGS] else np.zeros(size)


@kernel
def index_of_grandparents(dims):
    """Return the beginning of the scores of grandparents in the additional scores."""
    return (dims[N_MODIFIERS] + 1) ** 2 * dims[SIBLINGS]


@kernel
def _fill_best(scores, additional, dims, siblings, candidate, arrived):
    """Fill in the score of the best path from the start to each modifier and to the end, given the grandparent."""
    n = dims[N_MODIFIERS]
    at = index_of_grandparents(dims) + candidate * n
    arrived[:] = -np.inf
    for before in range(n + 1):
        so_far = 0.0
        if before > 0:
            own = scores[dims[N_CANDIDATES] + before - 1]
            arrived[before - 1] += own + additional[at + before - 1] if dims[GRANDPARENTS] else own
            so_far = arrived[before - 1]
        after = siblings[before * (n + 1) : (before + 1) * (n + 1)]
        for j in range(before, n + 1):
            arrived[j] = larger(arrived[j], so_far + after[j])


@kernel
def _trace(dims, siblings, arrived, slots, additional_slots):
    """Write the modifiers of the best path, from the end back to the start.

    Parameters
    ----------
    dims : int array
        As of the oracle.
    siblings : array
        See `_siblings_of`.
    arrived : array of shape (n + 1,)
        As filled by `_fill_best`.
    slots, additional_slots : arrays
        As of the oracle.
    """
    n, here = dims[N_MODIFIERS], dims[N_MODIFIERS]
    while True:
        best = -np.inf
        source = np.int64(0)
        for before in range(here + 1):
            so_far = 0.0 if before == 0 else arrived[before - 1]
            total = so_far + siblings[before * (n + 1) + here]
            if total > best:
                best, source = total, before
        if dims[SIBLINGS]:
            additional_slots[here] = source * (n + 1) + here
        if source == 0:
            break
        here = source - 1
        slots[dims[N_CANDIDATES] + here] = dims[N_CANDIDATES] + here


@as_oracle
def best_modifiers(scores, additional, dims, work, slots, additional_slots):
    """Find the best modifiers and, if there are candidates, the best grandparent.

    `entering.py` reads the table in `work` afterwards: n + 1 entries for each candidate.
    """
    n, n_candidates = dims[N_MODIFIERS], dims[N_CANDIDATES]
    siblings = _siblings_of(additional, dims)
    slots[:] = -1
    additional_slots[:] = -1
    value = -np.inf
    chosen = np.int64(0)
    for candidate in range(max(n_candidates, 1)):
        arrived = work[candidate * (n + 1) : (candidate + 1) * (n + 1)]
        _fill_best(scores, additional, dims, siblings, candidate, arrived)
        total = arrived[n] + (scores[candidate] if n_candidates else 0.0)
        if total > value:
            value, chosen = total, candidate
    if value == -np.inf:
        return value
    _trace(dims, siblings, work[chosen * (n + 1) : (chosen + 1) * (n + 1)], slots, additional_slots)
    if n_candidates:
        slots[chosen] = chosen
    first = (n + 1) * dims[SIBLINGS]
    at = index_of_grandparents(dims) + chosen * n
    for j in range(n if dims[GRANDPARENTS] else 0):
        additional_slots[first + j] = at + j if slots[n_candidates + j] >= 0 else -1
    return value
