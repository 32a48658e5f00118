"""The ways to each modifier of a head, for marginals and the k best choices; see `_numerics/derivations.py`.

The nodes of candidate g for the grandparent are numbered from ``g (n + 1) + 1`` on: one for each modifier, and the end.

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import kernel
from ..._numerics.derivations import ADDITIONAL, NONE, OTHER_ADDITIONAL, SINK, entering_arcs, put_arc
from ..._numerics.inside_outside import marginals_by
from .map import GRANDPARENTS, N_CANDIDATES, N_MODIFIERS, SIBLINGS, index_of_grandparents


@entering_arcs
def ways_of_modifiers(scores, additional, dims, work, node, arcs, totals):
    """List the modifiers before a modifier, or before the end. At the sink, list the candidates."""
    n = dims[N_MODIFIERS]
    n_candidates = dims[N_CANDIDATES]
    if node == SINK:
        for candidate in range(max(n_candidates, 1)):
            slot = candidate if n_candidates else np.int64(NONE)
            put_arc(arcs, candidate, (candidate + 1) * (n + 1), NONE, slot, slot)
            totals[candidate] = work[candidate * (n + 1) + n] + (scores[candidate] if n_candidates else 0.0)
        return max(n_candidates, 1)
    candidate, here = (node - 1) // (n + 1), (node - 1) % (n + 1)
    first = candidate * (n + 1)
    slot, part = (n_candidates + here, n_candidates + here) if here < n else (np.int64(NONE), np.int64(NONE))
    grandparent = np.int64(NONE)
    own = scores[part] if here < n else 0.0
    if dims[GRANDPARENTS] and here < n:
        grandparent = index_of_grandparents(dims) + candidate * n + here
        own += additional[grandparent]
    for before in range(here + 1):
        put_arc(arcs, before, first + before if before > 0 else np.int64(NONE), NONE, slot, part)
        arcs[before, OTHER_ADDITIONAL] = grandparent
        totals[before] = own + (work[first + before - 1] if before > 0 else 0.0)
        if dims[SIBLINGS]:
            arcs[before, ADDITIONAL] = before * (n + 1) + here
            totals[before] += additional[before * (n + 1) + here]
    return here + 1


@kernel
def _n_nodes(dims):
    """Return the number of nodes except the final one, which is that of the entries of the table."""
    return max(dims[N_CANDIDATES], 1) * (dims[N_MODIFIERS] + 1)


modifier_marginals = marginals_by("modifier_marginals", ways_of_modifiers, _n_nodes)
