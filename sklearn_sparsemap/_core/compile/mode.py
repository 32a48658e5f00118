"""The choice of a backend, made once, at import."""

import os

from numba import config, version_info

# Tested versions of Numba: (major, minor), inclusive. The last one passes the whole test suite. The first one passes
# the tests of inference, factors and the group lasso.
TESTED_VERSIONS = (0, 60), (0, 68)

IS_INTERPRETED = bool(config.DISABLE_JIT)
IS_LINKED = (
    not IS_INTERPRETED
    and os.environ.get("SKLEARN_SPARSEMAP_PLAIN_NUMBA", "0") in ("", "0")
    and TESTED_VERSIONS[0] <= version_info.short <= TESTED_VERSIONS[1]
)
# If True (``NUMBA_BOUNDSCHECK=1``), compiled code checks each index. Such code is cached separately.
CHECKS_BOUNDS = bool(config.BOUNDSCHECK)
