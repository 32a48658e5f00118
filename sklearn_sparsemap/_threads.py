"""Threads over ranges: how `n_jobs` is used."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from joblib import effective_n_jobs

# More ranges than threads, so that a thread that met easy problems takes another range.
_RANGES_PER_THREAD = 8


def over_ranges(function, costs, n_jobs, n_ranges=None):
    """Call ``function(start, stop)`` for ranges that cover all problems, in threads.

    The results do not depend on `n_jobs` as long as `function` treats each problem by itself.

    Parameters
    ----------
    function : callable
        Releases the GIL; called with the first problem of a range and the one after its last.
    costs : array-like of shape (n_problems,)
        What each problem costs, in any unit.
    n_jobs : int or None
        As in joblib: None is 1 unless a `joblib.parallel_config` says otherwise, -1 is all cores.
    n_ranges : int, default=None
        Number of ranges. Give it where what `function` returns is summed, so that the sum does not depend on
        `n_jobs`; None chooses it by the number of threads.

    Returns
    -------
    results : list
        What the calls returned, in the order of the ranges.
    """
    n_threads = effective_n_jobs(n_jobs)
    n_problems = len(costs)
    if n_ranges is None:
        n_ranges = n_threads * _RANGES_PER_THREAD if n_threads > 1 else 1
    n_ranges = min(n_ranges, n_problems)
    if n_ranges < 2:
        return [function(0, n_problems)]
    done = np.concatenate([[0.0], np.cumsum(costs, dtype=np.float64)])
    targets = np.linspace(0, done[-1], n_ranges + 1)[1:-1]
    cuts = np.unique(np.concatenate([[0], np.searchsorted(done, targets), [n_problems]])).tolist()
    if n_threads == 1:
        return [function(start, stop) for start, stop in zip(cuts, cuts[1:])]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(function, cuts[:-1], cuts[1:]))
