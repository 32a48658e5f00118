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

    Comments, docstrings, and the files that functions are in, do not change it. `cache.py` and `plain.py` call it.
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
    code, outer, uses = _used_by(function)
    for part in _parts([code, function.__defaults__, outer, uses, options]):
        found.update(part.encode() + b"\n")
    return found.digest()


def _used_by(function):
    """Return the code of a function, the contents of its cells, and the globals that it uses: (name, value)."""
    scope, cells, code = function.__globals__, function.__closure__ or (), function.__code__
    if function.__doc__ is not None:
        # The first constant of code is its docstring.
        code = code.replace(co_consts=(None, *code.co_consts[1:]))
    return code, [cell.cell_contents for cell in cells], [(name, scope[name]) for name in _names(code) if name in scope]


def size_of(function):
    """Return the bytes of bytecode of a function and all kernels that it uses. `_core/jit.py` expects time by it."""
    functions, size = [function], 0
    for each in functions:
        code, *values = _used_by(each)
        size += sum(len(part.co_code) for part in _codes(code))
        for value in values:
            if isinstance(value, list | tuple):
                # Its elements come later in the same loop.
                values.extend(value)
            elif isinstance(value, dict):
                values.extend(value.values())
            elif isinstance(getattr(value, "kernels", None), dict):
                values.append(value.kernels)
            elif isinstance(value, Dispatcher) and value.py_func not in functions:
                functions.append(value.py_func)
    return size


def _names(code):
    """Return the names of globals and attributes in code and in the functions within it."""
    return [name for part in _codes(code) for name in part.co_names]


def _codes(code):
    """Yield code, and that of the functions within it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


# Digests by kernel.
_known = {}


def _digest_of_kernel(kernel):
    if kernel not in _known:
        _known[kernel] = b"itself"
        _known[kernel] = _digest_of_function(kernel.py_func, kernel.targetoptions)
    return _known[kernel]


def _parts(value):
    """Yield strings that together determine what compiled code makes of a value."""
    if isinstance(value, types.BaseTuple):
        # A namedtuple's type is written without the names of its fields.
        yield from _parts([str(value), getattr(value, "fields", None), list(value)])
    elif hasattr(value, "of_tuple"):
        yield from _parts(["by address", value.of_tuple])
    elif isinstance(value, _CONSTANTS):
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
