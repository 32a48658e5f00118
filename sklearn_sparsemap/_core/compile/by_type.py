"""Calls of one of several kernels, by the type of the first argument."""

from numba.extending import overload


def by_type(kernels, options):
    """Return a function that kernels call, which forwards to the kernel for the type of its first argument.

    `kernels` is a dict of type -> kernel, see `jit.by_type`; `options` are Numba's options for the returned function.
    """

    def function(*args):
        raise TypeError("only compiled functions can call this")

    function.kernels = kernels

    @overload(function, jit_options=options, strict=False)
    def choose(first, *others):
        return kernels[getattr(first, "instance_class", type(None))].py_func

    return function
