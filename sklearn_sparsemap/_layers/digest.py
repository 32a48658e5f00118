"""Digests of structures, graphs and functions, which are the same in all processes.

Used by `entry.py`.
"""

import dis
import hashlib
import types
from functools import partial
from uuid import uuid4

import numpy as np
from scipy import sparse

from .._core.jit import is_compiled
from .._core.keys import HasContent, as_key

_PLAIN = (str, bytes, int, float, complex, bool, type(None), type(...))


def digest_of(what):
    """Return a text that is equal, in all processes, for structures, graphs or functions that are equal.

    Functions are described by their code, their defaults, and the numbers, arrays and functions that they read from
    outside. A digest of other objects is never that of another process.
    """
    return hashlib.sha256(repr(_described(what, ())).encode()).hexdigest()[:32]


def _described(value, around):
    """Return nested tuples of plain values. `around` are the objects that contain the value."""
    if type(value) in _PLAIN:
        return value
    if any(value is own for own in around):
        return "recursive"
    around = (*around, value)
    if isinstance(value, HasContent):
        return type(value).__qualname__, _described(value.content(), around)
    if isinstance(value, tuple | list):
        return tuple(_described(own, around) for own in value)
    if isinstance(value, set | frozenset):
        return "set", tuple(sorted((_described(own, around) for own in value), key=repr))
    if isinstance(value, type | types.BuiltinFunctionType | types.ModuleType | np.ufunc):
        return getattr(value, "__qualname__", value.__name__)
    if isinstance(value, types.CodeType):
        names = value.co_names, value.co_varnames, value.co_freevars
        return value.co_name, value.co_code, *names, _described(value.co_consts, around)
    if isinstance(value, types.MethodType):
        return _described((value.__func__, value.__self__), around)
    if isinstance(value, partial):
        return "partial", _described((value.func, value.args, as_key(value.keywords)), around)
    if isinstance(value, types.FunctionType):
        return value.__qualname__, _described(value.__code__, around), _described(_read_by(value), around)
    if is_compiled(value):
        return "compiled", _described(value.py_func, around)
    if isinstance(value, dict | np.ndarray | np.generic) or sparse.issparse(value):
        return _described(as_key(value), around)
    return str(uuid4())


def _read_by(function):
    """Return the values that a function reads: its defaults, the variables around it, and globals."""
    outside = [_content_of(cell) for cell in function.__closure__ or ()]
    names = sorted({step.argval for step in dis.get_instructions(function) if step.opname == "LOAD_GLOBAL"})
    kinds = (*_PLAIN, tuple, list, np.ndarray, types.FunctionType, HasContent)
    known = [(name, function.__globals__.get(name)) for name in names]
    read = [(name, value) for name, value in known if isinstance(value, kinds)]
    return function.__defaults__, as_key(function.__kwdefaults__), outside, read


def _content_of(cell):
    try:
        return cell.cell_contents
    except ValueError:
        # The variable has no value yet, as that of a function that calls itself.
        return None
