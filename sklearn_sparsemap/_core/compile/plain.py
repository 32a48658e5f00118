"""The backend for versions of Numba that were not tested: `numba.njit` alone."""

from types import FunctionType

from numba import jit, njit, types

from .by_type import by_type
from .mode import CHECKS_BOUNDS
from .sources import digest_of

__all__ = ["FirstClass", "FunctionTable", "by_address", "by_type", "compile_entry", "compile_kernel", "handle_of"]

FirstClass = types.FunctionType


def by_address(fields, cls):
    """Return the type of a namedtuple of this class, whose fields have these types, as an argument of entries."""
    return types.BaseTuple.from_types(tuple(fields), cls)


class TupleTable:
    """Tables of at most four functions of one type: tuples. `at` is for kernels."""

    _SIZE = 4

    def __init__(self, function_type):
        self.type = types.UniTuple(function_type, self._SIZE)
        self.at = njit(lambda table, place: table[place])

    def of(self, functions, spare):
        """Return a table, filled up with the function that `spare` returns."""
        if len(functions) > self._SIZE:
            raise ValueError(f"with plain Numba a graph can hold at most {self._SIZE} kinds of structures")
        return (*functions, *[spare()] * (self._SIZE - len(functions)))


FunctionTable = TupleTable


class _Argument(type(njit(lambda: None))):
    """A compiled function whose type, as an argument, depends on its signature only."""

    @property
    def _numba_type_(self):
        return FirstClass(self.nopython_signatures[0])


def compile_kernel(function, options):
    """Return a function that compiled functions call; see `linked`."""
    return njit(**options)(function)


def compile_entry(function, signature, is_argument, options):
    """Return a function that Python calls; see `linked`."""
    function = _named_by_sources(function, {**options, "types": (signature.return_type, *signature.args)})
    try:
        dispatcher = njit(**options, cache=True)(function)
    except RuntimeError as error:
        # No folder of the cache is writable: each process compiles.
        if "cannot cache function" not in str(error):
            raise
        dispatcher = njit(**options)(function)
    dispatcher.compile(signature)
    dispatcher.disable_compile()
    if is_argument:
        dispatcher.__class__ = _Argument
    return dispatcher


def _named_by_sources(function, options):
    """Copy a function under a name that changes with the code that it uses.

    Numba's cache compares the file of the function only, not the files of its callees. But a function of another name
    has another place in the cache.
    """
    code, scope = function.__code__, function.__globals__
    copy = FunctionType(code, scope, function.__name__, function.__defaults__, function.__closure__)
    tag = digest_of(function, options).hex()[:16] + ("_checked" if CHECKS_BOUNDS else "")
    copy.__module__, copy.__qualname__ = function.__module__, f"{function.__qualname__}_{tag}"
    return copy


def handle_of(dispatcher, signature):
    """Return a compiled function as an argument of compiled functions."""
    if isinstance(dispatcher, _Argument):
        return dispatcher
    # A copy: a user's function stays as it is.
    copy = jit(signature, **dispatcher.targetoptions)(dispatcher.py_func)
    copy.__class__ = _Argument
    return copy
