"""Mixed-integer programs by HiGHS, without the debugging output that HiGHS writes to the standard output.

Used by `inference` and `structures`.
"""

import ctypes
import os
import tempfile
import threading
from contextlib import contextmanager

from scipy import optimize

# Prefix of lines that HiGHS writes by `printf` regardless of its options (HiGHS issue 2783).
_DEBUGGING = b"HighsMipSolverData::"

_lock = threading.Lock()
_captures = []  # one capture while any thread is within `_without_debugging`
_n_inside = 0


def milp(*arguments, **options):
    """Call `scipy.optimize.milp` without debugging output."""
    with _without_debugging():
        return optimize.milp(*arguments, **options)


@contextmanager
def _without_debugging():
    """Drop HiGHS's debugging lines from the standard output; all other output is passed on when the context ends.

    The file behind the standard output belongs to the whole process, so one capture serves all threads.
    """
    global _n_inside
    with _lock:
        if not _n_inside:
            _captures.append(_Capture())
        _n_inside += 1
    try:
        yield
    finally:
        with _lock:
            _n_inside -= 1
            if not _n_inside:
                _captures.pop().end()


class _Capture:
    """C's standard output, redirected to a file; nothing if there is none, or it cannot be flushed."""

    def __init__(self):
        self._file = None
        try:
            # On Windows this fails, and nothing is captured.
            self._flush = ctypes.CDLL(None).fflush
            self._flush(None)
            self._saved = os.dup(1)
        except (OSError, TypeError, AttributeError):
            return
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        os.dup2(self._file.fileno(), 1)

    def end(self):
        if self._file is None:
            return
        self._flush(None)
        os.dup2(self._saved, 1)
        os.close(self._saved)
        with self._file as file:
            file.seek(0)
            kept = b"".join(line for line in file.read().splitlines(True) if not line.startswith(_DEBUGGING))
        if kept:
            with open(1, "wb", closefd=False) as out:
                out.write(kept)
