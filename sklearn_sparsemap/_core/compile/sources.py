"""A digest of the package's sources, which tells whether cached code is up to date."""

import hashlib
from functools import lru_cache
from importlib.resources import files

# Packages and modules without kernels; no kernel depends on them.
WITHOUT_KERNELS = {
    *("_layers", "datasets", "distributed", "estimators", "factors", "features/_rows", "inference", "inspection"),
    *("jax", "metrics", "pipeline", "plotting", "torch"),
}


@lru_cache(maxsize=1)
def package_digest():
    """Return a digest of all sources of this package that kernels depend on."""
    digest = hashlib.sha256()

    def add(folder, prefix):
        for entry in sorted(folder.iterdir(), key=lambda e: e.name):
            if entry.name.endswith(".py"):
                digest.update(f"{prefix}{entry.name}\n".encode() + entry.read_bytes())
            elif entry.name != "__pycache__" and entry.is_dir() and f"{prefix}{entry.name}" not in WITHOUT_KERNELS:
                add(entry, f"{prefix}{entry.name}/")

    add(files(__package__.partition(".")[0]), "")
    return digest.digest()
