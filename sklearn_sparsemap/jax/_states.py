"""Storage of the latest solutions for their derivatives, by numbers that accompany the marginals.

Arrays of JAX have no identity, and their lifetime is up to its programs. So only the latest solutions are kept, up to
a limit of memory. A solution that was deleted is computed again.

Used by `_functions.py`.
"""

import threading
from collections import OrderedDict
from itertools import count

import numpy as np

from .._core.forks import hold_around_forks

# bytes of the scores of all stored batches; their solutions take a few times as much
_MAX_BYTES = 1 << 26
# number of stored batches; small ones take about 30 kB, with the operator of a graph that is no longer used elsewhere
_MOST = 1024

_lock = hold_around_forks(threading.Lock())
_numbers = count(1)
_states = OrderedDict()


def remember(solved, scores):
    """Return keys, an int32 array of shape (n_samples, 2): the number of the solution, and the number of the sample."""
    with _lock:
        number = next(_numbers) % (1 << 31)
        _states[number] = solved, scores
        while len(_states) > _MOST:
            _states.popitem(last=False)
        total = sum(kept.nbytes for _, kept in _states.values())
        while total > _MAX_BYTES and len(_states) > 1:
            total -= _states.popitem(last=False)[1][1].nbytes
    return np.column_stack([np.full(len(scores), number), np.arange(len(scores))]).astype(np.int32)


def recall(keys, scores):
    """Return the solution with these keys, and the rows of each of its directions; or None.

    Rows may be in any order, and each occurs once for each direction: array of shape (n_directions, n_samples).
    """
    numbers, rows = keys[:, 0], keys[:, 1]
    solved, known = _states.get(int(numbers[0]), (None, None))
    if solved is None or (numbers != numbers[0]).any() or len(rows) % len(known):
        return None
    order = np.argsort(rows, kind="stable").reshape(len(known), -1)
    fits = (rows[order] == np.arange(len(known))[:, None]).all()
    # Numbers restart in each process, so compare the scores, too.
    if not fits or not np.array_equal(scores[order[:, 0]], known, equal_nan=True):
        return None
    return solved, order.T
