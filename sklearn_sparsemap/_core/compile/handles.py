"""First-class functions whose addresses are looked up once, not at each call from Python."""

from numba import types
from numba.core import cgutils
from numba.experimental.function_type import FunctionModel
from numba.extending import NativeValue, register_model, unbox


class FirstClass(types.FunctionType):
    """The type of a function that is an argument of a kernel, passed as a `Handle`.

    Numba's own type looks up the address of the function at each call from Python, which takes some 30 us.
    """


register_model(FirstClass)(FunctionModel)


class Handle:
    """A compiled function as an argument of kernels: its addresses."""

    __slots__ = ("_dispatcher", "_numba_type_", "c_addr", "jit_addr")

    def __init__(self, dispatcher, signature):
        compiled = dispatcher.get_compile_result(signature)
        address_of, names = compiled.library.get_pointer_to_function, compiled.fndesc
        self.c_addr, self.jit_addr = address_of(names.llvm_cfunc_wrapper_name), address_of(names.llvm_func_name)
        # Keeps the code alive.
        self._dispatcher, self._numba_type_ = dispatcher, FirstClass(signature)


# Numba's name of a field -> the attribute of a handle. Versions before 0.61 have one address; the field that is missing
# here is the address of the Python object.
_ADDRESSES = {"addr": "c_addr", "c_addr": "c_addr", "jit_addr": "jit_addr"}


@unbox(FirstClass)
def _unbox_handle(typ, handle, context):
    function = cgutils.create_struct_proxy(typ)(context.context, context.builder)
    for field in context.context.data_model_manager.lookup(typ)._fields:
        if field in _ADDRESSES:
            number = context.pyapi.object_getattr_string(handle, _ADDRESSES[field])
            setattr(function, field, context.pyapi.long_as_voidptr(number))
            context.pyapi.decref(number)
        else:
            setattr(function, field, context.builder.ptrtoint(handle, context.context.get_value_type(types.voidptr)))
    return NativeValue(function._getvalue())
