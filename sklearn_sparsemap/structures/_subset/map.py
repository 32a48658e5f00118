"""The best subset: the items with the highest scores.

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, copy_into
from ..._core.select import select_highest


@as_oracle
def best_subset(scores, additional, dims, work, slots, additional_slots):
    """Take the items with positive scores, then add the best or drop the worst items to satisfy the bounds."""
    n, min_size, max_size = dims[0], dims[1], dims[2]
    n_positive, n_allowed = 0, 0
    for i in range(n):
        n_positive += scores[i] > 0.0
        n_allowed += scores[i] > -np.inf
    if n_allowed < min_size:
        return -np.inf
    size = min(max(n_positive, min_size), max_size)
    threshold = 0.0
    n_ties = np.int64(0)
    if size != n_positive and size > 0:
        copy_into(work, scores)
        select_highest(work[:n], size)
        threshold = work[size - 1]
        n_ties = size
        for i in range(n):
            n_ties -= scores[i] > threshold
    value = 0.0
    for i in range(n):
        taken = size > 0 and scores[i] > threshold
        if not taken and n_ties > 0 and scores[i] == threshold:
            taken = True
            n_ties -= 1
        slots[i] = i if taken else -1
        if taken:
            value += scores[i]
    return value
