"""The choice of a backend, made once, at import."""

import os

from numba import config, version_info

# (major, minor), inclusive: the whole test suite passed with the first and the last of them.
TESTED_VERSIONS = (0, 60), (0, 68)

IS_INTERPRETED = bool(config.DISABLE_JIT)
IS_LINKED = (
    not IS_INTERPRETED
    and os.environ.get("SKLEARN_SPARSEMAP_PLAIN_NUMBA", "0") in ("", "0")
    and TESTED_VERSIONS[0] <= version_info.short <= TESTED_VERSIONS[1]
)
# ``NUMBA_BOUNDSCHECK=1``: code that checks each index is cached apart from code that does not.
CHECKS_BOUNDS = bool(config.BOUNDSCHECK)
