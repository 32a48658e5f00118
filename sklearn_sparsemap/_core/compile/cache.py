"""Numba's cache of compiled code, made safe for a package that is upgraded.

Numba considers cached code fresh as long as the file of the function itself is unchanged, but compiled code contains
copies of its callees. If cache files outlive an upgrade, old code would run. So the cache compares a digest of all code
that the function uses. A damaged file is compiled again; without this check Numba fails or crashes.
"""

import hashlib
import pickle
import sys

from numba.core.caching import FunctionCache, IndexDataCacheFile

from .mode import CHECKS_BOUNDS
from .sources import digest_of

_DIGEST_BYTES = hashlib.sha256().digest_size


class _CheckedFile(IndexDataCacheFile):
    """The files of one function: an index by signature, and compiled code behind its digest."""

    def _load_index(self):
        try:
            return super()._load_index()
        except Exception:
            # An unreadable index counts as an empty one.
            return {}

    def _load_data(self, name):
        with open(self._data_path(name), "rb") as file:
            found = file.read()
        if hashlib.sha256(found[_DIGEST_BYTES:]).digest() != found[:_DIGEST_BYTES]:
            # Numba then compiles, as if the file did not exist.
            raise OSError(f"{name} is damaged")
        return pickle.loads(found[_DIGEST_BYTES:])

    def _save_data(self, name, data):
        dumped = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(hashlib.sha256(dumped).digest() + dumped)


class PackageCache(FunctionCache):
    """The cache of one function of this package."""

    def __init__(self, function, options):
        super().__init__(function)
        # Numba's names have numbers of lines, so that any edit above a function would make its code useless.
        names = [function.__module__.rpartition(".")[2], function.__name__, sys.implementation.cache_tag]
        self._cache_file = _CheckedFile(
            cache_path=self._cache_path,
            filename_base=".".join(names + ["checked"] * CHECKS_BOUNDS),
            source_stamp=digest_of(function, options),
        )

    def _index_key(self, sig, codegen):
        # Numba adds a hash of the pickled closure, which differs in each process. The digest covers closures.
        return sig, codegen.magic_tuple()
