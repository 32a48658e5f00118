"""All code that depends on Numba's internals, and its replacement for versions of Numba that were not tested.

A backend compiles functions. All three have the same names, on which `_core/jit` builds kernels and entries:
- `linked`: kernels are linked into entries, which compiles two to three times as fast; for `mode.TESTED_VERSIONS`.
- `plain`: `numba.njit`, for all other versions, and if ``SKLEARN_SPARSEMAP_PLAIN_NUMBA=1``.
- `interpreted`: Python runs the kernels, if ``NUMBA_DISABLE_JIT=1``. Debuggers and coverage tools need that.
"""

from contextlib import contextmanager
from itertools import count
from secrets import randbits

from llvmlite.binding.ffi import lib
from numba.core.bytecode import FunctionIdentity
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher  # noqa: F401

# The locks of LLVM and of Numba, in the opposite order in which a thread takes them.
LOCKS = lib._lock._lock, global_compiler_lock._lock


@contextmanager
def without_timers():
    """Within this context Numba does not time calls of LLVM in this process, which took 3 % of the compilation time."""
    callbacks = lib._lock._cblist
    # With the lock, so that no thread is between the start and the end of a call.
    with lib._lock._lock:
        numbas, callbacks[:] = callbacks[:], []
    try:
        yield
    finally:
        with lib._lock._lock:
            callbacks[:0] = numbas


# The name of a compiled function ends with a number that Numba counts from 1 in each process. Two processes could give
# one name to different closures, and a third one, which loads the code of both, could then call the wrong one.
FunctionIdentity._unique_ids = count(randbits(40))
