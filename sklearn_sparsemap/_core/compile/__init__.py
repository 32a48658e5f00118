"""All code that depends on Numba's internals, and its replacement for versions of Numba that were not tested.

A backend compiles functions. Each of the three has the same names, and `_core/jit` builds kernels and entries on one of
them:

- `linked`: kernels are linked into the entries that use them, which compiles two to three times as fast. It depends on
  Numba's internals, and is the default with the versions in `mode.TESTED_VERSIONS`.
- `plain`: `numba.njit`, for all other versions, and if ``SKLEARN_SPARSEMAP_PLAIN_NUMBA=1``.
- `interpreted`: Python runs the kernels, if ``NUMBA_DISABLE_JIT=1``. Debuggers and coverage tools need that.
"""

from itertools import count
from secrets import randbits

from numba.core.bytecode import FunctionIdentity
from numba.core.dispatcher import Dispatcher

__all__ = ["Dispatcher"]

# The name of a compiled function ends with a number that Numba counts from 1 in each process. Two processes could give
# one name to different closures, and a third one, which loads the code of both, could then call the wrong one.
FunctionIdentity._unique_ids = count(randbits(40))
