"""Numba's cache of compiled code, made safe for a package that is upgraded.

Numba takes an entry of its cache as fresh as long as the file of the function itself is unchanged, and compiled code
holds copies of its callees: where cache files outlive an upgrade, old code would run. Here an entry also carries a
digest of all sources of the package. And what was damaged on disk is compiled anew, where Numba fails or crashes.
"""

import hashlib
import pickle
from functools import lru_cache
from importlib.resources import files

from numba.core.caching import FunctionCache, IndexDataCacheFile

_DIGEST_BYTES = hashlib.sha256().digest_size
# What has no kernels, and is used by none.
_WITHOUT_KERNELS = {
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
            elif entry.name != "__pycache__" and entry.is_dir() and f"{prefix}{entry.name}" not in _WITHOUT_KERNELS:
                add(entry, f"{prefix}{entry.name}/")

    add(files(__package__), "")
    return digest.digest()


class _CheckedFile(IndexDataCacheFile):
    """The files of one function: an index by signature, and compiled code behind its digest."""

    @property
    def _source_stamp(self):
        return self._own_stamp, package_digest()

    @_source_stamp.setter
    def _source_stamp(self, stamp):
        # Of the function's own file. All others are read when something is loaded or compiled, not at import.
        self._own_stamp = stamp

    def _load_index(self):
        try:
            return super()._load_index()
        except Exception:
            # No index that could be read: as good as none.
            return {}

    def _load_data(self, name):
        with open(self._data_path(name), "rb") as file:
            found = file.read()
        if hashlib.sha256(found[_DIGEST_BYTES:]).digest() != found[:_DIGEST_BYTES]:
            # For the caller, as if the file were gone.
            raise OSError(f"{name} is damaged")
        return pickle.loads(found[_DIGEST_BYTES:])

    def _save_data(self, name, data):
        dumped = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(hashlib.sha256(dumped).digest() + dumped)


class PackageCache(FunctionCache):
    """The cache of one function of this package."""

    def __init__(self, function):
        super().__init__(function)
        self._cache_file = _CheckedFile(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=self._impl.locator.get_source_stamp(),
        )
