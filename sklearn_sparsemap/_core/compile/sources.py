"""A digest of all code that becomes part of a compiled function, which tells whether cached code is up to date."""

import hashlib
import os
from functools import lru_cache
from importlib.resources import files
from types import CodeType, ModuleType

import numpy as np
from numba import types

from . import Dispatcher

_CONSTANTS = bool, int, float, complex, str, bytes, type(None), np.generic, types.Type
_PACKAGE = __package__.partition(".")[0]


def digest_of(function, options):
    """Return a digest of a function, of all kernels and constants that it uses, and of Numba's options.

    Comments, docstrings, and the files that functions are in, do not change it.
    """
    return hashlib.sha256(_digest_of_compiler() + _digest_of_function(function, options)).digest()


@lru_cache(maxsize=1)
def _digest_of_compiler():
    """Return a digest of the sources in this folder, which say how to compile, and have intrinsics."""
    found = hashlib.sha256()
    for source in sorted(files(__package__).iterdir(), key=lambda source: source.name):
        if source.name.endswith(".py"):
            found.update(source.read_bytes())
    return found.digest()


def _digest_of_function(function, options):
    found = hashlib.sha256()
    scope, cells, code = function.__globals__, function.__closure__ or (), function.__code__
    if function.__doc__ is not None:
        # The first constant of code is its docstring.
        code = code.replace(co_consts=(None, *code.co_consts[1:]))
    uses = [(name, scope[name]) for name in _names(code) if name in scope]
    outer = [cell.cell_contents for cell in cells]
    for part in _parts([code, function.__defaults__, outer, uses, options]):
        found.update(part.encode() + b"\n")
    return found.digest()


def _names(code):
    """Return the names of globals and attributes in code and in the functions within it."""
    inner = (_names(const) for const in code.co_consts if isinstance(const, CodeType))
    return [*code.co_names, *(name for names in inner for name in names)]


# Digests by kernel.
_known = {}


def _digest_of_kernel(kernel):
    if kernel not in _known:
        _known[kernel] = b"itself"
        _known[kernel] = _digest_of_function(kernel.py_func, kernel.targetoptions)
    return _known[kernel]


def _parts(value):
    """Yield strings that together determine what compiled code makes of a value."""
    if isinstance(value, _CONSTANTS):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, np.ndarray):
        yield from _parts([str(value.dtype), value.shape, value.tobytes()])
    elif isinstance(value, list | tuple):
        yield f"{len(value)} values"
        for own in value:
            yield from _parts(own)
    elif isinstance(value, dict):
        yield from _parts(list(value.items()))
    elif isinstance(value, set | frozenset):
        yield from _parts(sorted(value))
    elif isinstance(value, CodeType):
        yield from _parts([value.co_code, value.co_consts, value.co_names, value.co_varnames])
    elif isinstance(value, Dispatcher):
        yield _digest_of_kernel(value).hex()
    elif isinstance(value, ModuleType) and value.__name__.partition(".")[0] != _PACKAGE:
        yield value.__name__
    elif hasattr(value, "__qualname__"):
        yield f"{value.__module__}.{value.__qualname__}"
        # The fields of a namedtuple, and the kernels of `by_type`.
        yield from _parts([getattr(value, name, None) for name in ("_fields", "kernels")])
    elif type(value).__module__.partition(".")[0] == "numba":
        yield type(value).__qualname__
    else:
        # Its code is compiled in each process.
        yield os.urandom(16).hex()
