"""Kernels as what they are to their callers: code that is linked in.

Numba optimises every function together with all that it calls, and makes machine code of it. For a kernel, that only
compiled functions call, this would be done again in each of its callers, and all but the last be thrown away: three
quarters of the work. Here a kernel stops at LLVM's intermediate code. It is optimised, and machine code made, in the
entry that it ends up in.

What of NumPy compiled functions call, Numba compiles for each set of options anew. So all have the same, and compilers
of our own say which ways in a function has.
"""

from numba import version_info
from numba.core import config
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder

# With other versions, Numba types and lowers kernels in its own way, which takes longer.
LOWERS_KERNELS = (0, 60) <= version_info.short <= (0, 68)


class _LinkedLibrary(JITCodeLibrary):
    """The code of a kernel, which has no address and is never run by itself."""

    # Whether sums are reordered: then as they would be in a function of its own, whoever calls it.
    reorders_sums = False

    def _optimize_functions(self, module):
        level = config.OPT
        if not self.reorders_sums:
            # Only what makes it shorter.
            config.OPT = type(level)(min(level, 1))
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
        """Do nothing: there is no place for it yet, see `set_environments`."""


class EntryCompiler(CompilerBase):
    """What Numba does for ``njit``, without a way in from other languages."""

    def define_pipelines(self):
        self.state.flags.no_cfunc_wrapper = True
        if LOWERS_KERNELS:
            from ._jit_lowering import pipeline_of

            return [pipeline_of(self.state)]
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


class KernelCompiler(EntryCompiler):
    """The same without a way in from Python either, up to the code that is linked in."""

    def define_pipelines(self):
        state = self.state
        state.flags.no_cpython_wrapper = True
        state.library = _LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.reorders_sums = bool(state.flags.fastmath)
        return super().define_pipelines()


def set_environments(dispatcher):
    """Tell the machine code of an entry where the constants of its kernels are, as Numba does when it loads it."""
    for result in dispatcher.overloads.values():
        for environment in result._find_referenced_environments():
            result.library.codegen.set_env(environment.env_name, environment)
