"""Numba's cache of compiled code, made safe for a package that is upgraded.

Numba considers cached code fresh as long as the file of the function itself is unchanged, but compiled code contains
copies of its callees. If cache files outlive an upgrade, old code would run. So code is stored under a digest of all
code that the function uses, first searched for in the package itself (`stored.py`). Damaged code is compiled again.
"""

import hashlib
import os
import pickle
import sys
from contextlib import suppress
from functools import cached_property

from llvmlite.binding import parse_assembly
from numba.core.caching import CompileResultCacheImpl, NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from . import stored
from .mode import CHECKS_BOUNDS
from .sources import digest_of


class PackageCache(NullCache):
    """The compiled code of one entry, which has one signature."""

    def __init__(self, function, signature, options):
        types = signature.return_type, *signature.args
        digest = digest_of(function, {**options, "types": types})
        # Numba's names have numbers of lines, so that any edit above a function would make its code useless.
        names = [function.__module__.rpartition(".")[2], function.__name__, sys.implementation.cache_tag]
        names += [hashlib.sha256(str(types).encode()).hexdigest()[:8], *["checked"] * CHECKS_BOUNDS]
        self._function = function
        self._name = ".".join(names)
        self.key = hashlib.sha256(self._name.encode() + digest).hexdigest()

    @cached_property
    def _numbas(self):
        """Numba's own cache, which finds the folder; None if no folder is writable, so that each process compiles."""
        try:
            return CompileResultCacheImpl(self._function)
        except RuntimeError as error:
            if "cannot cache function" not in str(error):
                raise

    def path(self, target):
        """Return the path of the code that this machine compiles for a target."""
        place = hashlib.sha256(str(target).encode()).hexdigest()[:8]
        return os.path.join(self._numbas.locator.get_cache_path(), f"{self._name}.{place}.nbc")

    def load_overload(self, sig, target_context):
        target_context.refresh()
        target = target_context.codegen().magic_tuple()
        with suppress(Exception):
            if (code := stored.read_shipped(self.key, target)) is not None:
                return CompileResult._rebuild(target_context, *pickle.loads(code))
        if self._numbas is not None and (code := stored.read(self.path(target), self.key, target)) is not None:
            with suppress(ModuleNotFoundError):  # a module of its functions may have another name by now
                return CompileResult._rebuild(target_context, *pickle.loads(code))

    def save_overload(self, sig, data):
        if self._numbas is not None and self._numbas.check_cachable(data):
            # Names of functions replace LLVM's code, which only compiled callers would need: two thirds of the bytes.
            names = [f'@"{function.name}" = global i8 0' for function in data.library.get_defined_functions()]
            (name, kind, (code, _)), *others = self._numbas.reduce(data)
            code = name, kind, (code, parse_assembly("\n".join(names)).as_bitcode())
            target = data.codegen.magic_tuple()
            stored.write(self.path(target), self.key, target, dumps((code, *others)))
