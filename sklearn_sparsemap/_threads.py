"""Threads over ranges: how `n_jobs` is used, and how Ctrl-C reaches a kernel."""

import os
import threading
from concurrent import futures
from functools import lru_cache
from itertools import pairwise

import numpy as np
from joblib import effective_n_jobs

# More ranges than threads, so that a thread that met easy problems takes another range.
_RANGES_PER_THREAD = 8
# Even a single thread comes back from the kernels after about so many parts, to notice Ctrl-C.
_COST_PER_CALL = 50_000
# Seconds between two looks for Ctrl-C.
_LOOK_EVERY = 0.05


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


@lru_cache(maxsize=1)
def _worker():
    """Return the thread in which kernels run while the main thread waits for Ctrl-C."""
    return futures.ThreadPoolExecutor(1, thread_name_prefix="sklearn_sparsemap")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork.
    os.register_at_fork(after_in_child=_worker.cache_clear)


def interruptible(function, stop):
    """Call a function that releases the GIL, so that Ctrl-C can end it.

    Python sees Ctrl-C in its main thread only, and not before a kernel there returns. So the kernel runs in a thread of
    its own, and is told to stop.

    Parameters
    ----------
    function : callable
        Called with no arguments.
    stop : callable
        Makes the function return soon. Called in another thread, when an exception reached the one that waits.
    """
    if threading.current_thread() is not threading.main_thread():
        return function()
    running = _worker().submit(function)
    try:
        while True:
            try:
                # Not every system wakes a thread that waits for ever.
                return running.result(timeout=_LOOK_EVERY)
            except futures.TimeoutError:
                if running.done():
                    return running.result()
    except BaseException:
        stop()
        futures.wait([running])
        raise


def over_ranges(function, costs, n_jobs, cost_per_call=_COST_PER_CALL, limit=None):
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
    limit : int array, default=None
        What bounds the work of a call: set to zero it ends the calls under way, which then need not wait for Ctrl-C.

    Returns
    -------
    results : list
        What the calls returned, in the order of the ranges.
    """
    n_threads = effective_n_jobs(n_jobs)
    n_ranges = n_threads * _RANGES_PER_THREAD if n_threads > 1 else 1 + int(np.sum(costs)) // cost_per_call
    cuts = [0, len(costs)] if n_ranges == 1 or len(costs) < 2 else cut_evenly(costs, n_ranges).tolist()
    if limit is None:
        return _over_cuts(function, cuts, n_threads)
    stopped = threading.Event()

    def stop():
        stopped.set()
        limit[:] = 0

    return interruptible(
        lambda: _over_cuts(lambda *range_: None if stopped.is_set() else function(*range_), cuts, n_threads), stop
    )


def _over_cuts(function, cuts, n_threads):
    """Call a function for each range between two cuts; return its results in order."""
    if n_threads == 1 or len(cuts) == 2:
        return [function(start, stop) for start, stop in pairwise(cuts)]
    with futures.ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(function, cuts[:-1], cuts[1:]))
