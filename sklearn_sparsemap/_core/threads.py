"""Threads over ranges of problems, and Ctrl-C in kernels.

Used by `_graphs`, `_layers`, `_numerics`, `_training`, `distributed`, `features`, `inference`, `losses` and
`structures`.
"""

import _signal
import multiprocessing
import os
import signal
import socket
import threading
from collections import deque
from concurrent import futures
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import repeat

import numpy as np
from joblib import cpu_count, effective_n_jobs

from .jit import working_time

_RANGES_PER_THREAD = 8  # ranges for each thread; more balance the load better, with more calls
_LEAST_COST = 1500  # parts of a range, at least; about half a millisecond, so that the overhead of a call is small
_COST_PER_CALL = 50_000  # parts after which even a single thread returns from the kernels, to notice Ctrl-C
_LOOK_EVERY = 0.05  # seconds between two checks for Ctrl-C


def cut_evenly(costs, n_ranges):
    """Cut problems into at most `n_ranges` ranges of about the same total cost.

    Returns
    -------
    cuts : int array
        Range r goes from cuts[r] to cuts[r + 1]. No range is empty.
    """
    done = np.concatenate([[0.0], np.cumsum(costs, dtype=np.float64)])
    targets = np.linspace(0, done[-1], min(n_ranges, len(costs)) + 1)[1:-1]
    return np.unique(np.concatenate([[0], np.searchsorted(done, targets), [len(costs)]]))


def interruptible(function, stop):
    """Call a function that releases the GIL, so that Ctrl-C can stop it at a safe point.

    Python handles Ctrl-C in its main thread only, and not before a kernel there returns. So another thread notices it
    and tells the kernel to stop. Usually this is a watching thread, which costs about 5 us a call. If other code
    watches or handles signals, the main thread itself watches while the kernel runs in a worker thread, which costs up
    to 100 us. A function that another thread calls is called directly.

    Parameters
    ----------
    function : callable
        Called with no arguments.
    stop : callable
        Makes the function return soon. Called in another thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return function()
    watch = _watch()
    # Not by `signal.getsignal` and `signal.signal`, whose conversions to enumerations take most of their time.
    handler = _signal.getsignal(signal.SIGINT)
    if handler is watch.handler:
        # A nested call, from a kernel that calls back into Python. Ctrl-C ends both.
        outer, watch.stop = watch.stop, lambda: (stop(), outer())
        try:
            return function()
        finally:
            watch.stop = outer
            if watch.pressed:
                raise KeyboardInterrupt
    if handler is not signal.default_int_handler:
        # A user's handler may not raise an exception, so it must run in the main thread.
        return _call_in_worker(function, stop)
    _signal.signal(signal.SIGINT, watch.handler)
    before = signal.set_wakeup_fd(watch.wakeup_fd, warn_on_full_buffer=False)
    if before != -1:
        # Another file descriptor is in use, for example by an event loop that waits for signals.
        signal.set_wakeup_fd(before)
        _signal.signal(signal.SIGINT, handler)
        return _call_in_worker(function, stop)
    try:
        watch.stop = stop
        return function()
    finally:
        with watch.lock:
            watch.stop = None
        signal.set_wakeup_fd(-1)
        # Setting a handler first runs the handlers of pending signals.
        _signal.signal(signal.SIGINT, handler)
        if watch.pressed:
            watch.pressed = False
            watch.drain()
            raise KeyboardInterrupt


def _call_in_worker(function, stop):
    """Run a function in another thread, while the main thread waits for Ctrl-C."""
    running = _kept_threads(1).submit(function)
    try:
        while True:
            try:
                # A wait without a timeout cannot be interrupted on every system.
                return running.result(timeout=_LOOK_EVERY)
            except futures.TimeoutError:
                if running.done():
                    return running.result()
    except BaseException:
        stop()
        futures.wait([running])
        raise


class _Watch:
    """A thread that notices Ctrl-C while the main thread is in a kernel; see `interruptible`.

    Python writes the number of a signal to a socket immediately, whatever its main thread does. The exception is raised
    after the kernel has returned: Numba converts its results to Python objects, and breaks if that is interrupted.

    Attributes
    ----------
    handler : callable
        The handler of SIGINT while a kernel runs.
    wakeup_fd : int
        The file descriptor to which Python writes signals.
    stop : callable or None
        Makes the running kernel return soon.
    pressed : bool
        Whether Ctrl-C was pressed while a kernel ran.
    lock : threading.Lock
        Held while `stop` is called.
    """

    def __init__(self):
        self._inbox, self._outbox = socket.socketpair()
        self._outbox.setblocking(False)
        self.wakeup_fd = self._outbox.fileno()
        self.lock, self._drained = threading.Lock(), threading.Event()
        self.stop, self.pressed = None, False
        # One bound method object, so that it can be compared with other handlers.
        self.handler = self._press
        threading.Thread(target=self._look, name="sklearn_sparsemap_watch", daemon=True).start()

    def _press(self, *_):
        self.pressed = True

    def _look(self):
        while True:
            (byte,) = self._inbox.recv(1)
            if byte == 0:
                self._drained.set()
            elif byte == signal.SIGINT:
                with self.lock:
                    if self.stop is not None:
                        self.stop()

    def drain(self):
        """Wait until the thread has processed all earlier signals, so that they do not stop the next call."""
        self._drained.clear()
        self._outbox.send(b"\0")
        self._drained.wait(1.0)

    def forget(self):
        """Reset the signal handler in a forked process, which has no watching thread."""
        if _signal.getsignal(signal.SIGINT) is self.handler:
            _signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.set_wakeup_fd(-1)
        self._inbox.close()
        self._outbox.close()


@lru_cache(maxsize=1)
def _watch():
    return _Watch()


def _after_fork():
    # Threads do not survive a fork.
    _kept_threads.cache_clear()
    if _watch.cache_info().currsize:
        _watch().forget()
        _watch.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def count_threads(n_jobs):
    """Return the number of threads for `n_jobs`, by joblib's conventions.

    In a daemonic process, such as a worker that loads data, joblib returns 1 because no more processes can be started.
    Threads can be started there, so this function counts cores itself.
    """
    if n_jobs and multiprocessing.current_process().daemon:
        return n_jobs if n_jobs > 0 else max(1, cpu_count() + 1 + n_jobs)
    return effective_n_jobs(n_jobs)


class _Deferred(threading.local):
    """The exceptions of Python oracles in the kernel that this thread runs; None outside a kernel."""

    errors = None


_deferred = _Deferred()


def deferred_errors():
    """Return the list to which a Python oracle appends its exception, or None if it has to raise it."""
    return _deferred.errors


def _run_ranges(function, cuts, left, results):
    """Call a kernel for the ranges that no thread has taken yet, one after the other.

    An exception of a Python oracle is raised only after the kernel has returned: an exception that passes through
    compiled code leaks all arrays of that code.

    Parameters
    ----------
    function : callable
    cuts : list of int
        Range r goes from cuts[r] to cuts[r + 1].
    left : deque of int
        The ranges that are left. Its operations, and assignments to list entries, are thread-safe.
    results : list
        The results by range, filled in.
    """
    while left:
        try:
            number = left.popleft()
        except IndexError:
            return
        before, _deferred.errors = _deferred.errors, []
        try:
            results[number], errors = function(cuts[number], cuts[number + 1]), _deferred.errors
        finally:
            _deferred.errors = before
        if errors:
            # `pop` avoids a reference cycle between the exception, its traceback and this list.
            raise errors.pop()


def over_ranges(function, costs, n_jobs, cost_per_call=_COST_PER_CALL, limit=None):
    """Call ``function(start, stop)`` for ranges that cover all problems, in threads.

    The results do not depend on `n_jobs` if `function` treats each problem independently.

    Parameters
    ----------
    function : callable
        Releases the GIL. Called with the first problem of a range, and the one after its last.
    costs : array-like of shape (n_problems,)
        Cost of each problem: its number of parts.
    n_jobs : int or None
        As in joblib: None is 1 unless a `joblib.parallel_config` says otherwise, -1 is all cores.
    cost_per_call : int
        A single thread returns to Python after about this cost, to notice Ctrl-C.
    limit : int array, default=None
        The work limit that the calls read. If given, Ctrl-C sets it to zero, which ends the running calls early.

    Returns
    -------
    results : list
        The return values of the calls, in the order of the ranges.
    """
    n_threads, n_ranges = 1, 1
    if len(costs) > 1:
        n_threads = count_threads(n_jobs)
        if n_threads == 1:
            n_ranges = 1 + int(np.sum(costs)) // cost_per_call
        else:
            n_ranges = n_threads * _RANGES_PER_THREAD
            if cost_per_call == _COST_PER_CALL:
                n_ranges = min(n_ranges, max(n_threads, int(np.sum(costs)) // _LEAST_COST))
    cuts = [0, len(costs)] if n_ranges == 1 else cut_evenly(costs, n_ranges).tolist()
    left, results = deque(range(len(cuts) - 1)), [None] * (len(cuts) - 1)
    run = work = partial(_run_ranges, function, cuts, left, results)
    if n_threads > 1 and len(results) > 1:
        # Each thread, including this one, takes the next range, which is cheaper than submitting each range.
        run = partial(together, lambda _: work(), min(n_threads, len(results)), left.clear)
    if limit is None:
        run()
        return results

    def stop():
        left.clear()
        limit[:] = 0

    interruptible(run, stop)
    return results


@contextmanager
def ends_at(deadline, limit):
    """Within this context, set the work limit of calls to zero at a `working_time`; None means no deadline."""
    if deadline is None:
        yield
        return
    ended = threading.Event()

    def look():
        # `working_time` stands still during compilation, so check the remaining time again after each wait.
        while (left := deadline - working_time()) > 0.0:
            if ended.wait(left):
                return
        limit.fill(0)

    if deadline > working_time():
        threading.Thread(target=look, daemon=True).start()
    else:
        limit.fill(0)
    try:
        yield
    finally:
        ended.set()


def together(function, n_threads, give_up):
    """Call ``function(number)`` in all threads of a team simultaneously; they may wait for each other.

    If one has failed, wait for the others before its exception is raised, because they still write into arrays of the
    caller.

    Parameters
    ----------
    function : callable
        Releases the GIL.
    n_threads : int
    give_up : callable
        Called if one thread has failed, so that the others do not wait for it, and end soon.
    """

    def guarded(number):
        try:
            function(number)
        except BaseException:
            give_up()
            raise

    if n_threads == 1:
        function(0)
        return
    # Outside the main thread, this thread may belong to the cached pool, or the pool may be busy with another team.
    is_main = threading.current_thread() is threading.main_thread()
    pool = _kept_threads(n_threads) if is_main else futures.ThreadPoolExecutor(n_threads - 1)
    running = []
    try:
        running += [pool.submit(guarded, number) for number in range(1, n_threads)]
        guarded(0)
    except BaseException:
        give_up()
        raise
    finally:
        futures.wait(running)
        if not is_main:
            pool.shutdown()
    for own in running:
        own.result()


@lru_cache(maxsize=4)
def _kept_threads(n_threads):
    """Return a cached pool of threads; starting threads takes as long as a small batch."""
    return futures.ThreadPoolExecutor(n_threads, thread_name_prefix="sklearn_sparsemap")


def over_groups(function, groups, n_jobs):
    """Return the results of ``function(group, n_jobs)`` for all groups, computed in parallel if there are many groups.

    With few groups they are computed one after the other, and each call may use `n_jobs` threads itself.
    """
    n_threads = count_threads(n_jobs)
    if n_threads == 1 or len(groups) < 2 * n_threads:
        return [function(group, n_jobs) for group in groups]
    with futures.ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(function, groups, repeat(1)))
