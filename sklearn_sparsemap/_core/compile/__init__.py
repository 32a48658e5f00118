"""All code that depends on Numba's internals, and its replacement for versions of Numba that were not tested.

A backend compiles functions. Each of the three has the same names, and `_jit` builds kernels and entries on one of
them:

- `linked`: kernels are linked into the entries that use them, which compiles two to three times as fast. It depends on
  Numba's internals, and is the default with the versions in `mode.TESTED_VERSIONS`.
- `plain`: `numba.njit`, for all other versions, and if ``SKLEARN_SPARSEMAP_PLAIN_NUMBA=1``.
- `interpreted`: Python runs the kernels, if ``NUMBA_DISABLE_JIT=1``. Debuggers and coverage tools need that.
"""

from numba.core.dispatcher import Dispatcher

__all__ = ["Dispatcher"]
