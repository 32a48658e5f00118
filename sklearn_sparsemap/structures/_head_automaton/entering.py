"""The ways to each modifier of a head, from which the k best choices are found; see `_numerics/derivations.py`.

The nodes of candidate g for the grandparent are numbered from ``g (n + 1) + 1`` on: one for each modifier, and the end.

Used by `structure.py`.
"""

import numpy as np

from ..._numerics.derivations import NONE, SINK, entering_arcs, put_arc
from .map import N_CANDIDATES, N_MODIFIERS, fill_best, siblings_of


@entering_arcs
def ways_of_modifiers(scores, additional, dims, work, node, arcs, totals):
    """List the modifiers before a modifier, or before the end. At the sink, list the candidates."""
    n = dims[N_MODIFIERS]
    n_candidates = dims[N_CANDIDATES]
    n_arcs = np.int64(0)
    own = work[:n]
    arrived = work[n : 2 * n + 1]
    siblings = siblings_of(additional, dims)
    if node == SINK:
        for candidate in range(max(n_candidates, 1)):
            fill_best(scores, additional, dims, siblings, candidate, work)
            slot = candidate if n_candidates else np.int64(NONE)
            put_arc(arcs, candidate, (candidate + 1) * (n + 1), NONE, slot, slot)
            totals[candidate] = arrived[n] + (scores[candidate] if n_candidates else 0.0)
        # The last entry of `work` tells whose tables it holds.
        work[2 * n + 1] = max(n_candidates, 1)
        return max(n_candidates, 1)
    candidate, here = (node - 1) // (n + 1), (node - 1) % (n + 1)
    if work[2 * n + 1] != candidate + 1:
        fill_best(scores, additional, dims, siblings, candidate, work)
        work[2 * n + 1] = candidate + 1
    slot, part = (n_candidates + here, n_candidates + here) if here < n else (np.int64(NONE), np.int64(NONE))
    for before in range(here + 1):
        put_arc(arcs, n_arcs, candidate * (n + 1) + before if before > 0 else np.int64(NONE), NONE, slot, part)
        so_far = 0.0 if before == 0 else arrived[before - 1] + own[before - 1]
        totals[n_arcs] = so_far + siblings[before * (n + 1) + here]
        n_arcs += 1
    return n_arcs
