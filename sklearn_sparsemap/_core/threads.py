"""Threads over ranges of problems, and signals while kernels run.

Used by `_graphs`, `_layers`, `_numerics`, `_training`, `distributed`, `features`, `inference`, `losses` and
`structures`.
"""

import multiprocessing
import os
import signal
import socket
import threading
from _thread import allocate_lock, get_ident
from collections import deque
from concurrent import futures
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import lru_cache, partial
from itertools import repeat
from queue import SimpleQueue
from time import perf_counter

import numpy as np
from joblib import cpu_count, effective_n_jobs

from .jit import working_time

_RANGES_PER_THREAD = 8  # ranges for each thread; more balance the load better, with more calls
_LEAST_COST = 1500  # parts of a range, at least; about half a millisecond, so that the overhead of a call is small
_COST_PER_CALL = 50_000  # parts after which even a single thread returns from the kernels, to notice signals
_LOOK_EVERY = 0.05  # seconds between two checks for signals, on systems where a wait cannot be interrupted
_PATIENCE = 0.5  # seconds to wait for a kernel after a signal; a single large problem may take longer
_UNDONE = object()  # the result of a range that is not computed yet


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


class _Call:
    """A function that another thread runs once.

    Attributes
    ----------
    error : BaseException or None
        The exception of the function, after it has ended.
    """

    def __init__(self, function):
        # Whoever takes the function out of the list decides whether it runs.
        self._left = [function]
        self._ended = allocate_lock()
        self._has_ended = False
        self.result = self.error = None
        self._ended.acquire()

    def run(self):
        """Run the function, unless it was cancelled."""
        try:
            self.result = self._left.pop()()
        except BaseException as error:
            self.error = error

    def end(self):
        """Wake the caller."""
        # A handler can raise an exception just after the caller has got the lock, so the lock alone is not enough.
        self._has_ended = True
        self._ended.release()

    def outcome(self):
        """Return the result of the function, or raise its exception."""
        error, self.error = self.error, None
        if error is None:
            return self.result
        try:
            raise error
        finally:
            # A reference cycle through the traceback would keep arrays.
            del error

    def cancel(self):
        """Prevent the function from running; return whether it has not begun."""
        try:
            self._left.pop()
        except IndexError:
            return False
        return True

    def wait(self, seconds=None):
        """Wait until the function has ended; return whether it has. Signal handlers run meanwhile."""
        deadline = None if seconds is None else perf_counter() + seconds
        # A wait without a timeout cannot be interrupted on every system.
        while not (self._has_ended or self._ended.acquire(timeout=_LOOK_EVERY)):
            if deadline is not None and perf_counter() > deadline:
                return False
        return True

    def wait_in_any_case(self, give_up, seconds=None):
        """Wait, even if signal handlers raise exceptions; raise the last of them afterwards."""
        last = None
        while True:
            try:
                self.wait(seconds)
                break
            except BaseException as error:
                last = error
                give_up()
        if last is not None:
            raise last


class _Worker:
    """A thread that runs one call after the other. Starting a thread takes as long as a small batch."""

    idle = deque()

    def __init__(self):
        self.calls = SimpleQueue()
        # The end of the interpreter does not wait for it.
        threading.Thread(target=self._work, name="sklearn_sparsemap", daemon=True).start()

    def _work(self):
        while True:
            call = self.calls.get()
            call.run()
            # The caller may need this thread again as soon as the call has ended.
            self.idle.append(self)
            call.end()
            # An idle thread keeps no arrays.
            del call

    @classmethod
    def give(cls, call):
        """Let an idle thread, or a new one, run a call."""
        try:
            worker = cls.idle.pop()
        except IndexError:
            worker = cls()
        worker.calls.put(call)


def interruptible(function, stop, patience=None):
    """Call a function that releases the GIL, so that signal handlers can end it at a safe point.

    Python runs signal handlers in its main thread only, and not before a kernel there returns. So the main thread waits
    while another thread runs the function. If a handler raises an exception, such as KeyboardInterrupt, the function is
    stopped. This costs 10 to 50 us. A function that another thread calls is called directly.

    Parameters
    ----------
    function : callable
        Called with no arguments, in the context of the caller (`contextvars`).
    stop : callable
        Makes the function return soon.
    patience : float, default=None
        Seconds to wait for the function after `stop`. It may then go on in the background, so it must not write into
        arrays that are used after an exception. By default, wait until it has returned.
    """
    main = threading.main_thread()
    # At exit, no thread can be started.
    if get_ident() != main.ident or not main.is_alive():
        return function()
    call = _Call(partial(copy_context().run, function))
    try:
        _Worker.give(call)
        call.wait()
    except BaseException:
        stop()
        if not call.cancel():
            call.wait_in_any_case(stop, patience)
        raise
    return call.outcome()


class _Watch:
    """A thread that notices signals while the main thread is in a short kernel; see `_run_until_signal`.

    Python writes the number of a signal that has a handler to a socket immediately, whatever its main thread does.

    Attributes
    ----------
    wakeup_fd : int
        The file descriptor to which Python writes signals.
    stops : list of callables
        Make the running kernels return soon, that of the outer call first.
    lock : threading.Lock
        Held while they are called.
    """

    def __init__(self):
        self._inbox, self._outbox = socket.socketpair()
        self._outbox.setblocking(False)
        self.wakeup_fd = self._outbox.fileno()
        self.stops = []
        self.lock = threading.Lock()
        threading.Thread(target=self._look, name="sklearn_sparsemap_watch", daemon=True).start()

    def _look(self):
        # It ends if a process closes all file descriptors.
        with suppress(OSError):
            while self._inbox.recv(64):
                with self.lock:
                    for stop in self.stops:
                        stop()

    def close(self):
        """Close the sockets of a forked process, which has no watching thread."""
        if self.stops:
            signal.set_wakeup_fd(-1)
        self._inbox.close()
        self._outbox.close()


@lru_cache(maxsize=1)
def _watch():
    return _Watch()


_set_wakeup_fd = partial(signal.set_wakeup_fd, warn_on_full_buffer=False)


def _run_until_signal(function, stop):
    """Call a function in the main thread, and stop it when a signal arrives; return whether it was called.

    This costs 3 us, so it is for calls that can be short. No handler is installed or replaced: a signal stops the
    function, after which Python runs its handler. If that raises no exception, the caller completes what is left.
    If this is another thread, or other code already watches signals by a file descriptor, such as an event loop, the
    function is not called.
    """
    if get_ident() != threading.main_thread().ident:
        return False
    watch = _watch()
    before = []
    stops, own = watch.stops, watch.wakeup_fd
    try:
        stops.append(stop)
        try:
            # No handler can raise an exception between these two functions, so the former descriptor is never lost.
            before.extend(map(_set_wakeup_fd, (own,)))
        except (ValueError, OSError):
            # The process has closed all file descriptors.
            return False
        if before[0] != -1 and before[0] != own:
            return False
        function()
        return True
    finally:
        with watch.lock:
            if stops and stops[-1] is stop:
                stops.pop()
        if before:
            _set_wakeup_fd(-1 if before[0] == own and not stops else before[0])


def _after_fork():
    # Threads do not survive a fork.
    _Worker.idle.clear()
    if _watch.cache_info().currsize:
        _watch().close()
        _watch.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def count_threads(n_jobs):
    """Return the number of threads for `n_jobs`, by joblib's conventions.

    In a daemonic process, such as a worker that loads data, joblib returns 1 because no more processes can be started.
    Threads can be started there, so this function counts cores itself.
    """
    if not threading.main_thread().is_alive():
        # The interpreter ends: threads that outlive the main one, and functions of `atexit`, cannot start others.
        return 1
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


def _run_ranges(function, cuts, left, results, stopped):
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
    stopped : list
        Not empty once the calls have been stopped. The result of a running call is then incomplete, and not kept.
    """
    while left:
        try:
            number = left.popleft()
        except IndexError:
            return
        before, _deferred.errors = _deferred.errors, []
        try:
            result = function(cuts[number], cuts[number + 1])
            errors = _deferred.errors
        finally:
            _deferred.errors = before
        if errors:
            # `pop` avoids a reference cycle between the exception, its traceback and this list.
            raise errors.pop()
        if not stopped:
            results[number] = result


def over_ranges(function, costs, n_jobs, cost_per_call=_COST_PER_CALL, limit=None):
    """Call ``function(start, stop)`` for ranges that cover all problems, in threads.

    The results do not depend on `n_jobs` if `function` treats each problem independently. If a signal handler raises an
    exception meanwhile, the calls end soon. `function` may then go on in the background for a while, and it may be
    called twice for the same range, so it must only write arrays of its own, and not read what it has written.

    Parameters
    ----------
    function : callable
        Releases the GIL. Called with the first problem of a range, and the one after its last.
    costs : array-like of shape (n_problems,)
        Cost of each problem: its number of parts.
    n_jobs : int or None
        As in joblib: None is 1 unless a `joblib.parallel_config` says otherwise, -1 is all cores.
    cost_per_call : int
        A thread returns to Python after about this cost, to notice signals.
    limit : int array, default=None
        The work limit that the calls read. If given, a signal sets it to zero, which ends the running calls early.

    Returns
    -------
    results : list
        The return values of the calls, in the order of the ranges.
    """
    n_threads = 1
    n_ranges = 1
    total = costs[0] if len(costs) else 0
    if len(costs) > 1:
        n_threads = count_threads(n_jobs)
        total = int(np.sum(costs))
        n_ranges = 1 + total // cost_per_call
        if n_threads > 1:
            n_ranges = max(n_ranges, n_threads * _RANGES_PER_THREAD)
            if cost_per_call == _COST_PER_CALL:
                n_ranges = min(n_ranges, max(n_threads, total // _LEAST_COST))
    cuts = [0, len(costs)] if n_ranges == 1 else cut_evenly(costs, n_ranges).tolist()
    left = deque(range(len(cuts) - 1))
    results = [_UNDONE] * (len(cuts) - 1)
    stopped = []
    run = work = partial(_run_ranges, function, cuts, left, results, stopped)
    if n_threads > 1 and len(results) > 1:
        # Each thread, including this one, takes the next range, which is cheaper than submitting each range.
        run = partial(together, lambda _: work(), min(n_threads, len(results)), left.clear)
    if limit is None and (total <= _COST_PER_CALL or np.max(costs) <= _COST_PER_CALL):
        run()
        return results

    def stop():
        left.clear()
        if limit is not None and not stopped:
            stopped.append(limit.copy())
            limit[:] = 0

    if limit is not None:
        if _run_until_signal(run, stop) and not stopped:
            return results
        # A handler has run, and raised no exception, or the calls have not begun.
        if stopped:
            limit[:] = stopped.pop()
        left.clear()
        left.extend(number for number, result in enumerate(results) if result is _UNDONE)
    interruptible(run, stop, _PATIENCE)
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
        # Calls that a signal has stopped are repeated with their former limit.
        while not ended.wait(_LOOK_EVERY):
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

    calls = [_Call(partial(guarded, number)) for number in range(1, n_threads)]
    try:
        for call in calls:
            _Worker.give(call)
        guarded(0)
    except BaseException:
        give_up()
        for call in calls:
            call.cancel() or call.wait_in_any_case(give_up)
        raise
    for call in calls:
        call.wait_in_any_case(give_up)
    for call in calls:
        call.outcome()


def over_groups(function, groups, n_jobs):
    """Return the results of ``function(group, n_jobs)`` for all groups, computed in parallel if there are many groups.

    With few groups they are computed one after the other, and each call may use `n_jobs` threads itself.
    """
    n_threads = count_threads(n_jobs)
    if n_threads == 1 or len(groups) < 2 * n_threads:
        return [function(group, n_jobs) for group in groups]
    with futures.ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(function, groups, repeat(1)))
