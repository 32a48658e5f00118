"""The best modifiers of a head: a path from the start through the modifiers to the end, for each grandparent."""

import numpy as np

from ..._core.jit import as_oracle, copy_into, kernel

# The entries of dims: numbers of modifiers and of candidates for the grandparent (0 if there is none in a structure),
# and 1 if there are scores of siblings, and of grandparents.
N_MODIFIERS, N_CANDIDATES, SIBLINGS, GRANDPARENTS = range(4)


@kernel
def siblings_after(additional, dims, before):
    """Return the row of scores of the modifiers, and of the end, after place `before`; empty if there are none."""
    width = dims[N_MODIFIERS] + 1
    return additional[before * width : (before + 1) * width] if dims[SIBLINGS] else additional[:0]


@kernel
def place_of_grandparents(dims):
    """Return the beginning of the scores of grandparents in the additional scores."""
    return (dims[N_MODIFIERS] + 1) ** 2 * dims[SIBLINGS]


@kernel
def score_modifiers(scores, additional, dims, candidate, own):
    """Write the score of each modifier, given the grandparent."""
    n, at = dims[N_MODIFIERS], place_of_grandparents(dims) + candidate * dims[N_MODIFIERS]
    copy_into(own, scores[dims[N_CANDIDATES] :])
    for j in range(n if dims[GRANDPARENTS] else 0):
        own[j] += additional[at + j]


@kernel
def _arrive(additional, dims, own, arrived):
    """Write the best score of a path from the start to each modifier, without the modifier's own, and to the end.

    Place 0 is the start, and place ``i + 1`` modifier i, so that ``arrived[i]`` belongs to place ``i + 1``.
    """
    n = dims[N_MODIFIERS]
    for j in range(n + 1):
        arrived[j] = -np.inf
    for before in range(n + 1):
        best = 0.0 if before == 0 else arrived[before - 1] + own[before - 1]
        after = siblings_after(additional, dims, before)
        if dims[SIBLINGS]:
            for j in range(before, n + 1):
                total = best + after[j]
                arrived[j] = total if total > arrived[j] else arrived[j]
        else:
            for j in range(before, n + 1):
                arrived[j] = best if best > arrived[j] else arrived[j]


@kernel
def _trace(additional, dims, own, arrived, slots, additional_slots):
    """Write the modifiers of the best path, from the end back to the start."""
    n, here = dims[N_MODIFIERS], dims[N_MODIFIERS]
    while True:
        best, source = -np.inf, np.int64(0)
        for before in range(here + 1):
            total = 0.0 if before == 0 else arrived[before - 1] + own[before - 1]
            if dims[SIBLINGS]:
                total += siblings_after(additional, dims, before)[here]
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
    own, arrived = work[:n], work[n : 2 * n + 1]
    slots[:] = -1
    additional_slots[:] = -1
    value, chosen = -np.inf, np.int64(0)
    for candidate in range(max(n_candidates, 1)):
        score_modifiers(scores, additional, dims, candidate, own)
        _arrive(additional, dims, own, arrived)
        total = arrived[n] + (scores[candidate] if n_candidates else 0.0)
        if total > value:
            value, chosen = total, candidate
    if value == -np.inf:
        return value
    if chosen < n_candidates - 1:
        score_modifiers(scores, additional, dims, chosen, own)
        _arrive(additional, dims, own, arrived)
    _trace(additional, dims, own, arrived, slots, additional_slots)
    if n_candidates:
        slots[chosen] = chosen
    first, at = (n + 1) * dims[SIBLINGS], place_of_grandparents(dims) + chosen * n
    for j in range(n if dims[GRANDPARENTS] else 0):
        additional_slots[first + j] = at + j if slots[n_candidates + j] >= 0 else -1
    return value
