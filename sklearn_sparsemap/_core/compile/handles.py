"""First-class functions whose addresses are looked up once, not at each call from Python.

`FirstClass` and `AddressTable` have twins in plain.py and interpreted.py. `numba.typeof` reads `_numba_type_`."""

import numpy as np
from numba import types, version_info
from numba.core import cgutils
from numba.experimental.function_type import FunctionModel
from numba.extending import NativeValue, intrinsic, register_model, unbox

from .elements import address_of

# Numba's name of the address that it calls, and of the code there. `linked.py` compares CODE to leave out a wrapper.
_FIELD, CODE = ("jit_addr", "llvm_func_name") if version_info >= (0, 61) else ("addr", "llvm_cfunc_wrapper_name")


class FirstClass(types.FunctionType):
    """The type of a function that is an argument of a kernel, passed as a `Handle`.

    Numba's own type looks up the address of the function at each call from Python, which takes some 30 us.
    """


register_model(FirstClass)(FunctionModel)


class Handle:
    """A compiled function as an argument of kernels: its address."""

    __slots__ = ("_dispatcher", "_numba_type_", "address")

    def __init__(self, dispatcher, signature):
        compiled = dispatcher.get_compile_result(signature)
        self.address = compiled.library.get_pointer_to_function(getattr(compiled.fndesc, CODE))
        self._dispatcher, self._numba_type_ = dispatcher, FirstClass(signature)  # the dispatcher keeps the code alive


def _function_at(context, builder, function_type, address):
    function = cgutils.create_struct_proxy(function_type)(context, builder)
    setattr(function, _FIELD, builder.inttoptr(address, context.get_value_type(types.voidptr)))
    return function._getvalue()


@unbox(FirstClass)
def _unbox_handle(typ, handle, context):
    number = context.pyapi.object_getattr_string(handle, "address")
    address = context.pyapi.number_as_ssize_t(number)
    context.pyapi.decref(number)
    return NativeValue(_function_at(context.context, context.builder, typ, address))


class AddressTable:
    """Tables of any number of functions of one type: arrays of their addresses. `at` is for kernels."""

    type = types.Array(types.int64, 1, "C", readonly=True)

    def __init__(self, function_type):
        @intrinsic
        def at(typing_context, table, index):
            """Return the function at a place."""

            def generate(context, builder, signature, args):
                address = builder.load(address_of(context, builder, signature, args))
                return _function_at(context, builder, function_type, address)

            return function_type(table, types.int64), generate

        self.at = at

    def of(self, functions, spare):
        """Return a table of handles, which must outlive it."""
        table = np.array([handle.address for handle in functions], np.int64)
        table.flags.writeable = False
        return table
