"""Counts of the steps of a path that are in one state, for algorithms on arrays with an axis of counts.

`counted` is a triple: the state, and the smallest and the largest allowed number of steps in it.
"""

import numpy as np

# All paths have a count of zero, which is allowed.
ANY_COUNT = -1, 0, 0


def after_step(values, state):
    """Return values by the count after a step, given those by the count before it.

    Parameters
    ----------
    values : array of shape (n_counts, ..., n_states)
        For each count before a step and each state of the step.
    state : int
        The state that is counted, or -1.

    Returns
    -------
    values : array of the same shape
        -inf for a count of zero after a step in the state.
    """
    if state < 0:
        return values
    moved = values.copy()
    moved[1:, ..., state] = values[:-1, ..., state]
    moved[0, ..., state] = -np.inf
    return moved
