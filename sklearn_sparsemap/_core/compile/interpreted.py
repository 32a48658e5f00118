"""The backend for ``NUMBA_DISABLE_JIT=1``: Python runs the kernels, hundreds of times slower."""

import operator

import numpy as np
from numba import types

__all__ = ["FirstClass", "FunctionTable", "by_address", "by_type", "compile_entry", "compile_kernel", "handle_of"]

FirstClass = types.FunctionType


def by_address(fields, cls):
    """Return the type of a namedtuple of this class, whose fields have these types, as an argument of entries."""
    return types.BaseTuple.from_types(tuple(fields), cls)


class FreeTable:
    """Tables of any number of functions: tuples."""

    def __init__(self, function_type):
        self.type = types.UniTuple(function_type, 0)
        self.at = operator.getitem

    def of(self, functions, spare):
        """Return a table."""
        return tuple(functions)


FunctionTable = FreeTable


class _Interpreted:
    """A Python function that is called with numbers of NumPy's, whose arithmetic is that of compiled functions.

    Python's own numbers raise an exception at a division by zero.
    """

    def __init__(self, function, signature):
        self._function = function
        self._converters = [_converter(kind) for kind in signature.args]
        self._convert_result = _converter(signature.return_type)

    def __call__(self, *args):
        converted = [
            arg if convert is None else convert(arg) for convert, arg in zip(self._converters, args, strict=True)
        ]
        with np.errstate(all="ignore"):
            result = self._function(*converted)
        return result if self._convert_result is None else self._convert_result(result)


def _converter(numba_type):
    """Return the NumPy type of a number's Numba type; None for all other types."""
    name = "bool_" if numba_type == types.boolean else str(numba_type)
    return getattr(np, name) if isinstance(numba_type, _NUMBERS) else None


_NUMBERS = types.Boolean, types.Integer, types.Float


def compile_kernel(function, options):
    """Return a function that kernels and entries call."""
    return function


def compile_entry(function, signature, is_argument, options):
    """Return a function that Python calls."""
    return _Interpreted(function, signature)


def handle_of(function, signature):
    """Return a function as an argument of kernels."""
    return function


def by_type(kernels, options):
    """Return a function that kernels call, which forwards to the kernel for the type of its first argument."""

    def choose(first, *others):
        return kernels[type(first)](first, *others)

    return choose
