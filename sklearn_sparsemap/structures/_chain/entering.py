"""The ways to each state of a chain, from which the k best paths are found; see `_numerics/derivations.py`.

`structures/_sequence_budget/entering.py` calls `list_moves`, too.

Used by `structures/_sequence_budget` and `structure.py`.
"""

import numpy as np

from ..._core.jit import kernel
from ..._numerics.derivations import NONE, SINK, entering_arcs, put_arc
from .map import NO_TRANSITIONS, PER_STEP, end_indices_of


@kernel
def list_moves(scores, additional, dims, table, layout, node, arcs, totals):
    """List the hyperarcs that enter a node; see `ENTERING_SIGNATURE`. Node ``place + 1`` is an entry of the table.

    Parameters
    ----------
    scores, additional, dims, node, arcs, totals
        As of `entering`.
    table : array
        See `map.trace_back`.
    layout : tuple of int
        The number of counts in a row of the table; the state that is counted, or -1; and the smallest and largest
        count.
    """
    width, counted, fewest, most = layout
    n_steps = dims[0]
    n_states = dims[1]
    n = np.int64(0)
    at_start, at_end = end_indices_of(additional, dims)
    if node == SINK:
        for state in range(n_states):
            first = ((n_steps - 1) * n_states + state) * width
            for count in range(fewest, most + 1):
                put_arc(arcs, n, first + count + 1, NONE, NONE, NONE)
                totals[n] = table[first + count] + (additional[at_end + state] if dims[4] else 0.0)
                n += 1
        return n
    step, state, count = (node - 1) // width // n_states, (node - 1) // width % n_states, (node - 1) % width
    counts_here = np.int64(state == counted)
    # No path has such a count, and there may be entries behind the table.
    if count < counts_here or (step == 0 and count > counts_here) or step >= n_steps:
        return n
    if step == 0:
        put_arc(arcs, n, NONE, NONE, step, state)
        totals[0] = scores[state] + (additional[at_start + state] if dims[3] else 0.0)
        return n + 1
    place = (step - 1) * n_states * width + count - counts_here
    move = (step - 1) * n_states * n_states * (dims[2] == PER_STEP) + state
    for before in range(n_states):
        put_arc(arcs, before, place + before * width + 1, NONE, step, step * n_states + state)
        totals[before] = scores[step * n_states + state] + table[place + before * width]
        if dims[2] != NO_TRANSITIONS:
            totals[before] += additional[move + before * n_states]
    return n_states


@entering_arcs
def ways_of_chain(scores, additional, dims, work, node, arcs, totals):
    """List the ways to a state."""
    layout = np.int64(1), np.int64(-1), np.int64(0), np.int64(0)
    return list_moves(scores, additional, dims, work, layout, node, arcs, totals)
