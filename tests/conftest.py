"""Shared set-up. Runs before anything imports NumPy or Numba."""

import hashlib
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _sources_hash():
    digest = hashlib.sha256()
    for path in sorted((ROOT / "sklearn_sparsemap").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


# Numba does not notice an edited callee in another file: a cache of their own for each state of the sources.
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba_cache" / _sources_hash()))
# The tests multiply small matrices only: more threads of BLAS just wait for each other, three times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
