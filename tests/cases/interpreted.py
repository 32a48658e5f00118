"""Kernels run by Python, which also checks each index: compiling those that no entry calls alone takes seconds."""

from types import FunctionType


def interpreted(kernel):
    """Return a kernel, and all kernels that it calls, as Python functions."""
    function = getattr(kernel, "py_func", kernel)
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        if hasattr(scope.get(name), "py_func"):
            scope[name] = interpreted(scope[name])
    return FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
