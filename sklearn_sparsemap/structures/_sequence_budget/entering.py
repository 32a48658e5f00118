"""The ways to each state and count, from which the k best paths are found; see `_numerics/derivations.py`.

Used by `structure.py`.
"""

import numpy as np

from ..._numerics.derivations import SINK, entering_arcs
from .._chain.entering import list_moves
from .map import FEWEST, MOST, STATE, fill_table, has_counts, stride_of


@entering_arcs
def ways_within(scores, additional, dims, work, node, arcs, totals):
    """List the ways to a state with a count; if all counts are allowed, those of a chain."""
    layout = np.int64(1), np.int64(-1), np.int64(0), np.int64(0)
    if has_counts(dims):
        # The oracle does not fill the table of counts if the best path of the chain is allowed.
        if node == SINK and work[work.shape[0] - 1] == 0.0:
            fill_table(scores, additional, dims, work)
            work[work.shape[0] - 1] = 1.0
        layout = stride_of(dims), dims[STATE], dims[FEWEST], dims[MOST]
    return list_moves(scores, additional, dims, work, layout, node, arcs, totals)
