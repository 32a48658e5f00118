"""The best modifiers of a head: a path from the start through the modifiers to the end, for each grandparent.

Used by `entering.py`, `gibbs.py` and `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, copy_into, kernel
from .._sums import add_logs, larger

# The entries of dims: numbers of modifiers and of candidates for the grandparent (0 if there is none in a structure),
# and 1 if there are scores of siblings, and of grandparents.
N_MODIFIERS, N_CANDIDATES, SIBLINGS, GRANDPARENTS = range(4)


@kernel
def siblings_of(additional, dims):
    """Return the scores of siblings, a flat matrix with a row for the start and each modifier; zeros if not given."""
    size = (dims[N_MODIFIERS] + 1) ** 2
    return additional[:size] if dims[SIBLINGS] else np.zeros(size)


@kernel
def index_of_grandparents(dims):
    """Return the beginning of the scores of grandparents in the additional scores."""
    return (dims[N_MODIFIERS] + 1) ** 2 * dims[SIBLINGS]


@kernel
def score_modifiers(scores, additional, dims, candidate, modifier_scores):
    """Write the score of each modifier, given the grandparent."""
    n = dims[N_MODIFIERS]
    at = index_of_grandparents(dims) + candidate * dims[N_MODIFIERS]
    copy_into(modifier_scores, scores[dims[N_CANDIDATES] :])
    for j in range(n if dims[GRANDPARENTS] else 0):
        modifier_scores[j] += additional[at + j]


def _table_filler(plus):
    """Make the kernel that fills a table, with this function in place of a sum over paths."""

    @kernel
    def arrive(siblings, modifier_scores, arrived):
        """Fill in the sum over the paths from the start to each modifier, without its own score, and to the end.

        Place 0 is the start, and place ``i + 1`` modifier i, so that ``arrived[i]`` belongs to place ``i + 1``.
        """
        n = modifier_scores.shape[0]
        arrived[:] = -np.inf
        for before in range(n + 1):
            so_far = 0.0 if before == 0 else arrived[before - 1] + modifier_scores[before - 1]
            after = siblings[before * (n + 1) : (before + 1) * (n + 1)]
            for j in range(before, n + 1):
                arrived[j] = plus(arrived[j], so_far + after[j])

    return arrive


_best_paths = _table_filler(larger)
sum_paths = _table_filler(add_logs)


@kernel
def fill_best(scores, additional, dims, siblings, candidate, work):
    """Write the scores of the modifiers and the table of maxima, given the grandparent, to the beginning of `work`.

    `entering.py` calls it, and reads them there.
    """
    n = dims[N_MODIFIERS]
    score_modifiers(scores, additional, dims, candidate, work[:n])
    _best_paths(siblings, work[:n], work[n : 2 * n + 1])


@kernel
def _trace(dims, siblings, modifier_scores, arrived, slots, additional_slots):
    """Write the modifiers of the best path, from the end back to the start.

    Parameters
    ----------
    dims : int array
        As of the oracle.
    siblings : array
        See `siblings_of`.
    modifier_scores : array of shape (n,)
        Scores of the modifiers.
    arrived : array of shape (n + 1,)
        The table of maxima.
    slots, additional_slots : arrays
        As of the oracle.
    """
    n, here = dims[N_MODIFIERS], dims[N_MODIFIERS]
    while True:
        best = -np.inf
        source = np.int64(0)
        for before in range(here + 1):
            so_far = 0.0 if before == 0 else arrived[before - 1] + modifier_scores[before - 1]
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
    """Find the best modifiers and, if there are candidates, the best grandparent."""
    n, n_candidates = dims[N_MODIFIERS], dims[N_CANDIDATES]
    siblings = siblings_of(additional, dims)
    own = work[:n]
    arrived = work[n : 2 * n + 1]
    slots[:] = -1
    additional_slots[:] = -1
    value = -np.inf
    chosen = np.int64(0)
    for candidate in range(max(n_candidates, 1)):
        fill_best(scores, additional, dims, siblings, candidate, work)
        total = arrived[n] + (scores[candidate] if n_candidates else 0.0)
        if total > value:
            value, chosen = total, candidate
    if value == -np.inf:
        return value
    if chosen < n_candidates - 1:
        fill_best(scores, additional, dims, siblings, chosen, work)
    _trace(dims, siblings, own, arrived, slots, additional_slots)
    if n_candidates:
        slots[chosen] = chosen
    first = (n + 1) * dims[SIBLINGS]
    at = index_of_grandparents(dims) + chosen * n
    for j in range(n if dims[GRANDPARENTS] else 0):
        additional_slots[first + j] = at + j if slots[n_candidates + j] >= 0 else -1
    return value
