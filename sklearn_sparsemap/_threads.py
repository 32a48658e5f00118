"""Threads over ranges: how `n_jobs` is used."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from joblib import effective_n_jobs

# More ranges than threads, so that a thread that met easy problems takes another range.
_RANGES_PER_THREAD = 8
# Even a single thread comes back from the kernels after about so many parts, to notice Ctrl-C.
_COST_PER_CALL = 50_000


def cut_evenly(costs, n_ranges):
    """Cut problems into at most `n_ranges` ranges of about the same total cost.

    Returns
    -------
    cuts : int array
        Range r is from cuts[r] to cuts[r + 1]; none is empty.
    """
    done = np.concatenate([[0.0], np.cumsum(costs, dtype=np.float64)])
    targets = np.linspace(0, done[-1], min(n_ranges, len(costs)) + 1)[1:-1]
    return np.unique(np.concatenate([[0], np.searchsorted(done, targets), [len(costs)]]))


def over_ranges(function, costs, n_jobs, cost_per_call=_COST_PER_CALL):
    """Call ``function(start, stop)`` for ranges that cover all problems, in threads.

    The results do not depend on `n_jobs` as long as `function` treats each problem by itself.

    Parameters
    ----------
    function : callable
        Releases the GIL; called with the first problem of a range and the one after its last.
    costs : array-like of shape (n_problems,)
        What each problem costs: its number of parts.
    n_jobs : int or None
        As in joblib: None is 1 unless a `joblib.parallel_config` says otherwise, -1 is all cores.
    cost_per_call : int
        A single thread comes back to Python after about so much, to notice Ctrl-C.

    Returns
    -------
    results : list
        What the calls returned, in the order of the ranges.
    """
    n_threads = effective_n_jobs(n_jobs)
    n_ranges = n_threads * _RANGES_PER_THREAD if n_threads > 1 else 1 + int(np.sum(costs)) // cost_per_call
    if n_ranges == 1 or len(costs) < 2:
        return [function(0, len(costs))]
    cuts = cut_evenly(costs, n_ranges).tolist()
    if n_threads == 1:
        return [function(start, stop) for start, stop in pairwise(cuts)]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(function, cuts[:-1], cuts[1:]))
