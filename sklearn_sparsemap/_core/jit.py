"""How kernels are compiled, cached and called. All code that depends on Numba's internals is in `_core/compile`.

Three kinds of compiled function are enough for the whole package:

- `kernel`: a function that other kernels call. It has no signature of its own; it is compiled with its caller, and
  becomes part of it (`_core/compile/linked.py`).
- `entry`: a function that Python calls. It has one explicit signature, is compiled at its first call (never at
  import), and is loaded from the cache in every later process.
- `as_oracle`: an entry with the signature of a MAP oracle. Kernels take it as a first-class function, so that one
  compiled solver serves every structure. Likewise ``Entry(function, signature)``, with another signature; `entry` makes
  one that kernels cannot take.

All are `nogil`, and functions with a signature are cached. Arrays must be C-contiguous and of one of the types below.
An argument of a read-only type accepts read-only and writable arrays, so no input triggers a second compilation.

Most rooms use this file.
"""

import gc
import logging
import threading
from contextlib import contextmanager
from functools import lru_cache
from time import perf_counter, thread_time

import numpy as np
from numba import NumbaError, njit, types

from .compile import LOCKS, Dispatcher
from .compile.mode import IS_INTERPRETED, IS_LINKED
from .compile.sources import size_of
from .forks import hold_around_forks

# The backends have the same names.
if IS_LINKED:
    from .compile import linked as _backend
elif IS_INTERPRETED:
    from .compile import interpreted as _backend
else:
    from .compile import plain as _backend

FLOATS = types.Array(types.float64, 1, "C", readonly=True)
FLOATS_32 = types.Array(types.float32, 1, "C", readonly=True)
FLOATS_2D = types.Array(types.float64, 2, "C", readonly=True)
INTS = types.Array(types.int64, 1, "C", readonly=True)
INTS_2D = types.Array(types.int64, 2, "C", readonly=True)
PARTS = types.Array(types.int32, 1, "C", readonly=True)
UINTS = types.Array(types.uint64, 1, "C", readonly=True)
FLOATS_OUT = types.Array(types.float64, 1, "C")
FLOATS_32_OUT = types.Array(types.float32, 1, "C")
FLOATS_2D_OUT = types.Array(types.float64, 2, "C")
INTS_OUT = types.Array(types.int64, 1, "C")
INTS_2D_OUT = types.Array(types.int64, 2, "C")
PARTS_OUT = types.Array(types.int32, 1, "C")
PARTS_2D_OUT = types.Array(types.int32, 2, "C")
UINTS_OUT = types.Array(types.uint64, 1, "C")

# `FirstClass` creates the type of a function argument of kernels from its signature. `FunctionTable` creates a kind of
# table of such functions from their type; kernels take an argument of its `type`, and call ``at(table, place)``.
FirstClass, FunctionTable = _backend.FirstClass, _backend.FunctionTable
# `by_address` creates the type of a namedtuple argument from the types of its fields and its class. Kernels pass it on
# by its address.
by_address = _backend.by_address

# value = oracle(scores, additional, dims, work, slots, additional_slots); see structures/_base.py
ORACLE_SIGNATURE = types.float64(FLOATS, FLOATS, INTS, FLOATS_OUT, PARTS_OUT, PARTS_OUT)
ORACLE = FirstClass(ORACLE_SIGNATURE)

_OPTIONS = {"nogil": True, "error_model": "numpy"}
# Sums may be reordered (so that they use vector instructions), but NaN and infinities keep their meaning.
_FAST_SUMS = {"reassoc", "contract", "nsz"}
_NO_NANS = {"nnan", "nsz"}
_entries = []
# A fork waits while another thread compiles: the child could not continue that, and would wait for these locks. They
# are in the opposite order in which a thread takes them. It can be the thread that forks.
for _lock in LOCKS:
    hold_around_forks(_lock)
_compile_lock = hold_around_forks(threading.RLock())


@contextmanager
def _seldom_collecting():
    """Within this context garbage collection runs less often; it took a tenth of the compilation time.

    The largest entry then holds some 30 MB more.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(max(thresholds[0], 500_000) if thresholds[0] else 0, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def kernel(function=None, *, fast_sums=False, no_nans=False):
    """Compile a function that is called from other kernels only.

    Parameters
    ----------
    function : callable
        The function; omitted when the decorator is used with options.
    fast_sums : bool, default=False
        Whether floating-point sums may be reordered. Only for plain dot products and updates.
    no_nans : bool, default=False
        Whether no value can be NaN, so that a running maximum uses vector instructions. Infinities keep their meaning.
    """
    if function is None:
        return lambda f: kernel(f, fast_sums=fast_sums, no_nans=no_nans)
    allowed = (_FAST_SUMS if fast_sums else set()) | (_NO_NANS if no_nans else set())
    return _backend.compile_kernel(function, {**_OPTIONS, "fastmath": allowed or False})


def in_python(compiled):
    """Return the Python function of a kernel, which Python can call."""
    return getattr(compiled, "py_func", compiled)


@kernel
def copy_into(target, source):
    """Copy `source` to the start of `target`, both 1-D.

    An explicit loop, because slice assignment also compiles the formatting of its error message, which takes seconds.
    """
    for i in range(source.shape[0]):
        target[i] = source[i]


# New arrays for kernels, whose arguments are int64. Each is compiled once; Numba compiles `np.empty` for each caller.


@kernel
def new_floats(n):
    """Return an array of `n` floats."""
    return np.empty(n)


@kernel
def new_float_rows(n, width):
    """Return an array of floats of shape (n, width)."""
    return np.empty((n, width))


@kernel
def new_ints(n):
    """Return an array of `n` ints."""
    return np.empty(n, np.int64)


@kernel
def new_parts(n):
    """Return an array of `n` parts."""
    return np.empty(n, np.int32)


@kernel
def new_part_rows(n, width):
    """Return an array of parts of shape (n, width)."""
    return np.empty((n, width), np.int32)


@kernel
def new_constants(n, value):
    """Return an array of `n` equal floats."""
    array = new_floats(n)
    for i in range(n):
        array[i] = value
    return array


def by_type(kernels):
    """Return a function that kernels call, which forwards to the kernel for the type of its first argument.

    Parameters
    ----------
    kernels : dict of type -> kernel
        The kernels, all with the same parameters, by the type of their first argument: the class of a namedtuple, or
        the type of None.
    """
    return _backend.by_type(kernels, _OPTIONS)


_PATIENCE = 2.0  # seconds after which the user is told which part of the package is being compiled
# Rounds of a loop of the interpreter that take as long as compiling a byte of bytecode: measured over all entries, most
# of which are within a factor of two.
_ROUNDS_PER_BYTE = 7_500 if IS_LINKED else 22_500


@lru_cache(maxsize=1)
def _seconds_of_a_round():
    n_rounds = 200_000
    began = thread_time()
    for i in range(n_rounds):
        i % 7
    return (thread_time() - began) / n_rounds


def expected_seconds(entry):
    """Return about how many seconds of CPU time an entry takes to compile on this machine."""
    return size_of(entry.__wrapped__) * _ROUNDS_PER_BYTE * _seconds_of_a_round()


def _is_stored(function):
    """Tell whether the compiled code of a function is stored for later processes."""
    try:
        njit(cache=True)(function)
    except RuntimeError:
        return False
    return True


class _Patience:
    """Log that kernels are being compiled, if this takes long: one line for each part of the package."""

    said = set()
    is_off = False

    @classmethod
    def say(cls, part, entry):
        if part in cls.said or cls.is_off:
            return
        about = ""
        if not cls.said and _is_stored(entry.__wrapped__):
            about = (
                "; each part is compiled once in this installation, later processes load the result. "
                "sklearn_sparsemap.compile() compiles ahead of time"
            )
        elif not cls.said:
            about = (
                "; no folder for compiled code is writable, so each process compiles again. Set NUMBA_CACHE_DIR to a "
                "folder that is, or run sklearn_sparsemap.compile() once where the package can be written"
            )
        cls.said.add(part)
        logging.getLogger("sklearn_sparsemap").warning(
            "compiling %s for its first use, about %.0f s%s", part, max(expected_seconds(entry), _PATIENCE), about
        )

    @classmethod
    @contextmanager
    def of_user(cls, entry):
        """Within this context a user is waiting for an entry."""
        module = entry.__module__
        # The names of the first two folders, such as structures.chain.
        folders = module.split(".")[1:-1][:2]
        part = ".".join(folder.strip("_") for folder in folders) or module
        timer = threading.Timer(_PATIENCE, cls.say, [part, entry])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


class _Compiling:
    """Seconds that this process has spent on compiling or loading, and the start of the current compilation."""

    spent, since = 0.0, None


def working_time():
    """Return the time in seconds of a clock that stops while kernels are compiled or loaded."""
    now = perf_counter()
    since = _Compiling.since
    return now - _Compiling.spent - (0.0 if since is None else now - since)


# Types of most arguments, which are passed on unchanged.
_PLAIN = {bool, float, int, np.ndarray}


class Entry:
    """A compiled function that Python calls: one signature, compiled or loaded at the first call.

    Parameters
    ----------
    function : callable
    signature : Numba signature
    is_argument : bool, default=True
        Whether kernels take this function as an argument.
    **options
        Numba's options.
    """

    def __init__(self, function, signature, is_argument=True, **options):
        self.__wrapped__ = function
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.__doc__ = function.__doc__
        self._signature, self._is_argument, self._options = signature, is_argument, options
        self._dispatcher = self._handle = None
        _entries.append(self)

    @property
    def dispatcher(self):
        """The Numba dispatcher, compiled at first use, or by `_compile_ahead.py`."""
        if self._dispatcher is None:
            with _compile_lock:
                if self._dispatcher is None:
                    _Compiling.since = perf_counter()
                    try:
                        with _Patience.of_user(self), _seldom_collecting():
                            self._dispatcher = _backend.compile_entry(
                                self.__wrapped__, self._signature, self._is_argument, {**_OPTIONS, **self._options}
                            )
                    finally:
                        _Compiling.spent += perf_counter() - _Compiling.since
                        _Compiling.since = None
        return self._dispatcher

    @property
    def is_compiled(self):
        """Whether this process has compiled or loaded the function."""
        return isinstance(self._dispatcher, Dispatcher)

    @property
    def handle(self):
        """This function as an argument of kernels."""
        if self._handle is None:
            self._handle = _backend.handle_of(self.dispatcher, self._signature)
        return self._handle

    def __call__(self, *args):
        # Not by the property, which costs another call of Python.
        dispatcher = self.dispatcher if self._dispatcher is None else self._dispatcher
        try:
            return dispatcher(*[arg if type(arg) in _PLAIN else as_argument(arg) for arg in args])
        except SystemError as error:
            # A signal handler may have raised an exception while Numba converted the results to Python objects.
            cause = error
            while isinstance(cause, SystemError) and cause.__cause__ is not None:
                cause = cause.__cause__
            if isinstance(cause, SystemError):
                raise
            raise cause from None

    def __reduce__(self):
        # Pickled by name, like any module-level function.
        return self.__name__


@lru_cache(maxsize=64)
def _handle_of(oracle):
    """Return the handle of an oracle that is a Numba dispatcher."""
    return _backend.handle_of(oracle, ORACLE_SIGNATURE)


def as_argument(value):
    """Return a value in the form kernels take: handles in place of compiled functions, also within tuples."""
    if isinstance(value, Entry):
        return value.handle if value._handle is None else value._handle
    if isinstance(value, tuple) and value and isinstance(value[0], Entry):
        return type(value)(*map(as_argument, value))
    return _handle_of(value) if isinstance(value, Dispatcher) else value


def table_of(table_class, functions, spare):
    """Return a table of compiled functions as kernels take it.

    Parameters
    ----------
    table_class : FunctionTable
    functions : list of compiled functions
        They must outlive the table.
    spare : compiled function
        Fills tables of a fixed size, which only plain Numba has.
    """
    return table_class.of(list(map(as_argument, functions)), lambda: as_argument(spare))


@contextmanager
def compiling_is_expected():
    """Within this context no message about compiling is logged."""
    is_off, _Patience.is_off = _Patience.is_off, True
    try:
        yield
    finally:
        _Patience.is_off = is_off


def all_entries():
    """Return all entries of modules that are imported, for `_compile_ahead.py` and for wheels with compiled code."""
    return list(_entries)


def entry(signature):
    """Make a module-level function an `Entry` with this Numba signature, which Python calls but kernels do not."""
    return lambda function: Entry(function, signature, is_argument=False)


def as_oracle(function=None, *, calls_python=False):
    """Make a module-level function a MAP oracle that every solver can call.

    With `calls_python` it may go back to the interpreter (``numba.objmode``).
    """
    if function is None:
        return lambda f: as_oracle(f, calls_python=calls_python)
    return Entry(function, ORACLE_SIGNATURE, **({"nogil": False} if calls_python else {}))


def is_compiled(function):
    """Return whether kernels can call a user's function, which must be a dispatcher, as `numba.njit` makes."""
    return isinstance(function, Dispatcher)


@lru_cache(maxsize=64)
def wrap_oracle(function, with_additional):
    """Make a MAP oracle of a user's compiled function that returns the indices of the best parts.

    The oracle is compiled again in each process, because Numba does not cache functions that are made at run time.
    """

    def fill(parts, n, slots, by_part):
        for s in range(slots.shape[0]):
            slots[s] = -1
        for p in range(parts.shape[0]):
            part = parts[p]
            if part < 0 or part >= n:
                raise ValueError("map_oracle returned a part that does not exist")
            place = part if by_part else p
            if place >= slots.shape[0] or slots[place] >= 0:
                raise ValueError("map_oracle returned a part more than once, or too many parts")
            slots[place] = part

    fill = njit(**_OPTIONS)(fill)

    def alone(scores, additional, dims, work, slots, additional_slots):
        parts = function(scores.copy())
        fill(parts, scores.shape[0], slots, True)
        value = 0.0
        for part in parts:
            value += scores[part]
        return value

    def both(scores, additional, dims, work, slots, additional_slots):
        parts, additional_parts = function(scores.copy(), additional.copy())
        fill(parts, scores.shape[0], slots, True)
        fill(additional_parts, additional.shape[0], additional_slots, False)
        value = 0.0
        for part in parts:
            value += scores[part]
        for part in additional_parts:
            value += additional[part]
        return value

    try:
        return njit(ORACLE_SIGNATURE, **_OPTIONS)(both if with_additional else alone)
    except NumbaError as error:
        wanted = "two 1-D int arrays" if with_additional else "a 1-D int array"
        raise ValueError(
            f"map_oracle does not compile for float64 arrays, or does not return {wanted}: {error!s:.500}"
        ) from error


def readonly(array, dtype=np.float64):
    """Return a C-contiguous read-only view or copy, the form in which kernels take their inputs.

    Inside a namedtuple, Numba distinguishes read-only from writable arrays; this makes all of them one type.
    """
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


def compile_statistics():
    """Return how many entries of this process were loaded from the cache and how many were compiled.

    Returns
    -------
    statistics : dict
        ``{"loaded": int, "compiled": int}``.
    """
    used = [entry.dispatcher.stats for entry in _entries if entry.is_compiled]
    return {
        "loaded": sum(sum(s.cache_hits.values()) for s in used),
        "compiled": sum(sum(s.cache_misses.values()) for s in used),
    }
