"""Mixed-integer programs by HiGHS, in another process.

HiGHS sometimes writes to the standard output by `printf`, whatever its options say (when it repairs a solution; HiGHS
issue 2783), and nothing can end a running search. Both are harmless in a process of its own. Starting it takes about
half a second of CPU time, so it is kept for a few seconds, and small programs are solved by `_numerics/zero_one.py`.

Used by `_numerics`.
"""

import atexit
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

from scipy import optimize

_SCRIPT = Path(__file__).with_name("highs_process.py")
_LOOK_EVERY = 0.05  # seconds between two checks for signals; a thread's end is noticed at once
_GRACE = 2.0  # seconds after its time limit at which a search is ended from outside
_idle = []  # processes that wait for a request


def milp(*arguments, **options):
    """Call `scipy.optimize.milp` in another process.

    An exception in this thread, such as the KeyboardInterrupt of Ctrl-C, ends the search at once. So does its time
    limit, in case HiGHS does not look at the clock; the result then has no solution and status 1.
    """
    if not sys.executable:
        return optimize.milp(*arguments, **options)
    request = (arguments, options)
    time_limit = (options.get("options") or {}).get("time_limit")
    while True:
        process = _take_idle()
        is_new = process.is_new
        try:
            answer = process.ask(request, time_limit)
        except _DiedError:
            process.end()
            if is_new:
                raise
            # Its idle time ended before the request came.
            continue
        except BaseException:
            process.end()
            raise
        if answer is None:
            process.end()
            return optimize.OptimizeResult(x=None, status=1, mip_dual_bound=None, message="the time limit was reached")
        _idle.append(process)
        if isinstance(answer, Exception):
            raise answer
        return answer


class _DiedError(RuntimeError):
    """A process ended without an answer."""


def _take_idle():
    """Return an idle process, or a new one."""
    while True:
        try:
            process = _idle.pop()
        except IndexError:
            return _Process()
        if process.is_alive():
            return process
        process.end()


class _Process:
    """A process that runs `highs_process.py`."""

    def __init__(self):
        # In a session of its own it does not get the Ctrl-C of the terminal.
        self._popen = subprocess.Popen(
            [sys.executable, str(_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._answer, self.is_new = None, True

    def is_alive(self):
        return self._popen.poll() is None

    def ask(self, request, time_limit):
        """Return the answer to a request; None if the process does not answer in time.

        Raises
        ------
        _DiedError
            If the process has died.
        """
        self._answer = None
        thread = threading.Thread(target=self._talk, args=(request,), daemon=True)
        thread.start()
        left = float("inf") if time_limit is None else time_limit + _GRACE + 10.0 * self.is_new
        while thread.is_alive() and left > 0.0:
            thread.join(_LOOK_EVERY)
            left -= _LOOK_EVERY
        if self._answer is None and not thread.is_alive():
            raise _DiedError("the process of HiGHS has died; is there enough memory?")
        self.is_new = False
        return self._answer

    def _talk(self, request):
        """Write a request and read the answer."""
        try:
            if self.is_new:
                pickle.dump(sys.path, self._popen.stdin)
            pickle.dump(request, self._popen.stdin)
            self._popen.stdin.flush()
            self._answer = pickle.load(self._popen.stdout)
        except (OSError, EOFError, pickle.UnpicklingError, ValueError):
            # The process was ended; `ask` tells.
            return

    def end(self):
        self._popen.kill()
        self._popen.wait()
        for pipe in (self._popen.stdin, self._popen.stdout):
            try:
                pipe.close()
            except OSError:
                # Closing writes what is left, which nobody reads.
                continue

    def forget(self):
        """Leave the process to the one that started it, of which this one is a fork."""
        self._popen.returncode = 0


def _end_all():
    while _idle:
        _idle.pop().end()


def _after_fork():
    while _idle:
        _idle.pop().forget()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    # A forked process must not talk to the processes of its parent.
    os.register_at_fork(after_in_child=_after_fork)
