"""Counts of the steps of a path that are in one state, for algorithms on arrays with an axis of counts.

`counted` is a triple: the state, and the smallest and the largest allowed number of steps in it.

Used by `gibbs.py` and `sampling.py`.
"""

# All paths have a count of zero, which is allowed.
ANY_COUNT = -1, 0, 0
