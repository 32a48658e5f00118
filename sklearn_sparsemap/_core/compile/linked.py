"""The default backend: a kernel is code that is linked into the entries that use it.

Numba optimises every function together with all that it calls, and makes machine code of it. For a kernel, which only
compiled functions call, this is repeated in each of its callers, and all results but the last are thrown away: three
quarters of the work. Here a kernel stops at LLVM's intermediate code. The entry that it ends up in optimises it and
makes machine code.

Numba compiles NumPy's functions again for each set of options, so all functions have the same.
"""

from numba import njit, types
from numba.core import config
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.imputils import lower_constant
from numba.core.registry import CPUDispatcher
from numba.extending import models, register_model

from . import without_timers
from .addresses import by_address
from .by_type import by_type as _by_type
from .cache import PackageCache
from .handles import CODE, FirstClass, Handle
from .handles import AddressTable as FunctionTable
from .lean import write_lean_code

__all__ = ["FirstClass", "FunctionTable", "by_address", "by_type", "compile_entry", "compile_kernel", "handle_of"]


class _LinkedLibrary(JITCodeLibrary):
    """The code of a kernel, which has no address and is never run by itself."""

    # If True, the kernel is optimised alone, so that its sums have the same order in each caller.
    reorders_sums = False

    def _optimize_functions(self, module):
        level = config.OPT
        if not self.reorders_sums:
            config.OPT = type(level)(min(level, 1))  # shortens the code, and leaves the rest to the entry
        try:
            super()._optimize_functions(module)
        finally:
            config.OPT = level

    def _optimize_final_module(self):
        if self.reorders_sums:
            super()._optimize_final_module()

    def _finalize_final_module(self):
        self._finalized = True

    def get_pointer_to_function(self, name):
        return 0

    @property
    def codegen(self):
        return self

    def set_env(self, name, environment):
        """Do nothing: the code has no address yet, see `_set_environments`."""


class _Flags(Flags):
    """Numba's flags, which it compares at each call that it compiles; this took 6 % of the compilation time."""

    __slots__ = ()
    _DEFAULTS = {name: option.default for name, option in Flags.options.items()}
    _HASH = hash(Flags())

    def values(self):
        """Return all values as a dict."""
        return self._DEFAULTS | self._values

    def __hash__(self):
        return self._HASH  # of the names alone, as in Numba


class _ArgumentCompiler(Compiler):
    """Numba's compiler for ``njit``, with shorter code (lean.py), and without a wrapper that handles do not need."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        # Before the base class copies them.
        self.state.flags.__class__ = _Flags

    def define_pipelines(self):
        self.state.flags.no_cfunc_wrapper |= CODE == "llvm_func_name"
        pipelines = super().define_pipelines()
        # The same compiler gets the blocks of `numba.objmode`, which Python runs.
        return pipelines if self.state.flags.force_pyobject else list(map(write_lean_code, pipelines))


class _EntryCompiler(_ArgumentCompiler):
    """The same without a wrapper for other languages."""

    def define_pipelines(self):
        self.state.flags.no_cfunc_wrapper = True
        return super().define_pipelines()


class _KernelCompiler(_EntryCompiler):
    """The same without a wrapper for Python, up to the code that is linked in."""

    def define_pipelines(self):
        state = self.state
        state.flags.no_cpython_wrapper = True
        state.library = _LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.reorders_sums = bool(state.flags.fastmath)
        return super().define_pipelines()


class _KernelType(types.Dispatcher):
    """The type of a kernel. If it is an argument of another one, its address must not be in the code, to be cached."""


register_model(_KernelType)(models.OpaqueModel)
lower_constant(_KernelType)(lambda context, builder, kernel_type, kernel: context.get_dummy_value())


class _Kernel(CPUDispatcher):
    """A compiled function without a wrapper for Python: calling it raises an error, whereas Numba would crash."""

    _numba_type_ = property(_KernelType)

    def __call__(self, *args, **kwargs):
        raise TypeError(f"{self.py_func.__name__} is a kernel: only compiled functions can call it; make it an entry")


def compile_kernel(function, options):
    """Return a function that only compiled functions call."""
    dispatcher = njit(**options, pipeline_class=_KernelCompiler)(function)
    dispatcher.__class__ = _Kernel
    return dispatcher


def compile_entry(function, signature, is_argument, options):
    """Return a function that Python calls, compiled or loaded from the cache.

    `is_argument` says whether kernels take it as an argument.
    """
    dispatcher = njit(**options, pipeline_class=_ArgumentCompiler if is_argument else _EntryCompiler)(function)
    # As `cache=True` does, with the cache of this package.
    dispatcher._cache = PackageCache(function, signature, {**options, "is_argument": is_argument})
    with without_timers():
        dispatcher.compile(signature)
    dispatcher.disable_compile()
    _set_environments(dispatcher)
    return dispatcher


def _set_environments(dispatcher):
    """Write the addresses of the kernels' constants into an entry's machine code, as Numba does when it loads code."""
    for result in dispatcher.overloads.values():
        for environment in result._find_referenced_environments():
            result.library.codegen.set_env(environment.env_name, environment)


def handle_of(dispatcher, signature):
    """Return a compiled function as an argument of compiled functions."""
    return Handle(dispatcher, signature)


def by_type(kernels, options):
    """Return a function that kernels call, which forwards to the kernel for a type; see `by_type.py`."""
    return _by_type(kernels, {**options, "pipeline_class": _KernelCompiler})
