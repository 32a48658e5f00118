"""Lists of spans with their probabilities, which kernels extend.

Used by `structures/_chain` and `structures/_segmentation`.
"""

import numpy as np
from numba import types

from .._core.jit import FLOATS_OUT, INTS_2D_OUT, copy_into, kernel, new_floats
from .._core.threads import over_ranges

# The rows of spans: sample, first step, last step, type, and whether it is wanted. Beside them are the probabilities.
FOUND = types.Tuple((INTS_2D_OUT, FLOATS_OUT))
_FIRST_ROOM = 64


@kernel
def new_pool():
    """Return an empty pool: rows of spans, one after the other, and their probabilities."""
    return np.empty(5 * _FIRST_ROOM, np.int64), new_floats(np.int64(_FIRST_ROOM))


@kernel
def put(pool, n, sample, start, last, kind, is_wanted, chance):
    """Write span number `n` to a pool; return the pool, larger if it was full."""
    rows, chances = pool
    room = chances.shape[0]
    if n == room:
        more = np.empty(10 * room, np.int64)
        copy_into(more, rows)
        larger = new_floats(2 * room)
        copy_into(larger, chances)
        rows, chances = more, larger
    at = 5 * n
    rows[at] = sample
    rows[at + 1] = start
    rows[at + 2] = last
    rows[at + 3] = kind
    rows[at + 4] = is_wanted
    chances[n] = chance
    return rows, chances


@kernel
def listed(pool, n):
    """Return the rows of the first n spans of a pool, and their probabilities."""
    return pool[0][: 5 * n].reshape((n, 5)), pool[1][:n]


def collect(function, problems, n_jobs):
    """Call a function for ranges of problems, in threads; return the rows of spans of all, and their probabilities."""
    costs = problems.score_ptr[1:] - problems.score_ptr[:-1]
    pools = over_ranges(function, costs, n_jobs)
    rows, chances = zip(*pools)
    return np.concatenate(rows), np.concatenate(chances)
